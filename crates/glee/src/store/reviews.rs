//! What is known of the tools that agents made, `.glee/reviews/<name>.json`: who made each of them, how
//! its examples ran, and what a person decided about just this version of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use glee_core::model::Standing;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::durable::{self, Lock};

/// Largest record, in bytes: a manifest, and what stands around it.
const MOST_BYTES: u64 = 8 << 20;

#[derive(Clone, Debug)]
pub struct Reviews {
    directory: PathBuf,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Who was at the other end of the connection.
    pub creator: String,
    /// What its program called itself, which nobody has checked.
    pub client: Option<String>,
    /// In UTC, as RFC 3339 writes it.
    pub created_at: String,
    pub trials: Option<Trials>,
    pub decision: Option<Decision>,
}

/// How the examples ran, of the version with this digest.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trials {
    pub digest: String,
    pub examples: Vec<Tried>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tried {
    pub example: String,
    pub result: Tally,
    /// Why it failed or was not run.
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tally {
    Passed,
    Failed,
    NotRun,
}

/// What a person decided, and what they had before them. It holds for nothing else.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    pub approved: bool,
    pub by: String,
    pub at: String,
    pub reason: String,
    pub digest: String,
    pub manifest: String,
    /// The SHA-256 of each file, in hex.
    pub files: BTreeMap<String, String>,
}

/// The time, as records tell it.
pub fn now() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}

impl Record {
    /// Whether the tool was made within the last minute. What cannot be told was.
    pub fn is_recent(&self) -> bool {
        self.created_at
            .parse::<jiff::Timestamp>()
            .map(|it| jiff::Timestamp::now().as_second() - it.as_second())
            .map_or(true, |age| age < 60)
    }

    /// What this says of a tool that has this digest now.
    pub fn standing(&self, digest: Option<&str>) -> Standing {
        match &self.decision {
            Some(it) if digest == Some(it.digest.as_str()) => match it.approved {
                true => Standing::Approved,
                false => Standing::Denied {
                    reason: it.reason.clone(),
                },
            },
            _ => Standing::Pending,
        }
    }
}

impl Reviews {
    pub fn new(directory: PathBuf) -> Reviews {
        Reviews { directory }
    }

    /// The tools that have a record.
    pub fn names(&self) -> io::Result<BTreeSet<String>> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
            Err(err) => return Err(err),
        };
        let mut names = BTreeSet::new();
        for entry in entries {
            let file = entry?.file_name().to_string_lossy().into_owned();
            if let Some(name) = file.strip_suffix(".json")
                && !name.starts_with('.')
            {
                names.insert(name.to_owned());
            }
        }
        Ok(names)
    }

    /// An `Err` for one that is there and cannot be read: its tool is nobody's to run.
    pub fn get(&self, name: &str) -> io::Result<Option<Record>> {
        let file = File::options()
            .read(true)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
            .open(self.file(name)?);
        let file = match file {
            Ok(file) => file,
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(err) => return Err(err),
        };
        let mut bytes = Vec::new();
        file.take(MOST_BYTES).read_to_end(&mut bytes)?;
        serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(io::Error::other)
    }

    pub fn put(&self, name: &str, record: &Record) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(record)?;
        text.push(b'\n');
        durable::replace(&self.file(name)?, &text)
    }

    pub fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.file(name)?)
    }

    /// One process at a time makes tools and decides about them, until this is dropped.
    pub fn alone(&self) -> io::Result<Lock> {
        durable::directory(&self.directory)?;
        durable::lock(&self.directory.join(".lock"))
    }

    /// A tool is called as a directory is, so nothing of a path is among them.
    fn file(&self, name: &str) -> io::Result<PathBuf> {
        match Path::new(name).file_name().is_some_and(|it| it == name) {
            true => Ok(self.directory.join(format!("{name}.json"))),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            creator: "claude".into(),
            client: None,
            created_at: now(),
            trials: None,
            decision: Some(Decision {
                approved: true,
                by: "user".into(),
                at: now(),
                reason: String::new(),
                digest: "a".into(),
                manifest: String::new(),
                files: BTreeMap::new(),
            }),
        }
    }

    #[test]
    fn a_decision_holds_for_one_digest() {
        let mut it = record();
        assert_eq!(it.standing(Some("a")), Standing::Approved);
        assert_eq!(it.standing(Some("b")), Standing::Pending);
        assert_eq!(it.standing(None), Standing::Pending);
        it.decision.as_mut().unwrap().approved = false;
        let denied = Standing::Denied {
            reason: String::new(),
        };
        assert_eq!(it.standing(Some("a")), denied);
        assert_eq!(it.standing(Some("b")), Standing::Pending);
    }

    #[test]
    fn records_are_kept() {
        let place = tempfile::tempdir().unwrap();
        let reviews = Reviews::new(place.path().join("reviews"));
        assert!(reviews.names().unwrap().is_empty());
        assert!(reviews.get("a").unwrap().is_none());
        drop(reviews.alone().unwrap());
        reviews.put("a", &record()).unwrap();
        assert_eq!(reviews.names().unwrap(), ["a".to_owned()].into());
        assert!(reviews.get("a").unwrap().is_some());
        for path in ["..", "../a", "a/b", "/a", "", "a/"] {
            assert!(reviews.get(path).is_err(), "{path}");
        }
        fs::write(place.path().join("reviews/b.json"), "{}").unwrap();
        assert!(reviews.get("b").is_err());
    }
}
