//! The gatekeeper: a process beside the launcher that makes connections for payloads with outbound network.
//!
//! The filter hands it every call that can name a destination. It copies the destination, judges its copy, and makes
//! the call itself on its own descriptor of the same socket, with its own copy. A payload that changes its memory or
//! its descriptors meanwhile changes nothing about the call that was judged; so no call is ever let through as it is.
//! What it refuses it tells glee before it answers.

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, thread};

use libc::{c_int, c_long};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::gate::Gate;
use super::notification::{Notification, answer, receive, still_waits};
use super::telling::Teller;
use crate::{Moment, Refusal, Transport};

/// Connections that may wait at the same time. They are threads of the gatekeeper and count as processes.
pub(super) const THREADS: usize = 32;

/// More than any datagram; a longer stream message is sent in part, as the kernel may do, too.
const MOST: usize = 256 << 10;
const MOST_PARTS: usize = 1024;

/// Answers until nobody is left who could call.
pub(super) fn serve(listener: OwnedFd, gate: Gate, teller: Option<Teller>) {
    let (listener, desk) = (Arc::new(listener), Arc::new(Desk { gate, teller }));
    let busy = Arc::new(AtomicUsize::new(0));
    while let Ok(notification) = next(listener.as_fd()) {
        let Some((notification, asked)) = notification else {
            continue;
        };
        let (listener_, desk_, busy_) = (listener.clone(), desk.clone(), busy.clone());
        let work = move || {
            let judge = Judge {
                desk: &desk_,
                asked,
            };
            answer(
                listener_.as_fd(),
                &notification,
                judge_and_call(listener_.as_fd(), &notification, &judge),
            );
            busy_.fetch_sub(1, Ordering::Relaxed);
        };
        // A connection may take its time, and others must not wait for it; but a crowd has to.
        if busy.fetch_add(1, Ordering::Relaxed) < THREADS {
            if thread::Builder::new()
                .stack_size(1 << 20)
                .spawn(work)
                .is_err()
            {
                busy.fetch_sub(1, Ordering::Relaxed);
                answer(listener.as_fd(), &notification, Err(libc::EAGAIN));
            }
        } else {
            work();
        }
    }
}

/// The next call, and a moment at which its caller had not ended.
fn next(listener: BorrowedFd<'_>) -> io::Result<Option<(Notification, Moment)>> {
    let mut ready = [rustix::event::PollFd::from_borrowed_fd(
        listener,
        rustix::event::PollFlags::IN,
    )];
    match rustix::event::poll(&mut ready, None) {
        Err(rustix::io::Errno::INTR) => return Ok(None),
        other => other?,
    };
    if !ready[0].revents().contains(rustix::event::PollFlags::IN) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    // Before it is received: whoever has ended by then is not told of. Afterwards the caller may end at any time, and
    // what it asked for would be a matter of the next one.
    let asked = Moment::now();
    Ok(receive(listener)?.map(|it| (it, asked)))
}

/// What destinations are judged by, and whom refusals are told.
struct Desk {
    gate: Gate,
    teller: Option<Teller>,
}

/// Judges the destinations of one call.
struct Judge<'a> {
    desk: &'a Desk,
    asked: Moment,
}

impl Judge<'_> {
    fn permit(&self, socket: &OwnedFd, to: &[u8]) -> Result<(), i32> {
        let to = address(to);
        if to.is_some_and(|it| self.desk.gate.allows(it)) {
            return Ok(());
        }
        if let (Some(to), Some(teller)) = (to, &self.desk.teller) {
            self.tell(teller, socket, to);
        }
        Err(libc::EACCES)
    }

    fn tell(&self, teller: &Teller, socket: &OwnedFd, to: SocketAddr) {
        // Nothing listens there. Whoever resolves a name connects to it, to learn which address is near.
        if to.port() == 0 {
            return;
        }
        let transport = match rustix::net::sockopt::socket_type(socket) {
            Ok(rustix::net::SocketType::STREAM) => Transport::Stream,
            _ => Transport::Datagram,
        };
        let to = SocketAddr::new(to.ip().to_canonical(), to.port());
        teller.tell(Refusal { to, transport }, self.asked);
    }
}

/// The process that called, held so that its number cannot become another's.
struct Caller {
    pid: libc::pid_t,
    process: OwnedFd,
}

