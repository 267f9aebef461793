//! The command line.

mod approvals;
mod audit;
mod bundle;
mod call;
mod connect;
mod doctor;
mod export;
mod init;
mod lint;
mod list;
mod mcp;
mod new;
mod params;
mod present;
mod print;
mod rules;
mod run;
mod sandbox;
mod schema;
mod search;
mod serve;
mod show;
mod status;
mod test;
mod token;
mod tools;
mod why;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::{io, thread};

use anyhow::{Context, bail};
use clap::{CommandFactory, Parser, Subcommand};
use tokio::runtime::{Builder, Runtime};

use crate::app::{App, Log, Wiring};
use crate::approve::absent::Absent;
use crate::approve::terminal::Terminal;
use crate::exec::Stay;
use crate::project::Project;

use status::Status;

/// The tool layer for AI agents.
///
/// A tool is a file, `.glee/tools/<name>/tool.yml`, that says what the tool takes, what it gives, how
/// it runs and what it may touch. glee checks every call against it, asks a person when it says so,
/// and records what happened in `.glee/audit`.
///
/// Start with `glee init`, then `glee run hello`.
#[derive(Parser)]
#[command(
    name = "glee",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    after_long_help = "Exit codes:\n  0    it worked\n  1    the tool failed, an example failed, lint found errors, or the audit is broken\n  2    the command line or the arguments are wrong\n  3    glee refused to run the tool (rules, approval, secrets, hosts, sandbox, audit)\n  130  cancelled with Ctrl-C\n\nEnvironment:\n  ALLOWED_TOOL_PERMS  the only permissions tools may need, such as fs:read,proc:exec\n  NO_COLOR            no colours, whatever the terminal can do"
)]
struct Cli {
    /// The project's directory [default: the nearest one, upwards, that holds .glee/]
    #[arg(long, global = true, value_name = "DIR")]
    root: Option<PathBuf>,

    /// Print JSON, for programs
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    command: Command,
}

// A command that takes arguments is described where they are; words here would hide those.
#[derive(Subcommand)]
enum Command {
    Init(init::Args),
    New(new::Args),
    Lint(lint::Args),
    List(list::Args),
    Search(search::Args),
    Show(show::Args),
    Run(run::Args),
    Test(test::Args),
    Export(export::Args),
    Call(call::Args),
    Tools(tools::Args),
    Bundle(bundle::Args),
    Rules(rules::Args),
    Approvals(approvals::Args),
    Audit(audit::Args),
    Why(why::Args),
    Mcp(mcp::Args),
    Serve(serve::Args),
    Connect(connect::Args),
    Token(token::Args),
    Schema(schema::Args),
    /// Tell what glee finds on this machine and in this project
    Doctor,
    Sandbox(sandbox::Args),
    /// Print completions for a shell
    ///
    /// For bash: `glee completions bash > ~/.local/share/bash-completion/completions/glee`
    Completions {
        /// The shell to complete in
        shell: clap_complete::Shell,
    },
}

/// What every command is told.
struct Session {
    root: Option<PathBuf>,
    json: bool,
}

pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let context = Session {
        root: cli.root,
        json: cli.json,
    };
    let done = match cli.command {
        Command::Init(args) => init::run(&context, &args),
        Command::New(args) => new::run(&context, &args),
        Command::Lint(args) => lint::run(&context, &args),
        Command::List(args) => list::run(&context, &args),
        Command::Search(args) => search::run(&context, &args),
        Command::Show(args) => show::run(&context, &args),
        Command::Run(args) => run::run(&context, args),
        Command::Test(args) => test::run(&context, &args),
        Command::Export(args) => export::run(&context, &args),
        Command::Call(args) => call::run(&context, &args),
        Command::Tools(args) => tools::run(&context, args),
        Command::Bundle(args) => bundle::run(&context, args),
        Command::Rules(args) => rules::run(&context, &args),
        Command::Approvals(args) => approvals::run(&context, args),
        Command::Audit(args) => audit::run(&context, &args),
        Command::Why(args) => why::run(&context, &args),
        Command::Connect(args) => connect::run(&context, &args),
        Command::Token(args) => token::run(&context, args),
        Command::Serve(args) => serve::run(&context, args),
        Command::Mcp(args) => mcp::run(&context, &args),
        Command::Schema(args) => schema::run(&args),
        Command::Doctor => doctor::run(&context),
        Command::Sandbox(args) => sandbox::run(&context, args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "glee", &mut script);
            print::out(&String::from_utf8_lossy(&script)).map(|()| Status::Ok)
        }
    };
    match done {
        Ok(status) => status.into(),
        Err(err) if print::is_broken_pipe(&err) => Status::Ok.into(),
        Err(err) => {
            print::error(&format!("{err:#}"), None);
            Status::Usage.into()
        }
    }
}

impl Session {
    fn project(&self) -> anyhow::Result<Project> {
        let found = match &self.root {
            Some(root) => Project::at(root).with_context(|| root.display().to_string())?,
            None => Project::find(&std::env::current_dir()?)?,
        };
        match (found, &self.root) {
            (Some(project), _) => Ok(project),
            (None, Some(root)) => bail!(
                "{} holds no .glee directory; run `glee init --root {0}` to make it a project",
                root.display()
            ),
            (None, None) => bail!(
                "neither this directory nor one above it holds .glee; run `glee init` to make it a project"
            ),
        }
    }

    /// For a command that makes calls of its own: the person at the terminal is asked.
    fn app(&self, stay: Stay) -> anyhow::Result<App> {
        Ok(App::open(
            self.project()?,
            Wiring {
                stay,
                ..Wiring::with(Terminal)
            },
        )?)
    }

    /// For a server, whose callers are elsewhere.
    fn served_app(&self, log: Option<Arc<Log>>) -> anyhow::Result<App> {
        let wiring = Wiring {
            log,
            ..Wiring::with(Absent)
        };
        Ok(App::open(self.project()?, wiring)?)
    }
}

/// For a server. On a machine with one core, too, one thread answers while another writes what must be recorded.
fn serving() -> io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    if thread::available_parallelism().map_or(1, usize::from) == 1 {
        builder.worker_threads(2);
    }
    builder.enable_all().build()
}
