//! A journal whose lines cannot be changed unseen: `{"seq":7,…,"mac":"5f0c…"}`.
//!
//! Each line carries a keyed MAC over its own bytes and the MAC of the line before. Where the chain ends is
//! sealed, and kept with the key where tools cannot reach it. A line goes to the file first, then to the
//! head, and the head is what counts: whoever cuts, removes or swaps files changes neither it nor the
//! lines that follow, so `verify` finds it, and the journal goes on all the same.

mod files;
mod read;
mod recover;
mod seal;
mod verify;

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::durable::{self, Latch, Lock};
use super::kept::{Kept, Now, Writing};

pub use files::Place;
pub use read::{Follow, Lines, last, lines};
pub use verify::{Problem, Report, look, verify};

use seal::{Head, JOINED, Key, at};

/// Longest line, with its end.
pub const LONGEST_LINE: usize = 64 << 10;
/// What glee adds to an entry, at most.
pub const AROUND_ENTRY: usize = 128;

/// How long others may hold the lock. A call must be answered within five seconds.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// How often the lock's file may be replaced while it is taken.
const MOST_LATCHES: usize = 8;

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

    /// One process at a time writes, until this is dropped. Others may hold it so long.
    pub fn alone(&mut self, patience: Duration) -> io::Result<Lock> {
        for _ in 0..MOST_LATCHES {
            let latch = match &self.latch {
                Some(latch) => latch,
                None => self.latch.insert(latch(&self.place)?),
            };
            let lock = latch.hold(patience)?;
            if latch.is_in_place() {
                return Ok(lock);
            }
            // Others hold another file by this name.
            self.latch = None;
        }
        let why = format!("{} keeps being replaced", self.place.lock().display());
        Err(io::Error::other(why))
    }

    /// Adds entries: the members of an object each, without its braces. They have reached the kernel when
    /// this returns. How many: one at least, fewer than all when the next must go to a new file. `beside`
    /// is told how many it will be, and may stop it.
    pub fn append(
        &mut self,
        alone: &Lock,
        entries: &[&str],
        beside: impl FnOnce(usize) -> io::Result<()>,
    ) -> io::Result<usize> {
        let mut key = self.key()?;
        let (mut head, sealed) = self.sealed(&mut key)?;
        let mut file = self.file.now()?;
        if file.length != head.length {
            self.recover(alone, &key, &mut head, &sealed)?;
            file = self.file.now()?;
        }
        let (mut lines, mut next, mut count) = (Vec::new(), head.clone(), 0);
        for entry in entries {
            // Lines that are sealed together say so: after a crash, only these may be without a seal.
            let joined = if count > 0 { JOINED } else { "" };
            let (line, mac) = key.line(next.seq + 1, &next.mac, &format!("{joined}{entry}"));
            if line.len() > LONGEST_LINE {
                return Err(io::Error::other("the event is too long for the journal"));
            }
            if next.length > 0 && next.length + line.len() as u64 > self.rotate {
                if count > 0 {
                    break;
                }
                self.rotate(&key, &mut head, &sealed)?;
                file = self.file.now()?;
                next.clone_from(&head);
            }
            next = Head {
                seq: next.seq + 1,
                length: next.length + line.len() as u64,
                mac,
                ..next
            };
            lines.extend_from_slice(&line);
            count += 1;
        }
        beside(count)?;
        let written = (&*file.file)
            .write_all(&lines)
            .map_err(|err| at(self.file.path(), err))
            .and_then(|()| self.seal(&key, next, &sealed));
        if written.is_err() {
            // Half a line, or one that is not sealed, would be taken for the trace of a crash.
            let _ = file.file.set_len(head.length);
        }
        written.map(|()| count)
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
    fn sealed(&mut self, key: &mut Key) -> io::Result<(Head, Now)> {
        let now = self.head.now()?;
        let text = text(&now.file)?;
        if let Some((seen, head)) = &self.seen
            && *seen == text
        {
            return Ok((head.clone(), now));
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
            None => self.begin(key, &now)?,
        };
        Ok((head, now))
    }

    /// What is there already was sealed with a key, or at a place, that is not known here: the project was
    /// copied, or its state was lost. It is kept, under another name.
    fn begin(&mut self, key: &Key, sealed: &Now) -> io::Result<Head> {
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

    fn seal(&mut self, key: &Key, head: Head, sealed: &Now) -> io::Result<()> {
        let text = key.seal(&head);
        self.seen = None;
        sealed
            .file
            .write_all_at(text.as_bytes(), 0)
            .map_err(|err| at(self.head.path(), err))?;
        self.seen = Some((text, head));
        Ok(())
    }

    /// Gives the full file a number, and begins the next one.
    fn rotate(&mut self, key: &Key, head: &mut Head, sealed: &Now) -> io::Result<()> {
        self.file.now()?.file.sync_all()?;
        let (current, full) = (self.place.current(), self.place.full(head.files + 1));
        let moved = renameat_with(CWD, &current, CWD, &full, RenameFlags::NOREPLACE);
        if moved == Err(rustix::io::Errno::EXIST) {
            // Nobody but glee gives out these numbers.
            fs::rename(&full, self.place.unsealed(&full))?;
            fs::rename(&current, &full)?;
        } else {
            moved?;
        }
        File::open(&self.place.directory)?.sync_all()?;
        head.files += 1;
        head.length = 0;
        self.file.now()?;
        self.seal(key, head.clone(), sealed)
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
