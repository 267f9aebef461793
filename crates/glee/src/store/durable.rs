//! Files that are whole or not there, and stay when the machine goes down; and the locks under which
//! they change.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use tempfile::NamedTempFile;

/// How long others may hold a lock before one gives up.
const PATIENCE: Duration = Duration::from_secs(5);

/// A directory for the owner's eyes only, with those above it.
pub fn directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

/// Puts a file in the place of whatever had its name. When this returns, it is on disk.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = parent(path)?;
    written(directory, bytes)?.persist(path)?;
    settle(directory)
}

/// Puts a file where none is; `AlreadyExists` when one is. When this returns, it is on disk.
pub fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = parent(path)?;
    written(directory, bytes)?.persist_noclobber(path)?;
    settle(directory)
}

/// Whether a directory can take one more small file; an `Err` says why not.
pub fn has_room(directory: &Path) -> io::Result<()> {
    written(directory, &[0; 4096]).map(|_| ())
}

fn written(directory: &Path, bytes: &[u8]) -> io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new()
        .prefix(".new-")
        .tempfile_in(directory)?;
    file.write_all(bytes)?;
    file.as_file()
        .set_permissions(Permissions::from_mode(0o600))?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// Takes away what stands behind this, if anything does.
pub fn cut(file: &File, length: u64) -> io::Result<()> {
    match file.metadata()?.len() > length {
        true => file.set_len(length),
        false => Ok(()),
    }
}

/// Forces to disk what has changed in a directory. When that fails, it has changed all the same, and may be
/// as it was after the next start: whoever asked for it must not be told that nothing happened.
pub fn settle(directory: &Path) -> io::Result<()> {
    let settled = File::open(directory).and_then(|it| it.sync_all());
    settled.map_err(|err| io::Error::other(format!("it is done, but perhaps not on disk: {err}")))
}

fn parent(path: &Path) -> io::Result<&Path> {
    path.parent()
        .ok_or_else(|| io::Error::other("it has no directory"))
}

/// Held until it is dropped, and given back by the kernel when its holder dies.
pub struct Lock(Arc<File>);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing it would give the lock back, too; but a latch keeps it open.
        let _ = self.0.unlock();
    }
}

/// Keeps others out, if nobody else does.
pub fn try_lock(path: &Path) -> io::Result<Option<Lock>> {
    match Latch::at(path)?.hold(Duration::ZERO) {
        Ok(lock) => Ok(Some(lock)),
        Err(err) if err.kind() == io::ErrorKind::TimedOut => Ok(None),
        Err(err) => Err(err),
    }
}

/// Whether somebody keeps others out. Where there is no file, nobody does.
pub fn is_locked(path: &Path) -> io::Result<bool> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(err) => return Err(err),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(fs::TryLockError::WouldBlock) => Ok(true),
        Err(fs::TryLockError::Error(err)) => Err(err),
    }
}

/// Keeps others out. `TimedOut` when somebody has held it for too long.
pub fn lock(path: &Path) -> io::Result<Lock> {
    Latch::at(path)?.hold(PATIENCE)
}

/// A lock that is taken often: its file is opened once. The file stays: whoever removed it would let two
/// in at once.
pub struct Latch {
    file: Arc<File>,
    identity: (u64, u64),
    path: PathBuf,
}

impl Latch {
    pub fn at(path: &Path) -> io::Result<Latch> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
            .open(path)?;
        let own = file.metadata()?;
        Ok(Latch {
            file: Arc::new(file),
            identity: (own.dev(), own.ino()),
            path: path.to_owned(),
        })
    }

    /// Whether the file is still the one that others would open.
    pub fn is_in_place(&self) -> bool {
        fs::symlink_metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == self.identity)
    }

    pub fn hold(&self, patience: Duration) -> io::Result<Lock> {
        let began = Instant::now();
        loop {
            match self.file.try_lock() {
                Ok(()) => return Ok(Lock(self.file.clone())),
                Err(fs::TryLockError::Error(err)) => return Err(err),
                Err(fs::TryLockError::WouldBlock) if began.elapsed() < patience => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(fs::TryLockError::WouldBlock) => {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        format!("{} is held by another process", self.path.display()),
                    ));
                }
            }
        }
    }
}
