//! `glee run`: one call, from the command line.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::Duration;

use glee_core::outcome::{FailureKind, Outcome};
use glee_core::port::{Caller, Cancel};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;
use uuid::Uuid;

use super::present::Present;
use super::status::{self, Status};
use super::{Session, params, print};
use crate::app::{App, Call};
use crate::approve::terminal::is_asking;
use crate::exec::Stay;

/// Run a tool.
///
/// Its value goes to stdout, everything else to stderr. With --json the whole outcome goes to stdout:
/// {ok: true, value, warnings, meta} or {ok: false, error: {code, message, details, hint, retryable}, meta}.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  glee run hello -p name=Ada\n  glee run web_search --params '{\"query\": \"rust\", \"count\": 3}'\n  echo '{\"path\": \".\"}' | glee run repo_stats --params -\n  glee run slack_notify -p channel=general -p message=hi --dry-run"
)]
pub(super) struct Args {
    /// The tool's name
    name: String,

    /// One argument; for a string as it is, otherwise as JSON
    #[arg(short = 'p', long = "param", value_name = "KEY=VALUE")]
    param: Vec<String>,

    /// All arguments: a JSON object, @FILE, or - for stdin
    #[arg(long, value_name = "JSON")]
    params: Option<String>,

    /// Stop the tool after so many seconds, if its manifest does not stop it earlier
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,

    /// Run what a person approved under this id, once; its arguments need not be given again
    #[arg(long, value_name = "ID")]
    approval: Option<Uuid>,

    /// When a person must approve and nobody is at the terminal, wait so long for an answer
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    wait: Option<Duration>,

    /// Print the request or the argument vector that would be made, secrets masked, and run nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "not a number of seconds".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("must be more than nothing".to_owned()),
    }
}

pub(super) fn run(session: &Session, args: Args) -> anyhow::Result<Status> {
    let stay = match args.dry_run {
        true => Stay::Briefly,
        false => Stay::ForOneCall,
    };
    let app = session.app(stay)?;
    let spec = app.tools().find(&args.name).ok();
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    let call = Call {
        args: params::read(args.params.as_deref(), &args.param, spec.as_deref())?,
        party: Arc::new(Present {
            tool: args.name.clone(),
            bar: bar.clone(),
        }),
        tool: args.name,
        caller: Caller {
            name: "user".to_owned(),
        },
        timeout: args.timeout,
        cancel: Cancel::never(),
        approval: args.approval,
    };
    if args.dry_run {
        return dry_run(&app, call, session.json);
    }
    // One call: threads to share it between would only have to be started, and woken.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(async {
        let outcome = watched(&app, call.clone(), bar.clone()).await;
        match args.wait {
            Some(longest) => resumed(&app, call, bar, outcome, longest).await,
            None => outcome,
        }
    });
    // A name that is still being looked up cannot be called off; nobody waits for it.
    runtime.shutdown_background();
    print::outcome(&outcome, session.json)?;
    app.tell_the_rest();
    Ok(match &outcome.result {
        Ok(_) => Status::Ok,
        Err(failure) => status::of(failure.kind),
    })
}

/// The call again, when somebody has answered within the time.
async fn resumed(
    app: &App,
    call: Call,
    bar: ProgressBar,
    outcome: Outcome,
    longest: Duration,
) -> Outcome {
    let asked = match &outcome.result {
        Err(failure) if failure.kind == FailureKind::ApprovalRequired => {
            failure.details.get("approval_id").and_then(Value::as_str)
        }
        _ => None,
    };
    let Some(id) = asked.and_then(|it| it.parse().ok()) else {
        return outcome;
    };
    print::note("waiting", "36", &format!("for an answer to approval {id}"));
    let answered = tokio::time::timeout(longest, app.answered(id));
    let stopped = tokio::select! {
        answered = answered => answered.is_err(),
        () = stop_signal() => true,
    };
    match stopped {
        true => outcome,
        false => {
            let approval = Some(id);
            watched(app, Call { approval, ..call }, bar).await
        }
    }
}

fn dry_run(app: &App, call: Call, json: bool) -> anyhow::Result<Status> {
    match app.preview(call) {
        Ok(preview) => {
            print::json(&preview)?;
            Ok(Status::Ok)
        }
        Err(failure) => {
            print::refusal(&failure, json)?;
            Ok(status::of(failure.kind))
        }
    }
}

/// The call, with a sign of life when it takes long, and an end when the person presses Ctrl-C or
/// the terminal goes away.
async fn watched(app: &App, call: Call, bar: ProgressBar) -> Outcome {
    let name = call.tool.clone();
    // Checking the arguments and starting the sandbox take about as long, so both begin at once.
    app.expect_call(&name);
    bar.set_message(format!("running {name}"));
    bar.set_style(
        ProgressStyle::with_template("{spinner} {msg} {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner()),
    );
    let spinner = async {
        if !io::stderr().is_terminal() {
            return std::future::pending().await;
        }
        let patience = Duration::from_millis(300);
        tokio::time::sleep(patience).await;
        // It would draw over the question.
        while is_asking() {
            tokio::time::sleep(patience).await;
        }
        bar.set_draw_target(ProgressDrawTarget::stderr());
        bar.enable_steady_tick(Duration::from_millis(100));
        let _clear_when_dropped = Clear(bar);
        std::future::pending::<()>().await
    };
    let cancel = Cancel::when(stop_signal());
    tokio::select! {
        outcome = app.call(Call { cancel, ..call }) => outcome,
        () = spinner => unreachable!("the spinner never ends by itself"),
    }
}

/// The first Ctrl-C, or the like, from now on. A second one ends glee at once; its tools die with it.
pub(super) fn stop_signal() -> impl Future<Output = ()> + Send {
    let first = any_signal();
    async {
        first.await;
        tokio::spawn(async {
            any_signal().await;
            std::process::exit(130);
        });
    }
}

/// Listens at once, and not only when somebody waits for it.
fn any_signal() -> impl Future<Output = ()> + Send {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
    ];
    let mut waits: Vec<_> = kinds.into_iter().filter_map(|it| signal(it).ok()).collect();
    async move {
        let waits = waits.iter_mut().map(|it| Box::pin(it.recv()));
        futures_util::future::select_all(waits).await;
    }
}

struct Clear(ProgressBar);

impl Drop for Clear {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
