//! The doors to the world. Each is a small trait that the `glee` crate implements.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use futures_util::future::{FutureExt, Shared};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::admit::Admitted;
use crate::elicit::Asked;
use crate::event::Event;
use crate::model::{Origin, ToolSpec};
use crate::outcome::{Failure, FailureKind, Held};
use crate::secret::Secret;
use crate::shape::Raw;

pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Who calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub name: String,
}

/// Resolves when the caller no longer wants the answer.
#[derive(Clone)]
pub struct Cancel(Shared<Later<'static, ()>>);

impl Cancel {
    pub fn never() -> Cancel {
        Cancel::when(std::future::pending())
    }

    pub fn when(gone: impl Future<Output = ()> + Send + 'static) -> Cancel {
        let gone: Later<'static, ()> = Box::pin(gone);
        Cancel(gone.shared())
    }

    pub async fn cancelled(&self) {
        self.0.clone().await;
    }
}

/// The one who calls, while the call goes on.
pub trait Party: Send + Sync {
    /// Hears how far the tool is, and what it says meanwhile.
    fn hear(&self, note: Note);

    /// Whether to hear also what the tool prints, while it does.
    fn hears_output(&self) -> bool {
        false
    }

    /// Hears what the tool prints, without secrets, and where in all of it that stands.
    fn hear_output(&self, _offset: u64, _text: String) {}

    /// Is asked for what the call lacks.
    fn supply<'a>(&'a self, asked: &'a [Asked]) -> Later<'a, Supply>;

    /// Whom this caller's calls are put to, when that is not whom the project's calls are put to.
    fn approver(&self) -> Option<&dyn Approver>;
}

/// What a running tool tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Note {
    Progress {
        done: f64,
        total: Option<f64>,
        message: Option<String>,
    },
    Log {
        level: Level,
        text: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Supply {
    /// Answers by key; keys may be missing.
    Given(Map<String, Value>),
    Declined {
        key: String,
    },
    /// There is nobody to ask, or not now.
    Nobody,
}

/// A caller who only waits for the answer.
pub struct Waits;

impl Party for Waits {
    fn hear(&self, _: Note) {}

    fn supply<'a>(&'a self, _: &'a [Asked]) -> Later<'a, Supply> {
        Box::pin(async { Supply::Nobody })
    }

    fn approver(&self) -> Option<&dyn Approver> {
        None
    }
}

/// Runs what was admitted, and nothing else: only `admit` can make an `Admitted`.
pub trait Executor: Send + Sync {
    /// Makes ready what will hold the call to its grant, or refuses when this machine cannot hold it.
    fn hold<'a>(&'a self, call: &'a Admitted) -> Later<'a, Result<Ready<'a>, Failure>>;
}

/// A call that is held, and has not begun.
pub struct Ready<'a> {
    /// By what.
    pub held: Held,
    /// Nothing of the tool runs before this is awaited.
    pub run: Later<'a, Result<Raw, Failure>>,
}

/// A tool that is a function of the program itself. It answers for its own permissions and its deadline:
/// no sandbox holds it, but for the processes that it starts in one.
pub trait Function: Send + Sync {
    fn hold<'a>(&'a self, call: &'a Admitted) -> Later<'a, Result<Ready<'a>, Failure>>;
}

/// Asks a person.
pub trait Approver: Send + Sync {
    /// Who answers, for those who read of it later.
    fn name(&self) -> &str {
        "person"
    }

    fn ask<'a>(&'a self, question: &'a Question<'a>) -> Later<'a, Answer>;
}

pub struct Question<'a> {
    /// Of the record that keeps the question and its answer.
    pub id: Uuid,
    pub spec: &'a ToolSpec,
    pub args: &'a Map<String, Value>,
    pub caller: &'a Caller,
    pub reason: &'a str,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Approved,
    /// Approved, and later calls as well.
    Lasting(Lasting),
    /// Approved with other arguments, which are checked and judged again.
    Amended(Map<String, Value>),
    Denied {
        reason: String,
    },
    /// Nobody is there to answer.
    Nobody {
        hint: String,
    },
}

/// For how long a yes is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasting {
    /// For every call of this caller to this very tool, while the process lives that runs it.
    Session,
    /// For this caller, this very tool and these arguments, until somebody takes it back.
    Always,
}

/// What a yes is about: nothing else may run by it.
#[derive(Clone, Copy)]
pub struct Matter<'a> {
    pub spec: &'a ToolSpec,
    pub args: &'a Map<String, Value>,
    pub caller: &'a Caller,
}

