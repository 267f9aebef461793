//! Many bundles at once, or none. All are written beside the others first, under a name that nobody reads. One
//! rename makes them an import that took place; then they move to where they belong. Whoever dies before the
//! rename has changed nothing, and what is left to move after it is moved by the next one who looks.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use glee_core::bundle::Key;
use uuid::Uuid;

use super::{Alone, BUNDLE, file, sync};
use crate::dialect::bundle;
use crate::dialect::bundle::wire::{StoredBundle, StoredTool};
use crate::store::durable;

const STAGED: &str = ".import-new";
const IMPORT: &str = ".import";

/// Bundles that are there as soon as they are committed; gone when dropped before.
pub struct Staged<'a> {
    alone: &'a Alone<'a>,
    at: PathBuf,
    files: Vec<PathBuf>,
}

impl Alone<'_> {
    pub fn stage(&self) -> io::Result<Staged<'_>> {
        let directory = &self.bundles.directory;
        remove_staged(directory)?;
        let at = directory.join(STAGED);
        durable::directory(&at)?;
        Ok(Staged {
            alone: self,
            at,
            files: Vec::new(),
        })
    }

    /// Moves what was imported to where it belongs.
    pub(super) fn finish_import(&self) -> io::Result<()> {
        let directory = &self.bundles.directory;
        if !is_unfinished(directory) {
            return Ok(());
        }
        let import = directory.join(IMPORT);
        for entry in fs::read_dir(&import)? {
            let entry = entry?;
            let name = entry.file_name();
            let is_bundle = bundle::id(&name.to_string_lossy()).is_some();
            // Over an empty directory, too; over anything else it fails, and both are still there.
            let moved = match is_bundle && entry.file_type()?.is_dir() {
                true => fs::rename(entry.path(), directory.join(&name)),
                false => Err(io::Error::other("it is no bundle")),
            };
            moved.map_err(|err| {
                let path = entry.path();
                let why = format!(
                    "an import that took place is put where it belongs by the next change, or when a person has moved {} away: {err}",
                    path.display()
                );
                io::Error::other(why)
            })?;
        }
        durable::settle(directory)?;
        fs::remove_dir(&import)?;
        durable::settle(directory)
    }
}

impl Staged<'_> {
    pub fn bundle(&mut self, id: Uuid, stored: &StoredBundle) -> io::Result<()> {
        let home = self.at.join(id.to_string());
        durable::directory(&home)?;
        self.write(home.join(BUNDLE), &bundle::text(stored))
    }

    pub fn tool(&mut self, key: &Key, stored: &StoredTool) -> io::Result<()> {
        let home = self.at.join(key.bundle.to_string());
        self.write(home.join(file::file_name(key)), &bundle::text(stored))
    }

    fn write(&mut self, path: PathBuf, bytes: &[u8]) -> io::Result<()> {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?
            .write_all(bytes)?;
        self.files.push(path);
        Ok(())
    }

    /// When this returns, all of them are there, and on disk.
    pub fn commit(self) -> io::Result<()> {
        // Written first and all of them, so that the disk takes many at once.
        for path in &self.files {
            File::open(path)?.sync_all()?;
        }
        for home in fs::read_dir(&self.at)? {
            sync(Some(&home?.path()))?;
        }
        sync(Some(&self.at))?;
        let directory = &self.alone.bundles.directory;
        fs::rename(&self.at, directory.join(IMPORT))?;
        durable::settle(directory)?;
        self.alone.finish_import()
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        // What was committed has another name. What stays here is taken away by the next one who starts.
        let _ = remove_staged(&self.alone.bundles.directory);
    }
}

/// Whether an import took place of which something is still to be moved.
pub(super) fn is_unfinished(directory: &Path) -> bool {
    fs::symlink_metadata(directory.join(IMPORT)).is_ok_and(|it| it.is_dir())
}

pub(super) fn remove_staged(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory.join(STAGED)) {
        Err(err) if err.kind() != io::ErrorKind::NotFound => Err(err),
        _ => Ok(()),
    }
}
