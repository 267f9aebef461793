//! Goes on with a connection that wakes itself while it is at work.
//!
//! hyper does that for every body it reads and after every answer. A task that does so is taken to let others go first:
//! it is put behind them, and another thread is woken to see to them, which takes longer than a small call.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// How often it goes on at once, before it lets others go first after all.
const MOST: usize = 8;

pub(super) struct Resumed<F> {
    future: Pin<Box<F>>,
    bell: Arc<Bell>,
    /// Rings it.
    waker: Waker,
}

impl<F> Resumed<F> {
    pub(super) fn new(future: F) -> Resumed<F> {
        let bell = Arc::new(Bell {
            state: AtomicU8::new(AWAY),
            task: AtomicWaker::new(),
        });
        Resumed {
            future: Box::pin(future),
            waker: bell.clone().into(),
            bell,
        }
    }
}

/// Woken by whatever the future waits for.
struct Bell {
    state: AtomicU8,
    task: AtomicWaker,
}

/// Nobody is at work: whoever rings wakes the task.
const AWAY: u8 = 0;
const AT_WORK: u8 = 1;
/// Somebody rang who need not be waited for.
const RUNG: u8 = 2;

impl Wake for Bell {
    fn wake(self: Arc<Bell>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Bell>) {
        let rung = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |it| {
                (it != AWAY).then_some(RUNG)
            });
        if rung.is_err() {
            self.task.wake();
        }
    }
}

impl<F: Future> Future for Resumed<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Resumed {
            future,
            bell,
            waker,
        } = &mut *self;
        bell.task.register(context.waker());
        for _ in 0..MOST {
            // What was rung before is seen by what follows.
            bell.state.swap(AT_WORK, Ordering::AcqRel);
            if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(waker)) {
                return Poll::Ready(done);
            }
            let left =
                bell.state
                    .compare_exchange(AT_WORK, AWAY, Ordering::AcqRel, Ordering::Acquire);
            if left.is_ok() {
                return Poll::Pending;
            }
        }
        bell.state.swap(AWAY, Ordering::AcqRel);
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::task::noop_waker;
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;

    /// Counts how often a task is woken.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Woken>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn poll<F: Future>(resumed: &mut Resumed<F>, woken: &Arc<Woken>) -> Poll<F::Output> {
        let waker = woken.clone().into();
        Pin::new(resumed).poll(&mut Context::from_waker(&waker))
    }

    #[test]
    fn who_wakes_itself_goes_on_at_once() {
        let (woken, mut polls) = (Arc::new(Woken::default()), 0);
        let mut resumed = Resumed::new(poll_fn(|context| {
            polls += 1;
            context.waker().wake_by_ref();
            if polls < MOST {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        }));
        assert_eq!(poll(&mut resumed, &woken), Poll::Ready(()));
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn who_never_stops_lets_others_go_first() {
        let (woken, mut polls) = (Arc::new(Woken::default()), 0);
        let mut resumed = Resumed::new(poll_fn(|context| {
            polls += 1;
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        }));
        assert_eq!(poll(&mut resumed, &woken), Poll::Pending);
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        drop(resumed);
        assert_eq!(polls, MOST);
    }

    #[test]
    fn who_is_woken_by_others_wakes_its_task() {
        let woken = Arc::new(Woken::default());
        let mut known = noop_waker();
        let mut resumed = Resumed::new(poll_fn(|context| {
            known = context.waker().clone();
            Poll::<()>::Pending
        }));
        assert_eq!(poll(&mut resumed, &woken), Poll::Pending);
        drop(resumed);
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
        known.wake();
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    }
}
