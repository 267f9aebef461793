//! How glee hears what the gatekeeper has refused: a pipe, with one record of a fixed size for each refusal.
//!
//! The gatekeeper writes before it answers, so that a record is there when the payload goes on. It never waits: when the
//! pipe is full, because a payload wants to fill it, the rest is not told. Only the gatekeeper writes; the launcher keeps
//! the end for the next one, and wardens close it before anything else.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, pipe_with};

use crate::{Moment, Refusal, Transport};

/// A divisor of every page's size, so that no record is ever cut.
const RECORD: usize = 32;
/// What is kept until somebody asks, where pages are no larger.
const CAPACITY: usize = 4096;
/// No more than this is told of one call.
const MOST: usize = 16;

/// The end of the gatekeeper.
pub(super) struct Teller(OwnedFd);

/// The end of glee.
pub(super) struct Told(OwnedFd);

/// Both ends; the one to write to is to be sent away.
pub(super) fn pipe() -> io::Result<(Told, OwnedFd)> {
    let (pipe, far) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    // A larger one only holds more.
    let _ = rustix::pipe::fcntl_setpipe_size(&far, CAPACITY);
    Ok((Told(pipe), far))
}

impl Teller {
    pub(super) fn new(pipe: OwnedFd) -> Teller {
        Teller(pipe)
    }

    /// `asked` is a moment at which whoever asked was still there.
    pub(super) fn tell(&self, refusal: Refusal, asked: Moment) {
        // Best effort: what does not fit is not told.
        let _ = rustix::io::write(&self.0, &write_record(refusal, asked));
    }
}

impl Told {
    /// Makes room for what another call is refused. A record of an earlier one may still be on its way.
    pub(super) fn forget(&self) {
        self.drain(|_| {});
    }

    /// What was asked for since a call began, each once. What is older was no matter of it.
    pub(super) fn take(&self, since: Moment) -> Vec<Refusal> {
        let mut found = Vec::new();
        self.drain(|record| match read_record(record) {
            Some((refusal, asked))
                if asked >= since && found.len() < MOST && !found.contains(&refusal) =>
            {
                found.push(refusal);
            }
            _ => {}
        });
        found
    }

    /// What the pipe holds, and no more of what comes meanwhile than it can hold.
    fn drain(&self, mut each: impl FnMut(&[u8; RECORD])) {
        const LARGEST: usize = 64 << 10;
        let mut bytes = [0; CAPACITY];
        for _ in 0..LARGEST / CAPACITY {
            let read = match rustix::io::read(&self.0, &mut bytes) {
                Ok(it) => it,
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return,
            };
            bytes[..read].as_chunks().0.iter().for_each(&mut each);
            if read < CAPACITY {
                return;
            }
        }
    }
}

fn write_record(refusal: Refusal, asked: Moment) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    let (family, address) = match refusal.to.ip() {
        IpAddr::V4(it) => (4, it.to_ipv6_mapped()),
        IpAddr::V6(it) => (6, it),
    };
    record[..8].copy_from_slice(&asked.to_bytes());
    record[8] = family;
    record[9] = match refusal.transport {
        Transport::Stream => 1,
        Transport::Datagram => 2,
    };
    record[10..12].copy_from_slice(&refusal.to.port().to_le_bytes());
    record[12..28].copy_from_slice(&address.octets());
    record
}

fn read_record(record: &[u8; RECORD]) -> Option<(Refusal, Moment)> {
    let asked = Moment::from_bytes(record[..8].try_into().ok()?);
    let transport = match record[9] {
        1 => Transport::Stream,
        2 => Transport::Datagram,
        _ => return None,
    };
    let port = u16::from_le_bytes(record[10..12].try_into().ok()?);
    let six = Ipv6Addr::from(<[u8; 16]>::try_from(&record[12..28]).ok()?);
    let address = match record[8] {
        4 => IpAddr::V4(six.to_ipv4_mapped()?),
        6 => IpAddr::V6(six),
        _ => return None,
    };
    let to = SocketAddr::new(address, port);
    (record[28..] == [0; 4]).then_some((Refusal { to, transport }, asked))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refusal(port: u16) -> Refusal {
        Refusal {
            to: SocketAddr::from(([127, 0, 0, 1], port)),
            transport: Transport::Stream,
        }
    }

    fn both() -> (Teller, Told) {
        let (told, far) = pipe().unwrap();
        (Teller::new(far), told)
    }

    #[test]
    fn each_refusal_is_told_once_and_to_its_own_call() {
        let (teller, told) = both();
        let first = Moment::now();
        for port in [1, 2, 1] {
            teller.tell(refusal(port), first);
        }
        assert_eq!(told.take(first), [refusal(1), refusal(2)]);
        assert_eq!(told.take(first), []);
        // Unread when the next call begins.
        teller.tell(refusal(3), first);
        told.forget();
        let second = Moment::now();
        assert_eq!(told.take(second), []);
        // Asked for by a call that is over, and told only when the next one has begun.
        teller.tell(refusal(4), first);
        teller.tell(refusal(5), Moment::now());
        assert_eq!(told.take(second), [refusal(5)]);
    }

    #[test]
    fn a_flood_is_neither_waited_for_nor_kept() {
        let (teller, told) = both();
        let since = Moment::now();
        let flood = || (1..=u16::MAX).for_each(|it| teller.tell(refusal(it), Moment::now()));
        flood();
        assert_eq!(told.take(since), (1..=16).map(refusal).collect::<Vec<_>>());
        flood();
        told.forget();
        teller.tell(refusal(7), Moment::now());
        assert_eq!(told.take(since), [refusal(7)]);
    }

    #[test]
    fn what_is_no_record_is_passed_over() {
        let (teller, told) = both();
        let since = Moment::now();
        rustix::io::write(&teller.0, &[0xff; RECORD]).unwrap();
        teller.tell(refusal(1), Moment::now());
        rustix::io::write(&teller.0, &[0; RECORD / 2]).unwrap();
        assert_eq!(told.take(since), [refusal(1)]);
        drop(teller);
        assert_eq!(told.take(since), []);
    }

    proptest! {
        #[test]
        fn a_record_arrives_as_it_was_sent(ip: IpAddr, port: u16, is_stream: bool, asked: [u8; 8]) {
            let transport = if is_stream { Transport::Stream } else { Transport::Datagram };
            let refusal = Refusal { to: SocketAddr::new(ip, port), transport };
            let record = write_record(refusal, Moment::from_bytes(asked));
            prop_assert_eq!(read_record(&record), Some((refusal, Moment::from_bytes(asked))));
        }

        #[test]
        fn noise_is_refused_or_read(noise: [u8; RECORD]) {
            if let Some((refusal, asked)) = read_record(&noise) {
                prop_assert_eq!(write_record(refusal, asked), noise);
            }
        }
    }
}
