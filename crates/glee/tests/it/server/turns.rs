//! Only so many tools run at once; whoever comes then waits for a turn, and can be called off meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use glee::app::{App, Call, Wiring};
use glee::native::{About, Context, Failure, NativeTool};
use glee_core::outcome::{FailureKind, Outcome};
use glee_core::port::{Answer, Caller, Cancel, Waits};
use serde_json::Map;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

use crate::mcp::server::PATIENCE;
use crate::support::{Scene, wiring};

/// As many as run at once.
const PLACES: usize = 256;

/// A tool that stays until it is let go, and counts how often it began.
#[derive(Clone)]
struct Stay {
    began: Arc<AtomicUsize>,
    go: Arc<Semaphore>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

impl NativeTool for Stay {
    type Input = Nothing;
    type Output = bool;

    fn about(&self) -> About {
        About::new("stay", "Stay until it is let go")
    }

    async fn run(&self, _: Nothing, _: Context<'_>) -> Result<bool, Failure> {
        self.began.fetch_add(1, Ordering::SeqCst);
        let let_go = self.go.acquire().await.map_err(|_| {
            let why = "nobody lets it go any more";
            Failure::new(FailureKind::Internal, why)
        })?;
        let_go.forget();
        Ok(true)
    }
}

/// A program all of whose places are taken.
struct Full {
    app: Arc<App>,
    tool: Stay,
    running: Vec<JoinHandle<Outcome>>,
    _scene: Scene,
}

impl Full {
    async fn new() -> Full {
        let scene = Scene::new();
        let tool = Stay {
            began: Arc::default(),
            go: Arc::new(Semaphore::new(0)),
        };
        let nobody = Answer::Nobody {
            hint: String::new(),
        };
        let wiring = Wiring {
            natives: vec![glee::native::tool(tool.clone()).unwrap()],
            ..wiring(Default::default(), nobody)
        };
        let mut full = Full {
            app: Arc::new(App::open(scene.project(), wiring).unwrap()),
            tool,
            running: Vec::new(),
            _scene: scene,
        };
        full.running = (0..PLACES)
            .map(|_| full.call(None, Cancel::never()))
            .collect();
        full.until_begun(PLACES).await;
        full
    }

    fn call(&self, timeout: Option<Duration>, cancel: Cancel) -> JoinHandle<Outcome> {
        let app = self.app.clone();
        let call = Call {
            tool: "stay".into(),
            args: Map::new(),
            caller: Caller {
                name: "user".into(),
            },
            timeout,
            cancel,
            party: Arc::new(Waits),
            approval: None,
        };
        tokio::spawn(async move { app.call(call).await })
    }

    fn began(&self) -> usize {
        self.tool.began.load(Ordering::SeqCst)
    }

    async fn until_begun(&self, count: usize) {
        let since = Instant::now();
        while self.began() < count {
            assert!(since.elapsed() < PATIENCE, "{} of {count}", self.began());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Everybody is let go, and what became of them is good.
    async fn end(self) {
        self.tool.go.add_permits(PLACES);
        for call in self.running {
            assert!(call.await.unwrap().result.is_ok());
        }
    }
}

/// Whether a call that waits for its turn is on record as begun: then it is where it waits.
async fn until_waiting(full: &Full) {
    let log = full.app.project().audit_log();
    let since = Instant::now();
    let begun = |log: &str| log.matches("TOOL_STARTED").count();
    while std::fs::read_to_string(&log).map_or(0, |it| begun(&it)) <= PLACES {
        assert!(since.elapsed() < PATIENCE, "it is not on record");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn whoever_waits_runs_when_somebody_is_done() {
    let mut full = Full::new().await;
    let next = full.call(None, Cancel::never());
    full.running.push(next);
    until_waiting(&full).await;
    assert_eq!(full.began(), PLACES, "it waits for its turn");
    full.tool.go.add_permits(1);
    full.until_begun(PLACES + 1).await;
    full.end().await;
}

#[tokio::test]
async fn whoever_is_cancelled_while_it_waits_does_not_run() {
    let full = Full::new().await;
    let (stop, stopped) = oneshot::channel::<()>();
    let next = full.call(None, Cancel::when(async move { drop(stopped.await) }));
    until_waiting(&full).await;
    stop.send(()).unwrap();
    let failure = next.await.unwrap().result.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Cancelled, "{failure:?}");
    assert!(failure.message.contains("before its turn"), "{failure:?}");
    let began = full.tool.began.clone();
    full.end().await;
    assert_eq!(began.load(Ordering::SeqCst), PLACES, "it ran all the same");
}

#[tokio::test]
async fn whoever_waits_too_long_is_told_in_time_and_does_not_run() {
    let full = Full::new().await;
    let since = Instant::now();
    let next = full.call(Some(Duration::from_millis(200)), Cancel::never());
    let failure = next.await.unwrap().result.unwrap_err();
    assert!(since.elapsed() < Duration::from_secs(10), "{failure:?}");
    assert_eq!(failure.kind, FailureKind::RateLimited, "{failure:?}");
    assert!(failure.retryable, "{failure:?}");
    let began = full.tool.began.clone();
    full.end().await;
    assert_eq!(began.load(Ordering::SeqCst), PLACES, "it ran all the same");
}
