//! The files of a journal, and how they are called.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::OFlags;

use crate::store::state;

/// Where a journal is, and where its key and the end of its chain are kept.
#[derive(Clone, Debug)]
pub struct Place {
    /// The lines, and what was found broken.
    pub directory: PathBuf,
    /// Out of the tools' reach.
    pub state: PathBuf,
}

impl Place {
    /// Of the project with this root.
    pub fn of(root: &Path, directory: PathBuf) -> io::Result<Place> {
        let state = state::directory(root)?;
        Ok(Place { directory, state })
    }

    pub(super) fn current(&self) -> PathBuf {
        self.directory.join("journal.jsonl")
    }

    pub(super) fn full(&self, number: u64) -> PathBuf {
        self.directory.join(full(number))
    }

    pub(super) fn key(&self) -> PathBuf {
        self.state.join("audit.key")
    }

    pub(super) fn head(&self) -> PathBuf {
        self.state.join("audit.head")
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.state.join("audit.lock")
    }

    /// Locked by one of those who wait for the lock.
    pub(super) fn waiting(&self) -> PathBuf {
        self.state.join("audit.waiting")
    }

    /// For what was behind the last whole line.
    pub(super) fn torn(&self) -> PathBuf {
        self.directory.join(format!("journal.torn-{}", stamp()))
    }

    /// For a file whose end nobody knows.
    pub(super) fn unsealed(&self, file: &Path) -> PathBuf {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        self.directory.join(format!("unsealed-{}-{name}", stamp()))
    }
}

fn stamp() -> String {
    jiff::Timestamp::try_from(SystemTime::now())
        .map(|it| it.strftime("%Y%m%dT%H%M%S.%9fZ").to_string())
        .unwrap_or_default()
}

/// What stands beside the text log.
#[derive(Debug, Default)]
pub(super) struct Listed {
    /// The full files, by number.
    pub(super) full: Vec<(u64, PathBuf)>,
    pub(super) torn: Vec<String>,
    pub(super) unsealed: Vec<String>,
    /// Named like a full file, and none.
    pub(super) strange: Vec<String>,
}

pub(super) fn list(directory: &Path) -> io::Result<Listed> {
    let mut listed = Listed::default();
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(listed),
        Err(err) => return Err(super::seal::at(directory, err)),
    };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("journal.torn-") {
            listed.torn.push(name.into_owned());
        } else if name.starts_with("unsealed-") {
            listed.unsealed.push(name.into_owned());
        } else if let Some(number) = number(&name) {
            listed.full.push((number, path));
        } else if name.starts_with("journal-") {
            listed.strange.push(name.into_owned());
        }
    }
    listed.full.sort();
    listed.torn.sort();
    listed.unsealed.sort();
    listed.strange.sort();
    Ok(listed)
}

fn number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("journal-")?.strip_suffix(".jsonl")?;
    let number = digits.parse().ok()?;
    // In one spelling only: in another, it would be a second file of the same number.
    (name == full(number)).then_some(number)
}

fn full(number: u64) -> String {
    format!("journal-{number:06}.jsonl")
}

/// A file to read; `None` when there is none.
pub(super) fn open(path: &Path) -> io::Result<Option<File>> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(err) => return Err(super::seal::at(path, err)),
    };
    match file.metadata()?.is_file() {
        true => Ok(Some(file)),
        false => Err(io::Error::other(format!(
            "{} is not a regular file",
            path.display()
        ))),
    }
}

pub(super) fn identity(file: &File) -> io::Result<(u64, u64)> {
    let found = file.metadata()?;
    Ok((found.dev(), found.ino()))
}
