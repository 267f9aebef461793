//! Who writes the audit: mostly the one who records, there and then, because to wake another takes longer
//! than to write a line. A thread of its own does what may take long: what must be on disk first, what
//! another process is in the way of, and what has to be opened.
//!
//! A disk that hangs must not take the call with it, so whoever records can be outwaited, and nobody who has
//! an answer depends on the thread of the one who writes: answers are given last, and it makes way after each.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use crate::store::journal;

use super::Settings;
use super::desk::Desk;

/// How long a call waits for its record. It must be told within five seconds.
const PATIENCE: Duration = Duration::from_secs(4);
/// How often the thread looks after those who write without it. What hangs is seen at the second look, and
/// whoever called meanwhile begins to wait only then.
const TICK: Duration = Duration::from_millis(250);
/// How long other processes are kept out after the last event.
const REST: Duration = Duration::from_millis(3);
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

pub(super) struct Writer {
    shared: Arc<Shared>,
}

struct Shared {
    settings: Settings,
    thread: OnceLock<Thread>,
    waiting: Mutex<VecDeque<Job>>,
    /// Nobody waits for it: who finds it taken leaves the event, and who has it looks again before leaving.
    desk: Mutex<Option<Desk>>,
    /// Somebody is about to write without the thread.
    is_coming: AtomicBool,
    /// When many record at once, they are let come first: together they cost little more than one.
    are_many: AtomicBool,
    /// How often somebody began, and ended, to do so.
    begun: AtomicU64,
    ended: AtomicU64,
    /// Whether the thread looks after them.
    is_watched: AtomicBool,
    /// Whether other processes are kept out until there is nothing to write for a while.
    are_alone: AtomicBool,
    /// Where they run.
    runtime: Mutex<Option<Handle>>,
    is_over: AtomicBool,
}

pub(super) struct Job {
    pub(super) text: String,
    pub(super) entry: String,
    pub(super) on_disk: OnDisk,
    /// Whose move it is; see below.
    state: Arc<AtomicU8>,
    answer: Mutex<Option<oneshot::Sender<Result<(), String>>>>,
}

/// An event that was handed in, and its answer.
pub(super) struct Handed {
    /// Whether it is written by a task of its own on this very thread.
    is_here: bool,
    state: Arc<AtomicU8>,
    answered: oneshot::Receiver<Result<(), String>>,
}

/// A job waits, until either somebody takes it to write it or its caller gives it up.
const WAITS: u8 = 0;
const TAKEN: u8 = 1;
const GIVEN_UP: u8 = 2;

impl Writer {
    pub(super) fn start(settings: Settings) -> Result<Writer, String> {
        let shared = Arc::new(Shared {
            settings,
            thread: OnceLock::new(),
            waiting: Mutex::default(),
            desk: Mutex::default(),
            is_coming: AtomicBool::new(false),
            are_many: AtomicBool::new(false),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            is_watched: AtomicBool::new(false),
            are_alone: AtomicBool::new(false),
            runtime: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let own = shared.clone();
        let thread = thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || {
                let _leaving = Leaving(&own);
                own.run();
            })
            .map_err(|err| format!("no thread to write it: {err}"))?;
        // It has not begun to look for itself, and nobody else has it yet.
        let _ = shared.thread.set(thread.thread().clone());
        Ok(Writer { shared })
    }

    /// Waits until all is sealed, for a moment; nothing more is to come.
    pub(super) fn settle(&self) {
        let began = Instant::now();
        while self.shared.is_unsealed() && began.elapsed() < TICK {
            thread::sleep(Duration::from_millis(1));
        }
    }

    pub(super) fn is_there(&self) -> bool {
        !self.shared.is_over.load(Ordering::Acquire)
    }

    /// Has it written by the thread.
    pub(super) fn hand_in(
        &self,
        text: String,
        entry: String,
        on_disk: OnDisk,
    ) -> Result<Handed, String> {
        let handed = self.shared.hand_in(text, entry, on_disk)?;
        self.shared.wake_thread();
        Ok(handed)
    }

    /// Has it written at once, by a task that runs next on this very thread, if others would go on should
    /// it hang.
    pub(super) fn hand_in_here(
        &self,
        text: String,
        entry: String,
        on_disk: OnDisk,
    ) -> Result<Handed, String> {
        let runtime = match Handle::try_current() {
            Ok(it) if on_disk == OnDisk::Soon && it.metrics().num_workers() > 1 => it,
            _ => return self.hand_in(text, entry, on_disk),
        };
        let mut handed = self.shared.hand_in(text, entry, on_disk)?;
        handed.is_here = !self.shared.are_many.load(Ordering::Relaxed);
        if !self.shared.is_coming.swap(true, Ordering::SeqCst) {
            if !self.shared.is_watched.swap(true, Ordering::SeqCst) {
                self.shared.wake_thread();
            }
            *lock(&self.shared.runtime) = Some(runtime.clone());
            runtime.spawn(
                Coming {
                    shared: self.shared.clone(),
                    stage: Stage::OnTheWay,
                }
                .write(),
            );
        }
        Ok(handed)
    }
}

/// Somebody who is about to write without the thread.
struct Coming {
    shared: Arc<Shared>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    OnTheWay,
    Writing,
    Done,
}

impl Coming {
    /// Writes what waits, as far as that takes no longer than the disk does, and leaves the rest to the thread.
    async fn write(mut self) {
        if self.shared.are_many.load(Ordering::Relaxed) {
            tokio::task::yield_now().await;
        }
        self.stage = Stage::Writing;
        self.shared.is_coming.store(false, Ordering::SeqCst);
        loop {
            match self.shared.write_quickly() {
                // Whoever was answered waits for this very thread.
                Next::Again => tokio::task::yield_now().await,
                Next::Thread => break,
                Next::Over => {
                    self.stage = Stage::Done;
                    break;
                }
            }
        }
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        if self.stage == Stage::OnTheWay {
            self.shared.is_coming.store(false, Ordering::SeqCst);
        }
        if self.stage != Stage::Done {
            self.shared.wake_thread();
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// More has come meanwhile, and was left to whoever wrote.
    Again,
    /// What is left is the thread's.
    Thread,
    /// Nothing is left, or somebody else is at it, who will look again.
    Over,
}

/// Counts what has ended, also by a panic.
struct Ending<'a>(&'a AtomicU64);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        self.shared.wake_thread();
    }
}

