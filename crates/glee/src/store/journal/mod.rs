//! A journal whose lines cannot be changed unseen: `{"seq":7,…,"mac":"5f0c…"}`.
//!
//! Each line carries a keyed MAC over its own bytes and the MAC of the line before. Where the chain ends is
//! sealed, and kept with the key where tools cannot reach it. A line goes to the file first, then to the
//! head, and the head is what counts: whoever cuts, removes or swaps files changes neither it nor the
//! lines that follow, so `verify` finds it, and the journal goes on all the same.
//!
//! Whoever writes much keeps the lock for a while, and seals all of it at the end: to take the lock, to look
//! what others did and to seal cost five times as much as the line itself.

mod files;
mod read;
mod recover;
mod seal;
mod verify;

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::durable::{self, Latch, Lock};
use super::kept::{Kept, Writing};

pub use files::Place;
pub use read::{Follow, Lines, last, lines};
pub use verify::{Problem, Report, look, verify};

use seal::{Head, Key, at};

/// Longest line, with its end.
pub const LONGEST_LINE: usize = 64 << 10;
/// What glee adds to an entry, at most.
pub const AROUND_ENTRY: usize = 128;

/// How long others may hold the lock. A call must be answered within five seconds.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// How often the lock's file may be replaced while it is taken.
const MOST_LATCHES: usize = 8;

/// How often whoever waits for the lock looks.
const LOOK: Duration = Duration::from_millis(1);
/// How long somebody who had it for a while stays away, so that others get it.
const AWAY: Duration = Duration::from_millis(3);

pub struct Journal {
    place: Place,
    /// A file that would grow beyond this is closed, and the next one begun.
    rotate: u64,
    latch: Option<Latch>,
    key: Option<Key>,
    head: Kept,
    file: Kept,
    /// The sealed head, as it was last read or written here.
    seen: Option<(String, Head)>,
    /// Where the chain ends, as long as nobody else can write.
    end: Option<End>,
    away_until: Option<Instant>,
}

struct End {
    key: Key,
    head: Head,
    /// Whether the head says so.
    is_sealed: bool,
    file: Arc<File>,
    sealed: Arc<File>,
}

/// When the head says what was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealing {
    /// Before anybody is told that it is.
    Now,
    /// When the lock is given back.
    Later,
}

/// What is about to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// What was added before is sealed, because its file is full.
    Seal,
    /// So many entries are added.
    Lines(usize),
}

impl Journal {
    pub fn new(place: Place, rotate: u64) -> Journal {
        Journal {
            head: Kept::new(place.head(), Writing::InPlace),
            file: Kept::new(place.current(), Writing::AtTheEnd),
            place,
            rotate,
            latch: None,
            key: None,
            seen: None,
            end: None,
            away_until: None,
        }
    }

    /// Opens what will be written to. What is not there is made by whoever has the lock, and what cannot
    /// be opened is told when it is needed.
    pub fn open_what_is_there(&mut self) {
        self.latch = self
            .latch
            .take()
            .or_else(|| Latch::at(&self.place.lock()).ok());
        self.key = self
            .key
            .take()
            .or_else(|| Key::load(&self.place.key()).ok()?);
        for kept in [&mut self.head, &mut self.file] {
            if kept.path().exists() {
                let _ = kept.now();
            }
        }
    }

    /// One process at a time writes, until this is given back. Others may hold it so long.
    pub fn alone(&mut self, patience: Duration) -> io::Result<Lock> {
        if let Some(until) = self.away_until.take() {
            let left = until.saturating_duration_since(Instant::now());
            if left > patience {
                self.away_until = Some(until);
                return Err(io::ErrorKind::TimedOut.into());
            }
            thread::sleep(left);
        }
        for _ in 0..MOST_LATCHES {
            let latch = match &self.latch {
                Some(latch) => latch,
                None => self.latch.insert(latch(&self.place)?),
            };
            let lock = hold(latch, &self.place, patience)?;
            if latch.is_in_place() {
                return Ok(lock);
            }
            // Others hold another file by this name.
            self.latch = None;
        }
        let why = format!("{} keeps being replaced", self.place.lock().display());
        Err(io::Error::other(why))
    }

    /// Finds where the chain ends, unless that is known because others were kept out since. `adopted` is told the
    /// lines that a glee which was killed had written and not sealed, before they are.
    pub fn find_end(
        &mut self,
        alone: &Lock,
        mut adopted: impl FnMut(&[String]) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.end.is_none() {
            self.end = Some(self.end(alone, &mut adopted)?);
        }
        Ok(())
    }