impl Caller {
    fn of(listener: BorrowedFd<'_>, notification: &Notification) -> Result<Caller, i32> {
        // The number may be a thread's; descriptors are asked for by process.
        let status = fs::read_to_string(format!("/proc/{}/status", notification.pid))
            .map_err(|_| libc::EPERM)?;
        let leader = status
            .lines()
            .find_map(|it| it.strip_prefix("Tgid:"))
            .and_then(|it| it.trim().parse().ok());
        let leader = leader.and_then(Pid::from_raw).ok_or(libc::EPERM)?;
        let process = pidfd_open(leader, PidfdFlags::empty()).map_err(|_| libc::EPERM)?;
        // Only now is it certain that the numbers above were the caller's.
        if !still_waits(listener, notification) {
            return Err(libc::EPERM);
        }
        Ok(Caller {
            pid: leader.as_raw_nonzero().get(),
            process,
        })
    }

    fn socket(&self, fd: u64) -> Result<OwnedFd, i32> {
        let fd = c_int::try_from(fd & 0xffff_ffff).map_err(|_| libc::EBADF)?;
        pidfd_getfd(&self.process, fd, PidfdGetfdFlags::empty()).map_err(|err| match err {
            rustix::io::Errno::BADF => libc::EBADF,
            _ => libc::EPERM,
        })
    }

    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), i32> {
        if into.is_empty() {
            return Ok(());
        }
        let local = libc::iovec {
            iov_base: into.as_mut_ptr().cast(),
            iov_len: into.len(),
        };
        let remote = libc::iovec {
            iov_base: address as *mut libc::c_void,
            iov_len: into.len(),
        };
        // SAFETY: writes no more than `into` holds; the kernel checks the remote address.
        let read = unsafe { libc::process_vm_readv(self.pid, &local, 1, &remote, 1, 0) };
        if usize::try_from(read) == Ok(into.len()) {
            Ok(())
        } else {
            Err(libc::EFAULT)
        }
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), i32> {
        let local = libc::iovec {
            iov_base: from.as_ptr().cast_mut().cast(),
            iov_len: from.len(),
        };
        let remote = libc::iovec {
            iov_base: address as *mut libc::c_void,
            iov_len: from.len(),
        };
        // SAFETY: reads no more than `from` holds; the kernel checks the remote address.
        let written = unsafe { libc::process_vm_writev(self.pid, &local, 1, &remote, 1, 0) };
        if usize::try_from(written) == Ok(from.len()) {
            Ok(())
        } else {
            Err(libc::EFAULT)
        }
    }

    /// A plain structure of numbers.
    fn read_value<T: Numbers>(&self, address: u64) -> Result<T, i32> {
        let mut value = MaybeUninit::<T>::zeroed();
        // SAFETY: the slice covers the value exactly and every byte of it was zeroed.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(value.as_mut_ptr().cast::<u8>(), size_of::<T>())
        };
        self.read(address, bytes)?;
        // SAFETY: `Numbers` are valid for any bytes.
        Ok(unsafe { value.assume_init() })
    }
}

/// Structures that are valid whatever bytes they hold.
///
/// # Safety
/// Every field must be an integer or a raw pointer.
unsafe trait Numbers: Copy {}

