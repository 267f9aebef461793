//! Whether a journal is whole: every line is where it was written, as it was written, and none is missing.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::files::{self, Place};
use super::seal::{Head, Key, Mac, stated};
use super::{LONGEST_LINE, PATIENCE, hold, latch, text};

/// More are not told one by one.
const MOST_PROBLEMS: usize = 20;

#[derive(Debug, Default)]
pub struct Report {
    /// Lines that are what they were.
    pub events: u64,
    /// In the order of the files; the first is the first bad one.
    pub problems: Vec<Problem>,
    /// What is fine, and should be known.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Of the event that should be there.
    pub seq: u64,
    pub file: String,
    /// From 1; 0 when it is about the whole file.
    pub line: u64,
    pub what: String,
}

/// Walks all files.
pub fn verify(place: &Place) -> io::Result<Report> {
    let mut report = Report::default();
    let Some(mut scene) = Scene::open(place, &mut report)? else {
        return Ok(report);
    };
    let mut walk = Walk {
        key: scene.key.clone(),
        report,
        seq: 0,
        mac: Mac::default(),
        sealed: scene.head.seq,
        unsealed: 0,
    };
    for (name, file) in scene.files() {
        match file {
            Ok(Some(file)) if name == CURRENT => walk.file(&name, file.take(scene.length))?,
            Ok(Some(file)) => walk.file(&name, file)?,
            Err(err) => walk.problem(&name, 0, walk.next(), &format!("it cannot be read: {err}")),
            // A file that has just been begun may not be there yet.
            Ok(None) if name == CURRENT && scene.head.length == 0 => {}
            Ok(None) => walk.problem(&name, 0, walk.next(), "the file is missing"),
        }
    }
    walk.end(&scene.head);
    Ok(walk.report)
}

/// What can be told without reading the lines.
pub fn look(place: &Place) -> io::Result<Report> {
    let mut report = Report::default();
    let Some(mut scene) = Scene::open(place, &mut report)? else {
        return Ok(report);
    };
    report.events = scene.head.seq;
    let mut last = 0;
    for (name, file) in scene.files() {
        last = match &file {
            Ok(Some(file)) => file.metadata()?.len(),
            _ => 0,
        };
        let what = match file {
            Err(_) => "it cannot be read",
            Ok(None) if name != CURRENT || scene.head.length > 0 => "the file is missing",
            Ok(Some(_)) if name == CURRENT && last < scene.head.length => "the file was cut",
            Ok(_) => continue,
        };
        report.problems.push(Problem {
            seq: scene.head.seq,
            file: name,
            line: 0,
            what: what.to_owned(),
        });
    }
    if last > scene.head.length {
        let more = last - scene.head.length;
        report.notes.push(format!(
            "{more} bytes stand behind the last sealed event; the next call takes them in or sets them aside"
        ));
    }
    Ok(report)
}

const CURRENT: &str = "journal.jsonl";

/// The files and the head as they were at one moment.
struct Scene {
    key: Key,
    head: Head,
    full: Vec<PathBuf>,
    current: io::Result<Option<File>>,
    /// Of the current file: what is written after this moment is nobody's business.
    length: u64,
}

impl Scene {
    /// `None` when there is nothing to verify; what is wrong with that is in the report.
    fn open(place: &Place, report: &mut Report) -> io::Result<Option<Scene>> {
        let has_current = fs::symlink_metadata(place.current()).is_ok();
        let listed = match files::list(&place.directory) {
            Err(err) if err.kind() == io::ErrorKind::NotADirectory => {
                report.problems.push(Problem {
                    seq: 1,
                    file: name_of(&place.directory),
                    line: 0,
                    what: "it is not a directory, so there is no journal".to_owned(),
                });
                return Ok(None);
            }
            listed => listed?,
        };
        if !has_current && listed.full.is_empty() && !place.head().exists() {
            return Ok(None);
        }
        // While nobody writes, all that is read belongs together.
        let _alone = hold(&latch(place)?, place, PATIENCE)?;
        let listed = files::list(&place.directory)?;
        for name in &listed.torn {
            report.notes.push(format!(
                "{name}: what a crash, or somebody, left behind the last whole line was moved there"
            ));
        }
        let whole = |name: &str, what: &str| Problem {
            seq: 1,
            file: name.to_owned(),
            line: 0,
            what: what.to_owned(),
        };
        for name in &listed.unsealed {
            report.problems.push(whole(
                name,
                "it cannot be verified: its key or its head was lost, or it was not made here; move it away when you have seen to it",
            ));
        }
        let key = Key::load(&place.key())?;
        let head = match files::open(&place.head())? {
            Some(file) => text(&file)?,
            None => String::new(),
        };
        let sealed = key.and_then(|key| Some((key.unseal(&head)?, key)));
        let Some((mut head, key)) = sealed else {
            report.problems.push(whole(
                CURRENT,
                "it cannot be verified: there is no sealed head of it on this machine",
            ));
            return Ok(None);
        };
        let current = files::open(&place.current());
        let length = match &current {
            Ok(Some(file)) => file.metadata()?.len(),
            _ => 0,
        };
        place.finish_rotation(length, &mut head);
        for name in &listed.strange {
            report
                .problems
                .push(whole(name, "glee gave no file this name"));
        }
        for (number, path) in listed.full {
            if number == 0 || number > head.files {
                let problem = whole(&name_of(&path), "glee gave no file this number");
                report.problems.push(problem);
            }
        }
        Ok(Some(Scene {
            full: (1..=head.files).map(|it| place.full(it)).collect(),
            key,
            head,
            current,
            length,
        }))
    }

