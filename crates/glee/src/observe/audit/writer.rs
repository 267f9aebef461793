//! The one thread of a process that writes the audit. Whoever records waits for it, but not for long: a
//! disk that hangs must not take the call with it.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use crate::store::durable::Lock;
use crate::store::journal::Journal;

use super::Settings;
use super::text::Log;

/// How long a call waits for its record. It must be told within five seconds.
const PATIENCE: Duration = Duration::from_secs(4);
/// How long events are gathered before they are forced to disk together.
const GATHERED: Duration = Duration::from_millis(50);
/// How long one looks for an answer, or for the next event, before one goes to sleep. To be woken takes
/// about as long, and to write an event takes less.
const GLANCE: Duration = Duration::from_micros(40);
/// Events that are written at once.
const MOST_AT_ONCE: usize = 256;
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
    unanswered: Arc<AtomicUsize>,
}

struct Job {
    text: String,
    entry: String,
    on_disk: OnDisk,
    /// Whose move it is; see below.
    state: Arc<AtomicU8>,
    answer: Mutex<Option<oneshot::Sender<Result<(), String>>>>,
    unanswered: Arc<AtomicUsize>,
}

/// An event that was handed in, and its answer.
pub(super) struct Handed {
    state: Arc<AtomicU8>,
    answered: oneshot::Receiver<Result<(), String>>,
    /// Nothing else waits to be written.
    is_alone: bool,
}

/// A job waits, until either the writer takes it or its caller gives it up.
const WAITS: u8 = 0;
const TAKEN: u8 = 1;
const GIVEN_UP: u8 = 2;

impl Writer {
    pub(super) fn start(settings: Settings) -> Result<Writer, String> {
        let (jobs, todo) = sync_channel(MOST_WAITING);
        let is_there = Arc::new(AtomicBool::new(true));
        let leaving = Leaving(is_there.clone());
        thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || {
                let _leaving = leaving;
                run(&settings, &todo);
            })
            .map_err(|err| format!("no thread to write it: {err}"))?;
        Ok(Writer {
            jobs,
            is_there,
            unanswered: Arc::default(),
        })
    }

    pub(super) fn is_there(&self) -> bool {
        self.is_there.load(Ordering::Acquire)
    }

    pub(super) fn hand_in(
        &self,
        text: String,
        entry: String,
        on_disk: OnDisk,
    ) -> Result<Handed, String> {
        let (answer, answered) = oneshot::channel();
        let state = Arc::new(AtomicU8::new(WAITS));
        let before = self.unanswered.fetch_add(1, Ordering::AcqRel);
        let job = Job {
            text,
            entry,
            on_disk,
            state: state.clone(),
            answer: Mutex::new(Some(answer)),
            unanswered: self.unanswered.clone(),
        };
        self.jobs.try_send(job).map_err(|err| match err {
            TrySendError::Full(_) => "too many events wait to be written".to_owned(),
            TrySendError::Disconnected(_) => gone(),
        })?;
        Ok(Handed {
            state,
            answered,
            is_alone: before == 0,
        })
    }
}

fn gone() -> String {
    "the thread that writes it is gone".to_owned()
}

impl Handed {
    /// Waits for the answer, for so long and no longer.
    pub(super) async fn answer(self) -> Result<(), String> {
        let Handed {
            state,
            mut answered,
            is_alone,
        } = self;
        // Where many wait, the thread has others to serve meanwhile.
        if is_alone && let Some(answer) = glance(|| answered.try_recv().ok()) {
            return answer;
        }
        match tokio::time::timeout(PATIENCE, answered).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(gone())),
            Err(_) => Err(give_up(&state)),
        }
    }

    /// The same, and keeps the thread.
    pub(super) fn wait(self) -> Result<(), String> {
        let Handed {
            state,
            mut answered,
            ..
        } = self;
        let began = Instant::now();
        loop {
            match answered.try_recv() {
                Ok(answer) => return answer,
                Err(TryRecvError::Closed) => return Err(gone()),
                Err(TryRecvError::Empty) if began.elapsed() < PATIENCE => {
                    thread::sleep(Duration::from_micros(100));
                }
                Err(TryRecvError::Empty) => return Err(give_up(&state)),
            }
        }
    }
}

