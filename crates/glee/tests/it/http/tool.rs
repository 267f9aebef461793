//! A hand-made http tool and a gate that lets it pass, so that a test is a request and an answer.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use glee::exec::http::{HttpExec, HttpPolicy};
use glee_core::admit::{self, Admitted, Gate, Invocation};
use glee_core::catalog::{Catalog, Snapshot};
use glee_core::model::{
    Annotations, Approval, Auth, Exec, Format, Http, Limits, Method, OnMismatch, Origin, Outputs,
    Redirects, Retry, ToolSpec,
};
use glee_core::outcome::{Failure, FailureKind, Held, Outcome};
use glee_core::permission::{Network, Permissions, SecretNeed};
use glee_core::policy::Rules;
use glee_core::port::{
    Answer, Anywhere, Approvals, Approver, Caller, Cancel, Clock, Consent, Executor, Kept, Later,
    Matter, Question, Ready, Recalled, Reviews, Secrets, Using, Waits,
};
use glee_core::runtime::Runtime;
use glee_core::schema::Schema;
use glee_core::secret::Secret;
use glee_core::shape::{Body, Raw};
use glee_core::template::{Names, Template, ValueTemplate};
use glee_core::url_template::UrlTemplate;
use serde_json::{Value, json};
use uuid::Uuid;

/// The value of the secret `KEY`, which every tool here declares.
pub(crate) const KEY: &str = "s3cret/key+with~odd*chars";
/// The value of the secret `LINES`.
pub(crate) const LINES: &str = "first\r\nX-Evil: 1";

const INPUTS: [&str; 4] = ["a", "b", "host", "url"];
const SECRETS: [&str; 3] = ["KEY", "LINES", "ABSENT"];

/// A tool that may reach this machine, unless told otherwise.
#[derive(Clone)]
pub(crate) struct Tool {
    pub(crate) spec: ToolSpec,
    pub(crate) http: Http,
}

impl Tool {
    pub(crate) fn new(method: Method, url: &str) -> Tool {
        let http = Http {
            method,
            url: url_template(url),
            headers: vec![],
            query: vec![],
            body: None,
            auth: None,
            success_codes: vec![],
            retry: Retry {
                times: 0,
                pause: Duration::from_millis(1),
            },
            redirects: Redirects::Refuse,
        };
        let spec = ToolSpec {
            name: "tool".into(),
            version: "1".into(),
            title: None,
            description: "a tool under test".into(),
            tags: vec![],
            inputs: Schema::new(json!({"type": "object"})).unwrap(),
            outputs: Outputs {
                format: Format::Json,
                extract: None,
                fields: vec![],
                schema: None,
                on_mismatch: OnMismatch::Warn,
            },
            exec: Exec::Http(Box::new(http.clone())),
            permissions: Permissions {
                secrets: SECRETS
                    .map(|it| (it.to_owned(), SecretNeed::Optional))
                    .into(),
                ..Permissions::default()
            },
            approval: Approval::Never,
            annotations: Annotations::default(),
            elicit: Vec::new(),
            tasks: glee_core::model::Tasks::Never,
            limits: Limits {
                // A fail-safe: no test waits for it.
                timeout: Duration::from_secs(30),
                output_bytes: 5 << 20,
                ..Limits::default()
            },
            examples: vec![],
            origin: Origin::User,
            source: PathBuf::new(),
            document: [0; 32],
        };
        Tool { spec, http }.hosts(&["127.0.0.1", "localhost"])
    }

    pub(crate) fn get(url: &str) -> Tool {
        Tool::new(Method::Get, url)
    }

    pub(crate) fn post(url: &str) -> Tool {
        Tool::new(Method::Post, url)
    }

    pub(crate) fn network(mut self, network: Network) -> Tool {
        self.spec.permissions.network = network;
        self
    }

