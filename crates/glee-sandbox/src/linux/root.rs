//! The minimal root: a small tmpfs that holds the system's programs, the granted paths, and nothing else.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, open, openat2};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount,
    mount_change, move_mount, open_tree, unmount,
};

use super::cell::SCRATCH;
use super::grants::{Access, settle};
use super::placeholder::{self, Placeholders};
use crate::{Network, Profile};

/// Directories a program needs to start at all. Where the host has a symbolic link, so has the root inside.
const PROGRAMS: &[&str] = &[
    "/usr", "/opt", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
];

/// Configuration that programs read and that tells nothing about users. /etc/passwd is not here on purpose.
const CONFIGURATION: &[&str] = &[
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/profile",
    "/etc/ssl/openssl.cnf",
    "/etc/terminfo",
    "/etc/timezone",
];

/// What name resolution and TLS read.
const NETWORKING: &[&str] = &[
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/certs",
];

const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// A place where this process can put the new root for a moment. Whatever is there stays reachable by descriptors.
const STAGING: &str = "/usr";

/// The system paths that appear inside for this network.
pub(super) fn system_paths(network: &Network) -> impl Iterator<Item = &'static Path> {
    let networking = if *network == Network::None {
        &[]
    } else {
        NETWORKING
    };
    PROGRAMS
        .iter()
        .chain(CONFIGURATION)
        .chain(networking)
        .map(Path::new)
}

pub(super) fn devices() -> impl Iterator<Item = &'static Path> {
    DEVICES.iter().map(Path::new)
}

/// A detached copy of a host path, to be put into the new root.
struct Piece {
    path: PathBuf,
    tree: OwnedFd,
    kind: FileType,
}

/// The new root, as far as its launcher must remember it.
pub(super) struct Root {
    /// Held for their removal at the end.
    _placeholders: Placeholders,
    /// Grants inside scratch directories. Each cell covers those with fresh ones and must put the grants back.
    inside_scratch: Vec<PathBuf>,
    /// Why a path could not be protected.
    unprotected: Option<String>,
}

/// Where grants inside scratch directories wait for a cell.
const WAITING: &str = "/run/granted";

impl Root {
    /// Whether all protected paths are, else why not.
    pub(super) fn unprotected(&self) -> Result<(), String> {
        self.unprotected.clone().map_or(Ok(()), Err)
    }

    pub(super) fn holds_grants_inside_scratch(&self) -> bool {
        !self.inside_scratch.is_empty()
    }

    /// Puts grants inside scratch directories back where they belong, in the fresh scratch of a cell.
    pub(super) fn attach_inside_scratch(&self) -> io::Result<()> {
        for (number, path) in self.inside_scratch.iter().enumerate() {
            let waiting = format!("{WAITING}/{number}");
            let flags = OpenTreeFlags::OPEN_TREE_CLONE
                | OpenTreeFlags::OPEN_TREE_CLOEXEC
                | OpenTreeFlags::AT_RECURSIVE;
            let tree = open_tree(CWD, &waiting, flags)?;
            let is_directory = fs::metadata(&waiting)?.is_dir();
            make_place(path, is_directory)?;
            let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
            move_mount(&tree, "", CWD, path, flags)?;
            unmount(&waiting, UnmountFlags::DETACH)?;
        }
        Ok(())
    }
}

/// Makes the new root and moves this process into it. /proc is still the host's; each cell covers it with its own.
pub(super) fn build(profile: &Profile) -> io::Result<Root> {
    if settle(profile).iter().any(|it| it.0 == Path::new("/")) {
        return Err(io::Error::other("the whole file system is granted"));
    }
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )?;
    let mut placeholders = Placeholders::default();
    let mut pieces = Vec::new();
    let mut links = Vec::new();
    let mut unprotected = None;
    for path in system_paths(&profile.network) {
        if !path.is_symlink() {
            pieces.extend(piece(path, Mounted::ReadOnly)?);
        } else if let Ok(target) = path.canonicalize() {
            // Such as /etc/resolv.conf, which leads into /run where a resolver runs.
            if !system_paths(&profile.network).any(|it| target.starts_with(it)) {
                pieces.extend(piece(&target, Mounted::ReadOnly)?);
            }
            links.push((path, target));
        }
    }
    for path in devices() {
        pieces.extend(piece(path, Mounted::Device)?);
    }
    pieces.extend(piece(Path::new("/proc"), Mounted::AsIs)?);
    for (path, access) in settle(profile) {
        match access {
            Access::Read => pieces.extend(piece(&path, Mounted::ReadOnly)?),
            // What only holds a place is protected as a whole.
            Access::Pinned if placeholder::is_at(&path) => {}
            Access::Write | Access::Pinned => pieces.extend(piece(&path, Mounted::Writable)?),
            Access::Protected => match protect(&path, &mut placeholders) {
                Ok(protected) => pieces.extend(protected),
                Err(err) => unprotected = Some(err.to_string()),
            },
            Access::Hidden => pieces.extend(cover(&path)?),
        }
    }
    pieces.sort_by(|a, b| a.path.cmp(&b.path));

    mount(
        "tmpfs",
        STAGING,
        "tmpfs",
        MountFlags::NOSUID | MountFlags::NODEV,
        Some(c"size=1m,nr_inodes=4096,mode=755"),
    )?;
    let root = open(
        STAGING,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let mut inside_scratch = Vec::new();
    for it in &pieces {
        if SCRATCH.iter().any(|scratch| it.path.starts_with(scratch)) {
            attach(
                &root,
                it,
                Path::new(&format!("{WAITING}/{}", inside_scratch.len())),
            )?;
            inside_scratch.push(it.path.clone());
        } else {
            attach(&root, it, &it.path)?;
        }
    }
    for (path, target) in links {
        let place = inside(path);
        if let Some(parent) = place.parent() {
            fs::create_dir_all(staged(parent))?;
        }
        std::os::unix::fs::symlink(target, staged(&place))?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        std::os::unix::fs::symlink(target, format!("{STAGING}/dev/{name}"))?;
    }
    for directory in ["tmp", "dev/shm", "run"] {
        fs::create_dir_all(format!("{STAGING}/{directory}"))?;
    }
    change(root.as_fd(), libc::MOUNT_ATTR_RDONLY, Depth::This)?;
    enter(&root)?;
    Ok(Root {
        _placeholders: placeholders,
        inside_scratch,
        unprotected,
    })
}

