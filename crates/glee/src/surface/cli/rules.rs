//! `glee rules`: what calls are held to, and what that means for one call.

use std::sync::Arc;

use glee_core::policy::{Decision, Verdict};
use glee_core::port::{Caller, Cancel, Waits};
use serde_json::{Value, json};

use super::status::{self, Status};
use super::{Session, params, print};
use crate::app::{App, Call};
use crate::config::standing::Standing;
use crate::exec::Stay;

/// Show the rules, or what they say of a call.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the rules: those that come with glee and those of this project
    List,
    Check(Check),
}

/// Tell what the rules say of a call, which is not made.
///
/// Exits with 3 when the call would be denied.
#[derive(clap::Args)]
struct Check {
    /// The tool's name
    name: String,

    /// One argument; for a string as it is, otherwise as JSON
    #[arg(short = 'p', long = "param", value_name = "KEY=VALUE")]
    param: Vec<String>,

    /// All arguments: a JSON object, @FILE, or - for stdin
    #[arg(long, value_name = "JSON")]
    params: Option<String>,
}

pub(super) fn run(session: &Session, args: &Args) -> anyhow::Result<Status> {
    let app = session.app(Stay::Briefly)?;
    match &args.command {
        Command::List => list(&app, session.json),
        Command::Check(args) => check(&app, args, session.json),
    }
}

/// What would change the decision of a rule that a person made by saying `always`.
const REMEDY: &str = "the rule taken out of `.glee/rules.yml`";

fn list(app: &App, json: bool) -> anyhow::Result<Status> {
    let rules = app.rules();
    if json {
        let rules = rules.iter().map(
            |rule| json!({"name": rule.name(), "about": rule.about(), "remedy": rule.remedy()}),
        );
        let standing = app.standing_rules();
        let standing = standing
            .iter()
            .map(|it| json!({"name": it.name, "about": it.about(), "remedy": REMEDY}));
        print::json(&Value::from_iter(rules.chain(standing)))?;
        return Ok(Status::Ok);
    }
    let names = rules.iter().map(|it| it.name().chars().count());
    let width = names.max().unwrap_or_default();
    let mut out = String::new();
    for rule in rules.iter() {
        out.push_str(&format!("{:width$}  {}\n", rule.name(), rule.about()));
    }
    for rule in app.standing_rules().iter() {
        out.push_str(&format!("{:width$}  {}\n", rule.name, rule.about()));
    }
    if app.has_principles() {
        out.push_str("and the principles are asked before every call\n");
    }
    print::out(&out)?;
    Ok(Status::Ok)
}

fn check(app: &App, args: &Check, json: bool) -> anyhow::Result<Status> {
    let spec = app.tools().find(&args.name).ok();
    let call = Call {
        args: params::read(args.params.as_deref(), &args.param, spec.as_deref())?,
        tool: args.name.clone(),
        caller: Caller {
            name: "user".to_owned(),
        },
        timeout: None,
        cancel: Cancel::never(),
        party: Arc::new(Waits),
        approval: None,
    };
    let standing = app.standing_rule_for(call.clone());
    let mut verdicts = match app.judge(call) {
        Ok(verdicts) => verdicts,
        Err(failure) => {
            print::refusal(&failure, json)?;
            return Ok(status::of(failure.kind));
        }
    };
    // The strictest first, and of equals the one that decides.
    verdicts.sort_by_key(|it| match it.decision {
        Decision::Deny { .. } => 0,
        Decision::Ask { .. } => 1,
        Decision::Allow => 2,
    });
    let found: Vec<Found> = verdicts.iter().map(|it| Found::new(app, it)).collect();
    let decision = found.first().map_or("allow", |it| it.decision);
    // What a person said before turns a question into a yes, and nothing else.
    let standing = standing.filter(|_| decision == "ask");
    let decision = match &standing {
        Some(_) => "allow",
        None => decision,
    };
    if json {
        let objections: Vec<Value> = found.iter().map(Found::as_json).collect();
        let mut out = json!({
            "tool": args.name,
            "decision": decision,
            "rules": objections,
            "principles": app.has_principles(),
        });
        if let Some(rule) = &standing {
            out["always"] = rule.name.as_str().into();
        }
        print::json(&out)?;
    } else {
        print::out(&as_text(
            decision,
            &found,
            standing.as_ref(),
            app.has_principles(),
        ))?;
    }
    Ok(match decision {
        "deny" => Status::Refused,
        _ => Status::Ok,
    })
}

/// What one rule says, in words.
struct Found<'a> {
    decision: &'static str,
    rule: &'a str,
    reason: &'a str,
    remedy: String,
}

impl<'a> Found<'a> {
    fn new(app: &'a App, verdict: &'a Verdict) -> Found<'a> {
        let rule = verdict.rule.as_str();
        let (decision, reason) = match &verdict.decision {
            Decision::Allow => ("allow", ""),
            Decision::Ask { reason } => ("ask", reason.as_str()),
            Decision::Deny { reason } => ("deny", reason.as_str()),
        };
        let rules = app.rules();
        let own = rules.iter().find(|it| it.name() == rule);
        Found {
            decision,
            rule,
            reason,
            remedy: own.map_or(String::new(), |it| it.remedy().to_owned()),
        }
    }

    fn as_json(&self) -> Value {
        json!({
            "name": self.rule,
            "decision": self.decision,
            "reason": self.reason,
            "remedy": self.remedy,
        })
    }
}

fn as_text(
    decision: &str,
    found: &[Found<'_>],
    standing: Option<&Standing>,
    principles: bool,
) -> String {
    let mut out = match (standing, decision) {
        (Some(rule), _) => format!(
            "allow: a person said so before (rule `{}`)\n  what would change it: {REMEDY}\n",
            rule.name
        ),
        (None, "allow") => "allow: no rule objects\n".to_owned(),
        (None, _) => String::new(),
    };
    for it in found {
        out.push_str(&format!(
            "{}: {} (rule `{}`)\n  what would change it: {}\n",
            it.decision, it.reason, it.rule, it.remedy
        ));
    }
    if principles {
        out.push_str("the principles are asked when the call is made\n");
    }
    out
}
