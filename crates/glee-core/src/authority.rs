//! What a tool may do, in plain words, for the person who decides about it; and what is other about it
//! than it was.

use crate::json_path::Step;
use crate::model::{Approval, Exec, Origin, ToolSpec};
use crate::permission::{Network, SecretNeed};
use crate::template::{Part, Template, ValueTemplate};

/// One thing to know, such as `reads` and `src, docs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    pub about: &'static str,
    pub says: String,
}

/// All there is to know, in the order in which it matters.
pub fn summary(spec: &ToolSpec) -> Vec<Point> {
    let permissions = &spec.permissions;
    let point = |about, says| Point { about, says };
    vec![
        point("runs", runs(&spec.exec)),
        point("reads", listed(&permissions.read)),
        point("writes", listed(&permissions.write)),
        point("reaches", reaches(&permissions.network)),
        point("secrets", listed(&secrets(spec))),
        point(
            "asks",
            match &spec.approval {
                Approval::Never => "nobody before it runs".to_owned(),
                Approval::When { reason, .. } => {
                    format!("a person before some runs, depending on its arguments: {reason}")
                }
                Approval::Depends(_) => "a person, depending on its arguments".to_owned(),
                Approval::Always { reason } => format!("a person before each run: {reason}"),
            },
        ),
        point(
            "made by",
            match &spec.origin {
                Origin::BuiltIn => "the program it is built into".to_owned(),
                Origin::User => "a person".to_owned(),
                Origin::Agent { creator, .. } => format!("the agent {creator}"),
            },
        ),
    ]
}

/// What a tool has, or lacks, that it did not have or lack before: a line each.
pub fn changes(before: &ToolSpec, now: &ToolSpec) -> Vec<String> {
    let mut lines = Vec::new();
    let mut sets = |what: &str, before: &[String], now: &[String]| {
        let new = now.iter().filter(|it| !before.contains(it));
        lines.extend(new.map(|it| format!("new: {what} {it}")));
        let gone = before.iter().filter(|it| !now.contains(it));
        lines.extend(gone.map(|it| format!("gone: {what} {it}")));
    };
    let (old, new) = (&before.permissions, &now.permissions);
    sets("reads", &old.read, &new.read);
    sets("writes", &old.write, &new.write);
    sets("reaches", &hosts(&old.network), &hosts(&new.network));
    sets("the secret", &secrets(before), &secrets(now));
    for (what, old, new) in [
        ("what it runs", runs(&before.exec), runs(&now.exec)),
        (
            "the description",
            before.description.clone(),
            now.description.clone(),
        ),
        ("what it asks", asks(before), asks(now)),
    ] {
        if old != new {
            lines.push(format!("{what} was: {old}"));
            lines.push(format!("{what} is now: {new}"));
        }
    }
    lines
}

fn asks(spec: &ToolSpec) -> String {
    match &spec.approval {
        Approval::Never => "nothing".to_owned(),
        Approval::Depends(_) => "it depends on its arguments".to_owned(),
        Approval::When { reason, .. } => format!("for some arguments: {reason}"),
        Approval::Always { reason } => reason.clone(),
    }
}

fn listed(items: &[String]) -> String {
    match items.is_empty() {
        true => "nothing".to_owned(),
        false => items.join(", "),
    }
}

fn secrets(spec: &ToolSpec) -> Vec<String> {
    let named = spec
        .permissions
        .secrets
        .iter()
        .map(|(name, need)| match need {
            SecretNeed::Required => name.clone(),
            SecretNeed::Optional => format!("{name} (if there)"),
        });
    named.collect()
}

fn hosts(network: &Network) -> Vec<String> {
    match network {
        Network::None => Vec::new(),
        Network::Public => vec![network.to_string()],
        Network::Hosts(hosts) => hosts.iter().map(ToString::to_string).collect(),
    }
}

fn reaches(network: &Network) -> String {
    listed(&hosts(network))
}

fn runs(exec: &Exec) -> String {
    match exec {
        Exec::Http(http) => match http.url.fixed_origin() {
            Some(origin) => format!("one {} request to {origin}", http.method.as_str()),
            None => format!(
                "one {} request to an address that its arguments choose",
                http.method.as_str()
            ),
        },
        Exec::Native(_) => "a function of this program".to_owned(),
        Exec::Command(command) => {
            let args = command.args.iter().map(text);
            let words: Vec<String> = std::iter::once(command.entrypoint.clone())
                .chain(args)
                .map(|it| format!("`{it}`"))
                .collect();
            format!("the program {} in {}", words.join(" "), command.cwd)
        }
        Exec::Python(python) => {
            let mut args: Vec<String> = python.args.iter().map(value).collect();
            let named = python.kwargs.iter();
            args.extend(named.map(|(name, it)| format!("{name}={}", value(it))));
            let venv = match &python.venv {
                Some(venv) => format!("the python of {venv}"),
                None => "the system's python".to_owned(),
            };
            format!(
                "{}.{}({}) in {}, by {venv}",
                python.module,
                python.function,
                args.join(", "),
                python.cwd
            )
        }
    }
}

/// A template as its author wrote it, more or less.
fn text(template: &Template) -> String {
    let parts = template.parts().iter().map(|part| match part {
        Part::Text(text) => text.clone(),
        Part::Hole(hole) => {
            let steps: String = hole
                .steps
                .iter()
                .map(|step| match step {
                    Step::Key(key) => format!(".{key}"),
                    Step::Index(at) => format!("[{at}]"),
                })
                .collect();
            format!("${{{}{steps}}}", hole.name)
        }
    });
    parts.collect()
}

fn value(template: &ValueTemplate) -> String {
    match template {
        ValueTemplate::Text(it) => text(it),
        ValueTemplate::Literal(it) => it.to_string(),
        ValueTemplate::List(items) => {
            let items: Vec<String> = items.iter().map(value).collect();
            format!("[{}]", items.join(", "))
        }
        ValueTemplate::Map(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(name, it)| format!("{name}: {}", value(it)))
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
    }
}
