//! `glee bundle`: bundles to and from archives, and their switches.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use glee_core::outcome::{Failure, FailureKind};
use glee_core::port::Caller;
use rustix::fs::OFlags;
use serde_json::json;
use uuid::Uuid;

use super::status::{self, Status};
use super::{Session, print};
use crate::app::{App, Arrival, OnConflict, Run};
use crate::dialect::bundle::archive::MOST_BYTES;
use crate::exec::Stay;
use crate::store::durable;
use crate::surface::exchange;

/// Take bundles from one project to another, and switch them on and off.
///
/// A bundle is a named container of tools, made through the REST API of `glee serve`. An archive of bundles
/// is a ZIP file that holds their documents and nothing else: no secrets, approvals, tokens or audit. The
/// same bundles give the same bytes.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  glee bundle export weather -o weather.zip\n  glee bundle import weather.zip --dry-run\n  glee bundle import weather.zip --on-conflict rename\n  glee bundle enable weather.forecast.v2"
)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Write bundles and their tools to an archive
    Export {
        /// Slugs or ids [default: all bundles that are kept in .glee/bundles]
        names: Vec<String>,

        /// Where to; `-` is the standard output
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    Import(Import),
    /// Switch a bundle on, or one tool
    Enable {
        /// A bundle's slug or id, or a tool's name
        name: String,
    },
    /// Switch a bundle off, with everything in it, or one tool
    Disable {
        /// A bundle's slug or id, or a tool's name
        name: String,
    },
}

/// Make the bundles of an archive, all of them or none.
///
/// Whatever the archive says, its tools are new ones here and disabled: look at them with `glee show`, then
/// `glee bundle enable` those that may be called.
#[derive(clap::Args)]
struct Import {
    /// The archive; `-` is the standard input
    file: PathBuf,

    /// Tell what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// When an id or a slug is taken: import nothing, leave the bundle out, or give it a free one
    #[arg(long, value_name = "WHAT", default_value = exchange::ON_CONFLICT[0], value_parser = clap::builder::PossibleValuesParser::new(exchange::ON_CONFLICT))]
    on_conflict: String,
}

pub(super) fn run(session: &Session, args: Args) -> anyhow::Result<Status> {
    let app = session.app(Stay::Briefly)?;
    let done = match args.command {
        Command::Export { names, output } => export(&app, &names, &output)?,
        Command::Import(args) => import(session, &app, &args)?,
        Command::Enable { name } => switch(session, &app, &name, Switch::On)?,
        Command::Disable { name } => switch(session, &app, &name, Switch::Off)?,
    };
    Ok(match done {
        Ok(()) => Status::Ok,
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

fn export(app: &App, names: &[String], output: &Path) -> anyhow::Result<Result<(), Failure>> {
    let ids: Result<Vec<Uuid>, Failure> = names.iter().map(|it| bundle(app, it)).collect();
    let archive = match ids.and_then(|ids| app.export(&ids)) {
        Ok(archive) => archive,
        Err(failure) => return Ok(Err(failure)),
    };
    if output == Path::new("-") {
        std::io::stdout().lock().write_all(&archive)?;
        return Ok(Ok(()));
    }
    write(output, &archive).with_context(|| output.display().to_string())?;
    let size = print::plural(archive.len(), "byte");
    print::note("done", "32", &format!("{}: {size}", output.display()));
    Ok(Ok(()))
}

/// Puts a file where links lead, whole or not at all. What is no file is written to, and stays what it is.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => durable::replace(&fs::canonicalize(path)?, bytes),
        Ok(_) => File::options().write(true).open(path)?.write_all(bytes),
        Err(err) if err.kind() == io::ErrorKind::NotFound => match fs::read_link(path) {
            // There is nothing yet where it leads.
            Ok(target) => write(&path.with_file_name("").join(target), bytes),
            Err(_) => durable::replace(&std::path::absolute(path)?, bytes),
        },
        Err(err) => Err(err),
    }
}

fn bundle(app: &App, name: &str) -> Result<Uuid, Failure> {
    let tools = app.tools();
    let mut found = tools
        .bundles()
        .filter(|it| (it.slug == name && it.deleted_at.is_none()) || it.id.to_string() == name);
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one.id),
        (Some(_), Some(_)) => {
            let why = format!("two bundles have the slug `{name}`");
            Err(Failure::new(FailureKind::Conflict, why).hint("say which by its id"))
        }
        (None, _) => {
            let mut slugs: Vec<&str> = tools.bundles().map(|it| it.slug.as_str()).collect();
            slugs.sort_unstable();
            let why = format!("there is no bundle `{}`", glee_core::name::shorten(name));
            let hint = format!("there are {}", slugs.join(", "));
            Err(Failure::new(FailureKind::NotFound, why).hint(hint))
        }
    }
}

