//! A socket in the file system, for the user who started the server and nobody else: only they can reach its
//! file, and whoever connects is asked of the kernel who they are.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use tokio::net::{UnixListener, UnixStream};

use super::door::Door;

pub(super) struct Socket {
    listener: UnixListener,
    file: Owned,
}

/// The file of a socket, gone when this is dropped.
struct Owned {
    path: PathBuf,
    inode: u64,
}

impl Drop for Owned {
    fn drop(&mut self) {
        // Somebody may have put another one there meanwhile.
        let is_ours = fs::symlink_metadata(&self.path).is_ok_and(|it| it.ino() == self.inode);
        if is_ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Socket {
    /// Listens at a path whose directory is nobody else's. What a server left behind that is gone is replaced;
    /// a server that lives is left alone.
    pub(super) fn bind(path: &Path) -> io::Result<Socket> {
        let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)?;
        let parent = &parent.canonicalize()?;
        check_private(parent)?;
        check_way(parent)?;
        let Some(name) = path.file_name() else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it names no file",
            ));
        };
        let path = &parent.join(name);
        // Two that start at once must not each take the other's socket for a dead one.
        let lock = fs::File::open(parent)?;
        lock.lock()?;
        clear(path)?;
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        Ok(Socket {
            listener,
            file: Owned {
                path: path.to_owned(),
                inode: fs::symlink_metadata(path)?.ino(),
            },
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.file.path
    }
}

impl Door for Socket {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<UnixStream> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            let is_ours = stream
                .peer_cred()
                .is_ok_and(|it| it.uid() == geteuid().as_raw());
            if is_ours {
                return Ok(stream);
            }
        }
    }
}

/// Whoever could write there could put a socket of their own in the place of ours.
fn check_private(directory: &Path) -> io::Result<()> {
    let found = fs::metadata(directory)?;
    let why = if found.uid() != geteuid().as_raw() {
        "belongs to somebody else"
    } else if found.mode() & 0o077 != 0 {
        "is open to others"
    } else {
        return Ok(());
    };
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "{} {why}; a socket needs a directory that is yours alone: `mkdir -m 700 DIRECTORY`",
            directory.display()
        ),
    ))
}

/// Whoever may rename one of the directories on the way there could put another in its place.
fn check_way(directory: &Path) -> io::Result<()> {
    for above in directory.ancestors().skip(1) {
        let found = fs::metadata(above)?;
        let is_trusted = found.uid() == 0 || found.uid() == geteuid().as_raw();
        let is_sticky = found.mode() & 0o1000 != 0;
        if !is_trusted || (found.mode() & 0o022 != 0 && !is_sticky) {
            let why = format!(
                "others can rename what is in {}; name a place below directories that only you or root can change",
                above.display()
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
    }
    Ok(())
}

fn clear(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(err) => return Err(err),
    };
    if !found.file_type().is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "there is something else than a socket; name another place",
        ));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(err) if err.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        // One that is too busy to answer lives as well.
        _ => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "a server listens there already; stop it, or name another place",
        )),
    }
}
