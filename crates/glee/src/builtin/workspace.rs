//! The project's directory and nothing beyond it. Every path is opened from its descriptor, and the
//! kernel sees to it that none leads out, whatever is renamed or linked meanwhile.

use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

use glee_core::outcome::{Failure, FailureKind};
use glee_core::protect;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

/// What file tools know of the machine.
#[derive(Clone, Debug)]
pub(super) struct Ground {
    /// Directories that nobody reads: where glee keeps its own.
    pub(super) hidden: Arc<[PathBuf]>,
    pub(super) home: Option<PathBuf>,
    pub(super) opening: Opening,
}

/// How paths are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// The kernel keeps them beneath the root.
    Beneath,
    /// One name after the other, and no link on the way: for kernels that cannot.
    ByNames,
}

impl Opening {
    pub(super) fn of_this_kernel() -> Opening {
        static KNOWN: OnceLock<Opening> = OnceLock::new();
        *KNOWN.get_or_init(|| {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let resolve = ResolveFlags::BENEATH;
            match rustix::fs::openat2(CWD, ".", flags, Mode::empty(), resolve) {
                Ok(_) => Opening::Beneath,
                Err(_) => Opening::ByNames,
            }
        })
    }
}

/// Directories below one another that are listed, made and deleted.
pub(super) const DEEPEST: usize = 64;

pub(super) struct Workspace {
    root: OwnedFd,
    /// As it was given, and where it really is.
    path: PathBuf,
    real: PathBuf,
    ground: Ground,
}

/// Whether links on the way are followed. Those that stay inside may be, to read; what is written is
/// written where its name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Links {
    Inside,
    Refused,
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

