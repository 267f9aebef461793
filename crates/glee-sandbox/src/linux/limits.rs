//! Limits of each process. They are set on the warden once and inherited.

use std::io;

use crate::Limits;

/// Processes that are ours: the launcher and the warden.
pub(super) const OURS: u32 = 2;

/// Whether something else already counts the whole tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    ByCgroup,
    ByNobody,
}

pub(super) fn apply(limits: &Limits, counted: Counted) -> io::Result<()> {
    // A core would be a copy of the payload's memory outside of it.
    set(libc::RLIMIT_CORE, 0)?;
    set(libc::RLIMIT_MSGQUEUE, 0)?;
    if let Some(files) = limits.open_files {
        set(libc::RLIMIT_NOFILE, files.into())?;
    }
    if let Some(bytes) = limits.file_size {
        set(libc::RLIMIT_FSIZE, bytes)?;
    }
    if counted == Counted::ByNobody {
        // Not the address space: node and others reserve far more than they use.
        if let Some(bytes) = limits.memory {
            set(libc::RLIMIT_DATA, bytes)?;
        }
        // In a user namespace of its own this counts only what is inside. It does not hold user 0.
        if let Some(processes) = limits.processes {
            set(
                libc::RLIMIT_NPROC,
                u64::from(processes.saturating_add(OURS)),
            )?;
        }
    }
    Ok(())
}

/// Never above what already holds.
fn set(resource: libc::__rlimit_resource_t, value: u64) -> io::Result<()> {
    let mut now = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: both calls take a pointer to a local.
    let done = unsafe {
        if libc::getrlimit(resource, &mut now) < 0 {
            return Err(io::Error::last_os_error());
        }
        let value = value.min(now.rlim_max);
        libc::setrlimit(
            resource,
            &libc::rlimit {
                rlim_cur: value,
                rlim_max: value,
            },
        )
    };
    if done < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
