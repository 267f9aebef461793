//! The lines of a journal, for those who only read it. Nothing of them is known to be true; `verify` says.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::LONGEST_LINE;
use super::files;

/// How much of a file's end is looked at, at first.
const TAIL: u64 = 64 << 10;

/// All lines, the oldest first.
pub struct Lines {
    files: std::vec::IntoIter<File>,
    now: Option<BufReader<File>>,
}

pub fn lines(directory: &Path) -> io::Result<Lines> {
    Ok(Lines {
        files: opened(directory)?.into_iter(),
        now: None,
    })
}

/// The current file is opened first: when it is given its number meanwhile, it stands in the list twice,
/// and not never.
fn opened(directory: &Path) -> io::Result<Vec<File>> {
    let current = files::open(&current(directory))?;
    let own = current.as_ref().map(files::identity).transpose()?;
    let mut opened = Vec::new();
    for (_, path) in files::list(directory)?.full {
        if let Some(file) = files::open(&path)?
            && Some(files::identity(&file)?) != own
        {
            opened.push(file);
        }
    }
    opened.extend(current);
    Ok(opened)
}

fn current(directory: &Path) -> PathBuf {
    directory.join("journal.jsonl")
}

impl Iterator for Lines {
    type Item = io::Result<String>;

    fn next(&mut self) -> Option<io::Result<String>> {
        loop {
            let reader = match &mut self.now {
                Some(reader) => reader,
                None => self.now.insert(BufReader::new(self.files.next()?)),
            };
            match line(reader) {
                Ok(None) => self.now = None,
                Ok(Some(line)) => return Some(Ok(line)),
                Err(err) => return Some(Err(err)),
            }
        }
    }
}

/// The next line that has an end, without it.
fn line(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    reader
        .take(LONGEST_LINE as u64)
        .read_until(b'\n', &mut bytes)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(Some(text.trim_end_matches('\n').to_owned()))
}

/// The last lines, the oldest first.
pub fn last(directory: &Path, count: usize) -> io::Result<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    for file in opened(directory)?.into_iter().rev() {
        let missing = count - found.len();
        if missing == 0 {
            break;
        }
        let mut own = last_of(&file, missing)?;
        own.append(&mut found);
        found = own;
    }
    Ok(found)
}

fn last_of(mut file: &File, count: usize) -> io::Result<Vec<String>> {
    let length = file.metadata()?.len();
    let mut span = TAIL;
    loop {
        let start = length.saturating_sub(span);
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(start))?;
        file.take(length - start).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let mut lines: Vec<&str> = text.lines().collect();
        if start > 0 && !lines.is_empty() {
            // It may be the end of one.
            lines.remove(0);
        }
        if lines.len() >= count || start == 0 {
            let from = lines.len().saturating_sub(count);
            return Ok(lines[from..].iter().map(|it| (*it).to_owned()).collect());
        }
        span *= 4;
    }
}

/// What is added from now on.
pub struct Follow {
    directory: PathBuf,
    now: Option<Opened>,
    /// The part of a line whose end is not there yet.
    part: Vec<u8>,
}

struct Opened {
    reader: BufReader<File>,
    identity: (u64, u64),
}

impl Follow {
    pub fn begin(directory: &Path) -> io::Result<Follow> {
        let mut follow = Follow {
            directory: directory.to_owned(),
            now: None,
            part: Vec::new(),
        };
        if let Some(mut opened) = follow.open()? {
            opened.reader.seek(SeekFrom::End(0))?;
            follow.now = Some(opened);
        }
        Ok(follow)
    }

    fn open(&self) -> io::Result<Option<Opened>> {
        let Some(file) = files::open(&current(&self.directory))? else {
            return Ok(None);
        };
        let identity = files::identity(&file)?;
        Ok(Some(Opened {
            reader: BufReader::new(file),
            identity,
        }))
    }

    /// The lines that were added since; there may be none.
    pub fn more(&mut self) -> io::Result<Vec<String>> {
        let newer = self.open()?;
        let mut lines = Vec::new();
        self.rest(&mut lines)?;
        // What was the current file has a number now, and has been read to its end.
        let known = self.now.as_ref().map(|it| it.identity);
        if let Some(newer) = newer
            && Some(newer.identity) != known
        {
            self.now = Some(newer);
            self.part.clear();
            self.rest(&mut lines)?;
        }
        Ok(lines)
    }

    fn rest(&mut self, lines: &mut Vec<String>) -> io::Result<()> {
        let Some(Opened { reader, .. }) = &mut self.now else {
            return Ok(());
        };
        while reader.read_until(b'\n', &mut self.part)? > 0 && self.part.ends_with(b"\n") {
            let line = String::from_utf8_lossy(&self.part);
            lines.push(line.trim_end_matches('\n').to_owned());
            self.part.clear();
        }
        Ok(())
    }
}
