//! The line to a client while one of its calls goes on: notes go out on it, questions too.
//!
//! Peers of the handshake era are asked while the call waits. Stateless ones get the questions as the
//! answer to their call, and call again with what they were asked for.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use glee_core::elicit::{Ask, Asked};
use glee_core::port::{Answer, Approver, Later, Level, Note, Party, Question, Supply};
use glee_core::schema::Schema;
use rmcp::RoleServer;
use rmcp::model::{
    ClientCapabilities, ElicitRequestParams, InputRequest, InputRequests, LoggingLevel,
    LoggingMessageNotification, LoggingMessageNotificationParam, ProgressNotification,
    ProgressNotificationParam, ProgressToken, ProtocolVersion, ServerNotification,
};
use rmcp::service::{Peer, RequestContext};
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::approval;

/// How long a person may think, when a client holds the call open meanwhile.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
/// Notes that wait to be sent; a client that does not read loses the rest.
const MOST_WAITING: usize = 256;

pub(super) struct Line {
    peer: Peer<RoleServer>,
    /// Where notes go, if not to the peer.
    own: Option<Notices>,
    /// Whether the client may ask its own user for a yes.
    is_trusted: bool,
    stateless: bool,
    capabilities: ClientCapabilities,
    progress: Option<ProgressToken>,
    /// Quieter log lines are not sent.
    log_level: Option<LoggingLevel>,
    /// What the client answered when it was asked before, by key.
    answers: BTreeMap<String, Value>,
    /// The question that a person has answered, by its id, if one has.
    approved: Option<String>,
    unanswered: Mutex<Unanswered>,
    /// What the client is to be asked now.
    question: Mutex<Option<Open>>,
    is_asked: Notify,
    notes: OnceLock<Mutex<Notes>>,
}

/// Where the notes of one call go, when its request has a stream of its own.
#[derive(Clone)]
pub(super) struct Notices(pub(super) mpsc::Sender<ServerNotification>);

/// A question, and who waits for its answer.
struct Open {
    what: Ask,
    answer: oneshot::Sender<Option<Value>>,
}

/// What a stateless client is asked, and has not yet answered.
#[derive(Default)]
pub(super) struct Unanswered {
    pub(super) requests: InputRequests,
    /// What the client lacks, when it cannot be asked for something the call cannot go without.
    pub(super) lacking: Option<ClientCapabilities>,
    /// The question's id, when it is whether the call may be made.
    pub(super) approval: Option<String>,
}

struct Notes {
    sender: Option<mpsc::Sender<Note>>,
    sending: Option<JoinHandle<()>>,
}

impl Line {
    pub(super) fn new(
        context: &RequestContext<RoleServer>,
        is_trusted: bool,
        session_level: Option<LoggingLevel>,
        answers: BTreeMap<String, Value>,
        approved: Option<String>,
    ) -> Line {
        let stateless = is_stateless(context);
        Line {
            peer: context.peer.clone(),
            own: context.extensions.get::<Notices>().cloned(),
            is_trusted,
            stateless,
            capabilities: context.client_capabilities().unwrap_or_default(),
            progress: context.meta.get_progress_token(),
            log_level: if stateless {
                context.meta.log_level()
            } else {
                Some(session_level.unwrap_or(LoggingLevel::Info))
            },
            answers,
            approved,
            unanswered: Mutex::default(),
            question: Mutex::default(),
            is_asked: Notify::new(),
            notes: OnceLock::new(),
        }
    }

    /// What is to be asked of the client before the call can be made.
    pub(super) fn take_unanswered(&self) -> Unanswered {
        std::mem::take(&mut *lock(&self.unanswered))
    }

    /// Everything the client answered so far.
    pub(super) fn answers(&self) -> &BTreeMap<String, Value> {
        &self.answers
    }

    /// Waits until every note is on its way: nothing may follow the answer.
    pub(super) async fn finish(&self) {
        if let Some(notes) = self.notes.get() {
            let sending = {
                let mut notes = lock(notes);
                notes.sender = None;
                notes.sending.take()
            };
            if let Some(sending) = sending {
                let _ = sending.await;
            }
        }
    }

    fn send(&self, note: Note) {
        let notes = self.notes.get_or_init(|| {
            let (sender, waiting) = mpsc::channel(MOST_WAITING);
            let to = match &self.own {
                Some(own) => Ear::Own(own.clone()),
                None => Ear::Peer(self.peer.clone()),
            };
            let forwarding = forward(waiting, to, self.progress.clone());
            Mutex::new(Notes {
                sender: Some(sender),
                sending: Some(tokio::spawn(forwarding)),
            })
        });
        if let Some(sender) = &lock(notes).sender {
            let _ = sender.try_send(note);
        }
    }

