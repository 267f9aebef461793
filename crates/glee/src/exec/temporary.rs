//! Directories that last as long as whoever made them: at the end of their use, or, when glee was killed,
//! until the next glee makes one.

use std::fs::{self, DirEntry, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::thread;

use rustix::fs::OFlags;

/// What their names begin with.
const PREFIX: &str = "glee-tmp-";
/// The same, before one is held.
const UNHELD: &str = "glee-new-";

/// Other users of the machine have no business in it.
pub(super) struct Temporary {
    path: PathBuf,
    /// Locked, so that others see that it is in use. The kernel gives it back whatever happens.
    _held: File,
}

impl Temporary {
    pub(super) fn make() -> io::Result<Temporary> {
        static SWEPT: Once = Once::new();
        SWEPT.call_once(|| {
            // What was left may be large, and nobody waits for it to be gone.
            let _ = thread::Builder::new().spawn(|| sweep(&std::env::temp_dir()));
        });
        let made = tempfile::Builder::new()
            .prefix(UNHELD)
            .permissions(Permissions::from_mode(0o700))
            .tempdir()?;
        let held = open(made.path())?;
        if held.try_lock().is_err() {
            // There are disks that know no locks. Nobody sweeps what has this name.
            return Ok(Temporary {
                path: made.keep(),
                _held: held,
            });
        }
        let name = made.path().file_name().unwrap_or_default();
        let name = name.to_string_lossy().replacen(UNHELD, PREFIX, 1);
        let path = made.path().with_file_name(name);
        fs::rename(made.path(), &path)?;
        let _moved = made.keep();
        Ok(Temporary { path, _held: held })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // What a tool has made unremovable stays.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags((OFlags::DIRECTORY | OFlags::NOFOLLOW).bits() as i32)
        .open(path)
}

/// Removes what is held by nobody any more, and holds it meanwhile.
fn sweep(directory: &Path) {
    let own = rustix::process::geteuid().as_raw();
    let left = |entry: &DirEntry| {
        let is_named = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let held = open(&entry.path()).ok().filter(|_| is_named)?;
        let is_own = held.metadata().is_ok_and(|it| it.uid() == own);
        (is_own && held.try_lock().is_ok()).then_some(held)
    };
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if let Some(_held) = left(&entry) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_holds_is_swept_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        for name in ["glee-tmp-left", "glee-tmp-held", "glee-new-1", "glee-other"] {
            fs::create_dir_all(at(name).join("inside")).unwrap();
        }
        std::os::unix::fs::symlink(at("glee-other"), at("glee-tmp-link")).unwrap();
        let held = open(&at("glee-tmp-held")).unwrap();
        held.try_lock().unwrap();
        sweep(home.path());
        let left = |name: &str| at(name).join("inside").is_dir();
        assert!(!left("glee-tmp-left"));
        assert!(left("glee-tmp-held") && left("glee-new-1") && left("glee-other"));
        drop(held);
        sweep(home.path());
        assert!(!left("glee-tmp-held"));
    }

    #[test]
    fn one_that_is_dropped_is_gone() {
        let made = Temporary::make().unwrap();
        let path = made.path().to_owned();
        fs::write(path.join("file"), "").unwrap();
        assert!(path.is_dir());
        drop(made);
        assert!(!path.exists());
    }
}
