//! Taking back a start that nobody waits for any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Lets whoever ordered a child say, from elsewhere, that it is no longer wanted. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub struct Recall(Arc<AtomicBool>);

impl Recall {
    /// A start that goes on for long ends soon after this. One that was about to succeed may still do so.
    pub fn call_off(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_called_off(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