    /// A stateless client has answered already, or will be asked and call again.
    fn look_up(&self, asked: &[Asked]) -> Supply {
        let mut given = Map::new();
        let mut open = Vec::new();
        for it in asked.iter().filter(|it| can(&self.capabilities, &it.what)) {
            match self
                .answers
                .get(&it.key)
                .and_then(|raw| read(&it.what, raw))
            {
                Some(Reply::Given(value)) => {
                    given.insert(it.key.clone(), value);
                }
                Some(Reply::Declined) => {
                    return Supply::Declined {
                        key: it.key.clone(),
                    };
                }
                None => open.push(it),
            }
        }
        let lacking = asked
            .iter()
            .filter(|it| it.required && !can(&self.capabilities, &it.what));
        let lacking: Vec<&Ask> = lacking.map(|it| &it.what).collect();
        if open.is_empty() && lacking.is_empty() {
            return Supply::Given(given);
        }
        let mut unanswered = lock(&self.unanswered);
        unanswered.lacking = needs(&lacking);
        unanswered.requests = open
            .into_iter()
            .filter_map(|it| Some((it.key.clone(), request(&it.what)?)))
            .collect();
        Supply::Nobody
    }

    async fn ask_now(&self, asked: &[Asked]) -> Supply {
        let mut given = Map::new();
        for it in asked.iter().filter(|it| can(&self.capabilities, &it.what)) {
            let answer = tokio::time::timeout(PATIENCE, self.request(&it.what)).await;
            match answer.ok().flatten().and_then(|raw| read(&it.what, &raw)) {
                Some(Reply::Given(value)) => {
                    given.insert(it.key.clone(), value);
                }
                Some(Reply::Declined) | None => {
                    return Supply::Declined {
                        key: it.key.clone(),
                    };
                }
            }
        }
        Supply::Given(given)
    }

    /// Puts the questions of a call to the client while it goes on. They must come from the task that the
    /// client's request was handed to: by that it is known which stream they belong to.
    pub(super) async fn attend<T>(&self, call: impl Future<Output = T>) -> T {
        tokio::select! {
            // Most calls ask nothing.
            biased;
            outcome = call => outcome,
            never = self.put_questions() => match never {},
        }
    }

    async fn put_questions(&self) -> Infallible {
        loop {
            self.is_asked.notified().await;
            let open = lock(&self.question).take();
            if let Some(Open { what, answer }) = open {
                // Nobody may be waiting any more.
                let _ = answer.send(Box::pin(self.put(&what)).await);
            }
        }
    }

    async fn request(&self, what: &Ask) -> Option<Value> {
        let (answer, answered) = oneshot::channel();
        *lock(&self.question) = Some(Open {
            what: what.clone(),
            answer,
        });
        self.is_asked.notify_one();
        answered.await.ok().flatten()
    }

    async fn put(&self, what: &Ask) -> Option<Value> {
        let answer = match what {
            Ask::Form { .. } => {
                let params: ElicitRequestParams = serde_json::from_value(params(what)).ok()?;
                serde_json::to_value(self.peer.create_elicitation(params).await.ok()?)
            }
            Ask::Sample { .. } => {
                let params = serde_json::from_value(params(what)).ok()?;
                serde_json::to_value(self.peer.create_message(params).await.ok()?)
            }
            Ask::Roots => serde_json::to_value(self.peer.list_roots().await.ok()?),
        };
        answer.ok()
    }
}

impl Party for Line {
    fn hear(&self, note: Note) {
        let wanted = match &note {
            Note::Progress { .. } => self.progress.is_some(),
            Note::Log { level, .. } => self
                .log_level
                .is_some_and(|least| severity(least) <= *level),
        };
        if wanted {
            self.send(note);
        }
    }

    fn supply<'a>(&'a self, asked: &'a [Asked]) -> Later<'a, Supply> {
        Box::pin(async move {
            match self.stateless {
                true => self.look_up(asked),
                false => self.ask_now(asked).await,
            }
        })
    }

    fn approver(&self) -> Option<&dyn Approver> {
        (self.is_trusted && has_forms(&self.capabilities)).then_some(self)
    }
}

impl Approver for Line {
    fn name(&self) -> &str {
        approval::BY
    }

    fn ask<'a>(&'a self, question: &'a Question<'a>) -> Later<'a, Answer> {
        Box::pin(async move {
            let form = approval::form(question);
            if !self.stateless {
                let answer = tokio::time::timeout(PATIENCE, self.request(&form)).await;
                return approval::read(answer.ok().flatten().as_ref());
            }
            // Only an answer that came with the seal of this very question counts.
            let asked = question.id.to_string();
            if self.approved.as_ref() == Some(&asked) {
                return approval::read(self.answers.get(approval::KEY));
            }
            let mut unanswered = lock(&self.unanswered);
            unanswered
                .requests
                .extend(request(&form).map(|it| (approval::KEY.to_owned(), it)));
            unanswered.approval = Some(asked);
            Answer::Nobody {
                hint: "a person is being asked; call again with the answer".to_owned(),
            }
        })
    }
}

/// Whether a client that says it can do this much can be asked for something.
pub(super) fn can(capabilities: &ClientCapabilities, what: &Ask) -> bool {
    match what {
        Ask::Form { .. } => has_forms(capabilities),
        Ask::Sample { .. } => capabilities.sampling.is_some(),
        Ask::Roots => capabilities.roots.is_some(),
    }
}

