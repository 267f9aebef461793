//! `glee sandbox`: look at what holds tools, use it by hand, and try to break it.

use std::io::Read;
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use glee_core::host::HostPattern;
use glee_core::model::ToolSpec;
use glee_core::outcome::Failure;
use glee_core::permission::{Network, absolute};
use serde_json::{Value, json};

use super::run::seconds;
use super::status::{self, Status};
use super::{Session, print};
use crate::app::{App, cage_without_project};
use crate::exec::Stay;
use crate::exec::probe::{ATTEMPTS, Unless};
use crate::exec::{ByHand, Ran, Streams};

/// Look at what holds tools, use it by hand, and try to break it.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Print what holds a tool on this machine
    Explain {
        /// The tool's name
        name: String,
    },
    /// Run a program in the sandbox
    ///
    /// Its streams and its exit code are the program's own. With --json they are captured and printed.
    #[command(
        after_help = "Examples:\n  glee sandbox exec --read src -- grep -rn main src\n  glee sandbox exec --write out --net -- ./build.sh\n  glee sandbox exec --host api.example.com -- curl https://api.example.com/"
    )]
    Exec(Box<ExecArgs>),
    /// Try to break out, and print what came of it
    ///
    /// Every attempt is made twice: unheld, where it should succeed, and in the sandbox, where it must not. Exits with
    /// 1 when one got through.
    Probe {
        /// With the permissions of this tool instead of none
        #[arg(long, value_name = "NAME")]
        tool: Option<String>,
    },
}

#[derive(clap::Args)]
struct ExecArgs {
    /// A path the program may read
    #[arg(long, value_name = "PATH")]
    read: Vec<PathBuf>,
    /// A path the program may change
    #[arg(long, value_name = "PATH")]
    write: Vec<PathBuf>,
    /// Let it reach public addresses
    #[arg(long, conflicts_with = "host")]
    net: bool,
    /// A host it may reach, through glee's proxy
    #[arg(long, value_name = "HOST")]
    host: Vec<HostPattern>,
    /// Where it starts [default: this directory]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// A variable of its environment
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Stop it after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    words: Vec<String>,
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

pub(super) fn run(session: &Session, args: Args) -> anyhow::Result<Status> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let done = runtime.block_on(async {
        match args.command {
            Command::Explain { name } => {
                explain(session, &session.app(Stay::Briefly)?, &name).await
            }
            Command::Exec(args) => exec(session, *args).await,
            Command::Probe { tool } => {
                probe(session, &session.app(Stay::Briefly)?, tool.as_deref()).await
            }
        }
    });
    runtime.shutdown_background();
    done
}

fn refused(session: &Session, failure: &Failure) -> anyhow::Result<Status> {
    print::refusal(failure, session.json)?;
    Ok(status::of(failure.kind))
}

async fn explain(session: &Session, app: &App, name: &str) -> anyhow::Result<Status> {
    let explained = match app.tools().find(name) {
        Ok(spec) => app.cage().explain(&spec, app.project().root()).await,
        Err(failure) => Err(failure),
    };
    let it = match explained {
        Ok(it) => it,
        Err(failure) => return refused(session, &failure),
    };
    let paths = |paths: &[PathBuf]| {
        paths
            .iter()
            .map(|it| it.display().to_string())
            .collect::<Vec<_>>()
    };
    if session.json {
        print::json(&json!({
            "tier": it.held.by, "missing": it.held.missing, "network": it.network,
            "read": paths(&it.read), "write": paths(&it.write), "protected": paths(&it.protected),
            "limits": {
                "timeout_ms": it.limits.timeout.as_millis() as u64, "cpu_ms": it.limits.cpu.map(|it| it.as_millis() as u64),
                "memory_bytes": it.limits.memory, "processes": it.limits.processes, "open_files": it.limits.open_files,
                "file_bytes": it.limits.file_size, "scratch_bytes": it.limits.scratch, "output_bytes": it.limits.output_bytes,
            },
        }))?;
        return Ok(Status::Ok);
    }
    let listed = |found: &[PathBuf]| {
        if found.is_empty() {
            "nothing".to_owned()
        } else {
            paths(found).join("\n           ")
        }
    };
    print::out(&format!(
        "held by    {}\nnetwork    {}\nreads      the system's programs, and\n           {}\nwrites     its scratch directory, and\n           {}\nnever      {}\nlimits     {} s, {} MiB of memory, {} processes, {} MiB of scratch",
        it.held.by,
        it.network,
        listed(&it.read),
        listed(&it.write),
        listed(&it.protected),
        it.limits.timeout.as_secs_f64(),
        it.limits.memory >> 20,
        it.limits.processes,
        it.limits.scratch >> 20,
    ))?;
    for missing in &it.held.missing {
        print::note("missing", "33", missing);
    }
    Ok(Status::Ok)
}

