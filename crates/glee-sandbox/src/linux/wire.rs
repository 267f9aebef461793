//! The words between glee and a launcher: length-framed messages on a stream socket, descriptors beside the first byte.
//!
//! A frame is a length, a kind, a number of descriptors, and a body. Strings in a body end with NUL, so that the
//! receiver can point argv into the buffer as it arrived.

use std::collections::VecDeque;
use std::ffi::{CStr, OsStr};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use rustix::net::sockopt::Timeout;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

/// The kernel passes no more descriptors than this with one message.
pub(super) const MAX_FDS: usize = 250;
/// Far above what the kernel accepts as argv and environment together (6 MB at most).
const MAX_BODY: usize = 16 << 20;
const HEADER: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    // To the launcher.
    Setup = 1,
    Order,
    Kill,
    // From the launcher.
    Ready,
    Unavailable,
    Weaker,
    Started,
    Failed,
    Ended,
}

impl Kind {
    const ALL: [Kind; 9] = [
        Kind::Setup,
        Kind::Order,
        Kind::Kill,
        Kind::Ready,
        Kind::Unavailable,
        Kind::Weaker,
        Kind::Started,
        Kind::Failed,
        Kind::Ended,
    ];

    fn from_byte(byte: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|it| *it as u8 == byte)
    }
}

/// The other side sent something that is not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

impl From<Malformed> for io::Error {
    fn from(_: Malformed) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, "malformed message")
    }
}

#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: Kind,
    pub(super) body: Vec<u8>,
    pub(super) fds: Vec<OwnedFd>,
}

struct Header {
    kind: Kind,
    body: usize,
    fds: usize,
}

impl Header {
    fn parse(bytes: [u8; HEADER]) -> Result<Header, Malformed> {
        let [a, b, c, d, kind, fds, 0, 0] = bytes else {
            return Err(Malformed);
        };
        let body = u32::from_le_bytes([a, b, c, d]) as usize;
        let kind = Kind::from_byte(kind).ok_or(Malformed)?;
        let fds = usize::from(fds);
        if body > MAX_BODY || fds > MAX_FDS {
            return Err(Malformed);
        }
        Ok(Header { kind, body, fds })
    }
}

