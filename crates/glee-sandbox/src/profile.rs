//! What a child may touch and use: the profile of a confinement, and the order to start one child in it.

use std::ffi::OsString;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

/// What a child may touch and how much of the machine it may use.
///
/// Two calls with equal profiles share warm launchers, so a caller should build the same profile for the same tool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Profile {
    pub confinement: Confinement,
    pub network: Network,
    /// Absolute, already resolved paths that may be read and executed.
    pub read: Vec<PathBuf>,
    /// Absolute, already resolved paths that may be read and changed.
    pub write: Vec<PathBuf>,
    /// Never writable, creatable or replaceable, whatever `write` says.
    pub protect: Vec<PathBuf>,
    /// Neither readable nor writable, whatever the grants say. Absolute, already resolved directories.
    pub hide: Vec<PathBuf>,
    pub limits: Limits,
}

/// What to do when the machine cannot hold a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Confinement {
    /// Refuse to start.
    Required,
    /// Hold what can be held, and say what could not.
    BestEffort,
    /// Confine nothing; the tree is still killed as a whole and limits still apply where they can.
    Off,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Network {
    /// No socket to anywhere.
    None,
    /// IPv4 and IPv6 to public addresses, and to nothing on this machine or its private networks unless granted.
    Outbound { granted: Vec<IpRange> },
    /// No direct egress. The unix socket at `socket` (on the host) is the only way out. Each connection to it begins with a
    /// [`Moment`](crate::Moment) at which whoever connected was there.
    Proxy { socket: PathBuf },
}

/// A block of addresses, such as 10.0.0.0/8, and optionally one port on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IpRange {
    pub address: IpAddr,
    pub prefix: u8,
    pub port: Option<u16>,
}

/// How much of the machine one call may use. Wall time is the caller's to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Processor time of the whole tree.
    pub cpu: Option<Duration>,
    /// Bytes of memory of the whole tree.
    pub memory: Option<u64>,
    /// Processes and threads of the whole tree.
    pub processes: Option<u32>,
    /// Open files of each process.
    pub open_files: Option<u32>,
    /// Bytes of the largest file a process may write.
    pub file_size: Option<u64>,
    /// Bytes of the private /tmp and /dev/shm, each.
    pub scratch_size: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            cpu: None,
            memory: Some(512 << 20),
            processes: Some(64),
            open_files: Some(1024),
            file_size: Some(1 << 30),
            scratch_size: 64 << 20,
        }
    }
}

/// A file as it was when somebody looked at it.
#[derive(Debug)]
pub struct Checked {
    /// Held, so that no other file can take over its number.
    _file: OwnedFd,
    pub(crate) was: Identity,
    pub(crate) is_kept: bool,
}

/// What makes a file this one, with these contents: nobody can write to it, or give it a name, and leave the time of
/// its last change as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) changed: (i64, i64),
}

impl Identity {
    pub(crate) fn of(file: impl AsFd) -> std::io::Result<Identity> {
        let found = rustix::fs::fstat(file)?;
        Ok(Identity {
            device: found.st_dev,
            inode: found.st_ino,
            changed: (found.st_ctime, found.st_ctime_nsec as i64),
        })
    }
}

impl Checked {
    /// The file as it is now, opened in any way.
    pub fn now(file: OwnedFd) -> std::io::Result<Checked> {
        let was = Identity::of(&file)?;
        Ok(Checked {
            _file: file,
            was,
            is_kept: false,
        })
    }

    /// Also if it is a script, whose interpreter opens it by name after the start: that is given a copy, whatever has
    /// become of the name. It costs every file that the child opens to read a detour of some microseconds, in which a
    /// signal can interrupt it; so this is for what somebody has approved.
    pub fn kept(self) -> Checked {
        Checked {
            is_kept: true,
            ..self
        }
    }
}

/// One child to start.
#[derive(Debug)]
pub struct Order {
    /// An absolute path, or a bare name that is looked up in the fixed base path only.
    pub program: PathBuf,
    /// The file that `program` was when the caller checked it. When `program` leads to another file by the time of the
    /// start, or that file was changed, nothing is run.
    pub checked: Option<Checked>,
    /// Without the name of the program itself.
    pub args: Vec<OsString>,
    /// The whole environment of the child.
    pub env: Vec<(OsString, OsString)>,
    pub cwd: PathBuf,
    /// Become 0, 1, 2, 3, … in the child; nothing else is inherited.
    pub fds: Vec<OwnedFd>,
}
