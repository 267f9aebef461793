//! All who are connected: only so many, and nobody for long who only keeps a place.
//!
//! A connection that waits for its client's next word has a deadline; one that is being answered has none while
//! its client reads, so that calls, events and long polls last as long as they need. When every place is taken,
//! the one that has waited longest makes room. hyper's own deadline for heads knows nothing of a client that has
//! not even said which version of HTTP it speaks, and takes silence between two requests for a slow head.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

pub(super) struct Crowd {
    most: usize,
    patience: Patience,
    next: AtomicU64,
    there: Mutex<HashMap<u64, Arc<Seen>>>,
}

/// How long is waited for a client.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    pub(super) head: Duration,
    pub(super) idle: Duration,
}

/// How often everybody is looked at, at most.
const LOOK: Duration = Duration::from_secs(1);

impl Crowd {
    pub(super) fn new(most: usize, patience: Patience) -> Arc<Crowd> {
        Arc::new(Crowd {
            most,
            patience,
            next: AtomicU64::new(0),
            there: Mutex::default(),
        })
    }

    /// One more, until it is dropped; nothing when nobody can make room.
    pub(super) fn enter(self: &Arc<Crowd>) -> Option<Place> {
        let mut there = self.lock();
        if there.len() >= self.most && !make_room(&mut there) {
            return None;
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let seen = Arc::new(Seen::new(Instant::now()));
        there.insert(id, seen.clone());
        Some(Place {
            crowd: self.clone(),
            id,
            seen,
        })
    }

    /// Closes whoever has waited longest, for when the machine has no more to give.
    pub(super) fn thin_out(&self) {
        make_room(&mut self.lock());
    }

    /// Closes those who take too long, again and again.
    pub(super) async fn watch(self: Arc<Crowd>) {
        let shortest = self.patience.head.min(self.patience.idle);
        let mut looks = tokio::time::interval(LOOK.min(shortest / 4));
        loop {
            looks.tick().await;
            let now = Instant::now();
            for seen in self.lock().values() {
                if seen.is_overdue(now, self.patience) {
                    seen.close.notify_one();
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Seen>>> {
        self.there.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Those who have not asked anything yet go before those who have.
fn make_room(there: &mut HashMap<u64, Arc<Seen>>) -> bool {
    let waiting = there
        .iter()
        .filter_map(|(id, seen)| Some((seen.life().waits()?, *id)));
    let Some((_, id)) = waiting.min() else {
        return false;
    };
    if let Some(seen) = there.remove(&id) {
        seen.close.notify_one();
    }
    true
}

/// A place in the crowd.
pub(super) struct Place {
    crowd: Arc<Crowd>,
    id: u64,
    pub(super) seen: Arc<Seen>,
}

impl Place {
    /// Comes back when the connection is to be closed.
    pub(super) async fn lost(&self) {
        self.seen.close.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.crowd.lock().remove(&self.id);
    }
}

/// What is seen of one connection.
pub(super) struct Seen {
    life: Mutex<Life>,
    close: Notify,
}

struct Life {
    phase: Phase,
    has_asked: bool,
    /// Since when the client does not read.
    stuck: Option<Instant>,
}

#[derive(Clone, Copy)]
enum Phase {
    /// A request has begun, or is to be the first.
    Head {
        since: Instant,
    },
    /// Between two requests.
    Idle {
        since: Instant,
    },
    Answering {
        requests: usize,
    },
}

impl Life {
    /// What is closed first, among those that can be.
    fn waits(&self) -> Option<(bool, Instant)> {
        match self.phase {
            Phase::Head { since } | Phase::Idle { since } => Some((self.has_asked, since)),
            Phase::Answering { .. } => None,
        }
    }
}

impl Seen {
    fn new(now: Instant) -> Seen {
        Seen {
            life: Mutex::new(Life {
                phase: Phase::Head { since: now },
                has_asked: false,
                stuck: None,
            }),
            close: Notify::new(),
        }
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_overdue(&self, now: Instant, patience: Patience) -> bool {
        let life = self.life();
        let longer = |since: Instant, than| now.saturating_duration_since(since) > than;
        match life.phase {
            Phase::Head { since } => longer(since, patience.head),
            Phase::Idle { since } => longer(since, patience.idle),
            Phase::Answering { .. } => life.stuck.is_some_and(|it| longer(it, patience.idle)),
        }
    }

    /// Something came.
    pub(super) fn hears(&self) {
        let mut life = self.life();
        if let Phase::Idle { .. } = life.phase {
            life.phase = Phase::Head {
                since: Instant::now(),
            };
        }
    }

    /// What is answered could, or could not, be handed on.
    pub(super) fn says(&self, is_taken: bool) {
        let mut life = self.life();
        match is_taken {
            true => life.stuck = None,
            false => {
                life.stuck.get_or_insert_with(Instant::now);
            }
        }
    }

    /// A request is whole, but for its body; it is being answered until this is dropped.
    pub(super) fn begins(self: &Arc<Seen>) -> Answering {
        let mut life = self.life();
        let others = match life.phase {
            Phase::Answering { requests } => requests,
            Phase::Head { .. } | Phase::Idle { .. } => 0,
        };
        life.has_asked = true;
        life.phase = Phase::Answering {
            requests: others + 1,
        };
        Answering(self.clone())
    }
}

/// One request that is being answered.
pub(super) struct Answering(Arc<Seen>);

impl Drop for Answering {
    fn drop(&mut self) {
        let mut life = self.0.life();
        life.phase = match life.phase {
            Phase::Answering { requests } if requests > 1 => Phase::Answering {
                requests: requests - 1,
            },
            _ => Phase::Idle {
                since: Instant::now(),
            },
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience = Patience {
        head: Duration::from_secs(10),
        idle: Duration::from_secs(60),
    };

    fn in_seconds(seconds: u64) -> Instant {
        Instant::now() + Duration::from_secs(seconds)
    }

    #[test]
    fn who_waits_has_a_deadline_and_who_is_answered_has_none() {
        let seen = Arc::new(Seen::new(Instant::now()));
        assert!(!seen.is_overdue(in_seconds(5), PATIENCE));
        assert!(seen.is_overdue(in_seconds(11), PATIENCE));
        let (first, second) = (seen.begins(), seen.begins());
        assert!(!seen.is_overdue(in_seconds(10_000), PATIENCE));
        drop(first);
        assert!(!seen.is_overdue(in_seconds(10_000), PATIENCE));
        seen.says(false);
        assert!(!seen.is_overdue(in_seconds(59), PATIENCE));
        assert!(seen.is_overdue(in_seconds(61), PATIENCE));
        seen.says(true);
        assert!(!seen.is_overdue(in_seconds(10_000), PATIENCE));
        drop(second);
        assert!(!seen.is_overdue(in_seconds(59), PATIENCE));
        assert!(seen.is_overdue(in_seconds(61), PATIENCE));
        seen.hears();
        assert!(seen.is_overdue(in_seconds(11), PATIENCE));
    }

    #[test]
    fn who_has_waited_longest_makes_room() {
        let crowd = Crowd::new(3, PATIENCE);
        let answered = crowd.enter().unwrap();
        let _answering = answered.seen.begins();
        let has_asked = crowd.enter().unwrap();
        drop(has_asked.seen.begins());
        let silent = crowd.enter().unwrap();
        let there = |place: &Place| crowd.lock().contains_key(&place.id);

        let fourth = crowd.enter().unwrap();
        assert!(!there(&silent) && there(&has_asked) && there(&fourth));
        let _busy = fourth.seen.begins();
        let fifth = crowd.enter().unwrap();
        assert!(!there(&has_asked) && there(&answered));
        let _busy = fifth.seen.begins();
        assert!(crowd.enter().is_none());
    }
}
