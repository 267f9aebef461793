//! Attempts to break out, for `glee sandbox probe`.
//!
//! Each is a line of shell that exits with 0 when it got through, and leaves something in the project if that is
//! what it tries. `$ROOT` is the project, `$LEFT` a name for what is left, `$WHO` the process id of glee, `$PORT` a
//! port on which glee listens. They are also run unheld, so none does harm.

/// One attempt, and what would make it legitimate.
pub struct Attempt {
    pub what: &'static str,
    pub script: &'static str,
    pub unless: Unless,
    /// The directory of the project in which it leaves something. A project below /tmp has a stand-in among the
    /// scratch of a tool, where everybody may do so.
    pub leaves_in: Option<&'static str>,
}

/// The grant that makes an attempt no break-out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unless {
    Never,
    ReadsRoot,
    WritesRoot,
}

const fn attempt(what: &'static str, script: &'static str, unless: Unless) -> Attempt {
    Attempt {
        what,
        script,
        unless,
        leaves_in: None,
    }
}

const fn leaving(attempt: Attempt, directory: &'static str) -> Attempt {
    Attempt {
        leaves_in: Some(directory),
        ..attempt
    }
}

pub const ATTEMPTS: &[Attempt] = &[
    attempt("read /etc/passwd", "cat /etc/passwd", Unless::Never),
    attempt("read /etc/shadow", "cat /etc/shadow", Unless::Never),
    attempt(
        "list the home directory",
        "ls -A ~root 2>/dev/null | grep -q . || ls -A /home | grep -q .",
        Unless::Never,
    ),
    attempt(
        "read the project",
        "cat \"$ROOT/.glee/config.yml\"",
        Unless::ReadsRoot,
    ),
    leaving(
        attempt(
            "write to the project",
            "mkdir \"$ROOT/$LEFT\"",
            Unless::WritesRoot,
        ),
        "",
    ),
    leaving(
        attempt(
            "add a tool",
            "mkdir \"$ROOT/.glee/tools/$LEFT\"",
            Unless::Never,
        ),
        ".glee/tools",
    ),
    attempt(
        "change the config",
        "test -e \"$ROOT/.glee/config.yml\" && : >> \"$ROOT/.glee/config.yml\"",
        Unless::Never,
    ),
    attempt(
        "write to the system",
        "touch /usr/glee-probe && rm /usr/glee-probe",
        Unless::Never,
    ),
    attempt(
        "write to /etc",
        "touch /etc/glee-probe && rm /etc/glee-probe",
        Unless::Never,
    ),
    attempt(
        "write to the host's /dev/shm",
        "test -e /dev/shm/glee-probe-$WHO",
        Unless::Never,
    ),
    attempt("signal glee", "kill -0 $WHO", Unless::Never),
    attempt(
        "read glee's environment",
        "grep -q PATH /proc/$WHO/environ",
        Unless::Never,
    ),
    attempt(
        "see other processes",
        "test \"$(ls -d /proc/[0-9]* | wc -l)\" -gt 8",
        Unless::Never,
    ),
    attempt(
        "connect to this machine",
        "bash -c 'exec 3<>/dev/tcp/127.0.0.1/'$PORT",
        Unless::Never,
    ),
    attempt(
        "mount something",
        "d=$(mktemp -d) && mount -t tmpfs none \"$d\" && umount \"$d\" && rmdir \"$d\"",
        Unless::Never,
    ),
    attempt("make a user namespace", "unshare -Ur true", Unless::Never),
    attempt(
        "make a device",
        "f=$(mktemp -u) && mknod \"$f\" c 1 3 && rm \"$f\"",
        Unless::Never,
    ),
    attempt(
        "set the core pattern",
        "p=/proc/sys/kernel/core_pattern; v=$(cat $p) && printf %s \"$v\" > $p",
        Unless::Never,
    ),
];