fn gone() -> String {
    "the thread that writes it is gone".to_owned()
}

impl Handed {
    /// Waits for the answer, for so long and no longer.
    pub(super) async fn answer(self) -> Result<(), String> {
        let answer = match tokio::time::timeout(PATIENCE, self.answered).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(gone())),
            Err(_) => Err(give_up(&self.state)),
        };
        // A few tasks that wake each other run one after the other on one thread; more than that, and another
        // thread is woken, which takes longer than the whole call. After this they are counted anew.
        if self.is_here {
            tokio::task::yield_now().await;
        }
        answer
    }

    /// The same, and keeps the thread. Where that has other tasks, they go to another.
    pub(super) fn wait(self) -> Result<(), String> {
        let flavor = Handle::try_current().map(|it| it.runtime_flavor());
        match flavor {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(|| self.look_and_sleep()),
            _ => self.look_and_sleep(),
        }
    }

    fn look_and_sleep(mut self) -> Result<(), String> {
        let began = Instant::now();
        loop {
            match self.answered.try_recv() {
                Ok(answer) => return answer,
                Err(TryRecvError::Closed) => return Err(gone()),
                Err(TryRecvError::Empty) if began.elapsed() < PATIENCE => {
                    thread::sleep(Duration::from_micros(100));
                }
                Err(TryRecvError::Empty) => return Err(give_up(&self.state)),
            }
        }
    }
}

/// What nobody waits for any more is not written later, as if it had been done.
fn give_up(state: &AtomicU8) -> String {
    state.store(GIVEN_UP, Ordering::Release);
    format!("the disk did not take it within {PATIENCE:?}, or another process holds the journal")
}