impl Workspace {
    pub(super) fn open(root: &Path, ground: &Ground) -> Result<Workspace, Failure> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(CWD, root, flags, Mode::empty());
        let opened = opened.map_err(|err| failure(root, err))?;
        Ok(Workspace {
            real: real(opened.as_fd()).map_err(|err| failure(root, err))?,
            root: opened,
            path: root.to_owned(),
            ground: ground.clone(),
        })
    }

    /// A path as it was given, from the root. It may be absolute when it lies inside.
    pub(super) fn inside(&self, given: &str) -> Result<PathBuf, Failure> {
        let refuse = |why: &str| {
            let shown: String = given.chars().take(200).collect();
            let message = format!("`{}` {why}", shown.escape_debug());
            Failure::new(FailureKind::InvalidPath, message)
                .hint("name a path inside of the project, from its root and without `..`")
        };
        if given.is_empty() {
            return Err(refuse("is no path"));
        }
        if given.contains('\0') {
            return Err(refuse("holds a NUL"));
        }
        if given.len() > 4096 {
            return Err(refuse("is too long for a path"));
        }
        let path = Path::new(given);
        let path = match path.is_absolute() {
            true => path
                .strip_prefix(&self.path)
                .map_err(|_| refuse("is outside of the project"))?,
            false => path,
        };
        let mut inside = PathBuf::new();
        for component in path.components() {
            match component {
                Component::Normal(name) => inside.push(name),
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(refuse("may lead out of the project"));
                }
            }
        }
        Ok(inside)
    }

    /// The same, for what is about to be put, changed or taken away there.
    pub(super) fn changeable(&self, given: &str) -> Result<PathBuf, Failure> {
        let path = self.inside(given)?;
        match path.as_os_str().is_empty() {
            true => Err(invalid(&path, "is the project itself")),
            false => self.check_changeable(&path).map(|()| path),
        }
    }

    pub(super) fn check_changeable(&self, path: &Path) -> Result<(), Failure> {
        let home = self.ground.home.as_deref();
        let absolute = self.real.join(path);
        let hides = |it: &PathBuf| it.starts_with(&absolute) || absolute.starts_with(it);
        if protect::from_file_tools(&absolute, &self.real, home)
            || self.ground.hidden.iter().any(hides)
        {
            let message = format!(
                "`{}` decides what glee, git or a shell does next, and no tool changes it",
                shown(path)
            );
            return Err(Failure::new(FailureKind::PermissionDenied, message)
                .hint("a person can change it by hand"));
        }
        Ok(())
    }

    /// Opens what stands at a path from [`Workspace::inside`]. It never waits, not even for a FIFO.
    pub(super) fn at(&self, path: &Path, flags: OFlags, links: Links) -> Result<OwnedFd, Failure> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let opened = self
            .reach(path, flags, links)
            .map_err(|err| failure(path, err))?;
        self.check_place(path, opened.as_fd())?;
        Ok(opened)
    }

    fn reach(&self, path: &Path, flags: OFlags, links: Links) -> Result<OwnedFd, Errno> {
        let path = match path.as_os_str().is_empty() {
            true => Path::new("."),
            false => path,
        };
        let resolve = match links {
            Links::Inside => ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS,
            Links::Refused => ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
        };
        match self.ground.opening {
            Opening::Beneath => self.beneath(path, flags, resolve),
            Opening::ByNames => by_names(self.root.as_fd(), path, flags),
        }
    }

    fn beneath(&self, path: &Path, flags: OFlags, resolve: ResolveFlags) -> Result<OwnedFd, Errno> {
        // A rename elsewhere can make the kernel unsure, and it says so.
        for _ in 0..64 {
            match rustix::fs::openat2(&self.root, path, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN) => {}
                opened => return opened,
            }
        }
        Err(Errno::AGAIN)
    }

    /// Where a descriptor really is: neither outside nor where glee keeps its own. A directory that was
    /// carried out while it was opened is outside.
    pub(super) fn check_place(&self, path: &Path, opened: BorrowedFd<'_>) -> Result<(), Failure> {
        let real = real(opened).map_err(|err| failure(path, err))?;
        if !real.starts_with(&self.real) {
            return Err(failure(path, Errno::XDEV));
        }
        match self.ground.hidden.iter().any(|it| real.starts_with(it)) {
            true => Err(Failure::new(
                FailureKind::PermissionDenied,
                format!("`{}` is glee's own, and no tool reads it", shown(path)),
            )),
            false => Ok(()),
        }
    }

    /// A regular file, to be read.
    pub(super) fn file(&self, path: &Path) -> Result<(OwnedFd, Stat), Failure> {
        let file = self.at(path, OFlags::RDONLY, Links::Inside)?;
        let found = rustix::fs::fstat(&file).map_err(|err| failure(path, err))?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => Ok((file, found)),
            FileType::Directory => Err(invalid(path, "is a directory")),
            _ => Err(invalid(path, "is not a regular file")),
        }
    }

    /// A directory, to be listed.
    pub(super) fn directory(&self, path: &Path) -> Result<OwnedFd, Failure> {
        self.at(path, DIRECTORY, Links::Inside)
    }

    /// The directory that something stands in or is put in, and its name there. No link leads to it, so
    /// that it is where its name says.
    pub(super) fn place(&self, path: &Path) -> Result<(OwnedFd, OsString), Failure> {
        let Some(name) = path.file_name() else {
            return Err(invalid(path, "is the project itself"));
        };
        let parent = path.parent().unwrap_or(Path::new(""));
        let opened = self.at(parent, DIRECTORY, Links::Refused)?;
        // By its name it may be changed; it must not be another one by now.
        let real = real(opened.as_fd()).map_err(|err| failure(parent, err))?;
        match real == self.real.join(parent) {
            true => Ok((opened, name.to_owned())),
            false => Err(failure(parent, Errno::XDEV)),
        }
    }

    /// The same, with the directories on the way made where they are missing.
    pub(super) fn place_made(&self, path: &Path) -> Result<(OwnedFd, OsString), Failure> {
        let missing = match self.place(path) {
            Err(failure) if failure.kind == FailureKind::FileNotFound => path.parent(),
            place => return place,
        };
        // What is made can be listed and deleted again.
        if path.components().count() > DEEPEST {
            return Err(invalid(path, "lies too deep to be made"));
        }
        let mut at = PathBuf::new();
        for name in missing.into_iter().flat_map(Path::components) {
            at.push(name);
            let (directory, name) = self.place(&at)?;
            match rustix::fs::mkdirat(&directory, &name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(err) => return Err(failure(&at, err)),
            }
        }
        self.place(path)
    }
}

/// Where a descriptor leads at this moment.
fn real(opened: BorrowedFd<'_>) -> Result<PathBuf, Errno> {
    let link = format!("/proc/self/fd/{}", opened.as_raw_fd());
    std::fs::read_link(link).map_err(|err| errno(&err))
}

/// One name after the other, and no link on the way.
fn by_names(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let names: Vec<_> = path.components().collect();
    let Some((last, before)) = names.split_last() else {
        return Err(Errno::INVAL);
    };
    let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = rustix::fs::openat(root, ".", step, Mode::empty())?;
    for name in before {
        at = rustix::fs::openat(&at, name.as_os_str(), step, Mode::empty())?;
    }
    let flags = flags | OFlags::NOFOLLOW;
    rustix::fs::openat(&at, last.as_os_str(), flags, Mode::empty())
}

pub(super) fn shown(path: &Path) -> String {
    match path.as_os_str().is_empty() {
        true => ".".to_owned(),
        false => path.display().to_string(),
    }
}

pub(super) fn invalid(path: &Path, why: &str) -> Failure {
    Failure::new(FailureKind::InvalidPath, format!("`{}` {why}", shown(path)))
}

pub(super) fn errno(err: &std::io::Error) -> Errno {
    Errno::from_io_error(err).unwrap_or(Errno::IO)
}

