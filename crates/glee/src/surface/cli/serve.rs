//! `glee serve`: the project's tools over HTTP.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::ValueEnum;
use glee_core::port::Caller;
use serde_json::json;

use super::run::stop_signal;
use super::status::Status;
use super::{Session, print, serving};
use crate::app::{App, Log, LogForm, LogLevel};
use crate::store::tokens::Tokens;
use crate::surface::http::{self, Settings};
use crate::surface::mcp::Server;
use crate::surface::principal::Principal;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Text,
    Json,
}

#[derive(Clone, Copy, ValueEnum)]
enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

const USUAL: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7411));

/// Serve the tools over HTTP: MCP at /mcp, REST at /tools, and approvals at /approvals.
///
/// Clients must show a token, which is made at the first start and kept outside of the project. The
/// server answers on this machine only, unless --listen names another address.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  glee serve\n  glee serve --listen 127.0.0.1:0 --no-auth\n  glee serve --listen 0.0.0.0:8000 --host tools.example.com\n  glee serve --socket ~/.local/state/glee.d/glee.sock"
)]
pub(super) struct Args {
    /// Where to listen; port 0 takes any that is free. 127.0.0.1:7411 unless a socket is given
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,

    /// A socket in the file system to listen at, for you alone; its directory must be yours alone too
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// A name that clients call this server by, besides those of this machine; may be given often
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,

    /// Tell of every call on stderr, a line each: as text for people, or as json for programs
    #[arg(long, value_name = "FORM")]
    log: Option<Form>,

    /// What is told at least
    #[arg(long, value_name = "LEVEL", default_value = "info", requires = "log")]
    log_level: Level,

    /// Let everybody on this machine in without a token
    #[arg(long)]
    no_auth: bool,
}

pub(super) fn run(session: &Session, args: Args) -> anyhow::Result<Status> {
    let listen = match (args.listen, &args.socket) {
        (None, None) => Some(USUAL),
        (given, _) => given,
    };
    if let Some(address) = listen.filter(|it| args.no_auth && !it.ip().is_loopback()) {
        bail!(
            "--no-auth would let everybody who can reach {address} run these tools; leave it out, or listen on 127.0.0.1"
        );
    }
    let log = args.log.map(|it| {
        let form = match it {
            Form::Text => LogForm::Text,
            Form::Json => LogForm::Json,
        };
        let most = match args.log_level {
            Level::Error => LogLevel::Error,
            Level::Warn => LogLevel::Warn,
            Level::Info => LogLevel::Info,
            Level::Debug => LogLevel::Debug,
        };
        Arc::new(Log::new(form, most))
    });
    let say = |word: &str, colour: &str, text: &str| match &log {
        Some(log) => {
            let level = match word {
                "warning" => LogLevel::Warn,
                _ => LogLevel::Info,
            };
            log.say(level, word, &json!({"text": text}));
        }
        None => print::note(word, colour, text),
    };
    let app = Arc::new(session.served_app(log.clone())?);
    let root = app.project().root().to_owned();
    let tokens = match args.no_auth {
        true => None,
        false => {
            let tokens = Tokens::of(&root)?;
            tokens
                .ensure_owner()
                .with_context(|| tokens.owner_file().display().to_string())?;
            Some(tokens)
        }
    };
    let (word, colour, remark) = match &tokens {
        Some(tokens) => ("token", "2", tokens.owner_file().display().to_string()),
        None => (
            "warning",
            "33",
            "anybody on this machine can run these tools (--no-auth)".to_owned(),
        ),
    };
    let runtime = serving()?;
    runtime.block_on(async {
        let bound = http::bind(Settings {
            listen,
            socket: args.socket,
            hosts: args.host,
            tokens,
            bears: app.config()?.server,
        })
        .await?;
        let port = bound.address().map(|it| format!("http://{it}/mcp"));
        let socket = bound.socket().map(|it| it.display().to_string());
        let places: Vec<String> = port.into_iter().chain(socket).collect();
        let served = format!("{} at {}", root.display(), places.join(" and "));
        say("serving", "32", &served);
        say(word, colour, &remark);
        let server = Server::new(app.clone(), Principal::usual("mcp"));
        let tell = server.clone();
        let _watching = app.watch(move |change| tell.announce(change))?;
        tokio::spawn(reap(app.clone()));
        bound.serve(server, stop_signal()).await;
        app.stop().await;
        anyhow::Ok(())
    })?;
    runtime.shutdown_background();
    Ok(Status::Ok)
}

/// How often bundles are looked at that were deleted.
const BETWEEN_REAPS: Duration = Duration::from_secs(3600);

async fn reap(app: Arc<App>) {
    loop {
        let (app, told) = (app.clone(), app.clone());
        let by = Caller {
            name: "reaper".to_owned(),
        };
        let reaped = tokio::task::spawn_blocking(move || app.reap(&by)).await;
        if let Ok(Err(failure)) = reaped {
            told.warn(&failure.message);
        }
        tokio::time::sleep(BETWEEN_REAPS).await;
    }
}
