//! Ends a whole tree of processes.

use std::time::Duration;
use std::{fs, io, ptr};

/// How the warden reaches every process its payload has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tree {
    /// The warden is process 1 of a PID namespace: everybody else in it belongs to the payload.
    Namespace,
    /// The warden adopts orphans: all descendants become its children when their parents die.
    Adopted,
    /// The same, and Landlock keeps the warden's signals among its descendants.
    Scoped,
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
            Tree::Namespace | Tree::Scoped => {
                // This reaches all at once: the kernel holds the lock that forks need, so that nobody slips through by
                // forking.
                // SAFETY: sends a signal; -1 is confined to the PID namespace this process is the first of, or to the
                // Landlock domain that was seen to hold signals back.
                unsafe { libc::kill(-1, libc::SIGKILL) };
            }
            Tree::Adopted => {
                for (pid, _) in self.members() {
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

/// What a tree uses at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) cpu: Duration,
    /// Bytes, with memory that several processes share counted for each.
    pub(super) resident: u64,
    /// Processes and threads.
    pub(super) processes: u64,
}

impl Tree {
    pub(super) fn usage(self) -> Usage {
        let (ticks, page) = (constant(libc::_SC_CLK_TCK), constant(libc::_SC_PAGESIZE));
        let mut total = Usage::default();
        let mut spent = 0;
        for (_, stat) in self.members() {
            spent += stat.ticks;
            total.resident += stat.pages * page;
            total.processes += stat.threads;
        }
        total.cpu = Duration::from_secs_f64(spent as f64 / ticks as f64);
        total
    }

    /// Bytes, with shared memory counted once. Exact and slow.
    pub(super) fn proportional_memory(self) -> u64 {
        let pss = |pid| {
            let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
            let line = rollup.lines().find_map(|it| it.strip_prefix("Pss:"))?;
            line.trim().trim_end_matches(" kB").parse::<u64>().ok()
        };
        self.members()
            .iter()
            .filter_map(|(pid, _)| pss(pid))
            .sum::<u64>()
            * 1024
    }

    fn members(self) -> Vec<(libc::pid_t, Stat)> {
        let own = std::process::id().cast_signed();
        let all = processes();
        match self {
            Tree::Namespace => all.into_iter().filter(|it| it.0 != own).collect(),
            Tree::Adopted | Tree::Scoped => {
                let mut found = vec![own];
                let mut next = 0;
                while let Some(ancestor) = found.get(next).copied() {
                    found.extend(
                        all.iter()
                            .filter(|it| it.1.parent == ancestor)
                            .map(|it| it.0),
                    );
                    next += 1;
                }
                all.into_iter()
                    .filter(|it| it.0 != own && found.contains(&it.0))
                    .collect()
            }
        }
    }
}

/// A constant of the system, from the C library, which was given it at the start. rustix reads `/proc/self/auxv` for it on
/// kernels before 6.4 and panics when it may not, as in a process that hides its memory.
fn constant(name: libc::c_int) -> u64 {
    // SAFETY: takes a number and touches no memory of ours.
    let value = unsafe { libc::sysconf(name) };
    u64::try_from(value).expect("every system has it")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    parent: libc::pid_t,
    /// Processor time of the process and of the children it has waited for.
    ticks: u64,
    threads: u64,
    pages: u64,
}

fn processes() -> Vec<(libc::pid_t, Stat)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            Some((pid, stat(&fs::read(entry.path().join("stat")).ok()?)?))
        })
        .collect()
}

/// The name in parentheses may contain anything, so the fields are counted from its last parenthesis.
fn stat(line: &[u8]) -> Option<Stat> {
    let after = line.iter().rposition(|it| *it == b')')?;
    let text = std::str::from_utf8(&line[after + 1..]).ok()?;
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    // The third field of the manual page is the first here.
    let number = |index: usize| fields.get(index - 3)?.parse::<u64>().ok();
    let ticks = number(14)? + number(15)? + number(16)? + number(17)?;
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        ticks,
        threads: number(20)?,
        pages: number(24)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_forge_fields() {
        let line = b"7 (a) S 1 2) S 5 7 7 0 -1 0 0 0 0 0 1 2 3 4 20 0 1 0 99 1000 42 0\n";
        assert_eq!(
            stat(line),
            Some(Stat {
                parent: 5,
                ticks: 10,
                threads: 1,
                pages: 42
            })
        );
        assert_eq!(stat(b"7 (a"), None);
    }
}
