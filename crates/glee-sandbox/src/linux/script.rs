//! A script runs as it was checked.
//!
//! The kernel starts a script's interpreter, and that opens the script by its name. By then the name may lead
//! elsewhere, or the file may say something else. So the warden makes a copy while the file is what was checked,
//! starts the interpreter itself, and a filter hands whoever of the payload opens a file to read to the warden. The
//! interpreter is given the copy. Who opens the name later is given the file as long as it is what was checked, for it
//! may be locked or compared, and the copy from then on. All other files are opened as ever.

use std::ffi::{CStr, CString, OsStr, c_int};
use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::{fs, ptr};

use libc::c_long;
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};

use super::notification::{self, Notification};
use super::seccomp;
use crate::profile::Identity;

/// What the kernel looks at for the name of an interpreter, besides a zero at the end.
const HEAD: usize = 255;

/// A larger one is opened by name after all: it is an archive that unpacks itself, and copying it takes long.
const LARGEST: u64 = 16 << 20;

pub(super) struct Script {
    /// What it is opened by: its name, and what that leads to.
    names: Vec<CString>,
    copy: OwnedFd,
    checked: Identity,
    pub(super) interpreter: CString,
    pub(super) argument: Option<CString>,
    ours: OwnedFd,
    /// The payload's way to hand over the listener.
    theirs: OwnedFd,
}

impl Script {
    /// Nothing for what is no script. The payload's descriptors will be below `from`.
    pub(super) fn read(
        path: &CStr,
        opened: BorrowedFd<'_>,
        checked: Identity,
        from: RawFd,
    ) -> io::Result<Option<Script>> {
        let Ok(file) = reopen(opened) else {
            // A program need not be readable, but a script must be, for its interpreter.
            return Ok(None);
        };
        let mut head = [0; HEAD];
        let length = file.read_at(&mut head, 0).unwrap_or(0);
        let Some((interpreter, argument)) = first_line(&head[..length]) else {
            return Ok(None);
        };
        let size = file.metadata()?.len();
        if size > LARGEST {
            return Ok(None);
        }
        let copy = copy(&file, size)?;
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        let real = fs::canonicalize(OsStr::from_bytes(path.to_bytes())).ok();
        let real = real.and_then(|it| CString::new(it.into_os_string().as_bytes()).ok());
        let other = real.filter(|it| it.as_c_str() != path);
        Ok(Some(Script {
            names: [path.to_owned()].into_iter().chain(other).collect(),
            copy,
            checked,
            interpreter,
            argument,
            ours,
            theirs: rustix::io::fcntl_dupfd_cloexec(&theirs, from)?,
        }))
    }

    pub(super) fn line(&self) -> RawFd {
        self.theirs.as_raw_fd()
    }

    /// Takes what the payload has handed over before it became the interpreter; nothing where the kernel does not take
    /// another filter that asks.
    pub(super) fn listened_to(self, interpreter: libc::pid_t) -> Option<Asking> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let mut parts = [io::IoSliceMut::new(&mut byte)];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        rustix::net::recvmsg(&self.ours, &mut parts, &mut ancillary, flags).ok()?;
        let listener = ancillary.drain().find_map(|it| match it {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        Some(Asking {
            script: self,
            listener: listener?,
            interpreter: u32::try_from(interpreter).ok(),
        })
    }

    /// The file, as long as its name leads to what was checked.
    fn unchanged(&self) -> Option<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = rustix::fs::open(self.names.first()?, flags, Mode::empty()).ok()?;
        let is_same = Identity::of(&file).ok() == Some(self.checked);
        is_same.then(|| file.into())
    }
}

/// A script whose payload asks for it.
pub(super) struct Asking {
    script: Script,
    listener: OwnedFd,
    /// Who has not opened it yet.
    interpreter: Option<u32>,
}

impl Asking {
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Answers one who opens a file to read.
    pub(super) fn answer(&mut self) -> io::Result<()> {
        let listener = self.listener.as_fd();
        let Some(asked) = notification::receive(listener)? else {
            return Ok(());
        };
        if !self.is_meant(&asked) || !notification::still_waits(listener, &asked) {
            notification::let_through(listener, &asked);
            return Ok(());
        }
        let file = match self.interpreter == Some(asked.pid) {
            true => {
                self.interpreter = None;
                None
            }
            false => self.script.unchanged(),
        };
        // Each who opens the copy reads from the beginning.
        match file.map_or_else(|| reopen(self.script.copy.as_fd()), Ok) {
            Ok(file) => {
                let closes = opening(&asked).1 & u64::from(libc::O_CLOEXEC.cast_unsigned()) != 0;
                notification::give(listener, &asked, file.as_fd(), closes);
            }
            Err(err) => {
                let errno = err.raw_os_error().unwrap_or(libc::EIO);
                notification::answer(listener, &asked, Err(errno));
            }
        }
        Ok(())
    }

