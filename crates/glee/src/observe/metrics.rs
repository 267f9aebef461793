//! Counts of calls, in the words of Prometheus. Labels come from the project and from glee, never from whoever
//! calls, and there are only so many: of more tools than that the rest are counted together.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use glee_core::event::{Event, What};
use glee_core::port::Observer;

use super::{OTHER, decision, outcome, tool};

/// Tools that are counted one by one.
const MOST_TOOLS: usize = 500;
/// Upper bounds of the histogram, in seconds.
const BOUNDS: [f64; 11] = [
    0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0,
];

#[derive(Default)]
pub struct Metrics(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    tools: BTreeMap<String, Tool>,
    questions: u64,
    answers: BTreeMap<&'static str, u64>,
}

#[derive(Default)]
struct Tool {
    /// By decision and outcome.
    calls: BTreeMap<(&'static str, &'static str), u64>,
    within: [u64; BOUNDS.len()],
    ran: u64,
    seconds: f64,
}

impl Tool {
    fn took(&mut self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        if let Some(at) = BOUNDS.iter().position(|it| seconds <= *it) {
            self.within[at] += 1;
        }
        self.ran += 1;
        self.seconds += seconds;
    }
}

impl Counts {
    fn tool(&mut self, event: &Event) -> &mut Tool {
        let name = tool(event);
        let is_known = self.tools.contains_key(name) || self.tools.len() < MOST_TOOLS;
        let name = if is_known { name } else { OTHER };
        if !self.tools.contains_key(name) {
            self.tools.insert(name.to_owned(), Tool::default());
        }
        match self.tools.get_mut(name) {
            Some(tool) => tool,
            None => unreachable!("it was put there"),
        }
    }

    fn called(&mut self, event: &Event, ended: &'static str) -> &mut Tool {
        let decided = decision(event);
        let tool = self.tool(event);
        *tool.calls.entry((decided, ended)).or_default() += 1;
        tool
    }
}

impl Observer for Metrics {
    fn observe(&self, event: &Event) -> Result<(), String> {
        let mut counts = self.lock();
        match &event.what {
            What::Refused { kind, .. } => {
                counts.called(event, outcome(Some(*kind)));
            }
            What::Finished {
                failure, duration, ..
            } => {
                counts.called(event, outcome(*failure)).took(*duration);
            }
            What::Asked { .. } => counts.questions += 1,
            What::Answered { answer, .. } => *counts.answers.entry(answer).or_default() += 1,
            What::Started | What::Changed { .. } | What::Created { .. } | What::Reviewed { .. } => {
            }
        }
        Ok(())
    }
}

impl Metrics {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As Prometheus reads it.
    pub fn text(&self, tools: usize, running: usize) -> String {
        let counts = self.lock();
        let mut out = String::new();
        let head = |out: &mut String, name: &str, kind: &str, help: &str| {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        };
        head(&mut out, "glee_build_info", "gauge", "The version of glee.");
        let version = env!("CARGO_PKG_VERSION");
        let _ = writeln!(out, "glee_build_info{{version=\"{version}\"}} 1");
        head(&mut out, "glee_tools", "gauge", "Tools that there are.");
        let _ = writeln!(out, "glee_tools {tools}");
        let help = "Calls that run now.";
        head(&mut out, "glee_calls_running", "gauge", help);
        let _ = writeln!(out, "glee_calls_running {running}");
        let help = "Calls that are over, by what was decided about them and how they ended.";
        head(&mut out, "glee_calls_total", "counter", help);
        for (name, tool) in &counts.tools {
            let name = escaped(name);
            for ((decision, outcome), count) in &tool.calls {
                let _ = writeln!(
                    out,
                    "glee_calls_total{{tool=\"{name}\",decision=\"{decision}\",outcome=\"{outcome}\"}} {count}"
                );
            }
        }
        let help = "How long tools ran.";
        head(&mut out, "glee_call_duration_seconds", "histogram", help);
        for (name, tool) in counts.tools.iter().filter(|it| it.1.ran > 0) {
            let name = escaped(name);
            let mut within = 0;
            for (bound, count) in BOUNDS.iter().zip(tool.within) {
                within += count;
                let _ = writeln!(
                    out,
                    "glee_call_duration_seconds_bucket{{tool=\"{name}\",le=\"{bound}\"}} {within}"
                );
            }
            let (ran, seconds) = (tool.ran, tool.seconds);
            let _ = writeln!(
                out,
                "glee_call_duration_seconds_bucket{{tool=\"{name}\",le=\"+Inf\"}} {ran}\n\
                 glee_call_duration_seconds_sum{{tool=\"{name}\"}} {seconds}\n\
                 glee_call_duration_seconds_count{{tool=\"{name}\"}} {ran}"
            );
        }
        let help = "Questions that people were asked about calls.";
        head(&mut out, "glee_questions_total", "counter", help);
        let _ = writeln!(out, "glee_questions_total {}", counts.questions);
        let help = "What became of the questions.";
        head(&mut out, "glee_answers_total", "counter", help);
        for (answer, count) in &counts.answers {
            let _ = writeln!(out, "glee_answers_total{{answer=\"{answer}\"}} {count}");
        }
        out
    }
}

fn escaped(label: &str) -> String {
    label
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use glee_core::outcome::FailureKind;
    use uuid::Uuid;

    fn event(tool: &str, document: Option<[u8; 32]>, what: What) -> Event {
        Event {
            id: Uuid::nil(),
            at: std::time::SystemTime::UNIX_EPOCH,
            tool: tool.to_owned(),
            document,
            actor: "a".to_owned(),
            args: Default::default(),
            held: None,
            trail: Vec::new(),
            what,
        }
    }

    fn finished() -> What {
        What::Finished {
            failure: None,
            message: String::new(),
            duration: Duration::from_millis(7),
        }
    }

    #[test]
    fn names_of_strangers_are_no_labels_and_there_are_only_so_many() {
        let metrics = Metrics::default();
        let refused = || What::Refused {
            kind: FailureKind::NotFound,
            message: String::new(),
            duration: Duration::ZERO,
        };
        for at in 0..2000 {
            let _ = metrics.observe(&event(&format!("strange{at}"), None, refused()));
            let _ = metrics.observe(&event(&format!("known{at}"), Some([0; 32]), finished()));
        }
        let text = metrics.text(3, 0);
        assert!(!text.contains("strange"));
        assert!(text.contains("tool=\"other\",decision=\"none\",outcome=\"NOT_FOUND\"} 2000\n"));
        assert!(text.contains("known0") && !text.contains("known1999"));
        assert!(
            text.lines()
                .filter(|it| it.starts_with("glee_calls_total"))
                .count()
                <= MOST_TOOLS + 2
        );
    }

    #[test]
    fn a_histogram_adds_up() {
        let metrics = Metrics::default();
        let _ = metrics.observe(&event("a\"b", Some([0; 32]), What::Started));
        let _ = metrics.observe(&event("a\"b", Some([0; 32]), finished()));
        let text = metrics.text(1, 0);
        for line in [
            "glee_calls_running 0",
            "glee_calls_total{tool=\"a\\\"b\",decision=\"allow\",outcome=\"OK\"} 1",
            "glee_call_duration_seconds_bucket{tool=\"a\\\"b\",le=\"0.005\"} 0",
            "glee_call_duration_seconds_bucket{tool=\"a\\\"b\",le=\"0.01\"} 1",
            "glee_call_duration_seconds_bucket{tool=\"a\\\"b\",le=\"+Inf\"} 1",
            "glee_call_duration_seconds_count{tool=\"a\\\"b\"} 1",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
    }
}
