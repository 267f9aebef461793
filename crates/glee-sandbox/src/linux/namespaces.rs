//! Enters the namespaces a launcher lives in.

use std::os::fd::{FromRawFd, OwnedFd};
use std::{fs, io};

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

/// Where the launcher is after it tried to leave the host's namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Namespace,
    Host,
}

/// Enters a mount namespace of its own, and a user namespace first when that is what it takes.
pub(super) fn enter() -> Place {
    let entered = unshare(libc::CLONE_NEWNS).or_else(|_| {
        let (uid, gid) = (
            rustix::process::getuid().as_raw(),
            rustix::process::getgid().as_raw(),
        );
        unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS)?;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
        fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
    });
    match entered {
        Ok(()) => Place::Namespace,
        Err(_) => Place::Host,
    }
}

fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: changes the namespaces of this single-threaded process; no descriptor or memory is affected.
    if unsafe { libc::unshare(flags) } < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

pub(super) enum Fork {
    Child,
    /// A descriptor of the child, readable when it has ended.
    Parent(OwnedFd),
}

/// Forks; the child is process 1 of a new PID namespace.
pub(super) fn fork_into_pid_namespace() -> io::Result<Fork> {
    let mut pidfd: libc::c_int = -1;
    let flags = libc::CLONE_NEWPID | libc::CLONE_PIDFD | libc::SIGCHLD;
    // SAFETY: a fork of a single-threaded process: the child has a copy of all memory and may go on in Rust. The
    // kernel writes the descriptor into a local.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, &raw mut pidfd, 0, 0) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        // SAFETY: the kernel made this descriptor for us a moment ago.
        _ => Ok(Fork::Parent(unsafe { OwnedFd::from_raw_fd(pidfd) })),
    }
}

/// A /proc that shows the new PID namespace. Without it a payload sees numbers of strangers, which is unpleasant and,
/// without confinement, no danger; so a refusal is not an error.
pub(super) fn mount_proc() {
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
