//! Ends a whole tree of processes.

use std::{fs, io, ptr};

/// How the warden reaches every process its payload has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tree {
    /// The warden is process 1 of a PID namespace: everybody else in it belongs to the payload.
    Namespace,
    /// The warden adopts orphans: all descendants become its children when their parents die.
    Adopted,
}

/// One child that ended.
pub(super) struct Reaped {
    pub(super) pid: libc::pid_t,
    pub(super) status: i32,
    pub(super) usage: libc::rusage,
}

impl Tree {
    /// Sends SIGKILL to everybody that is there now.
    pub(super) fn kill(self) {
        match self {
            Tree::Namespace => {
                // In the namespace of process 1 this reaches all others in it at once: the kernel holds the lock that
                // forks need, so that nobody slips through by forking.
                // SAFETY: sends a signal; -1 is confined to the PID namespace this process is the first of.
                unsafe { libc::kill(-1, libc::SIGKILL) };
            }
            Tree::Adopted => {
                for pid in descendants() {
                    // SAFETY: sends a signal to a process that was just seen as our descendant. Its number cannot have
                    // been given to another, as only a parent's wait frees it, and a reused one would be a stranger's
                    // only if its parent waited since.
                    unsafe { libc::kill(pid, libc::SIGKILL) };
                }
            }
        }
    }

    /// Kills and reaps until nobody is left.
    pub(super) fn end(self) {
        loop {
            self.kill();
            match reap(Wait::Block) {
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return,
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Block,
    Poll,
}

/// Reaps one child; nothing when none has ended, an error when there is none.
pub(super) fn reap(wait: Wait) -> io::Result<Option<Reaped>> {
    let flags = libc::__WALL | if wait == Wait::Poll { libc::WNOHANG } else { 0 };
    let mut status = 0;
    loop {
        // SAFETY: an all-zero rusage is a valid one, and both out pointers are to locals.
        let (pid, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (
                libc::wait4(-1, ptr::from_mut(&mut status), flags, &mut usage),
                usage,
            )
        };
        match pid {
            0 => return Ok(None),
            -1 => {
                let err = io::Error::last_os_error();
                if err.kind() != io::ErrorKind::Interrupted {
                    return Err(err);
                }
            }
            pid => return Ok(Some(Reaped { pid, status, usage })),
        }
    }
}

/// All descendants of this process, found by the parent of every process.
fn descendants() -> Vec<libc::pid_t> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|it| it.parse::<libc::pid_t>().ok())
        else {
            continue;
        };
        let Ok(stat) = fs::read(entry.path().join("stat")) else {
            continue;
        };
        if let Some(parent) = parent_in_stat(&stat) {
            parents.push((pid, parent));
        }
    }
    let mut found = vec![std::process::id().cast_signed()];
    let mut next = 0;
    while let Some(ancestor) = found.get(next).copied() {
        found.extend(parents.iter().filter(|it| it.1 == ancestor).map(|it| it.0));
        next += 1;
    }
    found.split_off(1)
}

/// The name in parentheses may contain anything, so the fields are counted from its last parenthesis.
fn parent_in_stat(stat: &[u8]) -> Option<libc::pid_t> {
    let after = stat.iter().rposition(|it| *it == b')')?;
    let text = std::str::from_utf8(&stat[after + 1..]).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}