    /// Adds entries, where the chain ends: the members of an object each, without its braces. They have reached the
    /// kernel when this returns. How many: one at least, fewer than all when the next must go to a new file. `beside`
    /// is told what comes next, and may stop it.
    pub fn append<'a>(
        &mut self,
        entries: impl Iterator<Item = &'a str> + Clone,
        sealing: Sealing,
        beside: impl FnMut(Next) -> io::Result<()>,
    ) -> io::Result<usize> {
        let Some(mut end) = self.end.take() else {
            return Err(io::Error::other("nobody looked where the journal ends"));
        };
        let appended = self.append_at(&mut end, entries, sealing, beside);
        // What was added before is sealed all the same.
        self.end = Some(end);
        appended
    }

    fn append_at<'a>(
        &mut self,
        end: &mut End,
        entries: impl Iterator<Item = &'a str> + Clone,
        sealing: Sealing,
        mut beside: impl FnMut(Next) -> io::Result<()>,
    ) -> io::Result<usize> {
        let room = entries.clone().map(|it| it.len() + AROUND_ENTRY).sum();
        let (mut lines, mut next, mut count) = (Vec::with_capacity(room), end.head.clone(), 0);
        for entry in entries.clone() {
            // Lines that are sealed together say so: after a crash, only these may be without a seal.
            let joined = count > 0 || !end.is_sealed;
            let start = lines.len();
            let mac = end
                .key
                .line(&mut lines, next.seq + 1, &next.mac, joined, entry);
            let length = lines.len() - start;
            if length > LONGEST_LINE {
                return Err(io::Error::other("the event is too long for the journal"));
            }
            if next.length > 0 && next.length + length as u64 > self.rotate {
                lines.truncate(start);
                if count > 0 {
                    break;
                }
                beside(Next::Seal)?;
                self.rotate(end)?;
                return self.append_at(end, entries, sealing, beside);
            }
            next = Head {
                seq: next.seq + 1,
                length: next.length + length as u64,
                mac,
                ..next
            };
            count += 1;
        }
        beside(Next::Lines(count))?;
        let mut written = (&*end.file)
            .write_all(&lines)
            .map_err(|err| at(self.file.path(), err));
        if sealing == Sealing::Now {
            written = written.and_then(|()| self.seal(&end.key, next.clone(), &end.sealed));
        }
        match written {
            Ok(()) => {
                end.head = next;
                end.is_sealed = sealing == Sealing::Now;
                Ok(count)
            }
            Err(err) => {
                // Half a line, or one that is not sealed, would be taken for the trace of a crash.
                let _ = durable::cut(&end.file, end.head.length);
                Err(err)
            }
        }
    }

    /// Lets others write. What could not be sealed is found by whoever writes next.
    pub fn give_back(&mut self, alone: Lock) {
        if let Some(end) = self.end.take()
            && !end.is_sealed
        {
            let _ = self.seal(&end.key, end.head, &end.sealed);
        }
        drop(alone);
    }

    /// The same, and leaves what was added to be taken in, as after a crash.
    pub fn leave_unsealed(&mut self, alone: Lock) {
        self.end = None;
        drop(alone);
    }

    /// Lets others write first, if there are any who wait for it.
    pub fn make_way(&mut self) {
        if durable::is_locked(&self.place.waiting()).unwrap_or(false) {
            self.away_until = Some(Instant::now() + AWAY);
        }
    }

    fn end(
        &mut self,
        alone: &Lock,
        adopted: &mut dyn FnMut(&[String]) -> io::Result<()>,
    ) -> io::Result<End> {
        let mut key = self.key()?;
        let (mut head, sealed) = self.sealed(&mut key)?;
        let mut file = self.file.now()?;
        if file.length != head.length {
            self.recover(alone, &key, &mut head, &sealed, adopted)?;
            file = self.file.now()?;
        }
        Ok(End {
            key,
            head,
            is_sealed: true,
            file: file.file,
            sealed,
        })
    }

    /// What must be on disk for the journal to be.
    pub fn files(&mut self) -> io::Result<[Arc<File>; 2]> {
        Ok([self.file.now()?.file, self.head.now()?.file])
    }

    fn key(&mut self) -> io::Result<Key> {
        if let Some(key) = &self.key {
            return Ok(key.clone());
        }
        let path = self.place.key();
        let key = match Key::load(&path)? {
            Some(key) => key,
            None => Key::make(&path)?,
        };
        Ok(self.key.insert(key).clone())
    }

    /// Where the chain ends, as the head says; a chain without a head begins anew.
    fn sealed(&mut self, key: &mut Key) -> io::Result<(Head, Arc<File>)> {
        let file = self.head.now()?.file;
        let text = text(&file)?;
        if let Some((seen, head)) = &self.seen
            && *seen == text
        {
            return Ok((head.clone(), file));
        }
        let mut head = key.unseal(&text);
        if head.is_none() {
            // When the state was lost, somebody else may have begun anew already.
            self.key = None;
            *key = self.key()?;
            head = key.unseal(&text);
        }
        let head = match head {
            Some(head) => {
                self.seen = Some((text, head.clone()));
                head
            }
            None => self.begin(key, &file)?,
        };
        Ok((head, file))
    }

    /// What is there already was sealed with a key, or at a place, that is not known here: the project was
    /// copied, or its state was lost. It is kept, under another name.
    fn begin(&mut self, key: &Key, sealed: &File) -> io::Result<Head> {
        for (_, path) in files::list(&self.place.directory)?.full {
            fs::rename(&path, self.place.unsealed(&path))?;
        }
        let current = self.place.current();
        if fs::symlink_metadata(&current).is_ok_and(|it| it.is_file() && it.len() > 0) {
            fs::rename(&current, self.place.unsealed(&current))?;
        }
        self.seal(key, Head::default(), sealed)?;
        Ok(Head::default())
    }

    fn seal(&mut self, key: &Key, head: Head, sealed: &File) -> io::Result<()> {
        let text = key.seal(&head);
        self.seen = None;
        sealed
            .write_all_at(text.as_bytes(), 0)
            .map_err(|err| at(self.head.path(), err))?;
        self.seen = Some((text, head));
        Ok(())
    }

    /// Gives the full file a number, and begins the next one.
    fn rotate(&mut self, end: &mut End) -> io::Result<()> {
        // Where a full file ends must be known before it is one.
        if !end.is_sealed {
            self.seal(&end.key, end.head.clone(), &end.sealed)?;
            end.is_sealed = true;
        }
        end.file.sync_all()?;
        let (current, full) = (self.place.current(), self.place.full(end.head.files + 1));
        let moved = renameat_with(CWD, &current, CWD, &full, RenameFlags::NOREPLACE);
        if moved == Err(rustix::io::Errno::EXIST) {
            // Nobody but glee gives out these numbers.
            fs::rename(&full, self.place.unsealed(&full))?;
            fs::rename(&current, &full)?;
        } else {
            moved?;
        }
        File::open(&self.place.directory)?.sync_all()?;
        let head = Head {
            files: end.head.files + 1,
            length: 0,
            ..end.head.clone()
        };
        end.file = self.file.now()?.file;
        self.seal(&end.key, head.clone(), &end.sealed)?;
        end.head = head;
        Ok(())
    }
}

