//! `POST …/invoke`: one call, answered at once or with all that the tool tells meanwhile.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};
use glee_core::bundle::Member;
use glee_core::elicit::Asked;
use glee_core::outcome::{Failure, FailureKind, Outcome};
use glee_core::port::{Approver, Caller, Cancel, Later, Note, Party, Supply, Waits};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::answer::{self, Body, Refused};
use super::bundles::{Desk, ToolPlace, key};
use super::operation::Operation;
use super::params::Place;
use crate::app::Call;
use crate::store::tokens::Scope;
use crate::surface::principal::Principal;

const INVOKE: &str = "/tools/bundles/{bundleID}/tools/{toolSlug}/version/{version}/invoke";
/// Notes that wait for a client to read them; more are not told.
const MOST_NOTES: usize = 256;

pub(super) fn operations(desk: &Desk) -> Vec<Operation> {
    let about = "Call a tool; with `Accept: text/event-stream` events `progress`, `log` and `output` come \
                 meanwhile, and `result` at the end";
    vec![
        Operation::new("POST", INVOKE, "invokeTool", about, invoke, desk.clone())
            .scope(Scope::InvokeTool)
            .body::<Invoke>()
            .gives(200, "What the tool gave", "Value")
            .fails(&[400, 404, 409, 424, 429, 500, 502, 503, 504]),
    ]
}

/// One call.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Invoke {
    /// The arguments, held to the tool's `argSchema`
    #[serde(default)]
    args: Map<String, Value>,
    /// Runs what a person approved under this id, once
    #[serde(default, rename = "approvalID")]
    #[schemars(extend("format" = "uuid"))]
    approval_id: Option<String>,
    /// A larger value is given by its beginning, and wholly at `/results`
    #[serde(default, rename = "maxBytes", deserialize_with = "count")]
    #[schemars(schema_with = "count_schema")]
    max_bytes: Option<usize>,
}

/// Also 10.0 is an integer, in JSON.
fn count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    match Option::<f64>::deserialize(from)? {
        None => Ok(None),
        Some(count) if count >= 0.0 && count.fract() == 0.0 => Ok(Some(count as usize)),
        Some(_) => Err(D::Error::custom(
            "a number of bytes is whole, and at least 0",
        )),
    }
}

fn count_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["integer", "null"], "minimum": 0})
}

async fn invoke(
    State(desk): State<Desk>,
    Extension(by): Extension<Principal>,
    Place(place): Place<ToolPlace>,
    headers: HeaderMap,
    Body(said): Body<Invoke>,
) -> Result<Response, Refused> {
    let member = desk.app.member(&key(place)?)?;
    let approval = match said.approval_id.as_deref().map(str::parse::<Uuid>) {
        Some(Err(_)) => {
            let why = "an approvalID is a UUID";
            Err(Failure::new(FailureKind::InvalidInput, why))?
        }
        Some(Ok(id)) => Some(id),
        None => None,
    };
    let most = said.max_bytes;
    let owner = by.name.clone();
    let call = Call {
        tool: member.name.clone(),
        args: said.args,
        caller: Caller { name: by.name },
        timeout: None,
        cancel: Cancel::never(),
        party: Arc::new(Waits),
        approval,
    };
    if wants_events(&headers) {
        return Ok(events(desk, member, call, most).into_response());
    }
    let outcome = desk.call(&member, call).await;
    let body = desk.told(&outcome, &owner, most);
    Ok(answer::outcome(&outcome, body))
}

impl Desk {
    async fn call(&self, member: &Member, call: Call) -> Outcome {
        let Some(_inside) = self.calls.enter(&call.caller.name) else {
            let why = "too many calls are under way already";
            let failure = Failure::new(FailureKind::RateLimited, why).retryable();
            return self.app.turn_away(call, failure).await;
        };
        // One that nothing can be made of has no name that it could be called by.
        match self.app.tools().shows(member) {
            Err(why) if member.spec.is_err() => self.app.turn_away(call, why).await,
            _ => self.app.call(call).await,
        }
    }
}

