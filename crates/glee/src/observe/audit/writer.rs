//! Who writes the audit: mostly the one who records, there and then, because to wake another takes longer
//! than to write a line. A thread of its own does what may take long: what must be on disk first, what
//! another process is in the way of, and what has to be opened.
//!
//! A disk that hangs takes whoever writes with it. The thread sees that, and has somebody else answer the
//! call; who comes meanwhile leaves the event to be written, and waits no longer than anybody should.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use std::{hint, mem};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use crate::behind::behind_the_others;
use crate::store::journal;

use super::desk::{Desk, Entry, OnDisk};
use super::{Outwaited, Settings, Stuck};

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
/// How many events are recorded alone before one looks for company.
const ALONE_FOR: usize = 256;
const LONGEST_HOPE: usize = 8;
/// How often one who finds somebody at it looks again. To leave the event to them takes longer than they do.
const SPINS: usize = 200;
/// How often whoever writes looks for what others have left meanwhile, before that is the thread's.
const MOST_LOOKS: usize = 4;

pub(super) struct Writer {
    shared: Arc<Shared>,
}

struct Shared {
    settings: Settings,
    outwaited: Outwaited,
    thread: OnceLock<Thread>,
    waiting: Mutex<VecDeque<Job>>,
    /// Nobody waits for it: who finds it taken leaves the event, and who has it looks again before leaving.
    desk: Mutex<Option<Desk>>,
    /// Who writes without the thread.
    here: Mutex<Option<Here>>,
    /// How often somebody began to.
    begun: AtomicU64,
    /// Whether the thread looks after them.
    is_watched: AtomicBool,
    /// Whether other processes are kept out until there is nothing to write for a while.
    are_alone: AtomicBool,
    is_over: AtomicBool,
    company: Company,
}

/// Whether other calls begin and end meanwhile, so that one writes for all. How it was the last times tells; now and
/// then somebody waits for others to see whether it still is so.
#[derive(Default)]
struct Company {
    /// How often in a row nobody else need come before none is expected.
    hope: AtomicUsize,
    asked: AtomicUsize,
}

impl Company {
    fn is_expected(&self) -> bool {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        self.hope.load(Ordering::Relaxed) > 0 || asked.is_multiple_of(ALONE_FOR)
    }

    fn came(&self, together: usize) {
        // Two are written one after the other as fast as one waits for the other.
        let hope = match together {
            0..=2 => self.hope.load(Ordering::Relaxed).saturating_sub(1),
            _ => LONGEST_HOPE,
        };
        self.hope.store(hope, Ordering::Relaxed);
    }
}

/// Somebody who writes without the thread.
struct Here {
    who: Who,
    since: Instant,
    is_given_up: bool,
}

#[derive(Clone)]
struct Who {
    call: Stuck,
    /// Where the others run.
    runtime: Handle,
}

struct Job {
    entry: Entry,
    /// Whose move it is; see below.
    state: Arc<AtomicU8>,
    answer: Option<oneshot::Sender<Result<(), String>>>,
}

/// An event that was handed in, and its answer.
pub(super) struct Handed {
    state: Arc<AtomicU8>,
    answered: oneshot::Receiver<Result<(), String>>,
}

/// A job waits, until either somebody takes it to write it or its caller gives it up.
const WAITS: u8 = 0;
const TAKEN: u8 = 1;
const GIVEN_UP: u8 = 2;

