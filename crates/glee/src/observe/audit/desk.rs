//! Where the audit is written: the journal and the log for people, under one lock, and what forces them
//! to disk. While events keep coming, the lock is kept from one to the next. Then the log is written at the end, before
//! the journal is sealed: of what is not sealed, whoever opens the journal next sees whether the log has it.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::store::durable::Lock;
use crate::store::journal::{Journal, Next, Sealing};

use super::Settings;
use super::log::Log;
use super::writer::lock;

/// How long events are gathered before they are forced to disk together.
const GATHERED: Duration = Duration::from_millis(50);

/// Events keep coming when so many of them came no further apart than this.
const BRISK: u32 = 4;
const APART: Duration = Duration::from_millis(1);

/// How long the lock is kept, at most: others may want it, and the journal is sealed when it is given back.
const LONGEST_TURN: Duration = Duration::from_millis(10);

/// How much the log may lack meanwhile, in bytes.
const MOST_UNSAID: usize = 64 * 1024;

/// What is written of one event.
pub(super) struct Entry {
    /// For people.
    pub(super) text: String,
    /// For the journal: the members of an object.
    pub(super) members: String,
    pub(super) on_disk: OnDisk,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnDisk {
    /// Before anybody goes on.
    First,
    Soon,
}

pub(super) struct Desk {
    log: Log,
    journal: Journal,
    syncer: Syncer,
    turn: Option<Turn>,
    pace: Pace,
    /// What the journal has and the log does not.
    unsaid: String,
}

/// Nobody else writes.
struct Turn {
    alone: Lock,
    began: Instant,
}

/// How fast events come.
#[derive(Default)]
struct Pace {
    last: Option<Instant>,
    brisk: u32,
}

impl Pace {
    fn step(&mut self, now: Instant) {
        let is_brisk = self.last.is_some_and(|last| now - last <= APART);
        self.brisk = if is_brisk { self.brisk + 1 } else { 0 };
        self.last = Some(now);
    }

    /// Whether a turn goes on.
    fn keeps(&self, began: Instant) -> bool {
        let lasted = self.last.unwrap_or(began) - began;
        self.brisk >= BRISK && lasted < LONGEST_TURN
    }
}

impl Desk {
    /// Looks where the state is, which takes as long as the disk it is on.
    pub(super) fn new(settings: &Settings) -> io::Result<Desk> {
        let place = settings.place()?;
        let mut desk = Desk {
            log: Log::new(place.directory.join("tools.log"), settings.rotate_bytes),
            journal: Journal::new(place, settings.rotate_bytes),
            syncer: Syncer::default(),
            turn: None,
            pace: Pace::default(),
            unsaid: String::new(),
        };
        desk.journal.open_what_is_there();
        Ok(desk)
    }

    /// Keeps other processes out.
    pub(super) fn alone(&mut self, patience: Duration) -> io::Result<()> {
        if self.turn.is_none() {
            self.turn = Some(Turn {
                alone: self.journal.alone(patience)?,
                began: Instant::now(),
            });
        }
        Ok(())
    }

    /// Whether others are kept out although nothing is written.
    pub(super) fn is_alone(&self) -> bool {
        self.turn.is_some()
    }

    /// Lets other processes write, and seals what was written.
    pub(super) fn give_back(&mut self) {
        let Some(turn) = self.turn.take() else {
            return;
        };
        let is_behind = !self.unsaid.is_empty();
        let said = say(&mut self.log, &mut self.unsaid);
        self.log.give_back();
        match said {
            Ok(()) => self.journal.give_back(turn.alone),
            // Whoever records next, here or elsewhere, has the log say it first, or is told why it does not.
            Err(_) => {
                self.unsaid.clear();
                self.journal.leave_unsealed(turn.alone);
            }
        }
        if is_behind {
            self.sync_soon();
        }
    }

    /// What the log will say when the turn is over.
    pub(super) fn unsaid(&self) -> &str {
        &self.unsaid
    }

    /// All of it is written under one lock, and forced to disk at once if any of it must be.
    pub(super) fn write(&mut self, entries: &[&Entry]) -> Wrote {
        let Some(turn) = self.turn.take() else {
            return Wrote::nothing("nobody keeps others from writing");
        };
        self.pace.step(Instant::now());
        let must_be_on_disk = entries.iter().any(|it| it.on_disk == OnDisk::First);
        let stays = self.pace.keeps(turn.began) && !must_be_on_disk;
        let sealing = if stays { Sealing::Later } else { Sealing::Now };
        let mut wrote = self.write_alone(&turn.alone, sealing, entries);
        let lasted = turn.began.elapsed();
        self.turn = Some(turn);
        if !stays || wrote.failed.is_some() {
            self.give_back();
        }
        if lasted >= LONGEST_TURN {
            self.journal.make_way();
        }
        wrote.synced = self.settle(&entries[..wrote.written]);
        wrote
    }