/// Whoever takes JSON too gets that.
fn wants_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let accepted: Vec<&str> = accepted
        .filter_map(|it| it.to_str().ok())
        .flat_map(|it| it.split(','))
        .map(|it| it.split(';').next().unwrap_or_default().trim())
        .collect();
    let takes = |kind: &str| accepted.iter().any(|it| it.eq_ignore_ascii_case(kind));
    takes("text/event-stream") && !takes("application/json") && !takes("*/*")
}

/// The call lives as long as somebody listens.
fn events(
    desk: Desk,
    member: Arc<Member>,
    call: Call,
    most: Option<usize>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let (told, notes) = channel(MOST_NOTES);
    let call = Call {
        party: Arc::new(Listens(told)),
        ..call
    };
    // A task of its own: whoever does not read what is told must not keep its deadline from coming.
    let mut running = JoinSet::new();
    running.spawn(async move {
        let owner = call.caller.name.clone();
        let outcome = desk.call(&member, call).await;
        desk.told(&outcome, &owner, most)
    });
    let going = Going {
        running,
        notes,
        over: None,
    };
    let events = stream::unfold(going, |mut going| async move {
        let event = going.next().await?;
        Some((Ok(event), going))
    });
    Sse::new(events).keep_alive(KeepAlive::default())
}

struct Going {
    /// The call, taken back when this is dropped.
    running: JoinSet<Value>,
    notes: Receiver<Told>,
    /// What is told when all notes are.
    over: Option<Value>,
}

impl Going {
    async fn next(&mut self) -> Option<Event> {
        if !self.running.is_empty() {
            tokio::select! {
                biased;
                Some(note) = self.notes.recv() => return Some(told(note)),
                Some(over) = self.running.join_next() => self.over = over.ok(),
            }
        }
        if let Ok(note) = self.notes.try_recv() {
            return Some(told(note));
        }
        let outcome = self.over.take()?;
        Some(event("result", &outcome))
    }
}

/// What comes before the result.
enum Told {
    Note(Note),
    Output { offset: u64, text: String },
}

fn told(told: Told) -> Event {
    match told {
        // Whoever reads too slowly misses some, and sees by the offsets how much.
        Told::Output { offset, text } => event("output", &json!({"offset": offset, "text": text})),
        Told::Note(Note::Progress {
            done,
            total,
            message,
        }) => event(
            "progress",
            &json!({"progress": done, "total": total, "message": message}),
        ),
        Told::Note(Note::Log { level, text }) => {
            let level = format!("{level:?}").to_lowercase();
            event("log", &json!({"level": level, "text": text}))
        }
    }
}

fn event(name: &str, data: &Value) -> Event {
    // In JSON no line breaks.
    Event::default().event(name).data(data.to_string())
}

/// A caller who hears what the tool tells, as far as it keeps up, and is asked nothing.
struct Listens(Sender<Told>);

impl Party for Listens {
    fn hear(&self, note: Note) {
        let _ = self.0.try_send(Told::Note(note));
    }

    fn hears_output(&self) -> bool {
        true
    }

    fn hear_output(&self, offset: u64, text: String) {
        let _ = self.0.try_send(Told::Output { offset, text });
    }

    fn supply<'a>(&'a self, _: &'a [Asked]) -> Later<'a, Supply> {
        Box::pin(async { Supply::Nobody })
    }

    fn approver(&self) -> Option<&dyn Approver> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wants_events() {
        for (accept, wants) in [
            ("text/event-stream", true),
            ("text/event-stream; q=1", true),
            ("application/json, text/event-stream", false),
            ("text/event-stream, */*", false),
            ("*/*", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            assert_eq!(wants_events(&headers), wants, "{accept}");
        }
    }
}
