//! What is told to somebody who may be slow, or gone: by a thread of its own, out of a queue that holds only so
//! much. Whoever tells never waits; what does not fit is counted and lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Waiting at once, and handed on at once.
const MOST: usize = 2048;
const MOST_TOGETHER: usize = 512;
/// A queue that is full is looked at again after this.
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

pub(super) struct Queue<T> {
    sender: SyncSender<Said<T>>,
    lost: Arc<AtomicU64>,
}

enum Said<T> {
    This(T),
    /// All that was said before is to be handed on, and this told.
    Flush(SyncSender<()>),
}

impl<T: Send + 'static> Queue<T> {
    /// `hand_on` gets what came within `linger` after the first, and how many were lost since the last time.
    pub(super) fn start(
        linger: Duration,
        hand_on: impl FnMut(Vec<T>, u64) + Send + 'static,
    ) -> Queue<T> {
        let (sender, receiver) = sync_channel(MOST);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = lost.clone();
        thread::spawn(move || work(&receiver, linger, &counted, hand_on));
        Queue { sender, lost }
    }

    pub(super) fn put(&self, it: T) {
        if self.sender.try_send(Said::This(it)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until what was put is handed on, and not for ever; whether it is.
    pub(super) fn flush(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let (told, done) = sync_channel(1);
        let mut flush = Said::Flush(told);
        while let Err(TrySendError::Full(back)) = self.sender.try_send(flush) {
            if Instant::now() >= until {
                return false;
            }
            flush = back;
            thread::sleep(BETWEEN_TRIES);
        }
        let left = until.saturating_duration_since(Instant::now());
        done.recv_timeout(left).is_ok()
    }
}

fn work<T>(
    receiver: &Receiver<Said<T>>,
    linger: Duration,
    lost: &AtomicU64,
    mut hand_on: impl FnMut(Vec<T>, u64),
) {
    while let Ok(mut said) = receiver.recv() {
        let until = Instant::now() + linger;
        let mut batch = Vec::new();
        let flushed = loop {
            match said {
                Said::This(it) => batch.push(it),
                Said::Flush(told) => break Some(told),
            }
            if batch.len() >= MOST_TOGETHER {
                break None;
            }
            match receiver.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(next) => said = next,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break None,
            }
        };
        hand_on(batch, lost.swap(0, Ordering::Relaxed));
        if let Some(told) = flushed {
            let _ = told.try_send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn nobody_waits_for_one_who_does_not_take() {
        let (let_go, wait) = sync_channel::<()>(0);
        let taken = Arc::new(Mutex::new((0, 0)));
        let seen = taken.clone();
        let queue = Queue::start(Duration::ZERO, move |batch: Vec<u32>, lost| {
            let _ = wait.recv();
            let mut seen = seen.lock().unwrap();
            *seen = (seen.0 + batch.len(), seen.1 + lost);
        });
        let all = MOST * 3;
        (0..all).for_each(|it| queue.put(it as u32));
        drop(let_go);
        queue.flush(Duration::from_secs(10));
        queue.put(0);
        queue.flush(Duration::from_secs(10));
        let (came, lost) = *taken.lock().unwrap();
        assert!(lost > 0 && came >= MOST, "{came} came, {lost} were lost");
        assert_eq!(came as u64 + lost, all as u64 + 1);
    }
}
