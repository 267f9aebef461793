//! Where the audit is written: the journal and the log for people, under one lock, and what forces them
//! to disk.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::store::durable::Lock;
use crate::store::journal::Journal;

use super::Settings;
use super::text::Log;
use super::writer::{Job, OnDisk, lock};

/// How long events are gathered before they are forced to disk together.
const GATHERED: Duration = Duration::from_millis(50);

pub(super) struct Desk {
    log: Log,
    journal: Journal,
    syncer: Syncer,
}

impl Desk {
    /// Looks where the state is, which takes as long as the disk it is on.
    pub(super) fn new(settings: &Settings) -> io::Result<Desk> {
        let place = settings.place()?;
        let mut desk = Desk {
            log: Log::new(place.directory.join("tools.log"), settings.rotate_bytes),
            journal: Journal::new(place, settings.rotate_bytes),
            syncer: Syncer::default(),
        };
        desk.journal.open_what_is_there();
        Ok(desk)
    }

    /// Keeps other processes out.
    pub(super) fn alone(&mut self, patience: Duration) -> io::Result<Lock> {
        self.journal.alone(patience)
    }

    /// All that waits is written under one lock, and forced to disk at once if any of it must be. It is
    /// answered when nothing of it is left to do.
    pub(super) fn write(&mut self, alone: Lock, batch: &[Job]) {
        if let Some(why) = self.syncer.failure() {
            batch.iter().for_each(|it| it.answer(Err(why.to_string())));
            return;
        }
        let taken: Vec<&Job> = batch.iter().filter(|it| it.take()).collect();
        let mut written = 0;
        let mut failed = None;
        while written < taken.len() {
            match self.record(&alone, &taken[written..]) {
                Ok(count) => written += count,
                Err(err) => {
                    failed = Some(err.to_string());
                    break;
                }
            }
        }
        drop(alone);
        let (written, unwritten) = taken.split_at(written);
        let synced = match written.iter().any(|it| it.on_disk == OnDisk::First) {
            true => self.files().and_then(|it| sync(&it)),
            false => {
                if !self.syncer.is_asked()
                    && let Ok(files) = self.files()
                {
                    self.syncer.ask(files);
                }
                Ok(())
            }
        };
        let synced = synced.map_err(|err| format!("it is not on disk: {err}"));
        for job in written {
            job.answer(match job.on_disk {
                OnDisk::First => synced.clone(),
                OnDisk::Soon => Ok(()),
            });
        }
        for job in unwritten {
            job.answer(Err(failed.clone().unwrap_or_default()));
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
