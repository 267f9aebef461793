//! How often a tool may be called, and how many of its calls may run at once. What is beyond that is refused
//! at once, whoever calls: nobody waits in a line that only grows.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::outcome::{Failure, FailureKind};

/// Calls of one tool at once when nobody says how many.
const USUAL_AT_ONCE: u32 = 1024;
const MINUTE: Duration = Duration::from_secs(60);
/// Tools that are remembered; of more, those that nobody calls are forgotten first.
const MOST_REMEMBERED: usize = 4096;

/// The most there may be; a tool may say less of itself, and not more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    pub per_minute: Option<u32>,
    pub at_once: Option<u32>,
}

impl Calls {
    fn with(self, other: Calls) -> Calls {
        let less = |one: Option<u32>, other: Option<u32>| one.into_iter().chain(other).min();
        Calls {
            per_minute: less(self.per_minute, other.per_minute),
            at_once: less(self.at_once, other.at_once).or(Some(USUAL_AT_ONCE)),
        }
    }
}

#[derive(Default)]
pub struct Turns {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What holds for every tool.
    most: Calls,
    tools: HashMap<String, Use>,
}

#[derive(Default)]
struct Use {
    running: u32,
    /// When the calls of the last minute began, by a clock that only goes on.
    began: VecDeque<Duration>,
}

impl Use {
    fn begin(&mut self, most: Calls, now: Duration) {
        self.running += 1;
        if most.per_minute.is_some() {
            self.began.push_back(now);
        }
    }

    fn forget(&mut self, now: Duration) {
        while self.began.front().is_some_and(|it| *it + MINUTE <= now) {
            self.began.pop_front();
        }
    }
}

impl Turns {
    pub fn new(most: Calls) -> Turns {
        let turns = Turns::default();
        turns.replace(most);
        turns
    }

    pub fn replace(&self, most: Calls) {
        self.lock().most = most;
    }

    /// Refuses a call that would not get a turn now, before anybody is asked about it.
    pub fn check(&self, tool: &str, own: Calls, now: Duration) -> Result<(), Failure> {
        self.lock().room(tool, own, now).map(|_| ())
    }

    /// The turn of one call, which lasts until it is dropped.
    pub fn take<'a>(
        &'a self,
        tool: &'a str,
        own: Calls,
        now: Duration,
    ) -> Result<Turn<'a>, Failure> {
        let mut state = self.lock();
        let most = state.room(tool, own, now)?;
        if state.tools.len() >= MOST_REMEMBERED {
            state.tools.retain(|_, it| {
                it.forget(now);
                it.running > 0 || !it.began.is_empty()
            });
        }
        match state.tools.get_mut(tool) {
            Some(used) => used.begin(most, now),
            None => {
                let mut used = Use::default();
                used.begin(most, now);
                state.tools.insert(tool.to_owned(), used);
            }
        }
        Ok(Turn { turns: self, tool })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// What the tool is held to, when there is room for one more.
    fn room(&mut self, tool: &str, own: Calls, now: Duration) -> Result<Calls, Failure> {
        let most = self.most.with(own);
        let Some(used) = self.tools.get_mut(tool) else {
            return Ok(most);
        };
        used.forget(now);
        if let Some(at_once) = most.at_once.filter(|it| used.running >= *it) {
            let why =
                format!("`{tool}` has {at_once} calls under way, and no more may run at once");
            return Err(refusal(
                why,
                "calls_at_once",
                at_once,
                Duration::from_secs(1),
            ));
        }
        let spent = |it: &u32| used.began.len() >= *it as usize;
        if let Some(per_minute) = most.per_minute.filter(spent) {
            let over = used.began.len() - per_minute as usize;
            let free = used.began.get(over).map_or(now, |it| *it + MINUTE);
            let why = format!("`{tool}` may be called {per_minute} times in a minute, and was");
            return Err(refusal(why, "calls_per_minute", per_minute, free - now));
        }
        Ok(most)
    }
}

fn refusal(why: String, limit: &str, most: u32, after: Duration) -> Failure {
    Failure::new(FailureKind::RateLimited, why)
        .with("limit", limit)
        .with("most", most)
        .with(RETRY_AFTER, after.as_millis() as u64)
        .hint("wait as long as `retry_after_ms` says, then call it again")
        .retryable()
}

/// Where a failure says how long to wait.
pub const RETRY_AFTER: &str = "retry_after_ms";

pub struct Turn<'a> {
    turns: &'a Turns,
    tool: &'a str,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.turns.lock();
        let Some(used) = state.tools.get_mut(self.tool) else {
            return;
        };
        used.running -= 1;
        if used.running == 0 && used.began.is_empty() {
            state.tools.remove(self.tool);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_minute_is_a_minute_wherever_it_begins() {
        let turns = Turns::new(Calls {
            per_minute: Some(2),
            at_once: None,
        });
        let take = |now| turns.take("t", Calls::default(), at(now)).map(|_| ());
        assert!(take(50).is_ok() && take(59).is_ok());
        let refused = take(60).unwrap_err();
        assert_eq!(refused.kind, FailureKind::RateLimited);
        assert_eq!(refused.details[RETRY_AFTER], 50_000);
        assert!(take(109).is_err());
        assert!(take(110).is_ok() && take(118).is_err() && take(119).is_ok());
    }

    #[test]
    fn so_many_at_once_and_no_more() {
        let turns = Turns::default();
        let own = Calls {
            per_minute: None,
            at_once: Some(2),
        };
        let take = || turns.take("t", own, at(0));
        let (first, second) = (take(), take());
        assert!(first.is_ok() && second.is_ok());
        assert!(take().is_err() && turns.check("t", own, at(0)).is_err());
        assert!(turns.take("other", own, at(0)).is_ok());
        drop(first);
        assert!(take().is_ok());
        drop(second);
        assert!(turns.lock().tools.is_empty());
        turns.replace(Calls {
            per_minute: None,
            at_once: Some(1),
        });
        let _only = take();
        assert!(take().is_err());
    }
}