    fn is_meant(&self, asked: &Notification) -> bool {
        let Ok(memory) = File::open(format!("/proc/{}/mem", asked.pid)) else {
            return false;
        };
        let names = &self.script.names;
        let longest = names.iter().map(|it| it.count_bytes() + 1).max();
        let mut said = vec![0; longest.unwrap_or(0)];
        // Less than that may be left of a page.
        let length = memory.read_at(&mut said, opening(asked).0).unwrap_or(0);
        names
            .iter()
            .any(|it| said[..length].starts_with(it.to_bytes_with_nul()))
    }
}

/// The same file, to read from its beginning.
fn reopen(opened: BorrowedFd<'_>) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let path = format!("/proc/self/fd/{}", opened.as_raw_fd());
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Where the name stands, and the flags.
fn opening(asked: &Notification) -> (u64, u64) {
    match c_long::from(asked.call) {
        libc::SYS_openat => (asked.args[1], asked.args[2]),
        _ => (asked.args[0], asked.args[1]),
    }
}

/// Interpreter and argument, as the kernel reads them.
fn first_line(head: &[u8]) -> Option<(CString, Option<CString>)> {
    let line = head.strip_prefix(b"#!")?;
    let is_end = |it: &u8| matches!(it, b'\n' | 0);
    let is_space = |it: &u8| matches!(it, b' ' | b'\t');
    let end = line.iter().position(is_end);
    let line = &line[..end.unwrap_or(line.len())];
    let line = &line[line.iter().position(|it| !is_space(it))?..];
    let gap = line.iter().position(is_space);
    if gap.is_none() && end.is_none() && head.len() == HEAD {
        // The name goes on where nobody looks.
        return None;
    }
    let (interpreter, rest) = line.split_at(gap.unwrap_or(line.len()));
    let start = rest
        .iter()
        .position(|it| !is_space(it))
        .unwrap_or(rest.len());
    let last = rest
        .iter()
        .rposition(|it| !is_space(it))
        .map_or(start, |it| it + 1);
    let argument = Some(&rest[start..last]).filter(|it| !it.is_empty());
    Some((
        CString::new(interpreter).ok()?,
        argument.map(CString::new).transpose().ok()?,
    ))
}

/// A copy in memory that nobody can change.
fn copy(file: &File, size: u64) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut copy = File::from(rustix::fs::memfd_create("script", flags)?);
    io::copy(&mut file.take(size), &mut copy)?;
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&copy, seals)?;
    Ok(copy.into())
}

/// For the payload before it becomes the interpreter: has all who open a file to read wait for the warden. Where the
/// kernel does not take such a filter they do not: it takes no second one that asks, so not where destinations are asked
/// about.
///
/// # Safety
/// Only for the child of a clone that does not share its descriptor table. It allocates nothing.
pub(super) unsafe fn hand_over(line: RawFd) {
    let filter = seccomp::READS;
    let program = libc::sock_fprog {
        len: seccomp::READS.len() as u16,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: the program points to a filter that lives until the call has copied it; the message points to locals of
    // the lengths that are told, and its control part has room for one header and one descriptor.
    unsafe {
        let attach = |flags: libc::c_ulong| {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                &raw const program,
            )
        };
        let asks = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
        // A signal must not interrupt what the warden is already about.
        let mut listener = attach(asks | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
        if listener < 0 {
            listener = attach(asks);
        }
        if listener < 0 {
            return;
        }
        let listener = listener as c_int;
        let mut byte = 0_u8;
        let mut part = libc::iovec {
            iov_base: (&raw mut byte).cast(),
            iov_len: 1,
        };
        // Aligned as a header must be.
        let mut control = [0_u64; 8];
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(size_of::<c_int>() as u32) as _;
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as u32) as _;
        ptr::write_unaligned(libc::CMSG_DATA(header).cast(), listener);
        libc::sendmsg(line, &message, libc::MSG_NOSIGNAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_line_is_read_as_the_kernel_does() {
        let long = format!("#!/{}", "x".repeat(300));
        let wordy = format!("#!/bin/sh {}", "x".repeat(300));
        for (head, read) in [
            ("#!/bin/sh\necho", Some(("/bin/sh", None))),
            ("#!/bin/sh", Some(("/bin/sh", None))),
            ("#! \t/bin/sh -e -u \t\n", Some(("/bin/sh", Some("-e -u")))),
            ("#!/bin/sh\0 x\n", Some(("/bin/sh", None))),
            (&wordy[..HEAD], Some(("/bin/sh", Some(&wordy[10..HEAD])))),
            (&long[..HEAD], None),
            ("#!\n", None),
            ("#!  ", None),
            ("#", None),
            ("", None),
            ("\x7fELF", None),
        ] {
            let told = |it: Option<CString>| it.map(|it| it.into_string().unwrap());
            let found = first_line(head.as_bytes()).map(|(interpreter, argument)| {
                (interpreter.into_string().unwrap(), told(argument))
            });
            let read = read.map(|(it, argument)| (it.to_owned(), argument.map(str::to_owned)));
            assert_eq!(found, read, "{head:?}");
        }
    }
}
