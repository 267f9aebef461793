//! One question to a person, and what became of it: `.glee/approvals/<id>.json`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use glee_core::permission::Permissions;
use glee_core::port::{Boot, Clock};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use uuid::Uuid;

/// As it is on disk, for people too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    #[serde(with = "text")]
    pub id: Uuid,
    pub state: State,
    pub tool: String,
    pub args: Map<String, Value>,
    pub caller: String,
    pub reason: String,
    pub authority: Authority,
    pub project: String,
    /// The SHA-256 of the tool and all its files.
    pub tool_digest: String,
    /// The SHA-256 over everything that must not change between the question and the run.
    pub binding: String,
    #[serde(with = "text")]
    pub asked_at: Timestamp,
    #[serde(with = "text")]
    pub expires_at: Timestamp,
    /// The same deadline on a clock that nobody can set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<BootDeadline>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answered>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Started>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Finished>,
    /// Why it is good for nothing any more, when that is not the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub void: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Pending,
    Approved,
    Denied,
    Expired,
    Started,
    Finished,
    /// It was started, and whoever started it is gone without a word. Nobody knows how far it came, so
    /// it is never run again. This is told, not written.
    Indeterminate,
}

impl State {
    pub const ALL: [State; 7] = [
        State::Pending,
        State::Approved,
        State::Denied,
        State::Expired,
        State::Started,
        State::Finished,
        State::Indeterminate,
    ];

    /// The names of all of them.
    pub const NAMES: [&'static str; State::ALL.len()] = {
        let mut names = [""; State::ALL.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = State::ALL[at].name();
            at += 1;
        }
        names
    };

    pub const fn name(self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Approved => "approved",
            State::Denied => "denied",
            State::Expired => "expired",
            State::Started => "started",
            State::Finished => "finished",
            State::Indeterminate => "indeterminate",
        }
    }

    pub fn named(name: &str) -> Option<State> {
        State::ALL.into_iter().find(|it| it.name() == name)
    }

    /// The only ways there are. None leads back.
    pub fn may_become(self, next: State) -> bool {
        match self {
            State::Pending => matches!(next, State::Approved | State::Denied | State::Expired),
            State::Approved => matches!(next, State::Started | State::Expired),
            State::Started => next == State::Finished,
            State::Denied | State::Expired | State::Finished | State::Indeterminate => false,
        }
    }
}

/// What the call may use, in the words of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Authority {
    pub network: String,
    pub read: Vec<String>,
    pub write: Vec<String>,
    /// Names only.
    pub secrets: Vec<String>,
}

