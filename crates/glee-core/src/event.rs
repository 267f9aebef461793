//! What observers hear: one event when a tool is about to run, one when a call is over.

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::outcome::{FailureKind, Held};

#[derive(Clone, Debug)]
pub struct Event {
    pub id: Uuid,
    pub at: SystemTime,
    pub tool: String,
    pub caller: String,
    /// With the call's secrets taken out.
    pub args: Map<String, Value>,
    /// What holds the tool to its permissions; nothing when it was refused before that was known.
    pub held: Option<Held>,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The call passed the gate; the tool runs next.
    Started,
    /// The call did not pass the gate; the tool was not run.
    Refused { kind: FailureKind },
    Finished {
        failure: Option<FailureKind>,
        duration: Duration,
    },
}
