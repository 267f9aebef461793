//! The wiring: the only file that names every concrete type.

mod answers;
mod bundles;
mod counter;
mod exchange;
mod machine;
mod reviewed;
mod running;
mod shelves;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use glee_core::admit::{Admitted, Consulted, Gate, Invocation};
use glee_core::catalog::{Catalog, Snapshot};
use glee_core::event::What;
use glee_core::model::{Origin, ToolSpec};
use glee_core::name::is_invisible;
use glee_core::outcome::{Failure, FailureKind, Outcome};
use glee_core::policy::{
    AgentCeiling, Asking, Case, ManifestApproval, Rule, Rules, Verdict, objections,
};
use glee_core::port::{
    Approver, Caller, Cancel, Clock, Files, Later, Observer, Party, Reviews as _, Secrets, Waits,
};
use glee_core::resource::Contents;
use glee_core::rule;
use glee_core::rule::autonomy::{Autonomy, Level};
use glee_core::rule::permit::AllowedPermissions;
use glee_core::runtime::Runtime;
use glee_core::turn::Turns;
use glee_sandbox::{Confinement, Sandbox};
use rustix::fs::{Access, access};
use serde_json::{Map, Value, json};
use thiserror::Error;
use uuid::Uuid;

use self::bundles::Indexed;
pub use self::bundles::{Listed, Put, REAP_AFTER};
use self::counter::Counter;
pub use self::counter::Tell;
pub use self::exchange::{Arrival, OnConflict, Run};
use self::machine::{Environment, SystemClock, allowed_permissions};
use self::reviewed::Reviewed;
pub use self::reviewed::Seen;
use self::running::Running;
use crate::approve::ledger::Ledger;
use crate::approve::principles::Service;
use crate::builtin::{self, Means};
use crate::config::standing;
use crate::config::{self, Config, Elicitation, Fsync, Mcp, PrinciplesService, Sandboxing};
use crate::dialect::bundle::Surroundings;
use crate::dialect::{document, prompt, resource};
use crate::exec::http::{HttpExec, HttpPolicy};
use crate::exec::{self, Cage, Egress, Executors, Stay};
use crate::native::Unfit;
use crate::observe::audit::{self, Audit, Settings};
pub use crate::observe::log::{Form as LogForm, Level as LogLevel, Log};
use crate::observe::metrics::Metrics;
use crate::observe::traces::{PATIENCE, Traces};
use crate::project::Project;
use crate::store::approvals::Approvals;
use crate::store::bundles::Bundles;
use crate::store::paths::Paths;
use crate::store::results::Results;
use crate::store::reviews::Reviews;
use crate::store::usage::Usage;
use crate::store::{digest, documents, manifests, resources, state};

