//! The calls that run now, and how they come to an end when glee is to stop.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use glee_core::port::Cancel;
use tokio::sync::{Notify, watch};

/// How long calls may take to end and to be recorded.
const GRACE: Duration = Duration::from_secs(10);

/// A clock that is set to ring within this needs no setting for a call that may take longer.
const BEAT: Duration = Duration::from_secs(1);

pub(super) struct Running {
    count: AtomicUsize,
    /// None is left.
    rest: Notify,
    stopping: watch::Sender<bool>,
    is_beating: AtomicBool,
}

/// One call that runs, until this is dropped.
pub(super) struct Call(Arc<Running>);

impl Drop for Call {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.rest.notify_waiters();
        }
    }
}

impl Running {
    pub(super) fn new() -> Arc<Running> {
        Arc::new(Running {
            count: AtomicUsize::new(0),
            rest: Notify::new(),
            stopping: watch::Sender::new(false),
            is_beating: AtomicBool::new(false),
        })
    }

    pub(super) fn begin(self: &Arc<Running>) -> Call {
        self.count.fetch_add(1, Ordering::AcqRel);
        if !self.is_beating.swap(true, Ordering::AcqRel) {
            tokio::spawn(beat(Arc::downgrade(self)));
        }
        Call(self.clone())
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Also when glee is to stop.
    pub(super) fn or_stopped(&self, gone: Cancel) -> Cancel {
        let mut stopping = self.stopping.subscribe();
        Cancel::when(async move {
            tokio::select! {
                () = gone.cancelled() => {}
                _ = stopping.wait_for(|it| *it) => {}
            }
        })
    }

    /// Takes all calls back, those that are still to come too, and waits until they are over.
    pub(super) async fn stop(&self) {
        self.stopping.send_replace(true);
        let over = async {
            loop {
                let mut rest = pin!(self.rest.notified());
                // From here on it is heard.
                rest.as_mut().enable();
                if self.count() == 0 {
                    return;
                }
                rest.await;
            }
        };
        let _ = tokio::time::timeout(GRACE, over).await;
    }
}

/// Rings a clock again and again while there are calls. Without it, the clock of each call would be the first
/// one due, and the thread that waits for the next would be woken to hear of it, several times a call.
async fn beat(running: Weak<Running>) {
    let mut beats = tokio::time::interval(BEAT);
    loop {
        beats.tick().await;
        match running.upgrade() {
            Some(it) if it.count() > 0 => {}
            Some(it) => return it.is_beating.store(false, Ordering::Release),
            None => return,
        }
    }
}
