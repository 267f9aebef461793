//! The one thread of a process that writes the audit. Whoever records waits for it, but not for long: a
//! disk that hangs must not take the call with it.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::store::durable::Lock;
use crate::store::journal::{Journal, Place};

use super::text::Log;

/// How long a call waits for its record. It must be told within five seconds.
const PATIENCE: Duration = Duration::from_secs(4);
/// How long events are gathered before they are forced to disk together.
const GATHERED: Duration = Duration::from_millis(50);
/// Events that wait at once; when there are more, something hangs.
const MOST_WAITING: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnDisk {
    /// Before anybody goes on.
    First,
    Soon,
}

#[derive(Clone)]
pub(super) struct Writer {
    jobs: SyncSender<Job>,
    is_there: Arc<AtomicBool>,
}

struct Job {
    text: String,
    entry: String,
    on_disk: OnDisk,
    /// Whose move it is; see below.
    state: Arc<AtomicU8>,
    answer: SyncSender<Result<(), String>>,
}

/// A job waits, until either the writer takes it or its caller gives it up.
const WAITS: u8 = 0;
const TAKEN: u8 = 1;
const GIVEN_UP: u8 = 2;

impl Writer {
    pub(super) fn start(place: Place, rotate: u64) -> Result<Writer, String> {
        let (jobs, todo) = sync_channel(MOST_WAITING);
        let is_there = Arc::new(AtomicBool::new(true));
        let leaving = Leaving(is_there.clone());
        let desk = Desk {
            log: Log::new(place.directory.join("tools.log")),
            journal: Journal::new(place, rotate),
            syncer: Syncer::default(),
        };
        thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || {
                let _leaving = leaving;
                desk.run(&todo);
            })
            .map_err(|err| format!("no thread to write it: {err}"))?;
        Ok(Writer { jobs, is_there })
    }

    pub(super) fn is_there(&self) -> bool {
        self.is_there.load(Ordering::Acquire)
    }

    pub(super) fn record(
        &self,
        text: String,
        entry: String,
        on_disk: OnDisk,
    ) -> Result<(), String> {
        let (answer, answered) = sync_channel(1);
        let state = Arc::new(AtomicU8::new(WAITS));
        let job = Job {
            text,
            entry,
            on_disk,
            state: state.clone(),
            answer,
        };
        let gone = || "the thread that writes it is gone".to_owned();
        self.jobs.try_send(job).map_err(|err| match err {
            TrySendError::Full(_) => "too many events wait to be written".to_owned(),
            TrySendError::Disconnected(_) => gone(),
        })?;
        match answered.recv_timeout(PATIENCE) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Disconnected) => Err(gone()),
            Err(RecvTimeoutError::Timeout) => {
                // What nobody waits for any more is not written later, as if it had been done.
                state.store(GIVEN_UP, Ordering::Release);
                Err(format!(
                    "the disk did not take it within {PATIENCE:?}, or another process holds the journal"
                ))
            }
        }
    }
}

impl Job {
    fn take(&self) -> bool {
        self.state
            .compare_exchange(WAITS, TAKEN, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    fn answer(&self, answer: Result<(), String>) {
        // Nobody may be waiting any more.
        let _ = self.answer.try_send(answer);
    }
}

struct Leaving(Arc<AtomicBool>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

struct Desk {
    log: Log,
    journal: Journal,
    syncer: Syncer,
}

impl Desk {
    fn run(mut self, todo: &Receiver<Job>) {
        while let Ok(first) = todo.recv() {
            let mut batch = vec![first];
            batch.extend(todo.try_iter());
            self.write(&batch);
        }
    }

    /// All that waits is written under one lock, and forced to disk at once if any of it must be.
    fn write(&mut self, batch: &[Job]) {
        let refuse = |why: &io::Error| {
            for job in batch {
                job.answer(Err(why.to_string()));
            }
        };
        let alone = match self.journal.alone() {
            Ok(alone) => alone,
            Err(err) => return refuse(&err),
        };
        if let Some(why) = self.syncer.failure() {
            return refuse(&why);
        }
        let mut waiting = Vec::new();
        for job in batch.iter().filter(|it| it.take()) {
            match self.record(&alone, job) {
                Err(err) => job.answer(Err(err.to_string())),
                Ok(()) if job.on_disk == OnDisk::First => waiting.push(job),
                Ok(()) => job.answer(Ok(())),
            }
        }
        drop(alone);
        if !waiting.is_empty() {
            let synced = self.files().and_then(|it| sync(&it));
            let synced = synced.map_err(|err| format!("it is not on disk: {err}"));
            waiting.iter().for_each(|it| it.answer(synced.clone()));
        } else if !self.syncer.is_asked()
            && let Ok(files) = self.files()
        {
            self.syncer.ask(files);
        }
    }

    /// Both files or neither.
    fn record(&mut self, alone: &Lock, job: &Job) -> io::Result<()> {
        let line = self.log.append(&job.text)?;
        let appended = self.journal.append(alone, &job.entry);
        if appended.is_err() {
            line.take_back();
        }
        appended
    }

    fn files(&mut self) -> io::Result<Vec<Arc<File>>> {
        let mut files = vec![self.log.file()?];
        files.extend(self.journal.files()?);
        Ok(files)
    }
}

fn sync(files: &[Arc<File>]) -> io::Result<()> {
    files.iter().try_for_each(|it| it.sync_data())
}

/// Forces to disk what nobody waits for, on a thread of its own: it takes a hundred times as long as to
/// write it.
#[derive(Default)]
struct Syncer {
    thread: Option<SyncSender<Vec<Arc<File>>>>,
    is_asked: Arc<AtomicBool>,
    /// What went wrong, for the next one who records: what was recorded before may be lost.
    failed: Arc<Mutex<Option<io::Error>>>,
}

impl Syncer {
    fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Acquire)
    }

    fn ask(&mut self, files: Vec<Arc<File>>) {
        self.is_asked.store(true, Ordering::Release);
        if self.thread.is_none() {
            self.thread = self.start();
        }
        // Without a thread it is done here and now.
        match &self.thread {
            Some(thread) if thread.try_send(files.clone()).is_ok() => {}
            _ => settle(&files, &self.is_asked, &self.failed),
        }
    }

    fn start(&self) -> Option<SyncSender<Vec<Arc<File>>>> {
        let (ask, asked) = sync_channel::<Vec<Arc<File>>>(1);
        let (is_asked, failed) = (self.is_asked.clone(), self.failed.clone());
        thread::Builder::new()
            .name("audit-sync".to_owned())
            .spawn(move || {
                for files in asked {
                    thread::sleep(GATHERED);
                    settle(&files, &is_asked, &failed);
                }
            })
            .is_ok()
            .then_some(ask)
    }

    fn failure(&self) -> Option<io::Error> {
        let mut failed = lock(&self.failed);
        let err = failed.take()?;
        Some(io::Error::other(format!(
            "the disk did not keep what was recorded before: {err}"
        )))
    }
}

fn settle(files: &[Arc<File>], is_asked: &AtomicBool, failed: &Mutex<Option<io::Error>>) {
    // Whoever writes from here on asks again.
    is_asked.store(false, Ordering::Release);
    if let Err(err) = sync(files) {
        *lock(failed) = Some(err);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