impl Writer {
    pub(super) fn start(settings: Settings, outwaited: Outwaited) -> Result<Writer, String> {
        let shared = Arc::new(Shared {
            settings,
            outwaited,
            thread: OnceLock::new(),
            waiting: Mutex::default(),
            desk: Mutex::default(),
            here: Mutex::default(),
            begun: AtomicU64::new(0),
            is_watched: AtomicBool::new(false),
            are_alone: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            company: Company::default(),
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

    /// What the log will say in a moment, unless somebody is at it for longer.
    pub(super) fn unsaid(&self) -> String {
        let desk = self.shared.desk_soon();
        let unsaid = desk.as_ref().and_then(|it| Some(it.as_ref()?.unsaid()));
        let unsaid = unsaid.unwrap_or_default().to_owned();
        drop(desk);
        // Whoever found it taken meanwhile has left an event to be written.
        self.shared.wake_thread();
        unsaid
    }

    pub(super) fn is_there(&self) -> bool {
        !self.shared.is_over.load(Ordering::Acquire)
    }

    /// Has it written by the thread.
    pub(super) fn hand_in(&self, entry: Entry) -> Result<Handed, String> {
        let handed = self.shared.hand_in(entry)?;
        self.shared.wake_thread();
        Ok(handed)
    }

    /// Writes it here and now, if others go on should that hang, and nobody else is at it.
    pub(super) async fn write(&self, entry: Entry, call: Stuck) -> Result<(), String> {
        let runtime = match Handle::try_current() {
            Ok(it) if entry.on_disk == OnDisk::Soon && it.metrics().num_workers() > 1 => it,
            _ => return self.hand_in(entry)?.answer().await,
        };
        let who = Who { call, runtime };
        if self.shared.company.is_expected() {
            return self.write_in_company(entry, &who).await;
        }
        let entry = match self.shared.write_here(entry, &who) {
            Ok(written) => return written,
            Err(entry) => entry,
        };
        let handed = self.shared.hand_in(entry)?;
        // Whoever was at it may have looked for the last time already.
        self.shared.see_to(handed, &who).await
    }

    /// Whoever is about to record something hands it in first; one of them writes all of it.
    async fn write_in_company(&self, entry: Entry, who: &Who) -> Result<(), String> {
        let mut handed = self.shared.hand_in(entry)?;
        let left = Left(&self.shared);
        behind_the_others().await;
        mem::forget(left);
        // Then whoever did it has seen to the rest, too.
        match handed.answered.try_recv() {
            Ok(answer) => answer,
            Err(_) => self.shared.see_to(handed, who).await,
        }
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
    async fn answer(mut self) -> Result<(), String> {
        // Mostly it is there, and needs no clock.
        if let Ok(answer) = self.answered.try_recv() {
            return answer;
        }
        match tokio::time::timeout(PATIENCE, self.answered).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(gone())),
            Err(_) => Err(give_up(&self.state)),
        }
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
    too_late()
}

fn too_late() -> String {
    format!("the disk did not take it within {PATIENCE:?}, or another process holds the journal")
}

impl Job {
    fn take(&self) -> bool {
        self.state
            .compare_exchange(WAITS, TAKEN, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    fn answer(&mut self, answer: Result<(), String>) {
        if let Some(waits) = self.answer.take() {
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

/// What was handed in by somebody who does not come back to write it is the thread's.
struct Left<'a>(&'a Shared);

impl Drop for Left<'_> {
    fn drop(&mut self) {
        self.0.wake_thread();
    }
}

struct Leaving<'a>(&'a Shared);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
        lock(&self.0.waiting).clear();
    }
}

/// Whether somebody who wrote was done before others gave them up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InTime {
    Yes,
    No,
}

/// Somebody is at it, until this is dropped, also by a panic. Only who has the desk is.
struct AtIt<'a>(&'a Shared);

impl AtIt<'_> {
    fn end(self) -> InTime {
        // Taken as it is decided: whoever is done in time is not given up any more.
        match lock(&self.0.here).take().is_some_and(|it| it.is_given_up) {
            true => InTime::No,
            false => InTime::Yes,
        }
    }
}

impl Drop for AtIt<'_> {
    fn drop(&mut self) {
        *lock(&self.0.here) = None;
    }
}

impl Here {
    /// Whose caller is to be told, when it has taken too long.
    fn outwait(&mut self) -> Option<Who> {
        // The thread that hangs may be the one that has an eye on the clock for all others; one that is woken takes its
        // place.
        self.who.runtime.spawn(async {});
        let is_too_late = !self.is_given_up && self.since.elapsed() >= PATIENCE;
        self.is_given_up |= is_too_late;
        is_too_late.then(|| self.who.clone())
    }
}