#[derive(Debug, Error)]
pub enum OpenError {
    #[error("{path}: {source}")]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path} cannot be used: {problem}; run `glee lint`")]
    Config { path: PathBuf, problem: String },
    #[error(transparent)]
    Builtin(#[from] Unfit),
}

/// How long one example of a tool may take that nobody has approved; a person waits meanwhile.
const TRIAL: Duration = Duration::from_secs(10);

/// How long a command that is over waits for a collector. One that is far away takes some tenths of a second to be reached
/// at all, with TLS; waiting for less would lose all it should be told, and one that hangs is the exception, and warned of.
const AT_THE_END: Duration = Duration::from_secs(1);

/// A project, ready to run its tools.
pub struct App {
    project: Project,
    runtime: Arc<Runtime>,
    natives: Vec<Arc<ToolSpec>>,
    builtins: ArcSwap<Vec<Arc<ToolSpec>>>,
    kit: Kit,
    cage: Cage,
    mcp: Mcp,
    ledger: Arc<Ledger>,
    audit: Arc<Audit>,
    metrics: Arc<Metrics>,
    traces: Option<Arc<Traces>>,
    log: Option<Arc<Log>>,
    elicitation: ArcSwap<Elicitation>,
    running: Arc<Running>,
    counter: Counter,
    digests: Mutex<Digests>,
    reviewed: Arc<Reviewed>,
    /// The only permissions that tools may need.
    allowed_permissions: Option<String>,
    bundles: Bundles,
    usage: Usage,
    results: Results,
    /// One change of the catalog at a time.
    changing: Mutex<()>,
    index: RwLock<Indexed>,
}

/// The digests of one snapshot's tools, as far as somebody asked for them.
struct Digests {
    of: Arc<Snapshot>,
    /// By name and document: a caller may still hold the tool of an earlier snapshot.
    made: HashMap<(String, [u8; 32]), Option<String>>,
    programs: digest::Programs,
}

impl Digests {
    fn of(snapshot: Arc<Snapshot>) -> Digests {
        Digests {
            of: snapshot,
            made: HashMap::new(),
            programs: digest::Programs::default(),
        }
    }
}

/// A call, as a surface knows it.
#[derive(Clone)]
pub struct Call {
    pub tool: String,
    pub args: Map<String, Value>,
    pub caller: Caller,
    pub timeout: Option<Duration>,
    pub cancel: Cancel,
    pub party: Arc<dyn Party>,
    /// What a person approved, by its id.
    pub approval: Option<Uuid>,
}

/// What differs between the programs that open a project.
pub struct Wiring {
    /// Asks a person.
    pub approver: Arc<dyn Approver>,
    /// Where secrets come from.
    pub secrets: Arc<dyn Secrets>,
    /// A program whose `main` begins with [`glee_sandbox::run_if_launcher`]; tools are started through it.
    pub launcher: PathBuf,
    pub stay: Stay,
    /// Functions of this program that are tools too; see [`crate::native::tool`].
    pub natives: Vec<ToolSpec>,
    /// The only permissions that tools may need, with commas between; any unless given.
    pub allowed_permissions: Option<String>,
    pub clock: Arc<dyn Clock>,
    /// Hears of every call, too.
    pub log: Option<Arc<Log>>,
    /// Where the key of the audit is kept, from the project's root; where glee keeps such things unless
    /// given.
    pub state: Option<PathBuf>,
}

impl Wiring {
    /// Secrets from the environment, tools started through this very program.
    pub fn with(approver: impl Approver + 'static) -> Wiring {
        Wiring {
            approver: Arc::new(approver),
            secrets: Arc::new(Environment),
            launcher: PathBuf::from("/proc/self/exe"),
            stay: Stay::ForMany,
            natives: Vec::new(),
            allowed_permissions: allowed_permissions(),
            clock: Arc::new(SystemClock::new()),
            log: None,
            state: None,
        }
    }
}

impl App {
    pub fn open(project: Project, wiring: Wiring) -> Result<App, OpenError> {
        let config = read_config(&project)?;
        let natives: Vec<Arc<ToolSpec>> = wiring.natives.into_iter().map(Arc::new).collect();
        let bundles = Bundles::new(project.bundles());
        let usage = Usage::new(project.audit());
        let own_state = wiring.state.map(|it| project.root().join(it));
        let hidden: Vec<PathBuf> = own_state
            .iter()
            .cloned()
            .chain(state::everything().ok())
            .collect();
        let sandbox = Sandbox::new(wiring.launcher);
        if wiring.stay == Stay::ForOneCall && config.sandbox != Sandboxing::Off {
            sandbox.expect();
        }
        let cage = Cage::new(
            sandbox,
            confinement(config.sandbox),
            Egress::new(config.allowed_hosts.clone()),
            hidden.clone(),
        );
        let http = Arc::new(HttpExec::new(HttpPolicy {
            allowed_hosts: config.allowed_hosts.clone(),
        }));
        let kit = Kit {
            root: project.root().to_owned(),
            hidden,
            cage: cage.clone(),
            http: http.clone(),
        };
        let builtins = kit.tools(&config)?;
        let ledger = Arc::new(Ledger::new(
            project.root().to_owned(),
            Approvals::new(project.approvals(), wiring.clock.clone()),
            config.approvals,
            project.standing_rules(),
            standing_rules(&project)?,
        ));
        let reviewed = Arc::new(Reviewed {
            root: project.root().to_owned(),
            records: Reviews::new(project.reviews()),
        });
        let counter = Counter::default();
        let callers = counter.clone();
        let audit = Audit::new(Settings {
            root: project.root().to_owned(),
            directory: project.audit(),
            state: own_state,
            rotate_bytes: config.audit.rotate_bytes,
            fsync: match config.audit.fsync {
                Fsync::Soon => audit::Fsync::Soon,
                Fsync::Always => audit::Fsync::Always,
            },
        });
        let audit = Arc::new(audit.answered_by(move |stuck, why| callers.answer_for(stuck, &why)));
        let metrics = Arc::new(Metrics::default());
        let traces = config.traces.clone().map(|it| Arc::new(Traces::new(it)));
        let mut observers: Vec<Arc<dyn Observer>> = vec![metrics.clone()];
        observers.extend(wiring.log.iter().map(|it| it.clone() as _));
        observers.extend(traces.iter().map(|it| it.clone() as _));
        // The others hear also what it cannot take.
        observers.push(audit.clone());
        let runtime = Arc::new(Runtime {
            catalog: Catalog::new(load(
                &project,
                (&natives, &builtins),
                (&bundles, &around(&natives, &config)),
                &reviewed,
                Compile::AtFirstUse,
            )?),
            gate: Gate {
                root: project.root().to_owned(),
                rules: Rules::new(rules(&config, wiring.allowed_permissions.as_deref())),
                files: Arc::new(Paths::of_this_machine()),
                principles: config.principles.map(consulted),
                approver: wiring.approver,
                approvals: ledger.clone(),
                secrets: wiring.secrets,
                reviews: reviewed.clone(),
            },
            turns: Turns::new(config.calls),
            executor: Arc::new(Executors::new(http, cage.clone(), wiring.stay)),
            observers,
            clock: wiring.clock,
        });
        let digests = Mutex::new(Digests::of(runtime.catalog.snapshot()));
        Ok(App {
            project,
            runtime,
            natives,
            builtins: ArcSwap::from_pointee(builtins),
            kit,
            cage,
            mcp: config.mcp,
            ledger,
            audit,
            metrics,
            traces,
            log: wiring.log,
            running: Running::new(),
            counter,
            elicitation: ArcSwap::from_pointee(config.approvals.elicitation),
            allowed_permissions: wiring.allowed_permissions,
            digests,
            reviewed,
            bundles,
            usage,
            results: Results::default(),
            changing: Mutex::default(),
            index: RwLock::default(),
        })
    }

