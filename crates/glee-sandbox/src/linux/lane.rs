//! Who gets which launcher of a profile: whoever has waited longest gets the next that is given back, or may start
//! another.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, Sender};

/// What somebody who needs a launcher gets.
#[derive(Debug, PartialEq)]
pub(super) enum Turn<T> {
    Take(T),
    /// To start another, and to say when that is over.
    Start,
}

/// The launchers of one profile that are not in use, and those who wait for one.
///
/// To start a launcher takes as much of a processor as several calls. If everybody who finds none started one at once,
/// the calls that have theirs would not get to the processor, and what they leave behind soon would be waited for by
/// nobody.
pub(super) struct Lane<T> {
    pub(super) idle: Vec<T>,
    waiting: VecDeque<Sender<Turn<T>>>,
    starting: usize,
}

impl<T> Lane<T> {
    pub(super) fn new() -> Lane<T> {
        Lane {
            idle: Vec::new(),
            waiting: VecDeque::new(),
            starting: 0,
        }
    }

    /// Nobody is here, so that it need not be kept.
    pub(super) fn is_unused(&self) -> bool {
        self.idle.is_empty() && self.waiting.is_empty() && self.starting == 0
    }

    /// A launcher, or leave to start one while fewer than `most` are being started; else where it will come from.
    pub(super) fn ask(&mut self, most: usize) -> Result<Turn<T>, Receiver<Turn<T>>> {
        if let Some(it) = self.idle.pop() {
            return Ok(Turn::Take(it));
        }
        if self.starting < most {
            self.starting += 1;
            return Ok(Turn::Start);
        }
        let (turn, waits) = mpsc::channel();
        self.waiting.push_back(turn);
        Err(waits)
    }

    /// Gives a launcher to whoever has waited longest; back, if nobody waits.
    pub(super) fn give(&mut self, launcher: T) -> Option<T> {
        match self.call_up(Turn::Take(launcher)) {
            Some(Turn::Take(launcher)) => Some(launcher),
            _ => None,
        }
    }

    /// A start is over, well or not. The next is whoever has waited longest.
    pub(super) fn started(&mut self) {
        if self.call_up(Turn::Start).is_some() {
            self.starting -= 1;
        }
    }

    /// Starts one although so many are being started.
    pub(super) fn start_anyway(&mut self) -> Turn<T> {
        self.starting += 1;
        Turn::Start
    }

    /// How many wait, and how many start one.
    #[cfg(test)]
    pub(super) fn crowd(&self) -> (usize, usize) {
        (self.waiting.len(), self.starting)
    }

    fn call_up(&mut self, mut turn: Turn<T>) -> Option<Turn<T>> {
        while let Some(first) = self.waiting.pop_front() {
            match first.send(turn) {
                Ok(()) => return None,
                // It no longer waits.
                Err(unsent) => turn = unsent.0,
            }
        }
        Some(turn)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::TryRecvError;

    use super::*;

    /// So many who ask one after the other.
    fn asked(lane: &mut Lane<char>, count: usize) -> Vec<Result<Turn<char>, Receiver<Turn<char>>>> {
        (0..count).map(|_| lane.ask(2)).collect()
    }

    fn waits(it: Result<Turn<char>, Receiver<Turn<char>>>) -> Receiver<Turn<char>> {
        it.expect_err("has to wait")
    }

    #[test]
    fn a_crowd_starts_no_more_than_so_many_at_once() {
        let mut lane = Lane::new();
        let crowd = asked(&mut lane, 64);
        let (start, wait): (Vec<_>, Vec<_>) = crowd.into_iter().partition(Result::is_ok);
        assert_eq!((start.len(), wait.len()), (2, 62));
        // And all of them start in the end, if nothing is given back: each that is done makes way for one.
        for it in wait.into_iter().map(waits) {
            assert_eq!(it.try_recv(), Err(TryRecvError::Empty));
            lane.started();
            assert_eq!(it.try_recv(), Ok(Turn::Start));
        }
        lane.started();
        assert!(!lane.is_unused());
        lane.started();
        assert!(lane.is_unused());
    }

    #[test]
    fn what_is_given_back_goes_to_whoever_has_waited_longest_while_others_are_being_started() {
        let mut lane = Lane::new();
        let mut crowd = asked(&mut lane, 4).into_iter().skip(2).map(waits);
        let [first, second] = [crowd.next(), crowd.next()].map(|it| it.expect("waits"));
        assert_eq!(lane.give('a'), None);
        assert_eq!(first.try_recv(), Ok(Turn::Take('a')));
        assert_eq!(second.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(lane.give('b'), None);
        assert_eq!(second.try_recv(), Ok(Turn::Take('b')));
        // Nobody is left to take this one.
        assert_eq!(lane.give('c'), Some('c'));
    }

    #[test]
    fn whoever_no_longer_waits_is_passed_over() {
        let mut lane = Lane::new();
        let mut crowd = asked(&mut lane, 5).into_iter().skip(2).map(waits);
        drop(crowd.next());
        let second = crowd.next().expect("waits");
        assert_eq!(lane.give('a'), None);
        assert_eq!(second.try_recv(), Ok(Turn::Take('a')));
        drop(crowd.next());
        lane.started();
        lane.started();
        assert!(lane.is_unused());
    }
}
