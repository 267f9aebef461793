//! The bridge: a process beside the launcher that carries connections from inside to the proxy's socket on the host.
//!
//! Each connection begins with a [`Moment`] at which whoever connected was there, so that a proxy knows which call it serves.
//!
//! Inside there is an empty network with a loopback of its own, so that programs find the proxy where they look for
//! one: at a TCP address in their environment. Nothing else answers there.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;

use crate::Moment;

/// Where the proxy answers inside.
pub const PROXY_ADDRESS: &str = "127.0.0.1:3128";
const PORT: u16 = 3128;
const CHUNK: usize = 16 << 10;

/// Starts to listen, in the network namespace of the caller.
pub(super) fn listen() -> io::Result<TcpListener> {
    raise_loopback()?;
    TcpListener::bind((Ipv4Addr::LOCALHOST, PORT))
}

/// The launcher beside which a bridge carries this connection to the proxy's socket, if whoever connected inside is still
/// there; nothing when somebody else has connected, or when it cannot be seen.
pub fn launcher_behind(connection: impl AsFd) -> Option<u32> {
    let bridge = socket_peercred(&connection).ok()?.pid;
    let stat = std::fs::read_to_string(format!("/proc/{bridge}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let launcher = rest.split_whitespace().nth(1)?.parse().ok()?;
    // Looked at last. Nobody but the bridge holds the other end: while that is open the number is still its own. And it
    // closes its half when whoever connected has ended, which is then no matter of the launcher's present call.
    let mut state = [PollFd::new(&connection, PollFlags::RDHUP)];
    let gone = poll(&mut state, Some(&Timespec::default())).ok()?;
    (gone == 0).then_some(launcher)
}

fn raise_loopback() -> io::Result<()> {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    // SAFETY: an all-zero request is valid; the name fits and ends with NUL; the command takes a pointer to it.
    let raised = unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(c"lo".to_bytes_with_nul()) {
            *to = from.cast_signed();
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request)
    };
    if raised < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Carries connections until the process is ended. `proxy` is an open place of the socket, as its path is of a root
/// that this process has left.
pub(super) fn serve(inside: &TcpListener, proxy: &OwnedFd) {
    let path = format!("/proc/self/fd/{}", proxy.as_raw_fd());
    for stream in inside.incoming().flatten() {
        let Ok(outside) = UnixStream::connect(&path) else {
            continue;
        };
        let _ = thread::Builder::new()
            .stack_size(256 << 10)
            .spawn(move || carry(&stream, &outside));
    }
}

fn carry(inside: &TcpStream, outside: &UnixStream) {
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = introduce(inside, outside).and_then(|()| copy(inside, outside));
            let _ = outside.shutdown(Shutdown::Write);
        });
        let _ = copy(outside, inside);
        let _ = inside.shutdown(Shutdown::Write);
    });
}

/// Carries what comes first, and before it tells when whoever connected was certainly there. This may happen when the call
/// is over that it came from, and the next one is under way.
fn introduce(mut inside: &TcpStream, mut outside: &UnixStream) -> io::Result<()> {
    let mut first = [0; Moment::SIZE + CHUNK];
    let mut filled = Moment::SIZE;
    let mut was_there = Moment::default();
    while filled < first.len() {
        let count = inside.read(&mut first[filled..])?;
        if count == 0 {
            break;
        }
        filled += count;
        let now = Moment::now();
        // Who has ended has ended the connection as well; that is heard when nothing is left that came before.
        let mut state = [PollFd::new(&inside, PollFlags::IN | PollFlags::RDHUP)];
        if poll(&mut state, Some(&Timespec::default()))? == 0 {
            was_there = now;
            break;
        }
    }
    first[..Moment::SIZE].copy_from_slice(&was_there.to_bytes());
    outside.write_all(&first[..filled])
}

fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut buffer = [0; CHUNK];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            count => to.write_all(&buffer[..count])?,
        }
    }
}