    pub(crate) fn hosts(self, hosts: &[&str]) -> Tool {
        let entries = hosts.iter().map(|it| it.parse().unwrap()).collect();
        self.network(Network::Hosts(entries))
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Tool {
        self.http.headers.push((name.into(), template(value)));
        self
    }

    pub(crate) fn query(mut self, key: &str, value: Value) -> Tool {
        self.http.query.push((key.into(), value_template(value)));
        self
    }

    pub(crate) fn body(mut self, body: Value) -> Tool {
        self.http.body = Some(value_template(body));
        self
    }

    pub(crate) fn auth(mut self, auth: Auth) -> Tool {
        self.http.auth = Some(auth);
        self
    }

    pub(crate) fn success_codes(mut self, codes: &[u16]) -> Tool {
        self.http.success_codes = codes.into();
        self
    }

    pub(crate) fn retries(mut self, times: u32) -> Tool {
        self.http.retry.times = times;
        self
    }

    pub(crate) fn idempotent(mut self) -> Tool {
        self.spec.annotations.idempotent = Some(true);
        self
    }

    pub(crate) fn follow(mut self) -> Tool {
        self.http.redirects = Redirects::Follow;
        self
    }

    pub(crate) fn output_bytes(mut self, bytes: usize) -> Tool {
        self.spec.limits.output_bytes = bytes;
        self
    }

    pub(crate) fn timeout(mut self, timeout: Duration) -> Tool {
        self.spec.limits.timeout = timeout;
        self
    }

    /// Runs the tool in an executor of its own.
    pub(crate) async fn run(&self, args: Value) -> Result<Raw, Failure> {
        self.run_in(&exec(), args).await
    }

    pub(crate) async fn run_in(&self, exec: &HttpExec, args: Value) -> Result<Raw, Failure> {
        self.run_until(exec, args, Cancel::never()).await
    }

    pub(crate) async fn run_until(
        &self,
        exec: &HttpExec,
        args: Value,
        cancel: Cancel,
    ) -> Result<Raw, Failure> {
        exec.run(&self.http, &self.admit(args, cancel).await).await
    }

    /// How the call failed.
    pub(crate) async fn failure(&self, args: Value) -> Failure {
        self.run(args).await.unwrap_err()
    }

    pub(crate) async fn kind(&self, args: Value) -> FailureKind {
        self.failure(args).await.kind
    }

    pub(crate) fn preview(&self, args: Value) -> Result<Value, Failure> {
        let call = invocation(args, Cancel::never());
        let admitted = admit::preview(&gate(), Arc::new(self.spec.clone()), &call).unwrap();
        HttpExec::preview(&self.http, &admitted)
    }

    /// The whole line of a call, with what the runtime adds: shape and redaction.
    pub(crate) async fn invoke(&self, args: Value) -> Outcome {
        let mut snapshot = Snapshot::default();
        snapshot.insert(ToolSpec {
            exec: Exec::Http(Box::new(self.http.clone())),
            ..self.spec.clone()
        });
        let runtime = Runtime {
            turns: Default::default(),
            catalog: Catalog::new(snapshot),
            gate: gate(),
            executor: Arc::new(OnlyHttp(exec())),
            observers: vec![],
            clock: Arc::new(Now),
        };
        runtime.invoke(invocation(args, Cancel::never())).await
    }

    async fn admit(&self, args: Value, cancel: Cancel) -> Admitted {
        let call = invocation(args, cancel);
        let spec = Arc::new(self.spec.clone());
        let mut trail = Vec::new();
        admit::admit(&gate(), spec, &call, &mut trail)
            .await
            .unwrap()
    }
}

pub(crate) fn exec() -> HttpExec {
    HttpExec::new(HttpPolicy::default())
}

pub(crate) fn template(text: &str) -> Template {
    Template::parse(text, &names()).unwrap()
}

pub(crate) fn url_template(text: &str) -> UrlTemplate {
    UrlTemplate::parse(text, &names()).unwrap()
}

pub(crate) fn bytes_of(raw: Raw) -> Vec<u8> {
    match raw.body {
        Body::Bytes(bytes) => bytes,
        other => panic!("expected bytes, got {other:?}"),
    }
}

pub(crate) fn json_of(raw: Raw) -> Value {
    match raw.body {
        Body::Value(value) => value,
        Body::Bytes(bytes) => serde_json::from_slice(&bytes).unwrap(),
        Body::Nothing(why) => panic!("there is none: {why}"),
    }
}

fn value_template(value: Value) -> ValueTemplate {
    match value {
        Value::String(text) => ValueTemplate::Text(template(&text)),
        Value::Array(items) => ValueTemplate::List(items.into_iter().map(value_template).collect()),
        Value::Object(map) => ValueTemplate::Map(
            map.into_iter()
                .map(|(key, it)| (key, value_template(it)))
                .collect(),
        ),
        other => ValueTemplate::Literal(other),
    }
}

fn names() -> Names {
    Names {
        inputs: INPUTS.map(str::to_owned).into(),
        secrets: SECRETS.map(str::to_owned).into(),
    }
}

fn invocation(args: Value, cancel: Cancel) -> Invocation {
    Invocation {
        id: Uuid::now_v7(),
        tool: "tool".into(),
        args: args.as_object().unwrap().clone(),
        caller: Caller {
            name: "test".into(),
        },
        timeout: None,
        cancel,
        party: std::sync::Arc::new(Waits),
        approval: None,
    }
}

fn gate() -> Gate {
    Gate {
        root: PathBuf::from("/nowhere"),
        rules: Rules::new(vec![]),
        files: Arc::new(Anywhere),
        principles: None,
        approver: Arc::new(NeverAsked),
        approvals: Arc::new(NeverAsked),
        secrets: Arc::new(TwoSecrets),
        reviews: Arc::new(NoAgents),
    }
}

struct NeverAsked;

impl Approver for NeverAsked {
    fn ask<'a>(&'a self, _: &'a Question<'a>) -> Later<'a, Answer> {
        unreachable!("no tool here asks")
    }
}

