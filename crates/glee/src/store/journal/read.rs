//! The lines of a journal, for those who only read it. Nothing of them is known to be true; `verify` says.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::LONGEST_LINE;
use super::files;

/// How much of a file's end is looked at, at first.
const TAIL: u64 = 64 << 10;
/// What is given for something that is no line of a journal, and may be of any size.
const NO_EVENT: &str = "";

/// All lines, the oldest first.
pub struct Lines {
    files: Files,
    now: Option<BufReader<File>>,
}

pub fn lines(directory: &Path) -> io::Result<Lines> {
    Ok(Lines {
        files: Files::of(directory)?,
        now: None,
    })
}

/// The files of a journal, each opened when it is wanted: there may be more than a process can have open.
struct Files {
    full: std::vec::IntoIter<(u64, PathBuf)>,
    current: Option<File>,
    /// The identity of the current file.
    own: Option<(u64, u64)>,
}

/// A file, or the remark that there is none where one should be.
enum Found {
    File(File),
    Strange,
}

impl Files {
    /// The current file is opened first: when it is given its number meanwhile, it stands in the list
    /// twice, and not never.
    fn of(directory: &Path) -> io::Result<Files> {
        let current = files::open(&current(directory))?;
        let own = current.as_ref().map(files::identity).transpose()?;
        Ok(Files {
            full: files::list(directory)?.full.into_iter(),
            current,
            own,
        })
    }

    fn open(&self, path: &Path) -> io::Result<Option<Found>> {
        let file = match files::open(path) {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(None),
            // A link, say. The others can be read all the same.
            Err(_) => return Ok(Some(Found::Strange)),
        };
        let is_current = Some(files::identity(&file)?) == self.own;
        Ok((!is_current).then_some(Found::File(file)))
    }

    fn first(&mut self) -> io::Result<Option<Found>> {
        while let Some((_, path)) = self.full.next() {
            if let Some(found) = self.open(&path)? {
                return Ok(Some(found));
            }
        }
        Ok(self.current.take().map(Found::File))
    }

    fn last(&mut self) -> io::Result<Option<Found>> {
        if let Some(current) = self.current.take() {
            return Ok(Some(Found::File(current)));
        }
        while let Some((_, path)) = self.full.next_back() {
            if let Some(found) = self.open(&path)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
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
                None => match self.files.first() {
                    Ok(Some(Found::File(file))) => self.now.insert(BufReader::new(file)),
                    Ok(Some(Found::Strange)) => return Some(Ok(NO_EVENT.to_owned())),
                    Ok(None) => return None,
                    Err(err) => return Some(Err(err)),
                },
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
    let mut files = Files::of(directory)?;
    while found.len() < count
        && let Some(file) = files.last()?
    {
        let mut own = match file {
            Found::File(file) => last_of(&file, count - found.len())?,
            Found::Strange => vec![NO_EVENT.to_owned()],
        };
        own.append(&mut found);
        found = own;
    }
    Ok(found)
}

fn last_of(mut file: &File, count: usize) -> io::Result<Vec<String>> {
    let length = file.metadata()?.len();
    // So many events are in there, if there are so many; what is longer holds something else.
    let most = (LONGEST_LINE as u64).saturating_mul((count as u64).saturating_add(1));
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
        if lines.is_empty() && span >= most {
            lines.push(NO_EVENT);
        }
        if lines.len() >= count || start == 0 || span >= most {
            let from = lines.len().saturating_sub(count);
            return Ok(lines[from..].iter().map(|it| (*it).to_owned()).collect());
        }
        span *= 4;
    }
}

/// Lines that are given at once.
const MOST_AT_ONCE: usize = 1000;

/// What is added from now on.
pub struct Follow {
    directory: PathBuf,
    now: Option<Opened>,
    /// The number of the last full file when this began.
    full: u64,
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
            full: files::list(directory)?.full.last().map_or(0, |it| it.0),
            part: Vec::new(),
        };
        if let Some(mut opened) = follow.open(&current(directory))? {
            opened.reader.seek(SeekFrom::End(0))?;
            follow.now = Some(opened);
        }
        Ok(follow)
    }

    fn open(&self, path: &Path) -> io::Result<Option<Opened>> {
        let Some(file) = files::open(path)? else {
            return Ok(None);
        };
        let identity = files::identity(&file)?;
        Ok(Some(Opened {
            reader: BufReader::new(file),
            identity,
        }))
    }

    /// Some of the lines that were added since; none when there are none.
    pub fn more(&mut self) -> io::Result<Vec<String>> {
        let mut lines = Vec::new();
        loop {
            // What comes after a file is looked for first: by then it has been written to its end.
            let newer = self.newer()?;
            self.rest(&mut lines)?;
            match newer {
                Some(newer) if lines.len() < MOST_AT_ONCE => {
                    self.now = Some(newer);
                    self.part.clear();
                }
                _ => return Ok(lines),
            }
        }
    }

    /// The file after the one that is read now; `None` while that one is the current one.
    fn newer(&self) -> io::Result<Option<Opened>> {
        let known = self.now.as_ref().map(|it| it.identity);
        let current = self.open(&current(&self.directory))?;
        if current
            .as_ref()
            .is_some_and(|it| Some(it.identity) == known)
        {
            return Ok(None);
        }
        // Several may have become full meanwhile.
        let mut next = None;
        for (number, path) in files::list(&self.directory)?.full.into_iter().rev() {
            let is_known =
                fs::symlink_metadata(&path).is_ok_and(|it| Some((it.dev(), it.ino())) == known);
            if is_known || number <= self.full {
                break;
            }
            next = Some(path);
        }
        match next {
            Some(path) => self.open(&path),
            None => Ok(current),
        }
    }

    fn rest(&mut self, lines: &mut Vec<String>) -> io::Result<()> {
        let Some(Opened { reader, .. }) = &mut self.now else {
            return Ok(());
        };
        while lines.len() < MOST_AT_ONCE {
            let room = LONGEST_LINE.saturating_sub(self.part.len()) as u64;
            let read = reader
                .by_ref()
                .take(room)
                .read_until(b'\n', &mut self.part)?;
            if self.part.ends_with(b"\n") {
                let line = String::from_utf8_lossy(&self.part);
                lines.push(line.trim_end_matches('\n').to_owned());
            } else if self.part.len() >= LONGEST_LINE {
                lines.push(NO_EVENT.to_owned());
            } else if read == 0 {
                break;
            } else {
                continue;
            }
            self.part.clear();
        }
        Ok(())
    }
}