/// Keeps what people are asked and what they answered, so that a question outlives the call that
/// raised it. A call that needs nobody's yes never gets here.
pub trait Approvals: Send + Sync {
    /// What a person has said before about calls like this one, if that is a yes.
    fn standing(&self, matter: &Matter<'_>) -> Option<Consent>;

    /// The no of a person to this very call, while it lasts.
    fn denied(&self, matter: &Matter<'_>) -> Result<Option<(Uuid, String)>, Failure>;

    /// Keeps a question, before it is put to anybody.
    fn open(&self, matter: &Matter<'_>, reason: &str) -> Result<Kept, Failure>;

    /// Keeps an answer, to a question about this matter or one whose arguments were chosen instead.
    fn answer(
        &self,
        id: Uuid,
        matter: &Matter<'_>,
        answer: &Answer,
        by: &str,
    ) -> Result<(), Failure>;

    /// What was approved under an id that the caller names.
    fn recall(&self, id: Uuid, matter: &Matter<'_>) -> Result<Recalled, Failure>;

    /// Uses a yes, immediately before the run: it is good for one, and only while everything it was
    /// about is as it was.
    fn start(
        &self,
        consent: &Consent,
        matter: &Matter<'_>,
        call: Uuid,
    ) -> Result<Box<dyn Using>, Failure>;
}

/// A yes that is being used.
pub trait Using: Send {
    fn over(self: Box<Self>, failure: Option<FailureKind>);
}

/// What is known of a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Kept {
    /// Nobody has answered yet.
    Open {
        id: Uuid,
        expires_at: String,
    },
    /// Somebody said yes, perhaps to other arguments, and nobody has used it.
    Approved {
        id: Uuid,
        args: Map<String, Value>,
        /// Why they were asked.
        reason: String,
    },
    Denied {
        id: Uuid,
        reason: String,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Recalled {
    Approved {
        args: Map<String, Value>,
        /// Whether they are others than the caller asked for.
        amended: bool,
        /// Why the person was asked.
        reason: String,
    },
    /// It is not what was approved any more; a person must be asked anew.
    Changed {
        args: Map<String, Value>,
        what: String,
    },
}

/// By what a call may be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Consent {
    /// Nobody had to be asked.
    NotNeeded,
    /// The yes of this id, for one run.
    Once(Uuid),
    /// What was said earlier, and of which digest of the tool.
    Standing { by: String, digest: String },
}

/// A service that is asked before each call, after the rules.
pub trait Principles: Send + Sync {
    /// An `Err` says why there is no opinion.
    fn consult<'a>(&'a self, deed: &'a Deed<'a>) -> Later<'a, Result<Opinion, String>>;
}

/// What somebody is about to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deed<'a> {
    pub tool: &'a str,
    /// As in [`crate::rule::permit::words`].
    pub permissions: Vec<&'static str>,
    pub safety_level: &'static str,
    pub agent: &'a str,
    /// The name of the project's directory.
    pub project: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opinion {
    pub allowed: bool,
    pub reason: String,
}

/// Tells where paths lead, for rules that judge them.
pub trait Files: Send + Sync {
    /// What `~` means.
    fn home(&self) -> Option<&Path>;

    /// The path with every link on its way followed, as far as it exists.
    fn resolve(&self, path: &Path) -> PathBuf;
}

/// A machine of which nothing is known; every path leads where it says.
pub struct Anywhere;

impl Files for Anywhere {
    fn home(&self) -> Option<&Path> {
        None
    }

    fn resolve(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }
}

/// Knows what people decided about the tools that agents made.
pub trait Reviews: Send + Sync {
    /// Who made the tool, and what people think of it as it stands on disk at this moment.
    fn origin(&self, spec: &ToolSpec) -> Origin;
}

/// Looks up secrets by name.
pub trait Secrets: Send + Sync {
    fn get(&self, name: &str) -> Option<Secret>;
}

/// Hears of every call. An observer that cannot take note of a start stops the call.
pub trait Observer: Send + Sync {
    fn observe(&self, event: &Event) -> Result<(), String>;

    /// The same, for those who must not keep a thread waiting.
    fn hear<'a>(&'a self, event: &'a Event) -> Later<'a, Result<(), String>> {
        Box::pin(async { self.observe(event) })
    }
}

pub trait Clock: Send + Sync {
    fn now(&self) -> SystemTime;

    /// Time that only goes on, from some moment on.
    fn elapsed(&self) -> Duration {
        let now = self.now().duration_since(SystemTime::UNIX_EPOCH);
        now.unwrap_or_default()
    }

    /// A clock that nobody can set; nothing where there is none.
    fn boot(&self) -> Option<Boot> {
        None
    }
}

/// How long a machine has been up, sleep included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    /// Another one after each start.
    pub id: String,
    pub up: Duration,
}