    pub fn project(&self) -> &Project {
        &self.project
    }

    /// What holds processes, for those who want to look at it or use it by hand.
    pub fn cage(&self) -> &Cage {
        &self.cage
    }

    /// How tools are shown to MCP clients.
    pub fn mcp(&self) -> &Mcp {
        &self.mcp
    }

    /// The tools, prompts and resources there are now.
    pub fn tools(&self) -> Arc<Snapshot> {
        self.runtime.catalog.snapshot()
    }

    /// Takes in what changed on disk. A document that is broken now keeps its last good version.
    pub fn reload(&self) -> Result<(), OpenError> {
        let config = read_config(&self.project);
        // What is broken allows nothing: somebody may have meant to take a rule out.
        let standing = standing_rules(&self.project);
        let usable = standing.as_ref().map(Vec::clone).unwrap_or_default();
        self.ledger.replace_rules(usable);
        // Before the tools, so that none is there without its rules. Rules that cannot be read do not loosen
        // those that hold.
        if let Ok(config) = &config {
            let rules = rules(config, self.allowed_permissions.as_deref());
            self.runtime.gate.rules.replace(rules);
            self.runtime.turns.replace(config.calls);
            self.elicitation
                .store(Arc::new(config.approvals.elicitation));
            // Under a config that cannot be read the tools that come with glee are those there were.
            self.builtins.store(Arc::new(self.kit.tools(config)?));
        }
        {
            let _changing = self.changing();
            // Under such a config tools of bundles may use nothing.
            let around = match &config {
                Ok(config) => around(&self.natives, config),
                Err(_) => around(&self.natives, &Config::default()),
            };
            // A schema that cannot be used must not replace one that can.
            let next = load(
                &self.project,
                (&self.natives, &self.builtins.load()),
                (&self.bundles, &around),
                &self.reviewed,
                Compile::Now,
            )?;
            self.runtime.catalog.replace(next);
        }
        config?;
        standing.map(|_| ())
    }

