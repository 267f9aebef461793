//! How often tools were called, and with what success: counted from the journal of the audit, which knows of
//! every call of every process. So nothing is lost at any stop, and no call waits for it.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, TryLockError};

use serde::Deserialize;

use super::journal::{self, Follow};

/// The calls of one tool that ran to their end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Count {
    pub calls: u64,
    pub failures: u64,
    /// As the journal writes it.
    pub last_called_at: String,
    /// Of all calls together.
    pub milliseconds: f64,
}

impl Count {
    fn with(self, other: Count) -> Count {
        Count {
            calls: self.calls + other.calls,
            failures: self.failures + other.failures,
            last_called_at: self.last_called_at.max(other.last_called_at),
            milliseconds: self.milliseconds + other.milliseconds,
        }
    }
}

pub struct Usage {
    directory: PathBuf,
    state: Mutex<Option<State>>,
}

struct State {
    follow: Follow,
    /// The last line that was counted.
    seq: u64,
    /// By name, and by the document that it had.
    tools: HashMap<String, HashMap<String, Count>>,
}

/// What is read of a line.
#[derive(Deserialize)]
struct Line {
    seq: u64,
    event: String,
    at: String,
    tool: String,
    #[serde(default)]
    document: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    duration_ms: f64,
}

impl Usage {
    pub fn new(directory: PathBuf) -> Usage {
        Usage {
            directory,
            state: Mutex::new(None),
        }
    }

    /// The counts of these tools, as the journal stands now: under any document, or only under this one. The
    /// first time everything is read; whoever comes meanwhile gets nothing rather than waiting.
    pub fn of<'a>(
        &self,
        tools: impl Iterator<Item = (&'a str, Option<String>)>,
    ) -> HashMap<&'a str, Count> {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return HashMap::new(),
        };
        let is_there = match state.as_mut() {
            Some(state) => state.more().is_ok(),
            None => State::begin(&self.directory)
                .map(|it| *state = Some(it))
                .is_ok(),
        };
        match (state.as_ref(), is_there) {
            (Some(state), true) => tools
                .filter_map(|(name, document)| Some((name, state.sum(name, document)?)))
                .collect(),
            _ => HashMap::new(),
        }
    }
}

impl State {
    /// What is added from now on is counted later; by its number no line is counted twice.
    fn begin(directory: &Path) -> io::Result<State> {
        let mut state = State {
            follow: Follow::begin(directory)?,
            seq: 0,
            tools: HashMap::new(),
        };
        for line in journal::lines(directory)? {
            state.count(&line?);
        }
        Ok(state)
    }

    fn more(&mut self) -> io::Result<()> {
        loop {
            let lines = self.follow.more()?;
            if lines.is_empty() {
                return Ok(());
            }
            lines.iter().for_each(|it| self.count(it));
        }
    }

    fn sum(&self, name: &str, document: Option<String>) -> Option<Count> {
        let counts = self.tools.get(name)?;
        match document {
            Some(document) => counts.get(&document).cloned(),
            None => counts.values().cloned().reduce(Count::with),
        }
    }

    fn count(&mut self, line: &str) {
        // Most lines are about something else, and reading them costs.
        if !line.contains("\"TOOL_EXECUTED\"") {
            return;
        }
        let Ok(line) = serde_json::from_str::<Line>(line) else {
            return;
        };
        if line.seq <= self.seq || line.event != "TOOL_EXECUTED" {
            return;
        }
        self.seq = line.seq;
        let counts = self.tools.entry(line.tool).or_default();
        let count = counts.entry(line.document).or_default();
        count.calls += 1;
        count.failures += u64::from(line.status != "success");
        count.milliseconds += line.duration_ms;
        count.last_called_at = line.at;
    }
}