/// One end of the socket between glee and a launcher.
pub(super) struct Control {
    socket: OwnedFd,
    arrived: Vec<u8>,
    fds: VecDeque<OwnedFd>,
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Control {
    pub(super) fn new(socket: OwnedFd) -> Control {
        Control {
            socket,
            arrived: Vec::new(),
            fds: VecDeque::new(),
        }
    }

    /// The same, for whoever must not wait for ever: an order can be larger than a socket holds, and the other side may
    /// have been stopped. When nothing was taken for so long, sending fails, and the other side is to be given up.
    pub(super) fn with_patience(socket: OwnedFd, patience: Duration) -> io::Result<Control> {
        rustix::net::sockopt::set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
        Ok(Control::new(socket))
    }

    pub(super) fn send(&self, kind: Kind, body: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let length = u32::try_from(body.len())
            .ok()
            .filter(|it| *it as usize <= MAX_BODY);
        let count = u8::try_from(fds.len())
            .ok()
            .filter(|it| usize::from(*it) <= MAX_FDS);
        let (Some(length), Some(count)) = (length, count) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "message too large",
            ));
        };
        let mut header = [0; HEADER];
        header[..4].copy_from_slice(&length.to_le_bytes());
        header[4] = kind as u8;
        header[5] = count;

        let mut space = vec![MaybeUninit::uninit(); SendAncillaryMessage::ScmRights(fds).size()];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "too many descriptors",
            ));
        }
        let mut sent = 0;
        // The warden, which sends no descriptors, lives under a filter that does not let it use sendmsg.
        if !fds.is_empty() {
            let parts = [IoSlice::new(&header), IoSlice::new(body)];
            sent = retry(|| {
                rustix::net::sendmsg(&self.socket, &parts, &mut ancillary, SendFlags::NOSIGNAL)
            })?;
        }
        let whole: Vec<u8> = [&header, body].concat();
        while sent < whole.len() {
            let rest = &whole[sent..];
            sent += retry(|| rustix::net::send(&self.socket, rest, SendFlags::NOSIGNAL))?;
        }
        Ok(())
    }

    /// The next message, or nothing when the other side is gone.
    pub(super) fn receive(&mut self) -> io::Result<Option<Frame>> {
        loop {
            if let Some(frame) = self.buffered()? {
                return Ok(Some(frame));
            }
            if self.fill()? == 0 {
                return Ok(None);
            }
        }
    }

    /// A whole message that has already arrived.
    pub(super) fn buffered(&mut self) -> Result<Option<Frame>, Malformed> {
        let Some((header, rest)) = self.arrived.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let header = Header::parse(*header)?;
        if rest.len() < header.body {
            return Ok(None);
        }
        if self.fds.len() < header.fds {
            return Err(Malformed);
        }
        let whole = HEADER + header.body;
        let body = self.arrived[HEADER..whole].to_vec();
        self.arrived.drain(..whole);
        Ok(Some(Frame {
            kind: header.kind,
            body,
            fds: self.fds.drain(..header.fds).collect(),
        }))
    }

    /// Reads whatever has arrived.
    pub(super) fn fill(&mut self) -> io::Result<usize> {
        self.read(64 << 10)
    }

    /// Reads no more than the message that has begun, so that the socket is readable as long as another follows.
    pub(super) fn fill_one(&mut self) -> io::Result<usize> {
        let whole = match self.arrived.first_chunk::<HEADER>() {
            None => HEADER,
            Some(header) => HEADER + Header::parse(*header)?.body,
        };
        self.read(whole - self.arrived.len())
    }

    fn read(&mut self, most: usize) -> io::Result<usize> {
        let old = self.arrived.len();
        self.arrived.resize(old + most, 0);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = retry(|| {
            let mut parts = [IoSliceMut::new(&mut self.arrived[old..])];
            rustix::net::recvmsg(
                &self.socket,
                &mut parts,
                &mut ancillary,
                RecvFlags::CMSG_CLOEXEC,
            )
        });
        let bytes = received.as_ref().map_or(0, |it| it.bytes);
        self.arrived.truncate(old + bytes);
        received?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                self.fds.extend(fds);
            }
        }
        // More descriptors than one frame may carry are an attempt to fill our table.
        if self.fds.len() > MAX_FDS {
            return Err(Malformed.into());
        }
        Ok(bytes)
    }

    /// A whole message without taking it from the socket, so that the socket stays readable. Only for messages with a
    /// short body and without descriptors.
    pub(super) fn peek(&self) -> io::Result<Peeked> {
        let mut bytes = [0; HEADER + 256];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let (received, _) = match rustix::net::recv(&self.socket, &mut bytes, flags) {
            Ok(it) => it,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(Peeked::Nothing),
            Err(rustix::io::Errno::CONNRESET) => return Ok(Peeked::Gone),
            Err(err) => return Err(err.into()),
        };
        if received == 0 {
            return Ok(Peeked::Gone);
        }
        let Some((header, rest)) = bytes[..received].split_first_chunk::<HEADER>() else {
            return Ok(Peeked::Nothing);
        };
        let header = Header::parse(*header)?;
        match rest.get(..header.body) {
            Some(body) => Ok(Peeked::Frame(header.kind, body.to_vec())),
            None => Ok(Peeked::Nothing),
        }
    }
}

pub(super) enum Peeked {
    Nothing,
    Gone,
    Frame(Kind, Vec<u8>),
}

fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

/// Writes the parts of a body.
#[derive(Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn number(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    /// The caller has made sure that there is no NUL inside.
    pub(super) fn text(&mut self, text: &OsStr) {
        self.number(text.len() as u64);
        self.0.extend(text.as_bytes());
        self.0.push(0);
    }

    pub(super) fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Writer, &T)) {
        self.number(items.len() as u64);
        for it in items {
            write(self, it);
        }
    }

    pub(super) fn optional(&mut self, value: Option<u64>) {
        self.byte(u8::from(value.is_some()));
        self.number(value.unwrap_or_default());
    }
}

/// Reads the parts of a body, and trusts nothing in it.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(body: &'a [u8]) -> Reader<'a> {
        Reader(body)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn number(&mut self) -> Result<u64, Malformed> {
        let bytes = self.take(8)?.try_into().map_err(|_| Malformed)?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub(super) fn text(&mut self) -> Result<&'a CStr, Malformed> {
        let length = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        let bytes = self.take(length.checked_add(1).ok_or(Malformed)?)?;
        CStr::from_bytes_with_nul(bytes).map_err(|_| Malformed)
    }

    pub(super) fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Reader<'a>) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = self.number()?;
        // Each item takes at least one byte, so a count beyond that is a lie that would only waste memory.
        if count > self.0.len() as u64 {
            return Err(Malformed);
        }
        (0..count).map(|_| read(self)).collect()
    }

    pub(super) fn optional(&mut self) -> Result<Option<u64>, Malformed> {
        let some = self.byte()?;
        let value = self.number()?;
        match some {
            0 => Ok(None),
            1 => Ok(Some(value)),
            _ => Err(Malformed),
        }
    }

    pub(super) fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Malformed)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn nobody_waits_for_ever_for_one_who_does_not_read() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let control = Control::with_patience(ours.into(), Duration::from_millis(50)).unwrap();
        let large = vec![0; MAX_BODY];
        let sent = control.send(Kind::Order, &large, &[theirs.as_fd()]);
        assert_eq!(sent.unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
