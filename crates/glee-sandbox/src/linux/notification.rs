//! Calls that a filter hands to somebody else, as the kernel tells them and is answered.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{c_int, c_ulong};

/// One call that waits for an answer.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Notification {
    pub(super) id: u64,
    /// Who calls; may be a thread's number.
    pub(super) pid: u32,
    flags: u32,
    pub(super) call: c_int,
    architecture: u32,
    instruction: u64,
    pub(super) args: [u64; 6],
}

#[repr(C)]
struct Answer {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// A descriptor for whoever calls.
#[repr(C)]
struct Given {
    id: u64,
    flags: u32,
    ours: u32,
    theirs: u32,
    theirs_flags: u32,
}

const RECEIVE: c_ulong = 0xc050_2100;
const SEND: c_ulong = 0xc018_2101;
const STILL_VALID: c_ulong = 0x4008_2102;
const GIVE: c_ulong = 0x4018_2103;

/// The call is made as it is.
const CONTINUE: u32 = 1;
/// What is given is also the answer.
const ANSWER: u32 = 2;

/// The next one of a listener that has one; nothing when whoever called is gone by now.
pub(super) fn receive(listener: BorrowedFd<'_>) -> io::Result<Option<Notification>> {
    // SAFETY: an all-zero notification is valid, and required by the kernel, which fills it.
    let mut notification: Notification = unsafe { std::mem::zeroed() };
    // SAFETY: the command takes a pointer to a notification, which is a local.
    let received = unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE, &raw mut notification) };
    if received == 0 {
        return Ok(Some(notification));
    }
    let err = io::Error::last_os_error();
    match err.raw_os_error() {
        // The caller was killed before we came, or a signal came to us.
        Some(libc::ENOENT | libc::EINTR) => Ok(None),
        _ => Err(err),
    }
}

/// Whether the caller still waits. Only then is what was found by its number about the caller.
pub(super) fn still_waits(listener: BorrowedFd<'_>, it: &Notification) -> bool {
    // SAFETY: the command takes a pointer to the id, which outlives the call.
    unsafe { libc::ioctl(listener.as_raw_fd(), STILL_VALID, &raw const it.id) == 0 }
}

pub(super) fn answer(listener: BorrowedFd<'_>, to: &Notification, result: Result<i64, i32>) {
    let (value, error) = match result {
        Ok(value) => (value, 0),
        Err(errno) => (0, -errno),
    };
    send(
        listener,
        &Answer {
            id: to.id,
            value,
            error,
            flags: 0,
        },
    );
}

/// Has the call made as it is. What was seen of its arguments may have changed since.
pub(super) fn let_through(listener: BorrowedFd<'_>, to: &Notification) {
    send(
        listener,
        &Answer {
            id: to.id,
            value: 0,
            error: 0,
            flags: CONTINUE,
        },
    );
}

fn send(listener: BorrowedFd<'_>, answer: &Answer) {
    // A caller that is gone needs no answer.
    // SAFETY: the command takes a pointer to an answer, which outlives the call.
    unsafe { libc::ioctl(listener.as_raw_fd(), SEND, std::ptr::from_ref(answer)) };
}

/// Gives the caller a descriptor, and its number as the answer.
pub(super) fn give(
    listener: BorrowedFd<'_>,
    to: &Notification,
    descriptor: BorrowedFd<'_>,
    closes_on_exec: bool,
) {
    let mut given = Given {
        id: to.id,
        flags: ANSWER,
        ours: descriptor.as_raw_fd().cast_unsigned(),
        theirs: 0,
        theirs_flags: match closes_on_exec {
            true => libc::O_CLOEXEC.cast_unsigned(),
            false => 0,
        },
    };
    // SAFETY: the command takes a pointer to what is given, which is a local.
    if unsafe { libc::ioctl(listener.as_raw_fd(), GIVE, &raw const given) } >= 0 {
        return;
    }
    // Kernels before 5.14 want to be told the answer.
    given.flags = 0;
    // SAFETY: as above.
    let number = unsafe { libc::ioctl(listener.as_raw_fd(), GIVE, &raw const given) };
    let result = match number {
        0.. => Ok(number.into()),
        _ => Err(io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO)),
    };
    answer(listener, to, result);
}
