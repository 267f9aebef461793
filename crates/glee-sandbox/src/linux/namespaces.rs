//! Enters the namespaces a launcher lives in, and forks into those of a cell.

use std::ffi::c_int;
use std::os::fd::{FromRawFd, OwnedFd};
use std::{fs, io};

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

/// The namespaces of a launcher, besides a user namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    /// An empty one of its own.
    Own,
    /// The host's.
    Shared,
}

/// Enters namespaces of its own. Through a user namespace even as root, so that a launcher never has power over
/// anything outside.
pub(super) fn enter(network: Network) -> io::Result<()> {
    let (uid, gid) = (
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    let network = match network {
        Network::Own => libc::CLONE_NEWNET,
        Network::Shared => 0,
    };
    unshare(
        libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS | network,
    )?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
    Ok(rustix::system::sethostname(b"glee")?)
}

/// Enters a mount namespace that only serves to show the right /proc, and a user namespace only if that is what it
/// takes, as inside one the user cannot become another.
pub(super) fn enter_unconfined() -> io::Result<()> {
    unshare(libc::CLONE_NEWNS).or_else(|_| {
        let (uid, gid) = (
            rustix::process::getuid().as_raw(),
            rustix::process::getgid().as_raw(),
        );
        unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS)?;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
        fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
    })
}

fn unshare(flags: c_int) -> io::Result<()> {
    // SAFETY: changes the namespaces of this single-threaded process; no descriptor or memory is affected.
    if unsafe { libc::unshare(flags) } < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

pub(super) enum Fork {
    Child,
    /// The child, and a descriptor that is readable when it has ended.
    Parent(rustix::process::Pid, OwnedFd),
}

/// Forks; the child is process 1 of a new PID namespace, with mounts and IPC of its own.
pub(super) fn fork_into_cell() -> io::Result<Fork> {
    let mut pidfd: c_int = -1;
    let namespaces = libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWIPC;
    let flags = namespaces | libc::CLONE_PIDFD | libc::SIGCHLD;
    // SAFETY: a fork of a single-threaded process: the child has a copy of all memory and may go on in Rust. The
    // kernel writes the descriptor into a local.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, &raw mut pidfd, 0, 0) };
    match i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    {
        _ if pid < 0 => Err(io::Error::last_os_error()),
        None => Ok(Fork::Child),
        // SAFETY: the kernel made this descriptor for us a moment ago.
        Some(pid) => Ok(Fork::Parent(pid, unsafe { OwnedFd::from_raw_fd(pidfd) })),
    }
}

/// Forks; nothing in the child.
pub(super) fn fork() -> io::Result<Option<rustix::process::Pid>> {
    // SAFETY: a fork of a single-threaded process: the child has a copy of all memory and may go on in Rust.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(rustix::process::Pid::from_raw(pid)),
    }
}

/// A /proc that shows the new PID namespace. Without it a payload sees numbers of strangers, which is unpleasant and,
/// without confinement, no danger; so a refusal is not an error.
pub(super) fn show_own_proc() {
    let quiet = mount_change(
        "/",
        MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC,
    );
    if quiet.is_ok() {
        let _ = mount(
            "proc",
            "/proc",
            "proc",
            MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC,
            None,
        );
    }
}
