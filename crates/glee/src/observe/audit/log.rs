//! The file of the log for people. It has a line of every event that the journal has, some of them a moment later.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fs::{self, DirEntry, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};

use super::text::{LONGEST_LINE, of_journal, word_or_quoted};
use crate::store::durable;
use crate::store::kept::{Kept, Now, Writing};

/// What is read of the log's end, in bytes.
const TAIL: u64 = 32 * 1024;
/// What is read of it to see whether it has some lines, at most.
const MOST_LOOKED_AT: u64 = 16 << 20;

/// What the last lines of a log say about one caller, with those that it will say in a moment; nothing when there are none.
pub(super) fn tail(path: &Path, unsaid: &str, caller: &str) -> io::Result<String> {
    let mut text = end(path)?;
    // They were said in one go, or not yet.
    if !unsaid.lines().last().is_some_and(|it| text.contains(it)) {
        text.push_str(unsaid);
    }
    // The caller stands before the id at a line's end, where nothing that a caller says can stand: also a
    // caller's name may hold what looks like another's.
    let own = format!(" caller={} id=", word_or_quoted(caller));
    Ok(text
        .split_inclusive('\n')
        .filter(|line| {
            line.trim_end().rsplit_once('=').is_some_and(|(before, _)| {
                own.strip_suffix('=').is_some_and(|it| before.ends_with(it))
            })
        })
        .collect())
}

/// The last whole lines.
fn end(path: &Path) -> io::Result<String> {
    let file = match OpenOptions::new()
        .read(true)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
        .open(path)
    {
        Ok(file) => file,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(err) => return Err(err),
    };
    let length = file.metadata()?.len();
    let start = length.saturating_sub(TAIL);
    let mut bytes = vec![0; (length - start) as usize];
    file.read_exact_at(&mut bytes, start)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(match text.split_once('\n') {
        // The first line may be the end of one.
        Some((_, whole)) if start > 0 => whole.to_owned(),
        _ => text,
    })
}

/// The log itself. A line that went out in one write to a file opened for appending is whole.
pub(super) struct Log {
    kept: Kept,
    /// The file, as long as nobody else can write.
    now: Option<Now>,
    /// Its length after the last line of ours.
    end: u64,
    /// A log that would grow beyond this gets a number, and the next one is begun.
    rotate: u64,
}

impl Log {
    pub(super) fn new(path: PathBuf, rotate: u64) -> Log {
        Log {
            kept: Kept::new(path, Writing::AtTheEnd),
            now: None,
            end: 0,
            rotate,
        }
    }

    /// Whether lines can be appended, as far as one can tell before. Nobody else writes meanwhile.
    pub(super) fn look(&mut self) -> io::Result<()> {
        if self.now.is_none() {
            self.now = Some(self.kept.now()?);
        }
        Ok(())
    }

    /// Gives what is needed to take the line back. Nobody else writes meanwhile.
    pub(super) fn append(&mut self, line: &str) -> io::Result<Written> {
        let mut now = match self.now.take() {
            Some(now) => now,
            None => self.kept.now()?,
        };
        if now.length > 0 && now.length + line.len() as u64 > self.rotate {
            now.file.sync_data()?;
            self.set_aside()?;
            now = self.kept.now()?;
        }
        let written = Written(now.file.clone(), now.length);
        // A line that was torn off by a crash or a full disk must not take this one with it.
        let mut last = [b'\n'];
        if now.length != self.end && now.length > 0 {
            now.file.read_exact_at(&mut last, now.length - 1)?;
        }
        let line = match last {
            [b'\n'] => Cow::Borrowed(line),
            _ => Cow::Owned(format!("\n{line}")),
        };
        if let Err(err) = (&*now.file).write_all(line.as_bytes()) {
            written.take_back();
            return Err(self.named(&err));
        }
        self.end = now.length + line.len() as u64;
        self.now = Some(Now {
            length: self.end,
            ..now
        });
        Ok(written)
    }