impl Shared {
    fn hand_in(&self, entry: Entry) -> Result<Handed, String> {
        let (answer, answered) = oneshot::channel();
        let state = Arc::new(AtomicU8::new(WAITS));
        let job = Job {
            entry,
            state: state.clone(),
            answer: Some(answer),
        };
        let mut waiting = lock(&self.waiting);
        if self.is_over.load(Ordering::Acquire) {
            return Err(gone());
        }
        if waiting.len() >= MOST_WAITING {
            return Err("too many events wait to be written".to_owned());
        }
        waiting.push_back(job);
        Ok(Handed { state, answered })
    }

    /// Sees to it that it is written, by this or by whoever is at it.
    async fn see_to(&self, handed: Handed, who: &Who) -> Result<(), String> {
        match self.write_the_rest(who, &mut Vec::new()) {
            InTime::Yes => handed.answer().await,
            InTime::No => Err(too_late()),
        }
    }

    /// Writes an event and what waits, unless somebody else is at it or it is the thread's to do: then it is given back.
    fn write_here(&self, entry: Entry, who: &Who) -> Result<Result<(), String>, Entry> {
        let Some(mut desk) = self.desk_soon() else {
            return Err(entry);
        };
        let Some(open) = desk.as_mut() else {
            return Err(entry);
        };
        let at_it = self.begin(who);
        let before = self.take(|it| it.entry.on_disk == OnDisk::Soon);
        // Who came before is written before.
        let is_next = lock(&self.waiting).is_empty();
        if !is_next || open.alone(Duration::ZERO).is_err() {
            self.put_back(before);
            return Err(entry);
        }
        if !before.is_empty() {
            self.company.came(before.len() + 1);
        }
        let (mut written, own) = write_batch(open, before, Some(&entry));
        self.look_after(open);
        let in_time = at_it.end();
        // Whoever came while this was held has left it to us, so it is looked at afterwards.
        drop(desk);
        match (in_time, self.write_the_rest(who, &mut written)) {
            (InTime::Yes, InTime::Yes) => Ok(own),
            _ => Ok(Err(too_late())),
        }
    }

