//! `/approvals`: what waits for a person, and the answers of people who sit elsewhere.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::Json;
use axum::extract::{Extension, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{self, Stream, StreamExt};
use glee_core::outcome::{Failure, FailureKind};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::answer::{Answer, Body, Refused};
use super::operation::Operation;
use super::params::{Kind, Param, Place, Query};
use crate::app::App;
use crate::approve::ledger::{Decision, unknown};
use crate::store::approvals::LOOK;
use crate::store::record::{Record, Said, State as Stage};
use crate::store::tokens::Scope;
use crate::surface::principal::{Principal, Still};
use crate::surface::turnstile::{Pass, Turnstile};

/// Those who listen or wait at once, of all and of one principal.
const MOST_LISTENERS: (usize, usize) = (256, 16);
/// How long somebody may wait in one request, and does unless they say otherwise.
const LONGEST_WAIT: u64 = 300;
const USUAL_WAIT: u64 = 30;
/// Time alone changes things too: what nobody answers expires.
const LONGEST_UNLOOKED: Duration = Duration::from_secs(5);

#[derive(Clone)]
struct Desk {
    app: Arc<App>,
    listeners: Turnstile,
}

const LIST: &[Param] = &[Param {
    name: "state",
    about: "Only questions of this state",
    kind: Kind::Word(&Stage::NAMES),
}];
const WAIT: &[Param] = &[Param {
    name: "timeout_s",
    about: "Longest wait in seconds; 30 unless given, 300 at most",
    kind: Kind::Seconds,
}];

pub(super) fn operations(app: Arc<App>) -> Vec<Operation> {
    let desk = Desk {
        app,
        listeners: Turnstile::new(MOST_LISTENERS.0, MOST_LISTENERS.1),
    };
    vec![
        Operation::new(
            "GET",
            "/approvals",
            "listApprovals",
            "List what people are asked, and what became of it",
            list,
            desk.clone(),
        )
        .own_or(Scope::Approve)
        .query(LIST)
        .gives(200, "The questions", "Value")
        .fails(&[400]),
        Operation::new(
            "GET",
            "/approvals/events",
            "hearApprovals",
            "Hear of each question and each answer",
            events,
            desk.clone(),
        )
        .own_or(Scope::Approve)
        .gives_text("Events, one for each", "text/event-stream")
        .fails(&[429]),
        Operation::new(
            "GET",
            "/approvals/{id}",
            "getApproval",
            "A question",
            show,
            desk.clone(),
        )
        .own_or(Scope::Approve)
        .gives(200, "The question", "Value")
        .fails(&[400, 404]),
        Operation::new(
            "GET",
            "/approvals/{id}/wait",
            "awaitApproval",
            "Wait until a question is answered",
            wait,
            desk.clone(),
        )
        .own_or(Scope::Approve)
        .query(WAIT)
        .gives(200, "The question as it is now", "Value")
        .fails(&[400, 404, 429]),
        Operation::new(
            "POST",
            "/approvals/{id}/approve",
            "approve",
            "Say yes",
            approve,
            desk.clone(),
        )
        .scope(Scope::Approve)
        .body::<Yes>()
        .gives(200, "The question as it is now", "Value")
        .fails(&[400, 404, 409, 503]),
        Operation::new(
            "POST",
            "/approvals/{id}/deny",
            "deny",
            "Say no, and why",
            deny,
            desk,
        )
        .scope(Scope::Approve)
        .body::<No>()
        .gives(200, "The question as it is now", "Value")
        .fails(&[400, 404, 409, 503]),
    ]
}

async fn list(
    State(desk): State<Desk>,
    Extension(principal): Extension<Principal>,
    query: Query,
) -> Answer {
    let query = query.check(LIST)?;
    let stage = query.word("state", &Stage::NAMES)?.and_then(Stage::named);
    let mut all = desk.all(&principal).await?;
    all.retain(|it| stage.is_none_or(|stage| it.state == stage));
    Ok(good(all.iter().map(Record::for_people).collect()))
}

async fn show(
    State(desk): State<Desk>,
    Extension(principal): Extension<Principal>,
    Place(id): Place<String>,
) -> Answer {
    let record = desk.find(&id, &principal)?;
    Ok(good(record.for_people()))
}

/// Answers when the question is answered, or when the time is up; the state says which.
async fn wait(
    State(desk): State<Desk>,
    Extension(principal): Extension<Principal>,
    Extension(still): Extension<Still>,
    Place(id): Place<String>,
    query: Query,
) -> Answer {
    let wanted = query.check(WAIT)?.seconds("timeout_s")?;
    let record = desk.find(&id, &principal)?;
    let _waiting = desk.listen(&principal)?;
    let longest = wanted.unwrap_or(USUAL_WAIT).min(LONGEST_WAIT);
    let answered = desk.app.answered(record.id);
    let _ = tokio::time::timeout(Duration::from_secs(longest), answered).await;
    still.need()?;
    Ok(good(desk.find(&id, &principal)?.for_people()))
}

/// A yes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend(
    "if" = {"properties": {"fitting": {"minProperties": 1}}, "required": ["fitting"]},
    "then" = {"properties": {"scope": {"const": "always"}}, "required": ["scope"]},
))]
struct Yes {
    /// `once` unless given.
    #[schemars(extend("enum" = ["once", "session", "always", null]))]
    scope: Option<String>,
    /// What runs in place of what was asked about.
    modified_args: Option<Map<String, Value>>,
    /// With scope `always`: patterns in place of what some arguments are.
    #[serde(default)]
    fitting: IndexMap<String, String>,
}