/// What the kernel says, in the words of a file tool.
pub(super) fn failure(path: &Path, err: Errno) -> Failure {
    let shown = shown(path);
    match err {
        Errno::NOENT => Failure::new(
            FailureKind::FileNotFound,
            format!("there is no `{shown}` in the project"),
        ),
        Errno::XDEV | Errno::LOOP | Errno::AGAIN => {
            invalid(path, "leads out of the project, or is a link")
                .hint("name the file where it really is")
        }
        Errno::NOTDIR => invalid(
            path,
            "is no directory, or leads through something that is none",
        ),
        Errno::NAMETOOLONG | Errno::INVAL | Errno::ISDIR | Errno::NXIO | Errno::NODEV => {
            invalid(path, "cannot be opened as a file")
        }
        Errno::ACCESS | Errno::PERM | Errno::ROFS => {
            Failure::new(FailureKind::PermissionDenied, format!("`{shown}`: {err}"))
        }
        err => Failure::new(FailureKind::ExecutionError, format!("`{shown}`: {err}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn scene(opening: Opening) -> (tempfile::TempDir, Workspace) {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap().join("root");
        std::fs::create_dir_all(root.join("dir")).unwrap();
        std::fs::create_dir_all(root.join("own/glee")).unwrap();
        std::fs::write(root.join("dir/file"), "in").unwrap();
        std::fs::write(root.join("own/glee/key"), "key").unwrap();
        std::fs::write(home.path().join("secret"), "out").unwrap();
        symlink("../secret", root.join("out")).unwrap();
        symlink("..", root.join("up")).unwrap();
        symlink("dir/file", root.join("in")).unwrap();
        symlink("own/glee", root.join("state")).unwrap();
        symlink("/proc/self/root", root.join("magic")).unwrap();
        let ground = Ground {
            hidden: Arc::new([root.join("own/glee")]),
            home: None,
            opening,
        };
        let workspace = Workspace::open(&root, &ground).unwrap();
        (home, workspace)
    }

    #[test]
    fn links_lead_nowhere_else() {
        let (_home, workspace) = scene(Opening::Beneath);
        for path in ["out", "up/secret", "magic/etc/passwd", "dir/../../secret"] {
            let opened = workspace.file(Path::new(path)).unwrap_err();
            assert_eq!(opened.kind, FailureKind::InvalidPath, "{path}");
        }
        assert!(workspace.file(Path::new("in")).is_ok());
        let refused = workspace.at(Path::new("in"), OFlags::RDONLY, Links::Refused);
        assert_eq!(refused.unwrap_err().kind, FailureKind::InvalidPath);
        let (_, found) = workspace.file(Path::new("dir/file")).unwrap();
        assert_eq!(found.st_size, 2);
    }

    #[test]
    fn an_older_kernel_follows_no_link_at_all() {
        let (_home, workspace) = scene(Opening::ByNames);
        for path in ["out", "up/secret", "magic/etc/passwd", "in"] {
            let kind = workspace.file(Path::new(path)).unwrap_err().kind;
            assert_eq!(kind, FailureKind::InvalidPath, "{path}");
        }
        assert!(workspace.file(Path::new("dir/file")).is_ok());
        assert!(workspace.directory(Path::new("")).is_ok());
    }

    #[test]
    fn what_is_glees_own_is_not_read_by_whatever_way() {
        for opening in [Opening::Beneath, Opening::ByNames] {
            let (_home, workspace) = scene(opening);
            assert!(workspace.file(Path::new("state/key")).is_err());
            for path in ["own/glee/key", "own/glee"] {
                let kind = workspace.file(Path::new(path)).unwrap_err().kind;
                assert_eq!(kind, FailureKind::PermissionDenied, "{path}");
            }
            // Nor can it be carried elsewhere, to be read there.
            let kind = workspace.changeable("own").unwrap_err().kind;
            assert_eq!(kind, FailureKind::PermissionDenied);
        }
    }

    #[test]
    fn what_is_a_path_inside() {
        let (home, workspace) = scene(Opening::Beneath);
        let home = home.path().canonicalize().unwrap();
        let inside = |it: &str| workspace.inside(it).map_err(|err| err.kind);
        let absolute = home.join("root/dir/file");
        assert_eq!(inside(absolute.to_str().unwrap()), Ok("dir/file".into()));
        for (given, expected) in [(".", ""), ("./a//b/", "a/b"), ("..a/b..", "..a/b..")] {
            assert_eq!(inside(given), Ok(expected.into()), "{given}");
        }
        let other = home.join("rootless/x");
        for given in [
            "",
            "..",
            "a/../b",
            "/etc/passwd",
            "a\0b",
            other.to_str().unwrap(),
            &"x/".repeat(3000),
        ] {
            assert_eq!(inside(given), Err(FailureKind::InvalidPath), "{given}");
        }
    }
}
