//! `glee why`: why a call was allowed, asked about or refused.

use anyhow::bail;
use glee_core::name::spelled_out;
use serde_json::{Value, json};

use super::audit::{Recorded, of_call};
use super::status::Status;
use super::{Session, print};
use crate::app::App;
use crate::exec::Stay;
use crate::store::journal;

/// Tell why a call was allowed, asked about or refused.
///
/// Who called what, who had a say in it and what they said, what held the tool, what became of it, and
/// what would change the decision.
#[derive(clap::Args)]
#[command(
    after_help = "The id of a call is `meta.id` of `glee run --json`, `_meta[\"dev.glee/call\"]` of an MCP result, and the last word of each line of `glee audit tail`."
)]
pub(super) struct Args {
    /// The call's id, or its beginning [default: the last call]
    call: Option<String>,
}

pub(super) fn run(session: &Session, args: &Args) -> anyhow::Result<Status> {
    let project = session.project()?;
    let call = match &args.call {
        Some(call) => call.clone(),
        None => {
            let last = journal::last(&project.audit(), 1)?.pop();
            match last.as_deref().and_then(Recorded::read) {
                Some(event) => event.text("id").to_owned(),
                None => bail!("nothing has been called yet"),
            }
        }
    };
    let events = of_call(&project, &call)?;
    // A project that is broken now can still say what happened when it was not.
    let app = session.app(Stay::Briefly).ok();
    let told = Told::of(&events, app.as_ref());
    match session.json {
        true => print::json(&told.as_json())?,
        false => print::out(&told.as_text())?,
    }
    Ok(Status::Ok)
}

struct Told<'a> {
    /// The event that says most of how it came about.
    decided: &'a Recorded,
    last: &'a Recorded,
    steps: Vec<Step<'a>>,
}

struct Step<'a> {
    by: &'a str,
    decision: &'a str,
    reason: &'a str,
    /// What would change it.
    remedy: String,
}

impl<'a> Told<'a> {
    fn of(events: &'a [Recorded], app: Option<&App>) -> Told<'a> {
        let (first, last) = (&events[0], &events[events.len() - 1]);
        let about_call = |it: &&&Recorded| it.get("trail").is_array();
        let decided = events.iter().rev().find(|it| about_call(&it));
        let decided = decided.unwrap_or(first);
        let steps = decided.get("trail").as_array().into_iter().flatten();
        Told {
            decided,
            last,
            steps: steps.map(|it| Step::of(it, app)).collect(),
        }
    }

    fn as_text(&self) -> String {
        let it = self.decided;
        let mut lines = vec![
            format!("{}  call {}", it.time(), it.shown("id")),
            format!("{} called `{}`", it.shown("actor"), it.shown("tool")),
            format!("with {}", shortened(&it.args())),
        ];
        match self.steps.is_empty() {
            true if it.text("decision") == "allowed" => {
                lines.push("no rule objected, and nobody had to be asked".to_owned());
            }
            true => {}
            false => lines.extend(self.steps.iter().map(Step::as_text)),
        }
        if let Some(by) = self.last.get("sandbox")["by"].as_str() {
            lines.push(format!("held by {}", spelled_out(by)));
        }
        lines.push(format!("so it was {}: {}", self.decision(), self.end()));
        let changes: Vec<&Step<'_>> = self
            .steps
            .iter()
            .filter(|it| it.decision != "allow" && !it.remedy.is_empty())
            .collect();
        for step in changes {
            let (by, remedy) = (spelled_out(step.by), spelled_out(&step.remedy));
            lines.push(format!("what would change what {by} says: {remedy}"));
        }
        lines.join("\n")
    }

    fn decision(&self) -> String {
        match self.last.text("decision") {
            "" => "not decided yet".to_owned(),
            "asked" => "not run: a person is to be asked".to_owned(),
            decision => spelled_out(decision),
        }
    }

    fn end(&self) -> String {
        let (code, message) = (self.last.shown("code"), self.last.shown("message"));
        match (self.last.text("event"), code.as_str()) {
            ("TOOL_STARTED", _) => "it was started, and its end is not recorded".to_owned(),
            ("TOOL_EXECUTED", "") => format!("it ran, {}", self.last.result()),
            ("TOOL_EXECUTED", _) => format!("it ran and failed, {code}: {}", shortened(&message)),
            (_, _) => format!("{code}: {}", shortened(&message)),
        }
    }

    fn as_json(&self) -> Value {
        let steps: Vec<Value> = self
            .steps
            .iter()
            .map(|it| {
                json!({"by": it.by, "decision": it.decision, "reason": it.reason, "remedy": it.remedy})
            })
            .collect();
        json!({
            "id": self.decided.text("id"),
            "at": self.decided.text("at"),
            "actor": self.decided.text("actor"),
            "tool": self.decided.text("tool"),
            "args": self.decided.get("args"),
            "steps": steps,
            "decision": self.last.text("decision"),
            "sandbox": self.last.get("sandbox"),
            "status": self.last.get("status"),
            "code": self.last.get("code"),
            "message": self.last.get("message"),
        })
    }
}

impl<'a> Step<'a> {
    fn of(step: &'a Value, app: Option<&App>) -> Step<'a> {
        let text = |key: &str| step[key].as_str().unwrap_or_default();
        let by = text("by");
        let rules = app.map(App::rules);
        let rule = rules
            .iter()
            .flat_map(|it| it.iter())
            .find(|it| by.strip_prefix("rule ") == Some(it.name()));
        let remedy = match (rule, by) {
            (Some(rule), _) => rule.remedy().to_owned(),
            (None, "principles") => "another answer of the service that `principles` names".into(),
            (None, _) => String::new(),
        };
        Step {
            by,
            decision: text("decision"),
            reason: text("reason"),
            remedy,
        }
    }

    fn as_text(&self) -> String {
        let (by, reason) = (spelled_out(self.by), shortened(&spelled_out(self.reason)));
        match reason.is_empty() {
            true => format!("{by}: {}", self.decision),
            false => format!("{by}: {}, because {reason}", self.decision),
        }
    }
}

/// Most characters of one text.
const LONGEST: usize = 400;

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}… and {} bytes more", &text[..at], text.len() - at),
        None => text.to_owned(),
    }
}
