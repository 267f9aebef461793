//! A task that lets others go first.

use std::future::poll_fn;
use std::mem;
use std::task::Poll;

/// Goes on behind all tasks that could go on now. Not by `yield_now`, which has the system asked for news first.
pub(crate) async fn behind_the_others() {
    let mut is_back = false;
    poll_fn(|context| match mem::replace(&mut is_back, true) {
        true => Poll::Ready(()),
        false => {
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}