/// Whoever has the lock for long sees that somebody waits.
fn hold(latch: &Latch, place: &Place, patience: Duration) -> io::Result<Lock> {
    let began = Instant::now();
    let mut sign = None;
    loop {
        match latch.hold(Duration::ZERO) {
            Err(err) if err.kind() == io::ErrorKind::TimedOut && began.elapsed() < patience => {
                if sign.is_none() {
                    sign = durable::try_lock(&place.waiting()).ok().flatten();
                }
                thread::sleep(LOOK);
            }
            held => return held,
        }
    }
}

fn latch(place: &Place) -> io::Result<Latch> {
    let path = place.lock();
    let latch = match Latch::at(&path) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => {
            durable::directory(&place.state).map_err(|err| at(&place.state, err))?;
            Latch::at(&path)
        }
        latch => latch,
    };
    latch.map_err(|err| at(&path, err))
}

/// What a head says, whole or not. One is as long as the other, so what stands behind its line was put
/// there by somebody else, and says nothing.
fn text(file: &File) -> io::Result<String> {
    let mut bytes = [0; 512];
    let length = file.read_at(&mut bytes, 0)?;
    let text = String::from_utf8_lossy(&bytes[..length]);
    let line = text.split_inclusive('\n').next();
    Ok(line.unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_had_the_lock_lets_others_have_it_first() {
        let home = tempfile::tempdir().unwrap();
        let journal = || {
            let place = Place {
                directory: home.path().join("audit"),
                state: home.path().join("state"),
            };
            Journal::new(place, u64::MAX)
        };
        let (mut busy, mut other) = (journal(), journal());
        let alone = busy.alone(Duration::ZERO).unwrap();
        // Nobody waits.
        busy.give_back(alone);
        busy.make_way();
        let alone = busy.alone(Duration::ZERO).unwrap();
        let waiting = busy.place.waiting();
        thread::scope(|scope| {
            let other = scope.spawn(|| other.alone(Duration::from_secs(30)).map(drop));
            while !durable::is_locked(&waiting).unwrap() {
                thread::yield_now();
            }
            busy.give_back(alone);
            busy.make_way();
            assert!(busy.alone(Duration::ZERO).is_err(), "it did not make way");
            other.join().unwrap().unwrap();
        });
        // In time it has its turn again.
        let alone = busy.alone(PATIENCE).unwrap();
        busy.give_back(alone);
    }
}