    fn begin(&self, who: &Who) -> AtIt<'_> {
        *lock(&self.here) = Some(Here {
            who: who.clone(),
            since: Instant::now(),
            is_given_up: false,
        });
        self.begun.fetch_add(1, Ordering::SeqCst);
        // After that: the thread looks once more whether somebody has begun before it turns away.
        if !self.is_watched.swap(true, Ordering::SeqCst) {
            self.wake_thread();
        }
        AtIt(self)
    }

    /// Writes what waits and need not be on disk first, unless somebody else is at it, who will look again.
    fn write_the_rest(&self, who: &Who, written: &mut Vec<Answered>) -> InTime {
        let in_time = self.look_for_more(who, written);
        // All together, when nothing more is written here: who was woken before would wait for this very thread, and
        // hang with it.
        for (mut job, answer) in written.drain(..) {
            job.answer(answer);
        }
        in_time
    }

    fn look_for_more(&self, who: &Who, written: &mut Vec<Answered>) -> InTime {
        for _ in 0..MOST_LOOKS {
            if lock(&self.waiting).is_empty() {
                return InTime::Yes;
            }
            let Some(mut desk) = self.desk() else {
                return InTime::Yes;
            };
            let Some(open) = desk.as_mut() else {
                break;
            };
            let at_it = self.begin(who);
            let batch = self.take(|it| it.entry.on_disk == OnDisk::Soon);
            // Somebody else has written it meanwhile. Who came since has left it to us, so it is looked at once more.
            if batch.is_empty() && lock(&self.waiting).is_empty() {
                continue;
            }
            if batch.is_empty() || open.alone(Duration::ZERO).is_err() {
                self.put_back(batch);
                break;
            }
            self.company.came(batch.len());
            written.extend(write_batch(open, batch, None).0);
            self.look_after(open);
            if at_it.end() == InTime::No {
                self.wake_thread();
                return InTime::No;
            }
        }
        self.wake_thread();
        InTime::Yes
    }

    /// Other processes are let in by the thread, when nothing comes for a while.
    fn look_after(&self, desk: &Desk) {
        if desk.is_alone() && !self.are_alone.swap(true, Ordering::SeqCst) {
            self.wake_thread();
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
        lock(&self.here).is_some() || self.are_alone.load(Ordering::SeqCst)
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
                    let (written, _) = write_batch(desk, self.take(|_| true), None);
                    desk.give_back();
                    for (mut job, answer) in written {
                        job.answer(answer);
                    }
                }
                Err(err) => self.refuse(&err.to_string()),
            }
        }
    }

    /// Sees to it that other processes can write when nothing comes here, and that whoever waits for a disk
    /// that hangs is told in time.
    fn watch(&self) {
        let begun = self.begun.load(Ordering::SeqCst);
        let are_alone = self.are_alone.load(Ordering::SeqCst);
        thread::park_timeout(if are_alone { REST } else { TICK });
        if self.begun.load(Ordering::SeqCst) != begun {
            return;
        }
        let stuck = lock(&self.here).as_mut().map(Here::outwait);
        if let Some(stuck) = stuck {
            if let Some(who) = stuck {
                // Whoever answers for it may write to what needs the others.
                let _among_them = who.runtime.enter();
                (self.outwaited)(who.call, too_late());
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
        self.is_unsealed() || !lock(&self.waiting).is_empty()
    }

    fn take(&self, which: impl Fn(&Job) -> bool) -> Vec<Job> {
        let mut waiting = lock(&self.waiting);
        let fit = waiting.iter().take(MOST_AT_ONCE).take_while(|it| which(it));
        let count = fit.count();
        waiting.drain(..count).collect()
    }

    fn put_back(&self, batch: Vec<Job>) {
        let mut waiting = lock(&self.waiting);
        batch
            .into_iter()
            .rev()
            .for_each(|it| waiting.push_front(it));
    }

    fn refuse(&self, why: &str) {
        for mut job in self.take(|_| true) {
            job.answer(Err(why.to_owned()));
        }
    }

    /// As `desk`, also when somebody is about to be done.
    fn desk_soon(&self) -> Option<MutexGuard<'_, Option<Desk>>> {
        (0..SPINS).find_map(|_| {
            let desk = self.desk();
            if desk.is_none() {
                hint::spin_loop();
            }
            desk
        })
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

/// A job that is done, and what its caller is told.
type Answered = (Job, Result<(), String>);

/// What became of the jobs, and of the last event, which has none.
fn write_batch(
    desk: &mut Desk,
    mut batch: Vec<Job>,
    last: Option<&Entry>,
) -> (Vec<Answered>, Result<(), String>) {
    batch.retain(Job::take);
    let entries: Vec<&Entry> = batch.iter().map(|it| &it.entry).chain(last).collect();
    let wrote = desk.write(&entries);
    let last = last.map_or(Ok(()), |it| wrote.of(batch.len(), it.on_disk));
    let answer = |(at, job): (usize, Job)| {
        let answer = wrote.of(at, job.entry.on_disk);
        (job, answer)
    };
    (batch.into_iter().enumerate().map(answer).collect(), last)
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn company_is_expected_after_some_came_and_looked_for_now_and_then() {
        let company = Company::default();
        let expected = |times: usize| (0..times).filter(|_| company.is_expected()).count();
        assert_eq!(expected(ALONE_FOR), 1);
        company.came(3);
        assert_eq!(expected(ALONE_FOR), ALONE_FOR);
        (0..LONGEST_HOPE).for_each(|_| company.came(2));
        assert_eq!(expected(ALONE_FOR), 1);
    }
}
