//! A file that stays open while it is what its path names. To open it for every line would cost more than
//! a small call does; but it may be moved, removed or replaced meanwhile.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;

use super::durable;

pub struct Kept {
    path: PathBuf,
    writing: Writing,
    open: Option<Open>,
}

/// Where what is written goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writing {
    AtTheEnd,
    InPlace,
}

struct Open {
    file: Arc<File>,
    identity: (u64, u64),
}

/// What the path names now.
pub struct Now {
    pub file: Arc<File>,
    pub length: u64,
}

impl Kept {
    pub fn new(path: PathBuf, writing: Writing) -> Kept {
        Kept {
            path,
            writing,
            open: None,
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file, which is made when there is none.
    pub fn now(&mut self) -> io::Result<Now> {
        if let Some(open) = &self.open
            && let Ok(found) = fs::symlink_metadata(&self.path)
            && open.identity == (found.dev(), found.ino())
        {
            return Ok(Now {
                file: open.file.clone(),
                length: found.len(),
            });
        }
        let opened = self.open();
        opened.map_err(|err| io::Error::new(err.kind(), format!("{}: {err}", self.path.display())))
    }

    fn open(&mut self) -> io::Result<Now> {
        self.open = None;
        let made = match (self.made(), self.path.parent()) {
            (Err(err), Some(directory)) if err.kind() == io::ErrorKind::NotFound => {
                durable::directory(directory)?;
                self.made()
            }
            (made, _) => made,
        };
        let file = Arc::new(made?);
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        // What is written would also be written elsewhere.
        if found.nlink() > 1 {
            return Err(io::Error::other("it has a second name (a hard link)"));
        }
        if self.path.parent().is_some_and(Path::is_symlink) {
            return Err(io::Error::other("its directory is a symbolic link"));
        }
        if found.mode() & 0o077 != 0 {
            file.set_permissions(Permissions::from_mode(0o600))?;
        }
        self.open = Some(Open {
            file: file.clone(),
            identity: (found.dev(), found.ino()),
        });
        Ok(Now {
            file,
            length: found.len(),
        })
    }

    /// A link in its place would send what is written elsewhere, and a FIFO would wait for a reader.
    fn made(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).create(true).mode(0o600);
        match self.writing {
            Writing::AtTheEnd => options.append(true),
            Writing::InPlace => options.write(true).truncate(false),
        };
        options
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
            .open(&self.path)
    }
}