/// Whether the client can show a form. One that says nothing about its ways can; one that only opens
/// pages cannot.
pub(super) fn has_forms(capabilities: &ClientCapabilities) -> bool {
    capabilities
        .elicitation
        .as_ref()
        .is_some_and(|it| it.form.is_some() || it.url.is_none())
}

/// Whether the client speaks the protocol without a handshake.
pub(super) fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    let has_no_hands = |it: &ProtocolVersion| it.as_str() >= ProtocolVersion::V_2026_07_28.as_str();
    match context.meta.protocol_version() {
        Some(said) => has_no_hands(&said),
        None => {
            let peer = context.peer.peer_info();
            peer.is_some_and(|it| has_no_hands(&it.protocol_version))
        }
    }
}

pub(super) fn request(what: &Ask) -> Option<InputRequest> {
    let method = match what {
        Ask::Form { .. } => "elicitation/create",
        Ask::Sample { .. } => "sampling/createMessage",
        Ask::Roots => "roots/list",
    };
    serde_json::from_value(json!({"method": method, "params": params(what)})).ok()
}

fn params(what: &Ask) -> Value {
    match what {
        Ask::Form { message, schema } => {
            json!({"mode": "form", "message": message, "requestedSchema": schema})
        }
        Ask::Sample { prompt, max_tokens } => json!({
            "messages": [{"role": "user", "content": {"type": "text", "text": prompt}}],
            "maxTokens": max_tokens,
        }),
        Ask::Roots => json!({}),
    }
}

pub(super) enum Reply {
    Given(Value),
    Declined,
}

/// An answer as the call needs it; nothing when it is no answer to what was asked.
pub(super) fn read(what: &Ask, raw: &Value) -> Option<Reply> {
    match what {
        Ask::Form { schema, .. } => match raw["action"].as_str()? {
            "accept" => {
                let content = raw.get("content").filter(|it| it.is_object())?;
                let schema = Schema::new(schema.clone()).ok()?;
                let fits = schema.violations(content).is_empty();
                fits.then(|| Reply::Given(content.clone()))
            }
            "decline" | "cancel" => Some(Reply::Declined),
            _ => None,
        },
        Ask::Sample { .. } => {
            let content = &raw["content"];
            let text = content["text"]
                .as_str()
                .or_else(|| content[0]["text"].as_str())?;
            Some(Reply::Given(text.into()))
        }
        Ask::Roots => raw
            .get("roots")
            .filter(|it| it.is_array())
            .map(|it| Reply::Given(it.clone())),
    }
}

fn needs(lacking: &[&Ask]) -> Option<ClientCapabilities> {
    if lacking.is_empty() {
        return None;
    }
    let mut needed = Map::new();
    for it in lacking {
        let name = match it {
            Ask::Form { .. } => "elicitation",
            Ask::Sample { .. } => "sampling",
            Ask::Roots => "roots",
        };
        needed.insert(name.into(), json!({}));
    }
    serde_json::from_value(Value::Object(needed)).ok()
}

async fn forward(mut waiting: mpsc::Receiver<Note>, to: Ear, token: Option<ProgressToken>) {
    while let Some(note) = waiting.recv().await {
        let sent = match note {
            Note::Progress {
                done,
                total,
                message,
            } => {
                let Some(token) = &token else { continue };
                let mut param = ProgressNotificationParam::new(token.clone(), done);
                param.total = total;
                param.message = message;
                to.hear(ProgressNotification::new(param).into()).await
            }
            Note::Log { level, text } => {
                let param = LoggingMessageNotificationParam::new(named(level), text.into());
                to.hear(LoggingMessageNotification::new(param).into()).await
            }
        };
        if !sent {
            return;
        }
    }
}

/// Where a client hears the notes of a call.
enum Ear {
    Peer(Peer<RoleServer>),
    /// A stream that only this call's notes go to.
    Own(Notices),
}

impl Ear {
    /// Whether it was taken.
    async fn hear(&self, note: ServerNotification) -> bool {
        match self {
            Ear::Peer(peer) => peer.send_notification(note).await.is_ok(),
            Ear::Own(notices) => notices.0.send(note).await.is_ok(),
        }
    }
}

fn named(level: Level) -> LoggingLevel {
    match level {
        Level::Debug => LoggingLevel::Debug,
        Level::Info => LoggingLevel::Info,
        Level::Notice => LoggingLevel::Notice,
        Level::Warning => LoggingLevel::Warning,
        Level::Error => LoggingLevel::Error,
        Level::Critical => LoggingLevel::Critical,
        Level::Alert => LoggingLevel::Alert,
        Level::Emergency => LoggingLevel::Emergency,
    }
}

fn severity(level: LoggingLevel) -> Level {
    match level {
        LoggingLevel::Debug => Level::Debug,
        LoggingLevel::Info => Level::Info,
        LoggingLevel::Notice => Level::Notice,
        LoggingLevel::Warning => Level::Warning,
        LoggingLevel::Error => Level::Error,
        LoggingLevel::Critical => Level::Critical,
        LoggingLevel::Alert => Level::Alert,
        LoggingLevel::Emergency => Level::Emergency,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
