//! Limits of each process. They are set on the warden once and inherited.

use std::os::unix::fs::MetadataExt;
use std::{fs, io};

use crate::Limits;

/// Processes that are ours: the launcher and the warden.
pub(super) const OURS: u32 = 2;

/// What the user may start beside us while a call runs.
const SLACK: u64 = 256;

/// Whether something else already counts the whole tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    ByCgroup,
    /// Nobody does, and perhaps the user has this many processes outside that count as well.
    ByNobody {
        outside: Option<u32>,
    },
}

/// Processes and threads of this user, to be counted where there is no user namespace of our own.
pub(super) fn of_this_user() -> u32 {
    let own = rustix::process::getuid().as_raw();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mine = entries.filter(|it| it.metadata().is_ok_and(|it| it.uid() == own));
    let threads = mine.filter_map(|it| Some(fs::read_dir(it.path().join("task")).ok()?.count()));
    u32::try_from(threads.sum::<usize>()).unwrap_or(u32::MAX)
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
    if let Counted::ByNobody { outside } = counted {
        // Not the address space: node and others reserve far more than they use.
        if let Some(bytes) = limits.memory {
            set(libc::RLIMIT_DATA, bytes)?;
        }
        // In a user namespace of its own this counts only what is inside. Without one the user's other processes come and
        // go, so that an exact limit would fail at random; then this only stops a bomb until the warden sees it. It does
        // not hold user 0 at all.
        if let Some(processes) = limits.processes {
            set(
                libc::RLIMIT_NPROC,
                match outside {
                    None => u64::from(processes) + u64::from(OURS),
                    Some(outside) => 4 * u64::from(processes) + u64::from(outside) + SLACK,
                },
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