impl Approvals for NeverAsked {
    fn standing(&self, _: &Matter<'_>) -> Option<Consent> {
        unreachable!("no tool here asks")
    }

    fn denied(&self, _: &Matter<'_>) -> Result<Option<(Uuid, String)>, Failure> {
        unreachable!("no tool here asks")
    }

    fn open(&self, _: &Matter<'_>, _: &str) -> Result<Kept, Failure> {
        unreachable!("no tool here asks")
    }

    fn answer(&self, _: Uuid, _: &Matter<'_>, _: &Answer, _: &str) -> Result<(), Failure> {
        unreachable!("no tool here asks")
    }

    fn recall(&self, _: Uuid, _: &Matter<'_>) -> Result<Recalled, Failure> {
        unreachable!("no tool here asks")
    }

    fn start(&self, _: &Consent, _: &Matter<'_>, _: Uuid) -> Result<Box<dyn Using>, Failure> {
        unreachable!("no tool here asks")
    }
}

struct NoAgents;

impl Reviews for NoAgents {
    fn origin(&self, spec: &ToolSpec) -> Origin {
        spec.origin.clone()
    }
}

struct TwoSecrets;

impl Secrets for TwoSecrets {
    fn get(&self, name: &str) -> Option<Secret> {
        match name {
            "KEY" => Some(Secret::new(KEY)),
            "LINES" => Some(Secret::new(LINES)),
            _ => None,
        }
    }
}

struct OnlyHttp(HttpExec);

impl Executor for OnlyHttp {
    fn hold<'a>(&'a self, call: &'a Admitted) -> Later<'a, Result<Ready<'a>, Failure>> {
        let Exec::Http(http) = &call.spec().exec else {
            unreachable!("only http tools here");
        };
        let ready = Ready {
            held: Held {
                by: "host policy".to_owned(),
                missing: Vec::new(),
            },
            run: Box::pin(self.0.run(http, call)),
        };
        Box::pin(async { Ok(ready) })
    }
}

struct Now;

impl Clock for Now {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}
