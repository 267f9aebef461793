//! The audit: every event goes to the journal, or the call does not go on, and to the log for people, at once or, while
//! events keep coming, a moment later.

mod desk;
mod entry;
mod log;
mod text;
mod time;
mod writer;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use glee_core::event::{Event, What};
use glee_core::port::{Later, Observer};

use uuid::Uuid;

use crate::store::journal::Place;

use desk::{Entry, OnDisk};
use writer::Writer;

/// How a project wants to be recorded.
#[derive(Clone, Debug)]
pub struct Settings {
    pub root: PathBuf,
    /// Of the journal and the log.
    pub directory: PathBuf,
    /// Of the journal's key and head; where glee keeps such things unless given.
    pub state: Option<PathBuf>,
    pub rotate_bytes: u64,
    pub fsync: Fsync,
}

/// When what is recorded must be on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fsync {
    /// A moment later, many events at once. What people decide is waited for all the same.
    #[default]
    Soon,
    /// Before the call goes on.
    Always,
}

impl Settings {
    fn place(&self) -> io::Result<Place> {
        let directory = self.directory.clone();
        match &self.state {
            Some(state) => Ok(Place {
                directory,
                state: state.clone(),
            }),
            None => Place::of(&self.root, directory),
        }
    }
}

/// A call whose record hangs, and whoever waits for it with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The call's.
    pub id: Uuid,
    pub at: Stage,
}

/// What was to be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Start,
    End,
    /// Something else than that it runs.
    Aside,
}

/// Answers a call in the place of one who cannot any more, and is told why.
type Outwaited = Arc<dyn Fn(Stuck, String) + Send + Sync>;

pub struct Audit {
    settings: Settings,
    outwaited: Outwaited,
    /// Begins with the first event: most commands have none.
    writer: Mutex<Option<Arc<Writer>>>,
}

impl Audit {
    pub fn new(settings: Settings) -> Audit {
        Audit {
            settings,
            outwaited: Arc::new(|_, _| {}),
            writer: Mutex::new(None),
        }
    }

    /// Has somebody answer the calls that hang with a disk.
    pub fn answered_by(self, outwaited: impl Fn(Stuck, String) + Send + Sync + 'static) -> Audit {
        Audit {
            outwaited: Arc::new(outwaited),
            ..self
        }
    }

    /// Makes ready what will write, for an event that is about to come.
    pub fn expect_event(&self) {
        // The event itself will say what is wrong.
        let _ = self.writer();
    }

    /// Seals what was recorded, for whoever ends.
    pub fn settle(&self) {
        let kept = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(writer) = kept.as_ref() {
            writer.settle();
        }
    }

    /// What the end of the log says about one caller.
    pub fn tail(&self, path: &Path, caller: &str) -> io::Result<String> {
        let kept = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // A disk that hangs keeps who reads it, and nobody else.
        let writer = kept.clone();
        drop(kept);
        let unsaid = writer.map(|it| it.unsaid()).unwrap_or_default();
        log::tail(path, &unsaid, caller)
    }

    fn writer(&self) -> Result<Arc<Writer>, String> {
        let mut kept = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(writer) = kept.as_ref().filter(|it| it.is_there()) {
            return Ok(writer.clone());
        }
        let writer = Arc::new(Writer::start(
            self.settings.clone(),
            self.outwaited.clone(),
        )?);
        Ok(kept.insert(writer).clone())
    }

    fn entry(&self, event: &Event) -> Entry {
        Entry {
            text: text::line(event),
            members: entry::entry(event),
            on_disk: match (&event.what, self.settings.fsync) {
                (What::Started | What::Refused { .. } | What::Finished { .. }, Fsync::Soon) => {
                    OnDisk::Soon
                }
                _ => OnDisk::First,
            },
        }
    }
}

impl Observer for Audit {
    fn observe(&self, event: &Event) -> Result<(), String> {
        self.writer()?.hand_in(self.entry(event))?.wait()
    }

    fn hear<'a>(&'a self, event: &'a Event) -> Later<'a, Result<(), String>> {
        let call = Stuck {
            id: event.id,
            at: match event.what {
                What::Started => Stage::Start,
                What::Finished { .. } => Stage::End,
                _ => Stage::Aside,
            },
        };
        let entry = self.entry(event);
        Box::pin(async move { self.writer()?.write(entry, call).await })
    }
}

/// What an event is called in both files.
fn word(what: &What) -> &'static str {
    match what {
        What::Started => "TOOL_STARTED",
        What::Refused { .. } => "TOOL_REFUSED",
        What::Finished { .. } => "TOOL_EXECUTED",
        What::Changed { .. } => "REGISTRY_CHANGED",
        What::Created { .. } => "TOOL_CREATED",
        What::Reviewed { approved: true, .. } => "TOOL_APPROVED",
        What::Reviewed {
            approved: false, ..
        } => "TOOL_DENIED",
        What::Asked { .. } => "APPROVAL_ASKED",
        What::Answered { .. } => "APPROVAL_ANSWERED",
    }
}
