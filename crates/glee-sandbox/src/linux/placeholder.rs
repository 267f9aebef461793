//! Holds the place of protected paths that do not exist, so that nobody inside can make them.
//!
//! Something must be there to mount on, so an empty directory is made on the host. All launchers that rely on one keep it
//! locked, and the last to go removes it: a removal on the host would take the mounts of the others away as well. Its
//! mode tells it from a directory that is somebody's own.

use std::ffi::CString;
use std::fs::{self, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, ResolveFlags, flock, openat2};
use rustix::mount::{UnmountFlags, unmount};

/// Not writable, executable, and sticky, which makes no sense and so means us.
const MODE: u32 = 0o1555;

/// The places one launcher holds.
#[derive(Default)]
pub(super) struct Placeholders(Vec<Placeholder>);

struct Placeholder {
    place: PathBuf,
    parent: OwnedFd,
    name: CString,
    /// Locked together with all others that rely on it.
    directory: OwnedFd,
}

impl Placeholders {
    /// The part of a protected path that can be mounted on: the path itself, or a placeholder for the first part that
    /// does not exist. Nothing when this user could not make it, for then the payload cannot either.
    pub(super) fn hold(&mut self, path: &Path) -> io::Result<Option<PathBuf>> {
        let mut place = path.to_path_buf();
        loop {
            match fs::symlink_metadata(&place) {
                Ok(it) if it.is_symlink() => {
                    let what = place.display();
                    return Err(io::Error::other(format!(
                        "{what} is a symbolic link, which cannot be protected"
                    )));
                }
                Ok(it) if is_placeholder(&it) => break,
                Ok(_) => return Ok(Some(place)),
                Err(_) => {}
            }
            let Some(parent) = place.parent() else {
                return Ok(None);
            };
            match fs::symlink_metadata(parent) {
                Ok(it) if !is_placeholder(&it) => break,
                _ => place = parent.to_path_buf(),
            }
        }
        // Two protected paths may need the same one, which is then already mounted on.
        if self.0.iter().any(|it| it.place == place) {
            return Ok(None);
        }
        let Some(held) = Placeholder::make(&place)? else {
            return Ok(None);
        };
        self.0.push(held);
        Ok(Some(place))
    }
}

/// Whether a placeholder is all there is at a path. It may stand there for a moment after the call it was made for.
pub fn is_at(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|it| is_placeholder(&it))
}

fn is_placeholder(it: &Metadata) -> bool {
    it.is_dir() && it.permissions().mode() & 0o7777 == MODE
}

impl Placeholder {
    /// Makes the directory or joins those who have, unless this user cannot.
    fn make(place: &Path) -> io::Result<Option<Placeholder>> {
        let (Some(parent), Some(name)) = (place.parent(), place.file_name()) else {
            return Ok(None);
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = openat2(CWD, parent, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
        let name = CString::new(name.as_bytes())?;
        // Another launcher may remove the directory between our making and our locking it.
        for _ in 0..100 {
            let mask = rustix::process::umask(Mode::empty());
            let made = rustix::fs::mkdirat(&parent, &name, Mode::from_raw_mode(MODE));
            rustix::process::umask(mask);
            if !matches!(made, Ok(()) | Err(rustix::io::Errno::EXIST)) {
                return Ok(None);
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let Ok(directory) = rustix::fs::openat(&parent, &name, flags, Mode::empty()) else {
                continue;
            };
            flock(&directory, FlockOperation::LockShared)?;
            let locked = rustix::fs::fstat(&directory)?;
            let there = rustix::fs::statat(&parent, &name, AtFlags::SYMLINK_NOFOLLOW);
            if there.is_ok_and(|it| (it.st_dev, it.st_ino) == (locked.st_dev, locked.st_ino)) {
                return Ok(Some(Placeholder {
                    place: place.to_path_buf(),
                    parent,
                    name,
                    directory,
                }));
            }
        }
        Err(io::Error::other(format!(
            "{} keeps disappearing",
            place.display()
        )))
    }
}

impl Drop for Placeholders {
    fn drop(&mut self) {
        for it in &self.0 {
            // The last launcher may remove it, and not even that one as long as it has something mounted there.
            let _ = unmount(&it.place, UnmountFlags::DETACH);
            if flock(&it.directory, FlockOperation::NonBlockingLockExclusive).is_ok() {
                let _ = rustix::fs::unlinkat(&it.parent, &it.name, AtFlags::REMOVEDIR);
            }
        }
    }
}
