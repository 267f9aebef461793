//! `glee show`: everything a person wants to know before using a tool.

use glee_core::model::{Approval, Origin, Standing, ToolSpec};
use glee_core::outcome::FailureKind;
use glee_core::permission::{Network, SecretNeed};
use serde_json::{Value, json};

use super::status::{self, Status};
use super::{Session, print};
use crate::exec::Stay;

/// Show one tool: what it takes, what it gives, what it may touch, and how to call it.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The tool's name
    name: String,
}

pub(super) fn run(session: &Session, args: &Args) -> anyhow::Result<Status> {
    let app = session.app(Stay::Briefly)?;
    let tools = app.tools();
    let found = tools.find(&args.name);
    let kept = tools.place(&args.name).and_then(|it| it.spec.clone().ok());
    match (found, kept) {
        (Ok(spec), _) if session.json => print::json(&as_json(&spec))?,
        (Ok(spec), _) => print::out(&as_text(&spec))?,
        // What is switched off is looked at before it is switched on.
        (Err(failure), Some(spec)) if failure.kind == FailureKind::Disabled => match session.json {
            true => {
                let mut shown = as_json(&spec);
                shown["disabledReason"] = failure.message.into();
                print::json(&shown)?;
            }
            false => {
                print::out(&as_text(&spec))?;
                print::note("note", "36", &failure.message);
            }
        },
        (Err(failure), _) => {
            print::refusal(&failure, session.json)?;
            return Ok(status::of(failure.kind));
        }
    }
    Ok(Status::Ok)
}

fn as_json(spec: &ToolSpec) -> Value {
    json!({
        "name": spec.name,
        "title": spec.title,
        "description": spec.description,
        "kind": spec.exec.kind(),
        "version": spec.version,
        "tags": spec.tags,
        "inputs": spec.inputs.source(),
        "outputs": spec.outputs.schema.as_ref().map(|it| it.source()),
        "permissions": {
            "network": match &spec.permissions.network {
                Network::None => json!(false),
                Network::Public => json!(true),
                Network::Hosts(hosts) => json!({"hosts": hosts.iter().map(ToString::to_string).collect::<Vec<_>>()}),
            },
            "fs": {"read": spec.permissions.read, "write": spec.permissions.write},
            "secrets": spec.permissions.secrets.iter()
                .map(|(name, need)| (name.clone(), json!({"required": *need == SecretNeed::Required})))
                .collect::<serde_json::Map<_, _>>(),
        },
        "approval": match &spec.approval {
            Approval::Never => json!({"required": false}),
            Approval::Always { reason } => json!({"required": true, "reason": reason}),
            Approval::When { reason, condition } => json!({
                "required": true, "reason": reason, "when": condition.names().collect::<Vec<_>>(),
            }),
            Approval::Depends(_) => json!({"required": "depends on the arguments"}),
        },
        "creator": match &spec.origin {
            Origin::User | Origin::BuiltIn => Value::Null,
            Origin::Agent { creator, .. } => json!(creator),
        },
        "review": match &spec.origin {
            Origin::User | Origin::BuiltIn => Value::Null,
            Origin::Agent { standing, .. } => json!(standing.name()),
        },
        "timeout_ms": spec.limits.timeout.as_millis() as u64,
        "source": spec.source.display().to_string(),
    })
}

fn as_text(spec: &ToolSpec) -> String {
    let mut out = format!(
        "{} (version {}, {})\n",
        spec.name,
        spec.version,
        spec.exec.kind()
    );
    if let Some(title) = &spec.title {
        out.push_str(&format!("{title}\n"));
    }
    out.push_str(&format!("{}\n\n", spec.description.trim_end()));
    out.push_str("Takes:\n");
    let required = spec
        .inputs
        .source()
        .get("required")
        .and_then(Value::as_array);
    for (name, property) in spec.inputs.properties() {
        let text = |key: &str| {
            property
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let need = match property.get("default") {
            Some(default) => format!("default {default}"),
            None if required.is_some_and(|it| it.iter().any(|it| it == name)) => {
                "required".to_owned()
            }
            None => "optional".to_owned(),
        };
        let kind = if text("type").is_empty() {
            "any"
        } else {
            text("type")
        };
        out.push_str(&format!(
            "  {name}: {kind}, {need}  {}\n",
            text("description")
        ));
    }
    if spec.inputs.properties().next().is_none() {
        out.push_str("  nothing\n");
    }
    out.push_str("\nMay touch:\n");
    let permissions = &spec.permissions;
    let network = match &permissions.network {
        Network::None => "none".to_owned(),
        Network::Public => "any public host".to_owned(),
        Network::Hosts(hosts) => hosts
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", "),
    };
    let listed = |paths: &[String]| {
        if paths.is_empty() {
            "nothing".to_owned()
        } else {
            paths.join(", ")
        }
    };
    out.push_str(&format!(
        "  network  {network}\n  reads    {}\n  writes   {}\n",
        listed(&permissions.read),
        listed(&permissions.write)
    ));
    let secrets: Vec<String> = permissions
        .secrets
        .iter()
        .map(|(name, need)| match need {
            SecretNeed::Required => name.clone(),
            SecretNeed::Optional => format!("{name} (optional)"),
        })
        .collect();
    out.push_str(&format!("  secrets  {}\n", listed(&secrets)));
    match &spec.approval {
        Approval::Never | Approval::Depends(_) => {}
        Approval::Always { reason } => {
            out.push_str(&format!("\nA person must approve each run: {reason}\n"))
        }
        Approval::When { reason, condition } => {
            let names: Vec<&str> = condition.names().collect();
            out.push_str(&format!(
                "\nA person must approve some runs, depending on {}: {reason}\n",
                names.join(", ")
            ))
        }
    }
    if let Origin::Agent { creator, standing } = &spec.origin {
        let review = match standing {
            Standing::Pending => {
                format!("waits for review: `glee tools review {}`", spec.name)
            }
            Standing::Approved => "approved".to_owned(),
            Standing::Denied { reason } => format!("denied: {reason}"),
        };
        out.push_str(&format!("\nMade by the agent `{creator}`; {review}\n"));
    }
    if let Some(example) = spec.examples.first() {
        let params = Value::Object(example.params.clone());
        out.push_str(&format!(
            "\nExample: {}\n  glee run {} --params '{params}'\n",
            example.description, spec.name
        ));
    }
    match spec.origin {
        Origin::BuiltIn => out.push_str("\nIt is built in.\n"),
        Origin::User | Origin::Agent { .. } => {
            out.push_str(&format!("\n{}\n", spec.source.display()));
        }
    }
    out
}
