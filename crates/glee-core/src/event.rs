//! What observers hear: of a call, what was decided about it, that it runs and that it is over; and of
//! everything that people decide about tools and calls.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::json;
use crate::outcome::{FailureKind, Held};
use crate::policy::Decision;

#[derive(Clone, Debug)]
pub struct Event {
    /// Of the call; of what was decided, when it is not about one.
    pub id: Uuid,
    pub at: SystemTime,
    pub tool: String,
    /// The SHA-256 of the tool's document; nothing when there is no such tool.
    pub document: Option<[u8; 32]>,
    /// Who did it: the caller, the maker of a tool, or the one who decided.
    pub actor: String,
    /// With the call's secrets taken out.
    pub args: Told,
    /// What holds the tool to its permissions; nothing when it was refused before that was known.
    pub held: Option<Held>,
    /// Who had a say in it, in the order in which they were asked.
    pub trail: Vec<Step>,
    pub what: What,
}

/// The arguments of a call, as observers hear of them. All events of the call share them, and what is made of them.
#[derive(Clone, Debug, Default)]
pub struct Told(Arc<Arguments>);

#[derive(Debug, Default)]
struct Arguments {
    given: Map<String, Value>,
    canonical: OnceLock<Canonical>,
}

/// Arguments in the one form in which equal ones look alike.
#[derive(Debug)]
pub struct Canonical {
    pub text: String,
    pub sha256: [u8; 32],
}

impl Told {
    pub fn canonical(&self) -> &Canonical {
        self.0.canonical.get_or_init(|| {
            let text = json::canonical_object(&self.0.given);
            Canonical {
                sha256: Sha256::digest(&text).into(),
                text,
            }
        })
    }
}

impl Deref for Told {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Map<String, Value> {
        &self.0.given
    }
}

impl From<Map<String, Value>> for Told {
    fn from(given: Map<String, Value>) -> Told {
        Told(Arc::new(Arguments {
            given,
            canonical: OnceLock::new(),
        }))
    }
}

/// What one of those who have a say in a call said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// `rule danger`, `principles`, `approval 0190…`, `review`.
    pub by: String,
    pub decision: Decision,
}

/// Hears what is decided about one call, while it is.
pub trait Witness: Send {
    fn step(&mut self, step: Step);

    /// The arguments may still hold secrets.
    fn tell(&mut self, actor: &str, args: &Map<String, Value>, what: What);
}

/// The steps alone.
impl Witness for Vec<Step> {
    fn step(&mut self, step: Step) {
        self.push(step);
    }

    fn tell(&mut self, _: &str, _: &Map<String, Value>, _: What) {}
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The call passed the gate; the tool runs next.
    Started,
    /// The call did not pass the gate; the tool was not run.
    Refused {
        kind: FailureKind,
        message: String,
        duration: Duration,
    },
    Finished {
        failure: Option<FailureKind>,
        /// What went wrong, in words; empty when nothing did.
        message: String,
        duration: Duration,
    },
    /// Somebody changed what there is: a tool of a bundle, or a bundle.
    Changed { change: String },
    /// An agent made a tool, or changed one of its own.
    Created { permissions: String },
    /// A person looked at an agent's tool.
    Reviewed { approved: bool, reason: String },
    /// A person is to be asked about a call.
    Asked { approval: Uuid, reason: String },
    /// What became of the question.
    Answered {
        approval: Uuid,
        answer: &'static str,
        reason: String,
    },
}
