//! What people are asked and what they answered, on disk: one file for each question, changed under one
//! lock by whichever process comes first.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use glee_core::port::Clock;
use jiff::SignedDuration;
use rustix::fs::OFlags;
use uuid::Uuid;

use super::durable::{self, Lock};
use super::record::{Finished, Record, Started, State, timestamp};

/// Largest file that is read.
const MOST_BYTES: u64 = 4 << 20;
/// How long a question that is over can still be looked up.
const KEPT: SignedDuration = SignedDuration::from_hours(7 * 24);

#[derive(Clone)]
pub struct Approvals {
    directory: PathBuf,
    clock: Arc<dyn Clock>,
}

impl Approvals {
    pub fn new(directory: PathBuf, clock: Arc<dyn Clock>) -> Approvals {
        Approvals { directory, clock }
    }

    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// As things stand now, the oldest question first.
    pub fn list(&self) -> io::Result<Vec<Record>> {
        let mut all = Vec::new();
        for id in self.ids()? {
            // What cannot be read approves nothing; what went away meanwhile is gone.
            if let Ok(Some(record)) = self.get(id) {
                all.push(record);
            }
        }
        all.sort_by_key(|it| (it.asked_at, it.id));
        Ok(all)
    }

    /// As it stands now: what is late counts as expired, and what was left by a dead process as
    /// indeterminate.
    pub fn get(&self, id: Uuid) -> io::Result<Option<Record>> {
        let Some(mut record) = self.read(id)? else {
            return Ok(None);
        };
        match record.state {
            State::Pending | State::Approved if record.is_late(&*self.clock) => {
                record.state = State::Expired;
            }
            // A denial is told until its time is up, and then asked about again.
            State::Denied if record.is_late(&*self.clock) => record.state = State::Expired,
            State::Started if !self.is_running(id) => {
                // It may have come to its end between the two looks.
                if let Some(again) = self.read(id)?
                    && again.state == State::Finished
                {
                    return Ok(Some(again));
                }
                record.state = State::Indeterminate;
            }
            _ => {}
        }
        Ok(Some(record))
    }

    /// Keeps others from changing anything until it is dropped.
    pub fn alone(&self) -> io::Result<Alone<'_>> {
        durable::directory(&self.directory)?;
        Ok(Alone {
            of: self,
            _lock: durable::lock(&self.directory.join("lock"))?,
        })
    }

    /// Changes with every change of any question, for those who wait for one; not more often than the
    /// file system's clock ticks.
    pub fn changed_at(&self) -> Option<std::time::SystemTime> {
        fs::metadata(&self.directory).ok()?.modified().ok()
    }

    fn ids(&self) -> io::Result<Vec<Uuid>> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(err) => return Err(err),
        };
        let named = |entry: fs::DirEntry| {
            let name = entry.file_name();
            name.to_str()?.strip_suffix(".json")?.parse().ok()
        };
        Ok(entries.flatten().filter_map(named).collect())
    }

    fn read(&self, id: Uuid) -> io::Result<Option<Record>> {
        let file = File::options()
            .read(true)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
            .open(self.file(id));
        let file = match file {
            Ok(file) => file,
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(err) => return Err(err),
        };
        let mut text = String::new();
        file.take(MOST_BYTES).read_to_string(&mut text)?;
        let record: Record = serde_json::from_str(&text).map_err(io::Error::other)?;
        match record.id == id && record.state != State::Indeterminate {
            true => Ok(Some(record)),
            false => Err(io::Error::other("it is not what its name says")),
        }
    }

    /// Whoever runs a call holds a lock that the kernel gives back when they die.
    fn is_running(&self, id: Uuid) -> bool {
        durable::is_locked(&self.mark(id)).unwrap_or(false)
    }

    fn file(&self, id: Uuid) -> PathBuf {
        self.directory.join(format!("{id}.json"))
    }

    fn mark(&self, id: Uuid) -> PathBuf {
        self.directory.join(format!("{id}.run"))
    }
}

/// The only one who changes questions and answers.
pub struct Alone<'a> {
    of: &'a Approvals,
    _lock: Lock,
}

impl Alone<'_> {
    pub fn list(&self) -> io::Result<Vec<Record>> {
        self.of.list()
    }

    /// What is seen to be late is late from then on, whatever the clocks say later.
    pub fn get(&self, id: Uuid) -> io::Result<Option<Record>> {
        let mut found = self.of.get(id)?;
        if let Some(record) = &mut found
            && record.state == State::Expired
            && self
                .of
                .read(id)?
                .is_some_and(|it| it.state.may_become(State::Expired))
        {
            self.advance(record, State::Expired)?;
        }
        Ok(found)
    }

    /// Keeps a new question.
    pub fn insert(&self, record: &Record) -> io::Result<()> {
        let written = serde_json::to_vec_pretty(record)?;
        durable::create(&self.of.file(record.id), &written)
    }

    /// Takes a question one step further, along the only ways there are.
    pub fn advance(&self, record: &mut Record, next: State) -> io::Result<()> {
        let on_disk = self.of.read(record.id)?.map(|it| it.state);
        match on_disk.is_some_and(|it| it.may_become(next)) {
            true => {
                record.state = next;
                let written = serde_json::to_vec_pretty(record)?;
                durable::replace(&self.of.file(record.id), &written)
            }
            false => Err(io::Error::other(format!(
                "it is {} and cannot become {}",
                on_disk.map_or("gone", State::name),
                next.name()
            ))),
        }
    }

    /// Uses an approval: from here on it is good for no other run. The mark is there before the word,
    /// so whoever reads the word finds the mark.
    pub fn start(&self, mut record: Record, call: Uuid) -> io::Result<Running> {
        let Some(mark) = durable::try_lock(&self.of.mark(record.id))? else {
            return Err(io::Error::other("somebody runs it"));
        };
        record.started = Some(Started {
            call,
            at: timestamp(&*self.of.clock),
        });
        self.advance(&mut record, State::Started)?;
        Ok(Running {
            of: self.of.clone(),
            record,
            _mark: mark,
        })
    }

    /// Forgets what has been over for long, and what a process left half written when it died.
    pub fn sweep(&self) -> io::Result<()> {
        let now = timestamp(&*self.of.clock);
        for record in self.list()? {
            let is_over = !matches!(
                record.state,
                State::Pending | State::Approved | State::Started
            );
            if is_over && now.duration_since(record.expires_at) > KEPT {
                fs::remove_file(self.of.file(record.id))?;
                remove(&self.of.mark(record.id))?;
            }
        }
        for entry in fs::read_dir(&self.of.directory)?.flatten() {
            // Whoever writes holds the lock, so nobody does.
            if entry.file_name().to_string_lossy().starts_with(".new-") {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(err) if err.kind() != io::ErrorKind::NotFound => Err(err),
        _ => Ok(()),
    }
}

/// A run under an approval. While it lives, so does its mark.
pub struct Running {
    of: Approvals,
    record: Record,
    _mark: Lock,
}

impl Running {
    /// What cannot be written stays `started`, and will be told as indeterminate.
    pub fn finish(mut self, outcome: &str) -> io::Result<()> {
        self.record.finished = Some(Finished {
            at: timestamp(&*self.of.clock),
            outcome: outcome.to_owned(),
        });
        let alone = self.of.alone()?;
        alone.advance(&mut self.record, State::Finished)?;
        remove(&self.of.mark(self.record.id))
    }
}

/// How often those who wait look.
pub const LOOK: Duration = Duration::from_millis(100);
