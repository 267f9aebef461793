//! Spans of calls, told to a collector by OTLP over HTTP, in its JSON form. A collector that is slow or gone slows
//! nobody: spans wait in a queue that holds only so many.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use glee_core::event::{Event, What};
use glee_core::outcome::FailureKind;
use glee_core::port::Observer;
use reqwest::Client;
use serde_json::{Value, json};
use tokio::runtime;
use url::Url;
use uuid::Uuid;

use super::queue::Queue;
use super::{decision, outcome, tool};
use crate::exec::http::own_client;

/// How long spans are gathered before they are sent.
const LINGER: Duration = Duration::from_secs(1);
/// How long a collector may take.
pub const PATIENCE: Duration = Duration::from_secs(5);

pub struct Traces {
    url: Url,
    /// Begins with the first call: most commands make none.
    spans: OnceLock<Queue<Value>>,
    /// Spans that the collector did not take, and has not been told of.
    missed: Arc<AtomicU64>,
}

impl Traces {
    /// To a collector at this address, whose path is that of its traces.
    pub fn new(url: Url) -> Traces {
        Traces {
            url,
            spans: OnceLock::new(),
            missed: Arc::default(),
        }
    }

    /// Waits until what is known is sent, and no longer than this; whether all of it was taken.
    pub fn flush(&self, patience: Duration) -> bool {
        let flushed = self.spans.get().is_none_or(|it| it.flush(patience));
        flushed && self.missed.load(Ordering::Relaxed) == 0
    }

    fn spans(&self) -> &Queue<Value> {
        self.spans.get_or_init(|| {
            let url = self.url.clone();
            let missed = self.missed.clone();
            let mut collector = None;
            Queue::start(LINGER, move |spans: Vec<Value>, lost| {
                let before = missed.fetch_add(lost, Ordering::Relaxed) + lost;
                if spans.is_empty() {
                    return;
                }
                if collector.is_none() {
                    collector = Collector::new();
                }
                let count = spans.len() as u64;
                let collector = collector.as_ref();
                let after = match collector.is_some_and(|it| it.takes(&url, spans, before)) {
                    true => 0,
                    false => before + count,
                };
                missed.store(after, Ordering::Relaxed);
            })
        })
    }
}

struct Collector {
    runtime: runtime::Runtime,
    client: Client,
}

impl Collector {
    fn new() -> Option<Collector> {
        Some(Collector {
            runtime: runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .ok()?,
            client: own_client().ok()?,
        })
    }

    /// What it does not take is lost.
    fn takes(&self, url: &Url, spans: Vec<Value>, lost: u64) -> bool {
        let request = self
            .client
            .post(url.clone())
            .header("content-type", "application/json")
            .body(document(spans, lost).to_string());
        let answered = self
            .runtime
            .block_on(async { tokio::time::timeout(PATIENCE, request.send()).await });
        answered.is_ok_and(|it| it.is_ok_and(|it| it.status().is_success()))
    }
}

/// A request of OTLP, with these spans.
fn document(spans: Vec<Value>, lost: u64) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let mut resource = vec![
        attribute("service.name", "glee"),
        attribute("service.version", version),
    ];
    if lost > 0 {
        resource.push(json!({"key": "glee.lost_spans", "value": {"intValue": lost.to_string()}}));
    }
    json!({"resourceSpans": [{
        "resource": {"attributes": resource},
        "scopeSpans": [{"scope": {"name": "glee", "version": version}, "spans": spans}],
    }]})
}

fn attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

impl Observer for Traces {
    fn observe(&self, event: &Event) -> Result<(), String> {
        let (failure, duration) = match &event.what {
            What::Refused { kind, duration, .. } => (Some(*kind), *duration),
            What::Finished {
                failure, duration, ..
            } => (*failure, *duration),
            _ => return Ok(()),
        };
        self.spans().put(span(event, failure, duration));
        Ok(())
    }
}

/// Arguments, results and messages stay here: they are not for everybody who reads traces.
fn span(event: &Event, failure: Option<FailureKind>, duration: Duration) -> Value {
    let since = event.at.duration_since(SystemTime::UNIX_EPOCH);
    let end = since.unwrap_or_default().as_nanos();
    let start = end.saturating_sub(duration.as_nanos());
    let tool = tool(event);
    let mut attributes = vec![
        attribute("gen_ai.operation.name", "execute_tool"),
        attribute("gen_ai.tool.name", tool),
        attribute("gen_ai.tool.call.id", &event.id.to_string()),
        attribute("glee.actor", &event.actor),
        attribute("glee.decision", decision(event)),
    ];
    if let Some(held) = &event.held {
        attributes.push(attribute("glee.held_by", &held.by));
    }
    if failure.is_some() {
        attributes.push(attribute("error.type", outcome(failure)));
    }
    let id = Uuid::new_v4().simple().to_string();
    json!({
        "traceId": event.id.simple().to_string(),
        "spanId": id[..16],
        "name": format!("execute_tool {tool}"),
        "kind": 1,
        "startTimeUnixNano": start.to_string(),
        "endTimeUnixNano": end.to_string(),
        "attributes": attributes,
        "status": match failure {
            None => json!({"code": 1}),
            Some(kind) => json!({"code": 2, "message": kind.code()}),
        },
    })
}
