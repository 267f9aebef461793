//! Names that must not come to be, and in whose place nothing can stand because others look there. The directories they
//! would be in are watched: who makes one is killed, and what was made is put aside.

use std::ffi::{CString, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{AtFlags, Mode, OFlags, fchmod, fstat, open, renameat, statat, unlinkat};
use rustix::io::Errno;

use super::grants::kept_absent;
use crate::Profile;

/// What is put aside has this behind its name.
const REFUSED: &str = ".refused";

pub(super) struct Absent {
    events: OwnedFd,
    names: Vec<Name>,
}

struct Name {
    /// Held, because the payload may close the way to it.
    directory: OwnedFd,
    watch: i32,
    name: CString,
}

impl Absent {
    /// Nothing where there is nothing to watch for.
    pub(super) fn watch(profile: &Profile) -> io::Result<Option<Absent>> {
        let paths = kept_absent(profile);
        if paths.is_empty() {
            return Ok(None);
        }
        let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let names = paths.iter().map(|it| Name::watch(&events, it));
        let names = names.collect::<io::Result<_>>()?;
        Ok(Some(Absent { events, names }))
    }

    /// Forgets what happened before a call: that was not its payload.
    pub(super) fn forget(&self) {
        let _ = self.has_come();
    }

    /// Whether one of the names has come to be since the last look, however short a time. When more has happened than
    /// the kernel remembers, nobody knows that none has.
    pub(super) fn has_come(&self) -> bool {
        let mut space = [MaybeUninit::uninit(); 4096];
        let mut events = Reader::new(self.events.as_fd(), &mut space);
        let mut come = false;
        loop {
            match events.next() {
                Ok(event) => {
                    let is = |it: &Name| {
                        it.watch == event.wd() && event.file_name() == Some(it.name.as_c_str())
                    };
                    come |= event.events().contains(ReadFlags::QUEUE_OVERFLOW)
                        || self.names.iter().any(is);
                }
                Err(Errno::INTR) => {}
                Err(_) => return come,
            }
        }
    }

    /// Puts aside what is there, when nobody is left who could put it back. Whether anything was.
    pub(super) fn put_aside(&self) -> bool {
        let there = self.names.iter().filter(|it| it.is_there());
        there.map(Name::put_aside).count() > 0
    }
}

impl AsFd for Absent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

impl Name {
    fn watch(events: &OwnedFd, path: &Path) -> io::Result<Name> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Name {
            directory: open(parent, flags, Mode::empty())?,
            watch: inotify::add_watch(
                events,
                parent,
                WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR,
            )?,
            name: CString::new(name.as_bytes())?,
        })
    }

    fn is_there(&self) -> bool {
        statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    fn put_aside(&self) {
        // The payload may have forbidden it, as the owner of the directory, which we are as well.
        if let Ok(found) = fstat(&self.directory) {
            let mode = Mode::from_raw_mode(found.st_mode);
            if !mode.contains(Mode::RWXU) {
                let _ = fchmod(&self.directory, mode | Mode::RWXU);
            }
        }
        let mut aside = OsString::from(std::ffi::OsStr::from_bytes(self.name.to_bytes()));
        aside.push(REFUSED);
        let _ = renameat(&self.directory, &self.name, &self.directory, &aside);
        // A directory may stand in the way, and of two names of one file a rename leaves both.
        if self.is_there() {
            let _ = unlinkat(&self.directory, &self.name, AtFlags::empty());
        }
    }
}
