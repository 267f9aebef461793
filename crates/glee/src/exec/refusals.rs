//! What the proxy has refused, kept for the call that asked for it.
//!
//! Tools with the same hosts share a socket, and what one was refused is nobody else's business. The kernel tells which
//! process connected, the bridge, and that leads to the launcher beside it, which serves one call at a time. What cannot
//! be led back like that is told to nobody.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use glee_sandbox::{Moment, launcher_behind};
use tokio::net::UnixStream;

use super::http::Refused;

/// Most that are kept of one launcher, and of all; the oldest go first.
const MOST: usize = 8;
const MOST_OF_ALL: usize = 2048;
/// No name of a host is longer.
const LONGEST_NAME: usize = 253;

#[derive(Default)]
pub(super) struct Refusals {
    kept: Mutex<VecDeque<Kept>>,
}

struct Kept {
    launcher: u32,
    /// When whoever asked for it was there.
    asked: Moment,
    refused: Refused,
}

impl Refusals {
    pub(super) fn note(&self, client: &UnixStream, asked: Moment, refused: Refused) {
        if let Some(launcher) = launcher_behind(client) {
            self.keep(launcher, asked, refused);
        }
    }

    fn keep(&self, launcher: u32, asked: Moment, refused: Refused) {
        if !refused.host().is_some_and(is_plain) {
            return;
        }
        let mut kept = self.lock();
        kept.retain(|it| it.launcher != launcher || it.refused != refused);
        let of_launcher = |it: &Kept| it.launcher == launcher;
        if kept.iter().filter(|it| of_launcher(it)).count() >= MOST
            && let Some(oldest) = kept.iter().position(of_launcher)
        {
            kept.remove(oldest);
        }
        if kept.len() >= MOST_OF_ALL {
            kept.pop_front();
        }
        kept.push_back(Kept {
            launcher,
            asked,
            refused,
        });
    }

    /// What the tree below a launcher has asked for since its call began, and was refused. What is older was asked for by an
    /// earlier call, or beside another launcher that had this number.
    pub(super) fn take(&self, launcher: u32, since: Moment) -> Vec<Refused> {
        let mut taken = Vec::new();
        self.lock().retain(|it| {
            if it.launcher == launcher && it.asked >= since {
                taken.push(it.refused.clone());
            }
            it.launcher != launcher
        });
        taken
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Kept>> {
        // What it holds is whole after every statement.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a host can be told as a grant. A URL may name others, in which `*` would grant hosts that nobody asked for, and a
/// quote would end the entry.
fn is_plain(host: &str) -> bool {
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || b"-._:".contains(&it);
    host.len() <= LONGEST_NAME && host.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: u64) -> Moment {
        Moment::from_bytes(time.to_le_bytes())
    }

    fn refused(port: u16) -> Refused {
        Refused::NotListed {
            host: "x.test".to_owned(),
            port,
        }
    }

    #[test]
    fn each_launcher_has_its_own_and_a_call_what_is_not_older() {
        let refusals = Refusals::default();
        let began = at(2);
        refusals.keep(1, at(1), refused(1));
        for port in [2, 3, 2] {
            refusals.keep(1, began, refused(port));
        }
        refusals.keep(2, began, refused(4));
        assert_eq!(refusals.take(1, began), [refused(3), refused(2)]);
        assert_eq!(refusals.take(1, began), []);
        assert_eq!(refusals.take(2, began), [refused(4)]);
        assert!(refusals.lock().is_empty());
    }

    #[test]
    fn a_flood_pushes_out_its_own_and_is_bounded() {
        let refusals = Refusals::default();
        let began = at(2);
        refusals.keep(1, began, refused(1));
        for port in 1..5000 {
            refusals.keep(2, began, refused(port));
        }
        assert_eq!(refusals.take(1, began), [refused(1)]);
        assert_eq!(refusals.take(2, began).len(), MOST);
        for launcher in 1..5000 {
            refusals.keep(launcher, began, refused(1));
        }
        assert_eq!(refusals.lock().len(), MOST_OF_ALL);
        let host = "x".repeat(LONGEST_NAME + 1);
        refusals.keep(7000, began, Refused::NotListed { host, port: 1 });
        assert_eq!(refusals.take(7000, began), []);
    }

    #[test]
    fn what_would_be_more_as_a_grant_is_not_kept() {
        let refusals = Refusals::default();
        let began = at(2);
        let named = |host: &str| Refused::NotListed {
            host: host.to_owned(),
            port: 1,
        };
        for host in [
            "*.test",
            "*",
            "x\",\"y.test",
            "x'y",
            "{x}",
            "a,b",
            "x;y",
            "x y",
        ] {
            refusals.keep(1, began, named(host));
        }
        assert_eq!(refusals.take(1, began), []);
        let plain = ["a_b-1.test", "a.test.", "::1", "10.0.0.1"];
        for host in plain {
            refusals.keep(1, began, named(host));
        }
        assert_eq!(refusals.take(1, began), plain.map(named));
    }
}