/// A message header in the memory of a caller. Its pointers mean nothing here, so they are numbers.
#[repr(C)]
#[derive(Clone, Copy)]
struct Header {
    name: u64,
    name_length: u32,
    _padding: u32,
    parts: u64,
    part_count: u64,
    control: u64,
    control_length: u64,
    flags: i32,
    _end: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Part {
    address: u64,
    length: u64,
}

// SAFETY: both are made of integers.
unsafe impl Numbers for Header {}
// SAFETY: as above.
unsafe impl Numbers for Part {}

fn judge_and_call(
    listener: BorrowedFd<'_>,
    it: &Notification,
    judge: &Judge<'_>,
) -> Result<i64, i32> {
    let caller = Caller::of(listener, it)?;
    let socket = caller.socket(it.args[0])?;
    match c_long::from(it.call) {
        libc::SYS_connect => {
            let to = destination(&caller, it.args[1], it.args[2])?;
            if !takes_back(&to) {
                judge.permit(&socket, &to)?;
            }
            // SAFETY: the address is a local of the length that is told.
            let done =
                unsafe { libc::connect(socket.as_raw_fd(), to.as_ptr().cast(), length(&to)) };
            result(done.into())
        }
        libc::SYS_sendto => {
            let to = destination(&caller, it.args[4], it.args[5])?;
            let parts = [Part {
                address: it.args[1],
                length: it.args[2],
            }];
            send(&caller, &socket, judge, &to, &parts, it.args[3])
        }
        libc::SYS_sendmsg => message(&caller, &socket, judge, it.args[1], it.args[2]),
        libc::SYS_sendmmsg => {
            // A header, and behind it the number of bytes sent, padded.
            const STRIDE: u64 = size_of::<Header>() as u64 + 8;
            let wanted = it.args[2].min(MOST_PARTS as u64);
            let mut sent = 0;
            while sent < wanted {
                let at = it.args[1] + sent * STRIDE;
                match message(&caller, &socket, judge, at, it.args[3]) {
                    Ok(bytes) => {
                        let bytes = u32::try_from(bytes).unwrap_or(0);
                        caller.write(at + size_of::<Header>() as u64, &bytes.to_ne_bytes())?;
                        sent += 1;
                    }
                    Err(errno) if sent == 0 => return Err(errno),
                    Err(_) => break,
                }
            }
            Ok(sent.cast_signed())
        }
        _ => Err(libc::ENOSYS),
    }
}

fn message(
    caller: &Caller,
    socket: &OwnedFd,
    judge: &Judge<'_>,
    at: u64,
    flags: u64,
) -> Result<i64, i32> {
    let header: Header = caller.read_value(at)?;
    // Descriptors and packet options cannot be taken over from another process.
    if header.control != 0 && header.control_length != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    if header.part_count > MOST_PARTS as u64 {
        return Err(libc::EMSGSIZE);
    }
    let size = size_of::<Part>() as u64;
    let parts: Result<Vec<Part>, i32> = (0..header.part_count)
        .map(|index| caller.read_value(header.parts + index * size))
        .collect();
    let to = destination(caller, header.name, header.name_length.into())?;
    send(caller, socket, judge, &to, &parts?, flags)
}

fn send(
    caller: &Caller,
    socket: &OwnedFd,
    judge: &Judge<'_>,
    to: &[u8],
    parts: &[Part],
    flags: u64,
) -> Result<i64, i32> {
    if !to.is_empty() {
        judge.permit(socket, to)?;
    }
    let flags = c_int::try_from(flags & 0x7fff_ffff).map_err(|_| libc::EINVAL)?;
    if flags & libc::MSG_FASTOPEN != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    let mut data = Vec::new();
    for part in parts {
        let length = usize::try_from(part.length)
            .unwrap_or(MOST)
            .min(MOST - data.len());
        let old = data.len();
        data.resize(old + length, 0);
        caller.read(part.address, &mut data[old..])?;
    }
    let name = if to.is_empty() {
        std::ptr::null()
    } else {
        to.as_ptr()
    };
    // SAFETY: data and name are locals of the lengths that are told.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            data.as_ptr().cast(),
            data.len(),
            flags | libc::MSG_NOSIGNAL,
            name.cast(),
            length(to),
        )
    };
    result(sent as i64)
}

fn result(value: i64) -> Result<i64, i32> {
    if value < 0 {
        Err(io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO))
    } else {
        Ok(value)
    }
}

fn length(to: &[u8]) -> libc::socklen_t {
    libc::socklen_t::try_from(to.len()).unwrap_or(0)
}

/// Our copy of the address.
fn destination(caller: &Caller, address: u64, length: u64) -> Result<Vec<u8>, i32> {
    if address == 0 || length == 0 {
        return Ok(Vec::new());
    }
    if length > size_of::<libc::sockaddr_storage>() as u64 {
        return Err(libc::EINVAL);
    }
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| libc::EINVAL)?];
    caller.read(address, &mut bytes)?;
    Ok(bytes)
}

/// Whether a connect only takes an earlier destination back. For a datagram the same family means IPv4.
fn takes_back(to: &[u8]) -> bool {
    to.first_chunk::<2>()
        .is_some_and(|it| c_int::from(u16::from_ne_bytes(*it)) == libc::AF_UNSPEC)
}

/// Nothing when it is no address of the internet.
fn address(to: &[u8]) -> Option<SocketAddr> {
    let (family, rest) = to.split_first_chunk::<2>()?;
    match c_int::from(u16::from_ne_bytes(*family)) {
        libc::AF_INET => {
            let [high, low, a, b, c, d] = *rest.first_chunk::<6>()?;
            Some(SocketAddr::new(
                IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
                u16::from_be_bytes([high, low]),
            ))
        }
        libc::AF_INET6 => {
            let it = rest.first_chunk::<22>()?;
            let port = u16::from_be_bytes([it[0], it[1]]);
            let address: [u8; 16] = it[6..22].try_into().ok()?;
            Some(SocketAddr::new(IpAddr::V6(Ipv6Addr::from(address)), port))
        }
        _ => None,
    }
}

/// Takes the listener out of the warden, which has made it and can send it no more.
pub(super) fn take_listener(warden: BorrowedFd<'_>, number: c_int) -> io::Result<OwnedFd> {
    Ok(pidfd_getfd(warden, number, PidfdGetfdFlags::empty())?)
}