/// Looks for something that comes within moments, if it comes. Where there is only one processor, looking
/// would keep it from coming.
fn glance<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    static SEVERAL: LazyLock<bool> =
        LazyLock::new(|| thread::available_parallelism().is_ok_and(|it| it.get() > 1));
    let began = Instant::now();
    loop {
        let seen = look();
        if seen.is_some() || !*SEVERAL || began.elapsed() > GLANCE {
            return seen;
        }
        std::hint::spin_loop();
    }
}

/// What nobody waits for any more is not written later, as if it had been done.
fn give_up(state: &AtomicU8) -> String {
    state.store(GIVEN_UP, Ordering::Release);
    format!("the disk did not take it within {PATIENCE:?}, or another process holds the journal")
}

impl Job {
    fn take(&self) -> bool {
        self.state
            .compare_exchange(WAITS, TAKEN, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    fn answer(&self, answer: Result<(), String>) {
        if let Some(waits) = lock(&self.answer).take() {
            self.unanswered.fetch_sub(1, Ordering::AcqRel);
            // Nobody may be waiting any more.
            let _ = waits.send(answer);
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.answer(Err(gone()));
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

fn run(settings: &Settings, todo: &Receiver<Job>) {
    let mut desk = Desk::new(settings).ok();
    // Meanwhile nobody waits; when there is something to write, somebody does.
    if let Some(desk) = &mut desk {
        desk.journal.open_what_is_there();
    }
    let mut next = todo.recv().ok();
    while let Some(first) = next {
        let mut batch = vec![first];
        batch.extend(todo.try_iter().take(MOST_AT_ONCE - 1));
        if desk.is_none() {
            match Desk::new(settings) {
                Ok(it) => desk = Some(it),
                Err(err) => batch.iter().for_each(|it| it.answer(Err(err.to_string()))),
            }
        }
        if let Some(desk) = &mut desk {
            desk.write(&batch);
        }
        drop(batch);
        // A call ends soon after it has begun.
        next = glance(|| todo.try_recv().ok()).or_else(|| todo.recv().ok());
    }
}

impl Desk {
    /// Looks where the state is, which takes as long as the disk it is on.
    fn new(settings: &Settings) -> io::Result<Desk> {
        let place = settings.place()?;
        Ok(Desk {
            log: Log::new(place.directory.join("tools.log"), settings.rotate_bytes),
            journal: Journal::new(place, settings.rotate_bytes),
            syncer: Syncer::default(),
        })
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
        let taken: Vec<&Job> = batch.iter().filter(|it| it.take()).collect();
        let mut left = taken.as_slice();
        let mut waiting = Vec::new();
        while !left.is_empty() {
            match self.record(&alone, left) {
                Err(err) => {
                    left.iter().for_each(|it| it.answer(Err(err.to_string())));
                    break;
                }
                Ok(count) => {
                    let (recorded, rest) = left.split_at(count);
                    for job in recorded {
                        match job.on_disk {
                            OnDisk::First => waiting.push(*job),
                            OnDisk::Soon => job.answer(Ok(())),
                        }
                    }
                    left = rest;
                }
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

    /// Into both files or neither, unless glee is killed in between: then the log says what the journal
    /// does not. How many were recorded: one at least, fewer than all when the journal
    /// must go on in a new file.
    fn record(&mut self, alone: &Lock, jobs: &[&Job]) -> io::Result<usize> {
        let entries: Vec<&str> = jobs.iter().map(|it| it.entry.as_str()).collect();
        let Desk { log, journal, .. } = self;
        let mut lines = None;
        let appended = journal.append(alone, &entries, |count| {
            let text: String = jobs[..count].iter().map(|it| it.text.as_str()).collect();
            lines = Some(log.append(&text)?);
            Ok(())
        });
        if appended.is_err()
            && let Some(lines) = lines
        {
            lines.take_back();
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