    /// Says what lines of the journal say and the log does not, because glee was killed in between, or the log could not
    /// be written.
    pub(super) fn catch_up(&mut self, journal: &[String]) -> io::Result<()> {
        let lines: Vec<String> = journal.iter().filter_map(|it| of_journal(it)).collect();
        let longest = MOST_LOOKED_AT.min((lines.len() * LONGEST_LINE) as u64);
        let now = self.kept.now()?;
        let from = now.length.saturating_sub(longest);
        let mut said = vec![0; (now.length - from) as usize];
        now.file
            .read_exact_at(&mut said, from)
            .map_err(|err| self.named(&err))?;
        let said = String::from_utf8_lossy(&said);
        // Not by their words: the journal has arguments in another order, and not those that are too long.
        let said: HashSet<_> = said.lines().filter_map(event_of).collect();
        let is_missing =
            |it: &String| event_of(it.trim_end()).is_some_and(|it| !said.contains(&it));
        let missing: String = lines.into_iter().filter(is_missing).collect();
        match missing.is_empty() {
            true => Ok(()),
            false => self.append(&missing).map(|_| ()),
        }
    }

    fn named(&self, err: &io::Error) -> io::Error {
        io::Error::other(format!("{}: {err}", self.kept.path().display()))
    }

    /// Others may write from here on.
    pub(super) fn give_back(&mut self) {
        self.now = None;
    }

    pub(super) fn file(&mut self) -> io::Result<Arc<File>> {
        Ok(self.kept.now()?.file)
    }

    fn set_aside(&self) -> io::Result<()> {
        let path = self.kept.path();
        let directory = path.parent().unwrap_or(Path::new("/"));
        let number = |entry: io::Result<DirEntry>| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            let digits = name.strip_prefix("tools-")?.strip_suffix(".log")?;
            // Others may have put names of their own there.
            digits.parse::<u32>().ok().filter(|_| digits.len() <= 9)
        };
        let last = fs::read_dir(directory)?.filter_map(number).max();
        let next = last.unwrap_or(0) + 1;
        let full = directory.join(format!("tools-{next:06}.log"));
        renameat_with(CWD, path, CWD, &full, RenameFlags::NOREPLACE)
            .map_err(|err| io::Error::other(format!("{}: {err}", full.display())))?;
        File::open(directory)?.sync_all()
    }
}

/// The word and the id of a line: no two events have the same.
fn event_of(line: &str) -> Option<(&str, &str)> {
    let word = line.split_once("] ")?.1.split_once(' ')?.0;
    Some((word, line.rsplit_once(" id=")?.1))
}

/// A line that was written, and where the log ended before it.
pub(super) struct Written(Arc<File>, u64);

impl Written {
    pub(super) fn take_back(self) {
        let _ = durable::cut(&self.0, self.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_line_takes_no_other_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tools.log");
        std::fs::write(&path, "[torn").unwrap();
        let mut log = Log::new(path.clone(), u64::MAX);
        log.append("one\n").unwrap();
        log.append("two\n").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "[torn\none\ntwo\n");
    }

    #[test]
    fn a_log_that_was_moved_is_begun_anew() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tools.log");
        let lines = |path: &Path| std::fs::read_to_string(path).unwrap().lines().count();
        let mut log = Log::new(path.clone(), u64::MAX);
        log.append("one\n").unwrap();
        log.give_back();
        let moved = path.with_extension("old");
        std::fs::rename(&path, &moved).unwrap();
        log.append("two\n").unwrap();
        log.give_back();
        assert_eq!((lines(&moved), lines(&path)), (1, 1));
        std::fs::write(&path, "[torn").unwrap();
        log.append("three\n").unwrap();
        log.give_back();
        assert_eq!(lines(&path), 2);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        assert!(log.append("four\n").is_err());
    }
}
