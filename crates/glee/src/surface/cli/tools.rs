//! `glee tools review`: what agents made, and what a person thinks of it.

use std::process::Command as Program;

use anyhow::{Context, bail};
use glee_core::model::Standing;
use glee_core::name::spelled_out;
use glee_core::outcome::Failure;
use glee_core::port::Caller;

use super::status::{self, Status};
use super::{Session, print};
use crate::app::App;
use crate::approve::terminal::{self, Tty};
use crate::exec::Stay;
use crate::review::{Body, Look, Ruling, Waiting};
use crate::store::reviews::{Tally, Tried};
use crate::surface::review as as_json;

/// Look after the tools that agents made.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Review(Review),
}

/// Look at a tool that an agent made, and decide about it.
///
/// Without a name, lists those that wait. A tool that an agent made cannot be called before a person
/// has approved it, and waits again as soon as anything of it changes. Its examples are run first, in
/// the sandbox, without network, secrets or anything to write. Approving needs a person at a terminal.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  glee tools review\n  glee tools review weather\n  glee tools review weather --approve\n  glee tools review weather --deny --reason 'use the one we have'\n  glee tools review weather --edit"
)]
struct Review {
    /// The tool's name
    name: Option<String>,

    /// Let agents use it as it is, after a last question
    #[arg(long, requires = "name", conflicts_with_all = ["deny", "edit"])]
    approve: bool,

    /// Let nobody use it
    #[arg(long, requires = "name", requires = "reason", conflicts_with = "edit")]
    deny: bool,

    /// Why not; the agent is told
    #[arg(long, value_name = "TEXT", requires = "deny")]
    reason: Option<String>,

    /// Change its manifest in $EDITOR, then look at it again; permissions can only be taken away
    #[arg(long, requires = "name")]
    edit: bool,
}

pub(super) fn run(session: &Session, args: Args) -> anyhow::Result<Status> {
    let Command::Review(args) = args.command;
    let app = session.app(Stay::Briefly)?;
    let Some(name) = &args.name else {
        return list(&app, session.json);
    };
    let reviewed = review(&app, name, &args, session.json)?;
    Ok(match reviewed {
        Ok(status) => status,
        Err(failure) => {
            print::refusal(&failure, session.json)?;
            status::of(failure.kind)
        }
    })
}

/// The person at this terminal.
fn person() -> Caller {
    Caller {
        name: "user".to_owned(),
    }
}

fn review(
    app: &App,
    name: &str,
    args: &Review,
    json: bool,
) -> anyhow::Result<Result<Status, Failure>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    if args.edit {
        if !terminal::is_there() {
            bail!("editing needs a person at a terminal");
        }
        let text = match app.tools().find(name).and_then(|it| app.manifest(&it)) {
            Ok(text) => text,
            Err(failure) => return Ok(Err(failure)),
        };
        if let Some(edited) = edited(&text)?
            && let Err(failure) = app.edit_manifest(name, None, &edited)
        {
            return Ok(Err(failure));
        }
    }
    let look = match runtime.block_on(app.look(name, &person())) {
        Ok(look) => look,
        Err(failure) => return Ok(Err(failure)),
    };
    let ruling = match &args.reason {
        Some(reason) => Some(Ruling::Deny {
            reason: reason.clone(),
        }),
        None => {
            show(&look, json)?;
            let wanted = args.approve || args.edit;
            match wanted && runtime.block_on(agrees(name))? {
                true => Some(Ruling::Approve),
                false if wanted => {
                    print::note("note", "36", &format!("`{name}` was not approved"));
                    return Ok(Ok(Status::Refused));
                }
                false => None,
            }
        }
    };
    let Some(ruling) = ruling else {
        return Ok(Ok(Status::Ok));
    };
    let told = match &ruling {
        Ruling::Approve => format!("`{name}` is approved: agents can use it as it is now"),
        Ruling::Deny { .. } => format!("`{name}` is denied: nobody can use it"),
    };
    if let Err(failure) = app.rule_on(name, &look.digest, &person(), ruling) {
        return Ok(Err(failure));
    }
    print::note("done", "32", &told);
    Ok(Ok(Status::Ok))
}

/// Whether the person at the terminal says yes. What is piped in is not a person.
async fn agrees(name: &str) -> anyhow::Result<bool> {
    if !terminal::is_there() {
        bail!("approving needs a person at a terminal, and there is none");
    }
    let question = format!("Let agents use `{name}` as it is shown here? [y/N] ");
    let ask = move |tty: &mut Tty| {
        tty.say(&question)?;
        let line = tty.line()?.unwrap_or_default();
        Ok(matches!(line.to_ascii_lowercase().as_str(), "y" | "yes"))
    };
    Ok(terminal::converse(ask).await?)
}