    /// The SHA-256 of all that a tool is made of, in hex; `None` for a tool that is too large for one.
    /// Made when it is first asked for, and kept until the next reload.
    pub fn digest(&self, spec: &ToolSpec) -> Option<String> {
        let now = self.tools();
        let mut digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&digests.of, &now) {
            *digests = Digests::of(now);
        }
        let Digests { made, programs, .. } = &mut *digests;
        let key = (spec.name.clone(), spec.document);
        let make = || {
            let root = self.project.root();
            digest::digest(spec, &exec::entries(spec, root), root, programs)
        };
        made.entry(key).or_insert_with(make).clone()
    }

    /// What stands under a URI, by a resource of this project.
    pub fn read_resource(&self, uri: &str) -> Result<Contents, Failure> {
        let (resource, holes) = self.tools().find_resource(uri)?;
        resources::read(&resource, uri, &holes, self.project.root())
    }

    /// A tool's document, as it is on disk now.
    pub fn manifest(&self, spec: &ToolSpec) -> Result<String, Failure> {
        if spec.source.as_os_str().is_empty() {
            let why = format!(
                "`{}` is a function of this program and has no manifest",
                spec.name
            );
            return Err(Failure::new(FailureKind::NotFound, why));
        }
        document::load(&spec.source)
            .map_err(|err| Failure::new(FailureKind::FileNotFound, format!("the manifest {err}")))
    }

    /// What the end of the audit says about one caller.
    pub fn audit_tail(&self, caller: &Caller) -> Result<String, Failure> {
        self.audit
            .tail(&self.project.audit_log(), &caller.name)
            .map_err(|err| Failure::new(FailureKind::Internal, format!("the audit: {err}")))
    }

    /// What calls are held to, in order.
    pub fn rules(&self) -> Arc<Vec<Box<dyn Rule>>> {
        self.runtime.gate.rules.now()
    }

    /// What the rules say of a call, which is not made. A service that has a say is not asked.
    pub fn judge(&self, call: Call) -> Result<Vec<Verdict>, Failure> {
        let call = invocation(call);
        Ok(self.objections(&self.runtime.preview(&call)?, &call.caller))
    }

    fn objections(&self, admitted: &Admitted, caller: &Caller) -> Vec<Verdict> {
        let gate = &self.runtime.gate;
        let (spec, args) = (admitted.spec(), admitted.args());
        let case = Case::new(spec, args, caller, &gate.root, &*gate.files);
        objections(&gate.rules.now(), &case)
    }

    /// Whether a service outside is asked before each call.
    pub fn has_principles(&self) -> bool {
        self.runtime.gate.principles.is_some()
    }

    /// Answers a call that is not even looked at; it is recorded all the same.
    pub async fn turn_away(&self, call: Call, why: Failure) -> Outcome {
        let (runtime, call) = (self.runtime.clone(), invocation(call));
        let who = (call.id, call.tool.clone());
        let refused = async move { runtime.turn_away(call, why).await };
        self.counter.wait(who, refused).await
    }

