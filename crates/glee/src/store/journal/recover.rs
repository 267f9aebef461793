//! What is done when the file does not end where the head says: after a crash, or after somebody was
//! at the file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use super::seal::{Head, Key, stated};
use super::{Journal, LONGEST_LINE, Place};
use crate::store::durable::Lock;

impl Place {
    /// What the head will say when glee was stopped after a full file was given its number, and before the
    /// head said so.
    pub(super) fn finish_rotation(&self, current: u64, head: &mut Head) {
        let full = fs::symlink_metadata(self.full(head.files + 1));
        if current < head.length && full.is_ok_and(|it| it.is_file() && it.len() == head.length) {
            head.files += 1;
            head.length = 0;
        }
    }
}

impl Journal {
    pub(super) fn recover(
        &mut self,
        _: &Lock,
        key: &Key,
        head: &mut Head,
        sealed: &File,
        adopted: &mut dyn FnMut(&[String]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut now = self.file.now()?;
        // glee was stopped after a full file was given its number, and before the head said so.
        self.place.finish_rotation(now.length, head);
        if now.length > head.length {
            adopted(&adopt(&now.file, key, head)?)?;
            now = self.file.now()?;
        }
        let ends_inside = !ends_a_line(&now.file, head.length.min(now.length))?;
        if now.length > head.length && !ends_inside {
            self.set_aside(&now.file, head.length)?;
        } else if now.length != head.length {
            // It was cut, or somebody wrote between our lines.
            head.length = now.length;
            if !ends_a_line(&now.file, now.length)? {
                io::Write::write_all(&mut &*now.file, b"\n")?;
                head.length += 1;
            }
        }
        self.seal(key, head.clone(), sealed)
    }

    /// Keeps what is behind the last whole line, and takes it out of the journal.
    fn set_aside(&self, file: &File, from: u64) -> io::Result<()> {
        let mut torn = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(self.place.torn())?;
        let mut rest = file;
        rest.seek(SeekFrom::Start(from))?;
        io::copy(&mut rest, &mut torn)?;
        torn.sync_all()?;
        file.set_len(from)?;
        file.sync_all()
    }
}

/// Takes in whole lines that continue the chain: glee was stopped after they were written, and before
/// they were sealed. Gives these lines.
fn adopt(file: &File, key: &Key, head: &mut Head) -> io::Result<Vec<String>> {
    let mut reader = BufReader::new(file);
    reader.seek(SeekFrom::Start(head.length))?;
    let (mut lines, mut line) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        (&mut reader)
            .take(LONGEST_LINE as u64)
            .read_until(b'\n', &mut line)?;
        let Some(stated) = line.strip_suffix(b"\n").and_then(stated) else {
            return Ok(lines);
        };
        if stated.seq != head.seq + 1 || key.mac(&head.mac, stated.body) != stated.mac {
            return Ok(lines);
        }
        head.seq += 1;
        head.mac = stated.mac;
        head.length += line.len() as u64;
        lines.push(String::from_utf8_lossy(&line).into_owned());
    }
}

fn ends_a_line(file: &File, length: u64) -> io::Result<bool> {
    let mut last = [b'\n'];
    if length > 0 {
        file.read_exact_at(&mut last, length - 1)?;
    }
    Ok(last == [b'\n'])
}