    fn write_alone(&mut self, alone: &Lock, sealing: Sealing, entries: &[&Entry]) -> Wrote {
        if let Some(why) = self.syncer.failure() {
            return Wrote::nothing(&why.to_string());
        }
        let mut wrote = Wrote {
            written: 0,
            failed: None,
            synced: Ok(()),
        };
        while wrote.written < entries.len() {
            match self.record(alone, sealing, &entries[wrote.written..]) {
                Ok(count) => wrote.written += count,
                Err(err) => {
                    wrote.failed = Some(err.to_string());
                    break;
                }
            }
        }
        wrote
    }

    fn settle(&mut self, written: &[&Entry]) -> Result<(), String> {
        if written.iter().any(|it| it.on_disk == OnDisk::First) {
            let synced = self.files().and_then(|it| sync(&it));
            return synced.map_err(|err| format!("it is not on disk: {err}"));
        }
        self.sync_soon();
        Ok(())
    }

    fn sync_soon(&mut self) {
        if !self.syncer.is_asked()
            && let Ok(files) = self.files()
        {
            self.syncer.ask(files);
        }
    }

    /// How many were recorded: one at least, fewer than all when the journal must go on in a new file.
    fn record(&mut self, alone: &Lock, sealing: Sealing, entries: &[&Entry]) -> io::Result<usize> {
        let log = &mut self.log;
        self.journal.find_end(alone, |lines| log.catch_up(lines))?;
        if sealing == Sealing::Now || self.unsaid.len() > MOST_UNSAID {
            say(&mut self.log, &mut self.unsaid)?;
        }
        match sealing {
            Sealing::Now => self.record_in_both(entries),
            Sealing::Later => self.record_in_journal(entries),
        }
    }

    /// Into both files or neither, unless glee is killed in between: then the log says what the journal does not.
    fn record_in_both(&mut self, entries: &[&Entry]) -> io::Result<usize> {
        let Desk { log, journal, .. } = self;
        let mut lines = None;
        let members = entries.iter().map(|it| it.members.as_str());
        let appended = journal.append(members, Sealing::Now, |next| {
            if let Next::Lines(count) = next {
                lines = Some(log.append(&text(&entries[..count]))?);
            }
            Ok(())
        });
        if appended.is_err()
            && let Some(lines) = lines
        {
            lines.take_back();
        }
        appended
    }

    /// The log follows when the turn is over, or by whoever finds that this glee was killed before.
    fn record_in_journal(&mut self, entries: &[&Entry]) -> io::Result<usize> {
        // What it would refuse then must not be recorded now.
        self.log.look()?;
        let Desk {
            log,
            journal,
            unsaid,
            ..
        } = self;
        let members = entries.iter().map(|it| it.members.as_str());
        let count = journal.append(members, Sealing::Later, |next| match next {
            Next::Seal => say(log, unsaid),
            Next::Lines(_) => Ok(()),
        })?;
        unsaid.push_str(&text(&entries[..count]));
        Ok(count)
    }

    fn files(&mut self) -> io::Result<Vec<Arc<File>>> {
        let mut files = vec![self.log.file()?];
        files.extend(self.journal.files()?);
        Ok(files)
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// What became of some entries.
pub(super) struct Wrote {
    /// How many of them were written.
    written: usize,
    /// Why the others were not.
    failed: Option<String>,
    synced: Result<(), String>,
}

impl Wrote {
    fn nothing(why: &str) -> Wrote {
        Wrote {
            written: 0,
            failed: Some(why.to_owned()),
            synced: Ok(()),
        }
    }

    /// What became of one of them.
    pub(super) fn of(&self, at: usize, on_disk: OnDisk) -> Result<(), String> {
        match (at < self.written, on_disk) {
            (true, OnDisk::Soon) => Ok(()),
            (true, OnDisk::First) => self.synced.clone(),
            (false, _) => Err(self.failed.clone().unwrap_or_default()),
        }
    }
}

/// Has the log say what the journal does.
fn say(log: &mut Log, unsaid: &mut String) -> io::Result<()> {
    if !unsaid.is_empty() {
        log.append(unsaid)?;
        unsaid.clear();
    }
    Ok(())
}

fn text<'a>(entries: &[&'a Entry]) -> Cow<'a, str> {
    match entries {
        [entry] => entry.text.as_str().into(),
        _ => entries.iter().map(|it| it.text.as_str()).collect(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_goes_on_while_events_keep_coming_and_is_over_in_time() {
        let began = Instant::now();
        let at = |micros| began + Duration::from_micros(micros);
        let mut pace = Pace::default();
        let mut kept = Vec::new();
        for micros in (0..20_000).step_by(500).chain([30_000, 30_500]) {
            pace.step(at(micros));
            if pace.keeps(began) {
                kept.push(micros);
            }
        }
        assert_eq!((kept.first(), kept.last()), (Some(&2_000), Some(&9_500)));
        // The next turn begins as slowly.
        assert!(!pace.keeps(at(30_000)));
    }
}