    /// Each is opened when it is its turn: there may be more than a process can have open, and nobody
    /// writes to a full one.
    fn files(&mut self) -> impl Iterator<Item = (String, io::Result<Option<File>>)> + use<> {
        let current = std::mem::replace(&mut self.current, Ok(None));
        std::mem::take(&mut self.full)
            .into_iter()
            .map(|path| (name_of(&path), files::open(&path)))
            .chain([(CURRENT.to_owned(), current)])
    }
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Where the walk is in the chain.
struct Walk {
    key: Key,
    report: Report,
    /// Of the last line.
    seq: u64,
    mac: Mac,
    /// Of the last line that the head knows.
    sealed: u64,
    /// How often something was written after that.
    unsealed: usize,
}

impl Walk {
    fn file(&mut self, name: &str, file: impl Read) -> io::Result<()> {
        let mut reader = BufReader::with_capacity(1 << 20, file);
        let mut line = Vec::with_capacity(LONGEST_LINE);
        for number in 1.. {
            line.clear();
            let read = (&mut reader)
                .take(LONGEST_LINE as u64)
                .read_until(b'\n', &mut line)?;
            if read == 0 {
                break;
            }
            match line.strip_suffix(b"\n") {
                Some(line) => self.line(name, number, line),
                // Nothing that was sealed is missing, so this is the trace of a crash.
                None if name == CURRENT
                    && self.seq >= self.sealed
                    && self.unsealed <= 1
                    && self.report.problems.is_empty()
                    && read < LONGEST_LINE =>
                {
                    self.report.notes.push(format!(
                        "{name}: behind event {} stands half a line: glee was stopped while it wrote; the next call sets it aside",
                        self.seq
                    ));
                }
                None => {
                    let what = "it is torn: it has no end, or is longer than any event";
                    self.problem(name, number, self.next(), what);
                }
            }
        }
        Ok(())
    }

    fn line(&mut self, name: &str, number: u64, line: &[u8]) {
        let next = self.next();
        let Some(stated) = stated(line) else {
            self.problem(name, number, next, "it is not a line of a journal");
            self.seq = next;
            return;
        };
        let follows = self.key.mac(&self.mac, stated.body) == stated.mac;
        if stated.seq == next && follows {
            self.report.events += 1;
        } else if stated.seq > next {
            let missing = match stated.seq - 1 {
                last if last == next => format!("event {next} is missing before it"),
                last => format!("events {next} to {last} are missing before it"),
            };
            self.problem(name, number, next, &missing);
        } else if stated.seq < next {
            let what = format!("event {} has been here before", stated.seq);
            self.problem(name, number, next, &what);
        } else {
            self.problem(name, number, next, "it is not what was written");
        }
        if stated.seq > self.sealed && !stated.is_joined {
            self.unsealed += 1;
        }
        // What comes after is held against what the line says, so that one bad line is told once.
        self.seq = stated.seq;
        self.mac = stated.mac;
    }

    /// Whether the chain ends where the head says.
    fn end(&mut self, head: &Head) {
        let last = self.seq;
        if last < head.seq {
            let what = match head.seq - last {
                1 => "the last event is missing".to_owned(),
                many => format!("the last {many} events are missing"),
            };
            let what =
                format!("{what}: the file was cut, or the machine went down before it was on disk");
            self.problem(CURRENT, 0, self.next(), &what);
        } else if last > head.seq && self.unsealed == 1 && self.report.problems.is_empty() {
            self.report.notes.push(format!(
                "what follows event {} is not sealed yet: glee was stopped in between; the next call takes it in",
                head.seq
            ));
        } else if last > head.seq {
            let what = format!(
                "the sealed head stands at event {}, and {} more follow: it was put back, or the machine went down before it was on disk",
                head.seq,
                last - head.seq
            );
            self.problem(CURRENT, 0, head.seq + 1, &what);
        } else if self.mac != head.mac {
            self.problem(
                CURRENT,
                0,
                last,
                "the last event is not the one that was sealed",
            );
        }
    }

    /// The number that the next line should have. What lines say of themselves may be anything.
    fn next(&self) -> u64 {
        self.seq.saturating_add(1)
    }

    fn problem(&mut self, file: &str, line: u64, seq: u64, what: &str) {
        if self.report.problems.len() < MOST_PROBLEMS {
            self.report.problems.push(Problem {
                seq,
                file: file.to_owned(),
                line,
                what: what.to_owned(),
            });
        }
    }
}
