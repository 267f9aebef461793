//! A function of this program, held to its deadline.

use glee_core::admit::Admitted;
use glee_core::model::Native;
use glee_core::outcome::{Failure, FailureKind};
use glee_core::shape::Raw;

pub(super) async fn run(native: &Native, call: &Admitted) -> Result<Raw, Failure> {
    let name = &call.spec().name;
    tokio::select! {
        done = native.0.run(call) => done,
        () = tokio::time::sleep(call.timeout()) => {
            let after = call.timeout().as_millis() as u64;
            let message = format!("`{name}` was stopped after {after} ms");
            Err(Failure::new(FailureKind::Timeout, message).with("timeout_ms", after))
        }
        () = call.cancel().cancelled() => Err(Failure::new(
            FailureKind::Cancelled,
            format!("`{name}` was cancelled and stopped"),
        )),
    }
}