/// Leaves the old root behind. The old root lands on top of the new one and is taken off from there.
fn enter(root: &OwnedFd) -> io::Result<()> {
    rustix::process::fchdir(root)?;
    rustix::process::pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    Ok(rustix::process::chdir("/")?)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mounted {
    ReadOnly,
    Writable,
    Device,
    AsIs,
}

/// Opens a granted path as a place. It was resolved by the caller, so a symbolic link in it now was put there since and
/// is not followed.
pub(super) fn open_granted(path: &Path) -> Option<(OwnedFd, FileType)> {
    open_place(path, ResolveFlags::NO_SYMLINKS)
}

fn open_place(path: &Path, resolve: ResolveFlags) -> Option<(OwnedFd, FileType)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = openat2(CWD, path, flags, Mode::empty(), resolve).ok()?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&found).ok()?.st_mode);
    // The flags above open a link as itself when it comes last.
    (kind != FileType::Symlink).then_some((found, kind))
}

/// A detached copy of a path with its attributes set, or nothing when the path does not exist.
fn piece(path: &Path, mounted: Mounted) -> io::Result<Option<Piece>> {
    let found = match mounted {
        Mounted::ReadOnly | Mounted::Writable => open_granted(path),
        Mounted::Device | Mounted::AsIs => open_place(path, ResolveFlags::empty()),
    };
    let Some((found, kind)) = found else {
        return Ok(None);
    };
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(&found, "", flags)?;
    let attributes = match mounted {
        Mounted::ReadOnly => {
            libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV
        }
        Mounted::Writable => libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV,
        // Writing to a device needs no writable mount, changing its mode or owner does.
        Mounted::Device => {
            libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC
        }
        Mounted::AsIs => 0,
    };
    if attributes != 0 {
        change(tree.as_fd(), attributes, Depth::All)?;
    }
    Ok(Some(Piece {
        path: path.to_path_buf(),
        tree,
        kind,
    }))
}

fn attach(root: &OwnedFd, piece: &Piece, at: &Path) -> io::Result<()> {
    let place = inside(at);
    make_place(&staged(&place), piece.kind == FileType::Directory)?;
    // Resolving beneath the root, so that a link inside a grant cannot place a mount elsewhere.
    let target = openat2(
        root,
        &place,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH,
    )?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(&piece.tree, "", &target, "", flags)?)
}

/// A protected path, or what holds its place; nothing when there is nothing to protect.
fn protect(path: &Path, placeholders: &mut Placeholders) -> io::Result<Option<Piece>> {
    let Some(place) = placeholders.hold(path)? else {
        return Ok(None);
    };
    match piece(&place, Mounted::ReadOnly)? {
        Some(piece) => Ok(Some(piece)),
        // There is something, and a link on the way to it.
        None => Err(io::Error::other(format!(
            "{} cannot be protected",
            place.display()
        ))),
    }
}

/// An empty directory that nobody can look into, to be put over one; nothing where there is none.
fn cover(path: &Path) -> io::Result<Option<Piece>> {
    if fs::symlink_metadata(path).is_err() {
        return Ok(None);
    }
    let empty = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in [("size", "4k"), ("nr_inodes", "1"), ("mode", "0")] {
        fsconfig_set_string(&empty, key, value)?;
    }
    fsconfig_create(&empty)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV;
    Ok(Some(Piece {
        path: path.to_path_buf(),
        tree: fsmount(&empty, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?,
        kind: FileType::Directory,
    }))
}

/// Something to mount on.
fn make_place(place: &Path, is_directory: bool) -> io::Result<()> {
    if fs::symlink_metadata(place).is_ok() {
        return Ok(());
    }
    if is_directory {
        return fs::create_dir_all(place);
    }
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::File::create(place).map(drop)
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    This,
    All,
}

/// Sets attributes of a mount, and never clears any.
fn change(tree: BorrowedFd<'_>, attributes: u64, depth: Depth) -> io::Result<()> {
    let wanted = libc::mount_attr {
        attr_set: attributes,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    let flags = libc::AT_EMPTY_PATH
        | if depth == Depth::All {
            libc::AT_RECURSIVE
        } else {
            0
        };
    // SAFETY: the path is an empty text that ends with NUL, and the attributes are a local of the size that is told.
    let changed = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const wanted,
            size_of_val(&wanted),
        )
    };
    if changed < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

fn inside(path: &Path) -> PathBuf {
    path.strip_prefix("/").unwrap_or(path).to_path_buf()
}

fn staged(place: &Path) -> PathBuf {
    Path::new(STAGING).join(place)
}
