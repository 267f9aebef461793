//! How many may be inside at once: in all, and of one caller, so that none can keep the others out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Clone)]
pub(super) struct Turnstile(Arc<Inside>);

struct Inside {
    most: usize,
    most_of_one: usize,
    of: Mutex<HashMap<String, usize>>,
}

impl Turnstile {
    pub(super) fn new(most: usize, most_of_one: usize) -> Turnstile {
        Turnstile(Arc::new(Inside {
            most,
            most_of_one,
            of: Mutex::default(),
        }))
    }

    /// One more of this caller, until the pass is dropped; nothing when there is no room.
    pub(super) fn enter(&self, caller: &str) -> Option<Pass> {
        let mut inside = self.0.lock();
        let all: usize = inside.values().sum();
        if all >= self.0.most {
            return None;
        }
        match inside.get_mut(caller) {
            Some(own) if *own >= self.0.most_of_one => return None,
            Some(own) => *own += 1,
            None => {
                inside.insert(caller.to_owned(), 1);
            }
        }
        Some(Pass {
            inside: self.0.clone(),
            caller: caller.to_owned(),
        })
    }
}

impl Inside {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Pass {
    inside: Arc<Inside>,
    caller: String,
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut inside = self.inside.lock();
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