impl Job {
    pub(super) fn take(&self) -> bool {
        self.state
            .compare_exchange(WAITS, TAKEN, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    pub(super) fn answer(&self, answer: Result<(), String>) {
        if let Some(waits) = lock(&self.answer).take() {
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

struct Leaving<'a>(&'a Shared);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
        lock(&self.0.waiting).clear();
    }
}

impl Shared {
    fn hand_in(&self, text: String, entry: String, on_disk: OnDisk) -> Result<Handed, String> {
        let (answer, answered) = oneshot::channel();
        let state = Arc::new(AtomicU8::new(WAITS));
        let job = Job {
            text,
            entry,
            on_disk,
            state: state.clone(),
            answer: Mutex::new(Some(answer)),
        };
        let mut waiting = lock(&self.waiting);
        if self.is_over.load(Ordering::Acquire) {
            return Err(gone());
        }
        if waiting.len() >= MOST_WAITING {
            return Err("too many events wait to be written".to_owned());
        }
        waiting.push_back(job);
        Ok(Handed {
            is_here: false,
            state,
            answered,
        })
    }

    /// Writes what waits and need not be on disk first, unless somebody else is at it.
    fn write_quickly(&self) -> Next {
        let Some(mut desk) = self.desk() else {
            return Next::Over;
        };
        let Some(open) = desk.as_mut() else {
            return Next::Thread;
        };
        self.begun.fetch_add(1, Ordering::SeqCst);
        let ending = Ending(&self.ended);
        if open.alone(Duration::ZERO).is_err() {
            return Next::Thread;
        }
        let batch = self.take(|it| it.on_disk == OnDisk::Soon);
        self.are_many.store(batch.len() > 1, Ordering::Relaxed);
        open.write(&batch);
        if open.is_alone() && !self.are_alone.swap(true, Ordering::SeqCst) {
            self.wake_thread();
        }
        drop(ending);
        // Whoever comes while this is held leaves it to us, so it is looked at afterwards.
        drop(desk);
        match (lock(&self.waiting).is_empty(), batch.is_empty()) {
            (true, _) => Next::Over,
            (false, true) => Next::Thread,
            (false, false) => Next::Again,
        }
    }

    /// What the thread does.
    fn run(&self) {
        if let (Some(mut desk), Ok(opened)) = (self.desk(), Desk::new(&self.settings)) {
            // Meanwhile nobody waits; when there is something to write, somebody does.
            *desk = Some(opened);
        }
        loop {
            self.write_what_waits();
            let is_over = self.is_over.load(Ordering::Acquire);
            if is_over && lock(&self.waiting).is_empty() {
                self.give_back();
                return;
            }
            // What is left at the end is with somebody who will not tell when it is done.
            match is_over || self.is_watched.load(Ordering::SeqCst) {
                false => thread::park(),
                true => self.watch(),
            }
        }
    }

    /// Lets other processes write, unless somebody is at it.
    fn give_back(&self) {
        if let Some(mut desk) = self.desk() {
            if let Some(desk) = desk.as_mut() {
                desk.give_back();
            }
            // Said where nobody can say otherwise meanwhile.
            self.are_alone.store(false, Ordering::SeqCst);
        }
    }

    /// Whoever writes says that they keep others out before they say that they are done.
    fn is_unsealed(&self) -> bool {
        let ended = self.ended.load(Ordering::SeqCst);
        self.begun.load(Ordering::SeqCst) != ended || self.are_alone.load(Ordering::SeqCst)
    }

    fn wake_thread(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    fn write_what_waits(&self) {
        while !lock(&self.waiting).is_empty()
            && let Some(mut desk) = self.desk()
        {
            if desk.is_none() {
                match Desk::new(&self.settings) {
                    Ok(opened) => *desk = Some(opened),
                    Err(err) => self.refuse(&err.to_string()),
                }
            }
            let Some(desk) = desk.as_mut() else {
                continue;
            };
            match desk.alone(journal::PATIENCE) {
                Ok(()) => {
                    desk.write(&self.take(|_| true));
                    desk.give_back();
                }
                Err(err) => self.refuse(&err.to_string()),
            }
        }
    }

    /// Sees to it that other processes can write when nothing comes here, and that whoever waits for a disk
    /// that hangs is told in time. The thread that hangs may be the one that has an eye on the clock for all
    /// others; one that is woken takes its place.
    fn watch(&self) {
        let begun = self.begun.load(Ordering::SeqCst);
        let are_alone = self.are_alone.load(Ordering::SeqCst);
        thread::park_timeout(if are_alone { REST } else { TICK });
        if self.begun.load(Ordering::SeqCst) != begun {
            return;
        }
        if self.ended.load(Ordering::SeqCst) < begun {
            if let Some(runtime) = &*lock(&self.runtime) {
                runtime.spawn(async {});
            }
            return;
        }
        if are_alone {
            self.give_back();
            return;
        }
        self.is_watched.store(self.is_at_it(), Ordering::SeqCst);
        // Somebody may have come just now, and seen that they are watched.
        if self.begun.load(Ordering::SeqCst) != begun || self.is_at_it() {
            self.is_watched.store(true, Ordering::SeqCst);
        }
    }

    /// Whether somebody is about to write, who may be kept from it by whatever else runs on their thread, or
    /// keeps others out.
    fn is_at_it(&self) -> bool {
        self.is_coming.load(Ordering::SeqCst)
            || self.are_alone.load(Ordering::SeqCst)
            || !lock(&self.waiting).is_empty()
    }

    fn take(&self, which: impl Fn(&Job) -> bool) -> Vec<Job> {
        let mut waiting = lock(&self.waiting);
        let fit = waiting.iter().take(MOST_AT_ONCE).take_while(|it| which(it));
        let count = fit.count();
        waiting.drain(..count).collect()
    }

    fn refuse(&self, why: &str) {
        for job in self.take(|_| true) {
            job.answer(Err(why.to_owned()));
        }
    }

    /// Unless somebody else is at it. Who panicked there may have left it half done.
    fn desk(&self) -> Option<MutexGuard<'_, Option<Desk>>> {
        match self.desk.try_lock() {
            Ok(desk) => Some(desk),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(poisoned)) => {
                let mut desk = poisoned.into_inner();
                *desk = None;
                self.desk.clear_poison();
                Some(desk)
            }
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