    /// What is known of the tools that agents made.
    pub fn review_records(&self) -> &Reviews {
        &self.reviewed.records
    }

    /// Who made a tool, and what people think of it as it is on disk now.
    pub fn origin(&self, spec: &ToolSpec) -> Origin {
        self.reviewed.origin(spec)
    }

    /// A tool as it is on disk now; nothing when that is not what was read.
    pub fn seen(&self, spec: &ToolSpec) -> Option<Seen> {
        self.reviewed.seen(spec)
    }

    /// Where paths lead.
    pub fn files(&self) -> &dyn Files {
        &*self.runtime.gate.files
    }

    /// The config as it is on disk now.
    pub fn config(&self) -> Result<Config, OpenError> {
        read_config(&self.project)
    }

    /// Records what somebody does with a tool outside of any call.
    pub fn note(
        &self,
        tool: &str,
        document: Option<[u8; 32]>,
        actor: &Caller,
        what: What,
    ) -> Result<(), Failure> {
        self.runtime.note(tool, document, &actor.name, what)
    }

    /// Runs an example of a tool that nobody has approved, for the person who looks at it. No surface
    /// gets here but by a review.
    pub(crate) async fn trial(
        &self,
        spec: Arc<ToolSpec>,
        args: Map<String, Value>,
        caller: Caller,
    ) -> Outcome {
        let call = invocation(Call {
            tool: spec.name.clone(),
            args,
            caller,
            timeout: Some(TRIAL),
            cancel: Cancel::never(),
            party: Arc::new(Waits),
            approval: None,
        });
        let (runtime, who) = (self.runtime.clone(), (call.id, call.tool.clone()));
        let trial = async move { runtime.trial(spec, call).await };
        self.counter.wait(who, trial).await
    }

    pub async fn call(&self, call: Call) -> Outcome {
        let (who, answered) = self.begin(call);
        self.counter.wait(who, answered).await
    }

    /// The same in the task that waits for it, which takes less. Should that task hang with the disk, its caller is
    /// told so, and there is no outcome.
    pub async fn call_here(&self, call: Call, tell: Tell) -> Option<Outcome> {
        let (who, answered) = self.begin(call);
        self.counter.stay(who, answered, tell).await
    }

    fn begin(&self, call: Call) -> ((Uuid, String), Later<'static, Outcome>) {
        let (runtime, running) = (self.runtime.clone(), self.running.begin());
        let cancel = self.running.or_stopped(call.cancel);
        let call = invocation(Call { cancel, ..call });
        let who = (call.id, call.tool.clone());
        // Boxed at once: what is handed on is copied at its full size.
        let answered = Box::pin(async move {
            let _running = running;
            runtime.invoke(call).await
        });
        (who, answered)
    }

    /// Takes back the calls that run, and waits until their ends are recorded.
    pub async fn stop(&self) {
        self.running.stop().await;
        let (audit, traces, log) = (self.audit.clone(), self.traces.clone(), self.log.clone());
        let told = tokio::task::spawn_blocking(move || {
            audit.settle();
            // What it does not take it is told of when it does, or never.
            let _ = traces.map(|it| it.flush(PATIENCE));
            log.iter().for_each(|it| it.flush());
        });
        let _ = told.await;
    }

    /// What a program that ends after its call has yet to tell, when its answer is out: nobody waits long for it.
    pub fn tell_the_rest(&self) {
        self.audit.settle();
        let told = self.traces.as_ref().is_none_or(|it| it.flush(AT_THE_END));
        if !told {
            self.warn("the collector of `telemetry.otlp` did not take all that it was told");
        }
    }

    /// Results that were too large for their callers.
    pub fn results(&self) -> &Results {
        &self.results
    }

    /// Tells of something that is wrong on disk and keeps nobody from going on.
    pub(crate) fn warn(&self, problem: &str) {
        match &self.log {
            Some(log) => log.say(LogLevel::Warn, "problem", &json!({"text": problem})),
            None => warn(problem),
        }
    }

