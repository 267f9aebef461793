//! `glee serve`: the project's tools over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use glee_core::port::Caller;

use super::run::stop_signal;
use super::status::Status;
use super::{Session, print};
use crate::app::App;
use crate::store::tokens::Tokens;
use crate::surface::http::{self, Settings};
use crate::surface::mcp::Server;
use crate::surface::principal::Principal;

/// Serve the tools over HTTP: MCP at /mcp, REST at /tools, and approvals at /approvals.
///
/// Clients must show a token, which is made at the first start and kept outside of the project. The
/// server answers on this machine only, unless --listen names another address.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  glee serve\n  glee serve --listen 127.0.0.1:0 --no-auth\n  glee serve --listen 0.0.0.0:8000 --host tools.example.com"
)]
pub(super) struct Args {
    /// Where to listen; port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7411")]
    listen: SocketAddr,

    /// A name that clients call this server by, besides those of this machine; may be given often
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,

    /// Let everybody on this machine in without a token
    #[arg(long)]
    no_auth: bool,
}

pub(super) fn run(session: &Session, args: Args) -> anyhow::Result<Status> {
    if args.no_auth && !args.listen.ip().is_loopback() {
        bail!(
            "--no-auth would let everybody who can reach {} run these tools; leave it out, or listen on 127.0.0.1",
            args.listen
        );
    }
    let app = Arc::new(session.served_app()?);
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
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let bound = http::bind(Settings {
            listen: args.listen,
            hosts: args.host,
            tokens,
        })
        .await
        .with_context(|| args.listen.to_string())?;
        let address = bound.address()?;
        let served = format!("{} at http://{address}/mcp", root.display());
        print::note("serving", "32", &served);
        print::note(word, colour, &remark);
        let server = Server::new(app.clone(), Principal::usual("mcp"));
        let tell = server.clone();
        let _watching = app.watch(move |change| tell.announce(change))?;
        tokio::spawn(reap(app.clone()));
        let served = bound.serve(server, stop_signal()).await;
        app.stop().await;
        anyhow::Ok(served?)
    })?;
    runtime.shutdown_background();
    Ok(Status::Ok)
}

/// How often bundles are looked at that were deleted.
const BETWEEN_REAPS: Duration = Duration::from_secs(3600);

async fn reap(app: Arc<App>) {
    loop {
        let app = app.clone();
        let by = Caller {
            name: "reaper".to_owned(),
        };
        let reaped = tokio::task::spawn_blocking(move || app.reap(&by)).await;
        if let Ok(Err(failure)) = reaped {
            print::note("warning", "33", &failure.message);
        }
        tokio::time::sleep(BETWEEN_REAPS).await;
    }
}
