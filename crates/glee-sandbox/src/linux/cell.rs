//! The cell: what every warden gets fresh on top of the minimal root. Its own /proc, /tmp, /dev/shm and IPC.

use std::ffi::CString;
use std::{io, ptr};

use rustix::fs::{Stat, stat};
use rustix::mount::{MountFlags, mount};

use super::root::Root;
use crate::Limits;

/// Directories that are private to a cell.
pub(super) const SCRATCH: [&str; 2] = ["/tmp", "/dev/shm"];

/// The private scratch of a cell, as it was when nobody had touched it.
pub(super) struct Scratch {
    untouched: [Stat; 2],
}

/// Mounts a fresh /proc and fresh scratch. Must run as process 1 of the PID namespace that /proc is to show.
pub(super) fn furnish(root: &Root, limits: &Limits) -> io::Result<Scratch> {
    let quiet = MountFlags::NOSUID | MountFlags::NODEV;
    // The new one is mounted over the host's first: a user namespace may mount a /proc only where it can see a whole
    // one already. It is read-only because the kernel asks for user 0 before it asks for capabilities when somebody
    // writes to /proc/sys.
    mount(
        "proc",
        "/proc",
        "proc",
        quiet | MountFlags::NOEXEC | MountFlags::RDONLY,
        None,
    )?;
    let (size, inodes) = (
        limits.scratch_size.max(4096),
        (limits.scratch_size / 4096).max(64),
    );
    let options = CString::new(format!("size={size},nr_inodes={inodes},mode=1777"))?;
    for place in SCRATCH {
        mount("tmpfs", place, "tmpfs", quiet, Some(options.as_c_str()))?;
    }
    root.attach_inside_scratch()?;
    Ok(Scratch { untouched: now()? })
}

fn now() -> io::Result<[Stat; 2]> {
    Ok([stat(SCRATCH[0])?, stat(SCRATCH[1])?])
}

impl Scratch {
    /// Whether a payload has left anything behind that the next one could find, or might have.
    pub(super) fn is_untouched(&self) -> bool {
        let same = |a: &Stat, b: &Stat| {
            (a.st_ctime, a.st_ctime_nsec, a.st_mtime, a.st_mtime_nsec)
                == (b.st_ctime, b.st_ctime_nsec, b.st_mtime, b.st_mtime_nsec)
        };
        let files = now().is_ok_and(|now| self.untouched.iter().zip(&now).all(|(a, b)| same(a, b)));
        files && no_ipc_objects()
    }

    /// Whether a scratch is full.
    pub(super) fn is_full(&self) -> bool {
        SCRATCH
            .iter()
            .any(|it| rustix::fs::statfs(*it).is_ok_and(|it| it.f_bavail == 0 || it.f_ffree == 0))
    }
}

/// Not in libc.
const SHM_INFO: libc::c_int = 14;

fn no_ipc_objects() -> bool {
    // SAFETY: each call fills a local of the type its command asks for; an all-zero one is valid. The commands tell
    // about the IPC namespace and change nothing.
    unsafe {
        let mut memory: libc::shmid_ds = std::mem::zeroed(); // larger than the shm_info that is written
        let mut queues: libc::msginfo = std::mem::zeroed();
        let mut semaphores: libc::seminfo = std::mem::zeroed();
        // They return the highest index in use, which is 0 for none and for one; so the counts inside decide.
        libc::shmctl(0, SHM_INFO, ptr::from_mut(&mut memory).cast()) >= 0
            && ptr::from_ref(&memory).cast::<libc::c_int>().read() == 0
            && libc::msgctl(0, libc::MSG_INFO, ptr::from_mut(&mut queues).cast()) >= 0
            && queues.msgpool == 0
            && libc::semctl(0, 0, libc::SEM_INFO, &raw mut semaphores) >= 0
            && semaphores.semusz == 0
    }
}