impl Authority {
    pub fn of(permissions: &Permissions) -> Authority {
        Authority {
            network: permissions.network.to_string(),
            read: permissions.read.clone(),
            write: permissions.write.clone(),
            secrets: permissions.secrets.keys().cloned().collect(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootDeadline {
    pub id: String,
    pub deadline_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answered {
    pub by: String,
    #[serde(with = "text")]
    pub at: Timestamp,
    /// `once`, `session`, `always` or `denied`.
    pub said: Said,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What runs in place of what was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_args: Option<Map<String, Value>>,
    /// The binding with these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Said {
    Once,
    Session,
    Always,
    Denied,
}

impl Said {
    /// How a person says for how long a yes is good.
    pub fn scope(name: &str) -> Option<Said> {
        [Said::Once, Said::Session, Said::Always]
            .into_iter()
            .find(|it| it.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Said::Once => "once",
            Said::Session => "session",
            Said::Always => "always",
            Said::Denied => "denied",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Started {
    #[serde(with = "text")]
    pub call: Uuid,
    #[serde(with = "text")]
    pub at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finished {
    #[serde(with = "text")]
    pub at: Timestamp,
    /// `success`, or the code of the failure.
    pub outcome: String,
}

impl Record {
    /// The arguments that would run.
    pub fn runs(&self) -> &Map<String, Value> {
        let modified = self
            .answer
            .as_ref()
            .and_then(|it| it.modified_args.as_ref());
        modified.unwrap_or(&self.args)
    }

    /// What a run is held against.
    pub fn bound_to(&self) -> &str {
        let modified = self.answer.as_ref().and_then(|it| it.binding.as_deref());
        modified.unwrap_or(&self.binding)
    }

    /// Whether its time has passed, by either clock. Setting a clock back gives it no more.
    pub fn is_late(&self, clock: &dyn Clock) -> bool {
        let now = timestamp(clock);
        let same_boot = match (&self.boot, clock.boot()) {
            (Some(then), Some(now)) if then.id == now.id => Some((then.deadline_ms, now.up)),
            _ => None,
        };
        match same_boot {
            Some((deadline, up)) => now >= self.expires_at || up.as_millis() >= deadline.into(),
            // After a restart only the other clock is left, and one that is behind is wrong.
            None => now >= self.expires_at || now < self.asked_at,
        }
    }

    pub fn for_people(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

/// The deadlines of something asked now.
pub fn deadlines(clock: &dyn Clock, after: Duration) -> (Timestamp, Option<BootDeadline>) {
    let wall = timestamp(clock)
        .checked_add(after)
        .unwrap_or(Timestamp::MAX);
    let boot = clock.boot().map(|Boot { id, up }| BootDeadline {
        id,
        deadline_ms: u64::try_from((up + after).as_millis()).unwrap_or(u64::MAX),
    });
    (wall, boot)
}

/// To the millisecond, so that what is written is what was meant.
pub fn timestamp(clock: &dyn Clock) -> Timestamp {
    let now = Timestamp::try_from(clock.now()).unwrap_or(Timestamp::MAX);
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}

/// Values that are written as texts.
mod text {
    use super::*;

    pub(super) fn serialize<T: fmt::Display, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: fmt::Display>,
        D: Deserializer<'de>,
    {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    struct At {
        wall: Duration,
        boot: Option<(&'static str, Duration)>,
    }

    impl Clock for At {
        fn now(&self) -> SystemTime {
            SystemTime::UNIX_EPOCH + self.wall
        }

        fn boot(&self) -> Option<Boot> {
            self.boot.map(|(id, up)| Boot {
                id: id.to_owned(),
                up,
            })
        }
    }

    const HOUR: Duration = Duration::from_secs(3600);
    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn record(clock: &At) -> Record {
        let (expires_at, boot) = deadlines(clock, DAY);
        Record {
            id: Uuid::nil(),
            state: State::Pending,
            tool: String::new(),
            args: Map::new(),
            caller: String::new(),
            reason: String::new(),
            authority: Authority {
                network: String::new(),
                read: Vec::new(),
                write: Vec::new(),
                secrets: Vec::new(),
            },
            project: String::new(),
            tool_digest: String::new(),
            binding: String::new(),
            asked_at: timestamp(clock),
            expires_at,
            boot,
            answer: None,
            started: None,
            finished: None,
            void: None,
        }
    }

    /// Whichever clock passes the deadline first ends it; a backward jump never extends it.
    #[test]
    fn ap_08_no_jump_of_a_clock_extends_an_expiry() {
        let wall = 1000 * DAY;
        let asked = record(&At {
            wall,
            boot: Some(("a", HOUR)),
        });
        let late = |wall: Duration, boot| asked.is_late(&At { wall, boot });
        for (wall, boot, expected) in [
            (wall, Some(("a", HOUR)), false),
            (wall + 23 * HOUR, Some(("a", 24 * HOUR)), false),
            (wall + DAY, Some(("a", 2 * HOUR)), true),
            // Jumps of three days, forwards and back.
            (wall + 3 * DAY, Some(("a", 2 * HOUR)), true),
            (wall - 3 * DAY, Some(("a", 2 * HOUR)), false),
            (wall - 3 * DAY, Some(("a", HOUR + DAY)), true),
            // Asleep for a day, and the other clock set back meanwhile.
            (wall, Some(("a", HOUR + DAY)), true),
            // Another start of the machine.
            (wall + HOUR, Some(("b", HOUR)), false),
            (wall + DAY, Some(("b", HOUR)), true),
            (wall - HOUR, Some(("b", HOUR)), true),
            (wall - HOUR, None, true),
            (wall + HOUR, None, false),
        ] {
            assert_eq!(late(wall, boot), expected, "{wall:?} {boot:?}");
        }
    }

    #[test]
    fn no_state_leads_back() {
        for from in State::ALL {
            for to in State::ALL {
                let back = to.may_become(from);
                assert!(!(from.may_become(to) && back), "{from:?} {to:?}");
            }
            assert_eq!(State::named(from.name()), Some(from));
        }
        assert!(!State::Started.may_become(State::Approved));
        assert!(!State::Pending.may_become(State::Started));
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let mut record = record(&At {
            wall: DAY,
            boot: Some(("a", HOUR)),
        });
        record.args.insert("n".into(), 12345678901234567u64.into());
        let written = serde_json::to_string_pretty(&record).unwrap_or_default();
        let read: Record = serde_json::from_str(&written).unwrap_or_else(|err| panic!("{err}"));
        assert_eq!(read, record);
    }
}