fn import(session: &Session, app: &App, args: &Import) -> anyhow::Result<Result<(), Failure>> {
    let archive = read(&args.file).with_context(|| args.file.display().to_string())?;
    let on_conflict = exchange::on_conflict(&args.on_conflict).unwrap_or(OnConflict::Fail);
    let run = match args.dry_run {
        true => Run::Dry,
        false => Run::Real,
    };
    let arrivals = match app.import(&archive, on_conflict, run, &person()) {
        Ok(arrivals) => arrivals,
        Err(failure) => return Ok(Err(failure)),
    };
    if session.json {
        print::json(&exchange::as_json(&arrivals, run))?;
        return Ok(Ok(()));
    }
    let tools = app.tools();
    for arrival in &arrivals {
        print::out(&in_words(arrival))?;
        let id = arrival.now.as_ref().map(|it| it.0).ok();
        for member in tools.members().filter(|it| Some(it.key.bundle) == id) {
            print::out(&format!("  {}", member.name))?;
        }
    }
    let came = arrivals.iter().any(|it| it.now.is_ok());
    match run {
        Run::Dry => print::note("note", "36", "nothing was imported: --dry-run"),
        Run::Real if came => {
            let next = "the tools are disabled; `glee show NAME` tells what one does, `glee bundle enable NAME` switches it on";
            print::note("next", "36", next);
        }
        Run::Real => {}
    }
    Ok(Ok(()))
}

/// No more of it than an archive may have, and one byte, by which it is seen to be too large.
fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = MOST_BYTES as u64 + 1;
    if path == Path::new("-") {
        io::stdin().lock().take(most).read_to_end(&mut bytes)?;
        return Ok(bytes);
    }
    // Opening a pipe would wait for somebody to write to it.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        bail!("it is not a file; `glee bundle import -` reads the standard input");
    }
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn in_words(arrival: &Arrival) -> String {
    let (_, was) = &arrival.was;
    let tools = print::plural(arrival.tools.len(), "tool");
    match &arrival.now {
        Err(why) => format!("{was}: left out, {why}"),
        Ok((id, slug)) if slug == was => format!("{slug}: {tools}, {id}"),
        Ok((id, slug)) => format!("{slug} (in the archive {was}): {tools}, {id}"),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Switch {
    On,
    Off,
}

fn switch(
    session: &Session,
    app: &App,
    name: &str,
    to: Switch,
) -> anyhow::Result<Result<(), Failure>> {
    let enabled = to == Switch::On;
    let tools = app.tools();
    let tool = tools.members().find(|it| it.name == name);
    let switched = match tool {
        Some(tool) => app
            .switch_tool(&tool.key, enabled, &person())
            .map(|it| ("tool", it.name.clone())),
        None => bundle(app, name)
            .and_then(|id| app.switch_bundle(id, enabled, &person()))
            .map(|it| ("bundle", it.slug)),
    };
    let (kind, switched) = match switched {
        Ok(switched) => switched,
        Err(failure) => return Ok(Err(failure)),
    };
    if session.json {
        print::json(&json!({"name": name, "kind": kind, "isEnabled": enabled}))?;
        return Ok(Ok(()));
    }
    let word = if enabled { "enabled" } else { "disabled" };
    print::note("done", "32", &format!("the {kind} `{switched}` is {word}"));
    if let (true, Ok(id)) = (tool.is_some(), bundle(app, name)) {
        let note = format!("there is a bundle `{name}`, too; it is meant by its id, {id}");
        print::note("note", "36", &note);
    }
    Ok(Ok(()))
}