async fn exec(session: &Session, args: ExecArgs) -> anyhow::Result<Status> {
    let here = std::env::current_dir()?;
    // By hand also works outside of a project; then this directory is what no grant may open up.
    let (cage, root) = match session.project() {
        Ok(_) => {
            let app = session.app(Stay::Briefly)?;
            (app.cage().clone(), app.project().root().to_owned())
        }
        Err(_) if session.root.is_none() => (cage_without_project(), here.clone()),
        Err(err) => return Err(err),
    };
    let cwd = args
        .cwd
        .map_or(here.clone(), |it| here.join(it))
        .canonicalize()?;
    let wanted = ByHand {
        words: args.words,
        read: args.read,
        write: args.write,
        network: match (args.net, args.host) {
            (true, _) => Network::Public,
            (false, hosts) if hosts.is_empty() => Network::None,
            (false, hosts) => Network::Hosts(hosts),
        },
        cwd,
        env: args.env,
        timeout: args.timeout,
        root,
    };
    let streams = if session.json {
        Streams::Captured
    } else {
        Streams::Shared
    };
    match cage.run_by_hand(wanted, streams).await {
        Err(failure) => refused(session, &failure),
        Ok(ran) => {
            if session.json {
                print::json(&json!({
                    "exit_code": ran.code, "timed_out": ran.timed_out, "limit": ran.limit,
                    "sandbox": {"tier": ran.held.by, "missing": ran.held.missing},
                    "stdout": ran.stdout, "stderr": ran.stderr,
                    "denied": ran.denied.iter().map(|it| &it.details).collect::<Vec<_>>(),
                }))?;
                return Ok(of_program(&ran));
            }
            if ran.timed_out {
                print::error("the program was stopped at its deadline", None);
            } else if let Some(limit) = ran.limit {
                print::error(&format!("the program exceeded its limit of {limit}"), None);
            }
            for it in &ran.denied {
                print::note("denied", "33", &it.sentence);
            }
            Ok(of_program(&ran))
        }
    }
}

fn of_program(ran: &Ran) -> Status {
    Status::OfProgram(u8::try_from(ran.code).unwrap_or(u8::MAX))
}

async fn probe(session: &Session, app: &App, tool: Option<&str>) -> anyhow::Result<Status> {
    let spec = match tool.map(|name| app.tools().find(name)).transpose() {
        Ok(spec) => spec,
        Err(failure) => return refused(session, &failure),
    };
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port();
    // Somebody must answer, or an attempt to connect proves nothing.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = (&stream).read(&mut [0; 1]);
        }
    });
    let root = app.project().root().to_owned();
    let left = format!("glee-probe-{}", std::process::id());
    let mark = PathBuf::from(format!("/dev/shm/glee-probe-{}", std::process::id()));
    let marked = std::fs::write(&mark, "").is_ok();
    let mut rows = Vec::new();
    for attempt in ATTEMPTS {
        let wanted = || ByHand {
            words: ["sh", "-c", attempt.script].map(str::to_owned).into(),
            read: spec
                .as_deref()
                .map_or(Vec::new(), |it| paths(&root, &it.permissions.read)),
            write: spec
                .as_deref()
                .map_or(Vec::new(), |it| paths(&root, &it.permissions.write)),
            network: spec
                .as_deref()
                .map_or(Network::None, |it| it.permissions.network.clone()),
            cwd: root.clone(),
            env: vec![
                ("ROOT".into(), root.display().to_string()),
                ("LEFT".into(), left.clone()),
                ("WHO".into(), std::process::id().to_string()),
                ("PORT".into(), port.to_string()),
            ],
            timeout: Some(Duration::from_secs(10)),
            root: root.clone(),
        };
        let granted = spec
            .as_deref()
            .is_some_and(|it| is_granted(attempt.unless, it, &root));
        let got_through = |ran: &Ran| match attempt.leaves_in {
            None => ran.code == 0,
            Some(directory) => std::fs::remove_dir(root.join(directory).join(&left)).is_ok(),
        };
        let unheld = app.cage().run_unheld(wanted(), Streams::Captured).await;
        let unheld = unheld.is_ok_and(|it| got_through(&it));
        let held = match app.cage().run_by_hand(wanted(), Streams::Captured).await {
            Ok(ran) => ran,
            Err(failure) => return refused(session, &failure),
        };
        let verdict = match (got_through(&held), granted, unheld) {
            (true, false, _) => "GOT THROUGH",
            (true, true, _) => "granted",
            (false, _, true) => "held",
            (false, _, false) => "held (and fails without the sandbox too)",
        };
        rows.push((attempt.what, verdict, held.held.by));
    }
    if marked {
        let _ = std::fs::remove_file(&mark);
    }
    let through = rows.iter().filter(|it| it.1 == "GOT THROUGH").count();
    if session.json {
        let attempts: Vec<Value> = rows
            .iter()
            .map(|(what, verdict, _)| json!({"attempt": what, "result": verdict}))
            .collect();
        let tier = rows.first().map(|it| it.2.clone());
        print::json(&json!({"tier": tier, "attempts": attempts, "got_through": through}))?;
    } else {
        for (what, verdict, _) in &rows {
            print::out(&format!("{what:32} {verdict}"))?;
        }
        print::out(&format!("{through} of {} attempts got through", rows.len()))?;
    }
    Ok(if through > 0 {
        Status::Failed
    } else {
        Status::Ok
    })
}

fn paths(root: &std::path::Path, granted: &[String]) -> Vec<PathBuf> {
    granted
        .iter()
        .map(|it| absolute(root, it))
        .filter(|it| it.exists())
        .collect()
}

fn is_granted(unless: Unless, spec: &ToolSpec, root: &std::path::Path) -> bool {
    let covers = |granted: &[String]| {
        granted
            .iter()
            .any(|it| root.starts_with(absolute(root, it)))
    };
    match unless {
        Unless::Never => false,
        Unless::ReadsRoot => covers(&spec.permissions.read) || covers(&spec.permissions.write),
        Unless::WritesRoot => covers(&spec.permissions.write),
    }
}