async fn approve(
    State(desk): State<Desk>,
    Extension(principal): Extension<Principal>,
    Place(id): Place<String>,
    Body(yes): Body<Yes>,
) -> Answer {
    let bad = |why: &str| Failure::new(FailureKind::InvalidInput, why);
    let scope = match yes.scope.as_deref() {
        None => Said::Once,
        Some(name) => Said::scope(name)
            .ok_or_else(|| bad("the scopes of a yes are once, session and always"))?,
    };
    if !yes.fitting.is_empty() && scope != Said::Always {
        Err(bad("patterns are for the scope always"))?;
    }
    let decision = Decision::Approve {
        scope,
        modified: yes.modified_args,
        patterns: yes.fitting.into_iter().collect(),
    };
    desk.decide(&id, principal, decision).await
}

/// A no.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct No {
    reason: String,
}

async fn deny(
    State(desk): State<Desk>,
    Extension(principal): Extension<Principal>,
    Place(id): Place<String>,
    Body(no): Body<No>,
) -> Answer {
    let decision = Decision::Deny { reason: no.reason };
    desk.decide(&id, principal, decision).await
}

/// What waits now, and then each new question and each change.
async fn events(
    State(desk): State<Desk>,
    Extension(principal): Extension<Principal>,
    Extension(still): Extension<Still>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Refused> {
    let listening = desk.listen(&principal)?;
    let watch = Watch {
        desk,
        principal,
        still,
        seen: BTreeMap::new(),
        looked: None,
        _listening: listening,
    };
    let batches = stream::unfold(watch, |mut watch| async move {
        let batch = watch.next().await?;
        Some((stream::iter(batch), watch))
    });
    Ok(Sse::new(batches.flatten()).keep_alive(KeepAlive::default()))
}

struct Watch {
    desk: Desk,
    principal: Principal,
    still: Still,
    seen: BTreeMap<Uuid, Stage>,
    /// When, and what the directory looked like.
    looked: Option<(Instant, Option<SystemTime>)>,
    _listening: Pass,
}

impl Watch {
    /// What is new; nothing any more when whoever listens is not welcome any more.
    async fn next(&mut self) -> Option<Vec<Result<Event, Infallible>>> {
        while self.still.is_welcome() {
            let changed_at = self.desk.app.approvals().changed_at();
            // Two changes within one tick of the file system's clock look like one.
            let is_settled = |at: SystemTime| at.elapsed().is_ok_and(|it| it > 20 * LOOK);
            let nothing_new = self.looked.is_some_and(|(when, before)| {
                when.elapsed() < LONGEST_UNLOOKED
                    && before == changed_at
                    && changed_at.is_none_or(is_settled)
            });
            if !nothing_new {
                self.looked = Some((Instant::now(), changed_at));
                let batch = self.changes().await;
                if !batch.is_empty() {
                    return Some(batch);
                }
            }
            tokio::time::sleep(LOOK).await;
        }
        None
    }

    async fn changes(&mut self) -> Vec<Result<Event, Infallible>> {
        let first = self.seen.is_empty();
        let all = self.desk.all(&self.principal).await.unwrap_or_default();
        let mut events = Vec::new();
        for record in all {
            let before = self.seen.insert(record.id, record.state);
            // What was over before anybody listened is no news.
            let is_news = match before {
                None => !first || record.state == Stage::Pending,
                Some(before) => before != record.state,
            };
            if is_news {
                let event = Event::default().event(record.state.name());
                events.push(Ok(event.data(record.for_people().to_string())));
            }
        }
        events
    }
}

impl Desk {
    fn listen(&self, principal: &Principal) -> Result<Pass, Failure> {
        let room = self.listeners.enter(&principal.name);
        room.ok_or_else(|| {
            Failure::new(FailureKind::RateLimited, "too many listen or wait already").retryable()
        })
    }

    /// Whoever may answer sees everything; others see what they asked themselves.
    async fn all(&self, principal: &Principal) -> Result<Vec<Record>, Failure> {
        let approvals = self.app.approvals().clone();
        let listed = tokio::task::spawn_blocking(move || approvals.list()).await;
        let listed = listed.map_err(|err| broken(&err))?;
        let mut all = listed.map_err(|err| broken(&err))?;
        all.retain(|it| sees(principal, it));
        Ok(all)
    }

    fn find(&self, id: &str, principal: &Principal) -> Result<Record, Failure> {
        let id = parsed(id)?;
        let record = self.app.approvals().get(id).map_err(|err| broken(&err))?;
        record
            .filter(|it| sees(principal, it))
            .ok_or_else(|| unknown(id))
    }

    async fn decide(&self, id: &str, principal: Principal, decision: Decision) -> Answer {
        let id = parsed(id)?;
        let app = self.app.clone();
        let decide = move || app.decide(id, decision, &principal.name);
        let decided = tokio::task::spawn_blocking(decide).await;
        let decided = decided.map_err(|err| broken(&err))?;
        Ok(good(decided?.for_people()))
    }
}

fn sees(principal: &Principal, record: &Record) -> bool {
    principal.may(Scope::Approve) || record.caller == principal.name
}

fn parsed(id: &str) -> Result<Uuid, Failure> {
    id.parse().map_err(|_| {
        let why = "an approval's id is a UUID";
        Failure::new(FailureKind::NotFound, why)
    })
}

fn broken(err: &dyn std::error::Error) -> Failure {
    Failure::new(FailureKind::Internal, format!("the approvals: {err}"))
}

fn good(value: Value) -> Json<Value> {
    Json(json!({"ok": true, "value": value}))
}