    /// Counts of calls since the start, as Prometheus reads them.
    pub fn metrics(&self) -> String {
        let tools = self.tools().tools().count();
        self.metrics.text(tools, self.running.count())
    }

    /// Why no call could be made now, if none could.
    pub fn unready(&self) -> Option<&'static str> {
        let audit = self.project.audit();
        let at = match audit.is_dir() {
            true => audit,
            false => self.project.root().join(".glee"),
        };
        if access(&at, Access::WRITE_OK).is_err() {
            return Some("the audit cannot be written");
        }
        match self.config() {
            Ok(_) => None,
            Err(_) => Some("the config cannot be used"),
        }
    }

    /// Makes ready, meanwhile, what will hold a tool that is about to be called, and what will record it.
    pub fn expect_call(&self, tool: &str) {
        self.audit.expect_event();
        if let Ok(spec) = self.tools().find(tool) {
            let (cage, root) = (self.cage.clone(), self.project.root().to_owned());
            tokio::spawn(async move { cage.prepare(&spec, &root).await });
        }
    }

    /// What the call would do, secrets masked; nothing is asked and nothing is run.
    pub fn preview(&self, call: Call) -> Result<Value, Failure> {
        exec::preview(&self.runtime.preview(&invocation(call))?)
    }
}

/// In the order in which they are told apart when several are equally strict.
fn rules(config: &Config, allowed_permissions: Option<&str>) -> Vec<Box<dyn Rule>> {
    let mut rules = rule::defaults();
    rules.push(Box::new(AgentCeiling(config.max_permissions.clone())));
    if let Some(list) = allowed_permissions {
        rules.push(Box::new(AllowedPermissions::parse(list)));
    }
    for rule in &config.rules {
        rules.push(Box::new(rule.clone()));
    }
    rules.push(Box::new(ManifestApproval {
        of: match config.autonomy {
            Some(Level::Yolo) => Asking::AgentsTools,
            _ => Asking::AllTools,
        },
    }));
    if let Some(level) = config.autonomy {
        let rules_of_the_project = config.rules.clone();
        rules.push(Box::new(Autonomy {
            level,
            rules: rules_of_the_project,
        }));
    }
    rules
}

fn consulted(service: PrinciplesService) -> Consulted {
    Consulted {
        service: Arc::new(Service::new(service.url, service.timeout)),
        otherwise: service.otherwise,
    }
}

fn invocation(call: Call) -> Invocation {
    Invocation {
        id: Uuid::now_v7(),
        tool: call.tool,
        args: call.args,
        caller: call.caller,
        timeout: call.timeout,
        cancel: call.cancel,
        party: call.party,
        approval: call.approval,
    }
}

/// What holds processes outside of any project.
pub fn cage_without_project() -> Cage {
    let launcher = PathBuf::from("/proc/self/exe");
    Cage::new(
        Sandbox::new(launcher),
        Confinement::Required,
        Egress::new(None),
        state::everything().ok().into_iter().collect(),
    )
}

fn confinement(sandboxing: Sandboxing) -> Confinement {
    match sandboxing {
        Sandboxing::Required => Confinement::Required,
        Sandboxing::BestEffort => Confinement::BestEffort,
        Sandboxing::Off => Confinement::Off,
    }
}

