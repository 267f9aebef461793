//! How many may be inside at once: in all, and of one caller, so that none can keep the others out.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(in crate::surface) struct Turnstile {
    most: usize,
    most_of_one: usize,
    inside: Mutex<HashMap<String, usize>>,
}

impl Turnstile {
    pub(in crate::surface) fn new(most: usize, most_of_one: usize) -> Turnstile {
        Turnstile {
            most,
            most_of_one,
            inside: Mutex::default(),
        }
    }

    /// One more of this caller, until the pass is dropped; nothing when there is no room.
    pub(in crate::surface) fn enter<'a>(&'a self, caller: &str) -> Option<Pass<'a>> {
        let mut inside = self.lock();
        let all: usize = inside.values().sum();
        let own = inside.get(caller).copied().unwrap_or(0);
        if all >= self.most || own >= self.most_of_one {
            return None;
        }
        inside.insert(caller.to_owned(), own + 1);
        Some(Pass {
            turnstile: self,
            caller: caller.to_owned(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(in crate::surface) struct Pass<'a> {
    turnstile: &'a Turnstile,
    caller: String,
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let mut inside = self.turnstile.lock();
        match inside.get_mut(&self.caller) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                inside.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_keeps_the_others_out() {
        let turnstile = Turnstile::new(3, 2);
        let first = turnstile.enter("a");
        let second = turnstile.enter("a");
        assert!(first.is_some() && second.is_some());
        assert!(turnstile.enter("a").is_none());
        let other = turnstile.enter("b");
        assert!(other.is_some());
        assert!(turnstile.enter("c").is_none());
        drop(first);
        assert!(turnstile.enter("a").is_some());
    }
}
