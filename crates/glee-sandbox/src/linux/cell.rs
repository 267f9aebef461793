//! The cell: what every warden gets fresh on top of the minimal root. Its own /proc, /tmp, /dev/shm and IPC.

use std::ffi::CString;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::{io, ptr, thread};

use rustix::fs::{Stat, stat};
use rustix::mount::{MountFlags, mount};
use rustix::time::{ClockId, clock_getres};

use super::root::Root;
use crate::Limits;

/// Directories that are private to a cell.
pub(super) const SCRATCH: [&str; 2] = ["/tmp", "/dev/shm"];

/// The private scratch of a cell, as it was when nobody had touched it.
pub(super) struct Scratch {
    untouched: [Stat; 2],
    /// Whether grants are mounted inside, among which nothing must be removed.
    holds_grants: bool,
    times: Times,
}

/// How fine the times of the scratch are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Times {
    /// A change after a look has another time than was seen: since Linux 6.13.
    Fine,
    /// A change in the same tick has the same.
    Coarse,
}

impl Times {
    fn of(directory: &Path) -> io::Result<Times> {
        // More than once, because a tick may begin at this very moment.
        for _ in 0..3 {
            let before = stat(directory)?;
            let mode = Permissions::from_mode(before.st_mode & 0o7777);
            fs::set_permissions(directory, mode)?;
            let after = stat(directory)?;
            if (after.st_ctime, after.st_ctime_nsec) == (before.st_ctime, before.st_ctime_nsec) {
                return Ok(Times::Coarse);
            }
        }
        Ok(Times::Fine)
    }

    /// Whatever changes after this has other times than were seen before.
    fn settle(self) -> io::Result<()> {
        if self == Times::Coarse {
            let tick = clock_getres(ClockId::RealtimeCoarse);
            thread::sleep(tick.try_into().map_err(io::Error::other)?);
        }
        Ok(())
    }
}

/// More than this is not tidied up but replaced.
const MOST_ENTRIES: usize = 256;
const MOST_DEPTH: usize = 16;

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
    let times = Times::of(Path::new(SCRATCH[0]))?;
    Ok(Scratch {
        untouched: settled(times)?,
        times,
        holds_grants: root.holds_grants_inside_scratch(),
    })
}

fn now() -> io::Result<[Stat; 2]> {
    Ok([stat(SCRATCH[0])?, stat(SCRATCH[1])?])
}

/// The same, and whatever changes after this is seen to have changed.
fn settled(times: Times) -> io::Result<[Stat; 2]> {
    let now = now()?;
    times.settle()?;
    Ok(now)
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

    /// Removes what a payload has left, when that is little and plain; else the cell has to be replaced. All processes of
    /// the payload are gone, so that nobody changes anything meanwhile.
    pub(super) fn tidy(&mut self) -> bool {
        if self.holds_grants || !no_ipc_objects() {
            return false;
        }
        let mut left = MOST_ENTRIES;
        for (place, before) in SCRATCH.iter().zip(&self.untouched) {
            let place = Path::new(place);
            let same = |now: &Stat| {
                (now.st_mode, now.st_uid, now.st_gid)
                    == (before.st_mode, before.st_uid, before.st_gid)
            };
            let plain = stat(place).is_ok_and(|now| same(&now))
                && rustix::fs::listxattr(place, &mut [0_u8; 1][..]) == Ok(0);
            let cleared = plain && clear(place, before.st_dev, MOST_DEPTH, &mut left).is_ok();
            // A directory that changes while it is read may be read in part.
            if !cleared || !fs::read_dir(place).is_ok_and(|mut it| it.next().is_none()) {
                return false;
            }
        }
        settled(self.times).map(|now| self.untouched = now).is_ok()
    }

    /// Whether a scratch is full.
    pub(super) fn is_full(&self) -> bool {
        SCRATCH
            .iter()
            .any(|it| rustix::fs::statfs(*it).is_ok_and(|it| it.f_bavail == 0 || it.f_ffree == 0))
    }
}

/// Empties a directory of the scratch.
fn clear(directory: &Path, device: u64, depth: usize, left: &mut usize) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let it = fs::symlink_metadata(&path)?;
        // Another device would be a mount, and none is expected here.
        if *left == 0 || depth == 0 || it.dev() != device {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        *left -= 1;
        if it.is_dir() {
            fs::set_permissions(&path, Permissions::from_mode(0o700))?;
            clear(&path, device, depth - 1, left)?;
            fs::remove_dir(&path)?;
        } else {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn differ(before: &Stat, after: &Stat) -> bool {
        (before.st_ctime, before.st_ctime_nsec) != (after.st_ctime, after.st_ctime_nsec)
    }

    /// A file system whose times go by the tick stands for the kernels on which those of all do.
    #[test]
    fn a_change_is_seen_however_soon_it_comes() {
        const PLACE: &str = "GLEE_TEST_RAMFS";
        if let Some(place) = std::env::var_os(PLACE) {
            let place = Path::new(&place);
            assert_eq!(Times::of(place).expect("can be seen"), Times::Coarse);
            let change = |settle: &dyn Fn()| {
                let before = stat(place).expect("is there");
                settle();
                fs::write(place.join("file"), "").expect("can be written");
                let after = stat(place).expect("is there");
                fs::remove_file(place.join("file")).expect("can be removed");
                differ(&before, &after)
            };
            assert!(!(0..50).all(|_| change(&|| {})));
            assert!((0..50).all(|_| change(&|| Times::Coarse.settle().expect("waits"))));
            return;
        }
        let place = tempfile::tempdir().expect("a directory");
        let made = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "/bin/sh", "-c"])
            .args(["mount -t ramfs none \"$0\" && exec \"$@\""])
            .args([place.path(), &std::env::current_exe().expect("a program")])
            .args([
                "--exact",
                "linux::cell::tests::a_change_is_seen_however_soon_it_comes",
            ])
            .env(PLACE, place.path())
            .output();
        let made = made.expect("unshare is there");
        assert!(made.status.success(), "{made:?}");
    }
}