fn read_config(project: &Project) -> Result<Config, OpenError> {
    let path = project.config();
    let read = config::load(&path).map_err(|source| OpenError::Io {
        path: path.clone(),
        source,
    })?;
    let problem = read
        .problems
        .first()
        .map(|it| it.message.clone())
        .unwrap_or_default();
    read.config.ok_or(OpenError::Config { path, problem })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Compile {
    AtFirstUse,
    Now,
}

/// What the tools of bundles find around them.
fn around(natives: &[Arc<ToolSpec>], config: &Config) -> Surroundings {
    let functions: BTreeMap<_, _> = natives
        .iter()
        .map(|it| (it.name.clone(), it.clone()))
        .collect();
    Surroundings {
        functions: Arc::new(functions),
        allowed_hosts: config.bundles.allowed_hosts.clone(),
        secrets: config.bundles.secrets.clone(),
    }
}

/// What the tools that come with glee are made with, whatever the config says of them.
struct Kit {
    root: PathBuf,
    hidden: Vec<PathBuf>,
    cage: Cage,
    http: Arc<HttpExec>,
}

impl Kit {
    fn tools(&self, config: &Config) -> Result<Vec<Arc<ToolSpec>>, OpenError> {
        let settings = config.builtins.clone();
        let (root, http) = (&self.root, self.http.clone());
        let means = Means::new(root, settings, &self.hidden, &self.cage, http);
        Ok(means.tools()?)
    }
}

fn load(
    project: &Project,
    (natives, builtins): (&[Arc<ToolSpec>], &[Arc<ToolSpec>]),
    (bundles, around): (&Bundles, &Surroundings),
    reviewed: &Reviewed,
    compile: Compile,
) -> Result<Snapshot, OpenError> {
    let io = |path: PathBuf| move |source| OpenError::Io { path, source };
    let path = project.tools();
    let mut tools = manifests::load(&path).map_err(io(path))?;
    if compile == Compile::Now {
        tools.iter_mut().for_each(manifests::Document::compile);
    }
    let path = project.reviews();
    let recorded = reviewed.records.names().map_err(io(path))?;
    for spec in tools.iter_mut().filter_map(|it| it.read.model.as_mut()) {
        // Who has a record was made by an agent, whatever the manifest says now.
        if spec.origin.is_agent() || recorded.contains(&spec.name) {
            spec.origin = reviewed.origin(spec);
        }
    }
    let mut snapshot = manifests::snapshot(tools);
    for builtin in builtins {
        snapshot.insert_built_in(builtin.clone());
    }
    for absent in builtin::TABLE {
        if !builtins.iter().any(|it| it.name == absent.name) {
            snapshot.mention(
                absent.name,
                format!(
                    "it comes with glee, and this project has not enabled it: `builtins: {{enable: [{}]}}` in .glee/config.yml does",
                    absent.name
                ),
            );
        }
    }
    // A project's own tool comes before one that is everywhere.
    for native in natives {
        snapshot.insert_unless_there(native.clone());
    }
    let path = project.bundles();
    shelves::place(&mut snapshot, bundles.load(around).map_err(io(path))?);
    let path = project.prompts();
    for document in documents::load(&path, prompt::read).map_err(io(path))? {
        match document.usable() {
            Ok(prompt) => snapshot.insert_prompt(prompt),
            Err((stem, why)) => snapshot.insert_broken_prompt(stem, why),
        }
    }
    let path = project.resources();
    for document in documents::load(&path, resource::read).map_err(io(path))? {
        match document.usable() {
            Ok(resource) => snapshot.insert_resource(resource),
            Err((stem, why)) => snapshot.insert_broken_resource(stem, why),
        }
    }
    Ok(snapshot)
}

fn standing_rules(project: &Project) -> Result<Vec<standing::Standing>, OpenError> {
    let path = project.standing_rules();
    let read = standing::load(&path).map_err(|source| OpenError::Io {
        path: path.clone(),
        source,
    })?;
    let problem = read.problems.first().map(|it| it.message.clone());
    read.rules.ok_or(OpenError::Config {
        path,
        problem: problem.unwrap_or_default(),
    })
}

fn warn(problem: &str) {
    let shown: String = problem
        .chars()
        .map(|c| if is_invisible(c) { '\u{FFFD}' } else { c })
        .collect();
    // There is nowhere left to complain to when stderr is gone.
    let _ = writeln!(io::stderr(), "warning: {shown}");
}