/// The text as the person left it; nothing when they left it as it was.
fn edited(text: &str) -> anyhow::Result<Option<String>> {
    let editor = ["VISUAL", "EDITOR"]
        .iter()
        .find_map(|it| std::env::var(it).ok().filter(|it| !it.trim().is_empty()));
    let Some(editor) = editor else {
        bail!("neither VISUAL nor EDITOR is set; set one, such as `EDITOR=vi`");
    };
    let directory = tempfile::tempdir()?;
    let copy = directory.path().join("tool.yml");
    std::fs::write(&copy, text)?;
    // An editor may come with options, so it is a shell that reads the variable, as elsewhere.
    let ended = Program::new("sh")
        .args(["-c", &format!("{editor} \"$1\""), "sh"])
        .arg(&copy)
        .status()
        .with_context(|| editor.clone())?;
    if !ended.success() {
        bail!("`{editor}` did not end well; nothing was changed");
    }
    let now = std::fs::read_to_string(&copy)?;
    Ok((now != text).then_some(now))
}

fn list(app: &App, json: bool) -> anyhow::Result<Status> {
    let made = app.made_by_agents();
    if json {
        print::json(&made.iter().map(as_json::waiting).collect())?;
        return Ok(Status::Ok);
    }
    let waiting: Vec<&Waiting> = made
        .iter()
        .filter(|it| it.standing == Standing::Pending)
        .collect();
    if waiting.is_empty() {
        print::note("note", "36", "no tool waits for review");
        return Ok(Status::Ok);
    }
    let width = waiting.iter().map(|it| it.name.chars().count()).max();
    let width = width.unwrap_or_default();
    let mut out = String::new();
    for it in waiting {
        let summary = it.description.lines().next().unwrap_or_default();
        let by = spelled_out(&it.creator);
        out.push_str(&format!("{:width$}  by {by}  {summary}\n", it.name));
    }
    print::out(&out)?;
    Ok(Status::Ok)
}

fn show(look: &Look, json: bool) -> anyhow::Result<()> {
    match json {
        true => print::json(&as_json::look(look)),
        false => print::out(&as_text(look)),
    }
}

fn as_text(look: &Look) -> String {
    let client = look.client.as_deref();
    let client = client.map_or(String::new(), |it| {
        format!(", by a program that calls itself {}", spelled_out(it))
    });
    let mut out = format!(
        "{} — made by {}{client}, {}\n{}\n",
        look.spec.name,
        spelled_out(&look.creator),
        look.created_at,
        match &look.standing {
            Standing::Pending => "It waits for review.".to_owned(),
            Standing::Approved => "It is approved as it is now.".to_owned(),
            Standing::Denied { reason } => format!("It is denied: {reason}"),
        }
    );
    let mut block = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            out.push_str(&format!("\n{title}\n"));
            lines
                .iter()
                .flat_map(|it| it.lines())
                .for_each(|it| out.push_str(&format!("  {}\n", seen(it))));
        }
    };
    let authority = look.authority.iter();
    block(
        "What it may do:",
        authority
            .map(|it| format!("{:8} {}", it.about, one_line(&it.says)))
            .collect(),
    );
    block("More than the project allows:", look.excess.clone());
    block(
        "Other than when it was last decided about:",
        look.changes.iter().map(|it| one_line(it)).collect(),
    );
    block("How its manifest differs from then:", look.diff.clone());
    block("tool.yml:", vec![look.manifest.clone()]);
    for part in &look.files {
        let title = format!("{}:", seen(&one_line(&part.name)));
        let lines = match &part.body {
            Body::Text(text) => text.clone(),
            Body::Bytes(count) => format!("{count} bytes, SHA-256 {}", part.hash),
            Body::Link(target) => format!("a link to {}", target.display()),
            Body::Unreadable => "it cannot be read".to_owned(),
        };
        block(&title, vec![lines]);
    }
    block("Its examples:", look.trials.iter().map(tried).collect());
    out
}

fn tried(it: &Tried) -> String {
    let word = match it.result {
        Tally::Passed => "ok",
        Tally::Failed => "FAILED",
        Tally::NotRun => "not run",
    };
    let detail = match it.detail.as_str() {
        "" => String::new(),
        detail => format!(": {}", one_line(detail)),
    };
    format!("{word:7}  {}{detail}", one_line(&it.example))
}

/// What an agent wrote must not look like something that glee says.
fn one_line(text: &str) -> String {
    text.replace('\n', "\\n")
}

/// What cannot be seen is spelled out, wherever this is read.
fn seen(line: &str) -> String {
    spelled_out(&line.replace('\t', "    "))
}
