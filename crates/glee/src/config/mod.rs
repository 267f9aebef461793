//! `.glee/config.yml`: what holds for every tool of a project.

mod builtins;
mod rules;
mod server;
pub mod standing;
mod telemetry;

use std::collections::BTreeSet;
use std::io;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use glee_core::host::HostPattern;
use glee_core::permission::{Ceiling, Network};
use glee_core::rule::autonomy::Level;
use glee_core::rule::custom::CustomRule;
use glee_core::schema::Schema;
use glee_core::turn::Calls;
use glee_sandbox::is_placeholder;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use crate::builtin::Settings;
use crate::dialect::document;
use crate::dialect::network::WireNetwork;
use crate::dialect::problem::Problem;
use crate::dialect::yaml::Node;

use builtins::WireBuiltins;
pub use rules::PrinciplesService;
use rules::{WireAutonomy, WirePrinciples, WireRule};
pub use server::Server;
use server::WireServer;
use telemetry::WireTelemetry;

#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The most a tool made by an agent may ask for.
    pub max_permissions: Ceiling,
    pub agent_tools: AgentTools,
    /// When given, the only hosts that http tools may call.
    pub allowed_hosts: Option<Vec<HostPattern>>,
    /// What happens when this machine cannot hold a tool to its permissions.
    pub sandbox: Sandboxing,
    pub mcp: Mcp,
    /// Rules of the project's own, beside those that come with glee.
    pub rules: Vec<Arc<CustomRule>>,
    /// How much is asked; only what manifests and rules ask for unless given.
    pub autonomy: Option<Level>,
    pub principles: Option<PrinciplesService>,
    pub approvals: Approvals,
    pub audit: Audit,
    pub bundles: Bundles,
    /// The tools that come with glee.
    pub builtins: Settings,
    pub server: Server,
    /// How often each tool may be called.
    pub calls: Calls,
    /// Where traces of calls go.
    pub traces: Option<Url>,
}

/// What tools of bundles may use, and how many there may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundles {
    /// The only hosts that they may call; none unless given.
    pub allowed_hosts: Vec<HostPattern>,
    /// The secrets that they may use.
    pub secrets: BTreeSet<String>,
    pub most_tools: usize,
    /// How many bundles there may be of the store; one that is deleted counts until it is gone.
    pub most_bundles: usize,
}

impl Default for Bundles {
    fn default() -> Bundles {
        Bundles {
            allowed_hosts: Vec::new(),
            secrets: BTreeSet::new(),
            most_tools: 20_000,
            most_bundles: 1000,
        }
    }
}

/// How people are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Approvals {
    /// How long a question, and a yes that nobody uses, is good for.
    pub expire_after: Duration,
    /// Questions of one caller that may wait for an answer.
    pub most_pending_of_one: usize,
    /// Of all callers together.
    pub most_pending: usize,
    /// Which clients are trusted to ask their own users.
    pub elicitation: Elicitation,
}

/// Which clients may put the question whether a call is made to the person behind them. glee cannot see
/// who answers there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elicitation {
    Allow,
    /// Those that a person has started on this machine.
    Stdio,
    Off,
}

impl Default for Approvals {
    fn default() -> Approvals {
        Approvals {
            expire_after: Duration::from_secs(24 * 3600),
            most_pending_of_one: 100,
            most_pending: 1000,
            elicitation: Elicitation::Stdio,
        }
    }
}

/// How calls are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Audit {
    /// A journal that would grow beyond this gets a number, and the next one is begun.
    pub rotate_bytes: u64,
    pub fsync: Fsync,
}

impl Default for Audit {
    fn default() -> Audit {
        Audit {
            rotate_bytes: 64 << 20,
            fsync: Fsync::Soon,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fsync {
    /// A moment later, many events at once.
    Soon,
    /// Before the call goes on.
    Always,
}

/// How many tools agents may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentTools {
    /// Of one agent.
    pub per_minute: usize,
    /// Of all agents together.
    pub total: usize,
}

impl Default for AgentTools {
    fn default() -> AgentTools {
        AgentTools {
            per_minute: 10,
            total: 200,
        }
    }
}

/// How tools are shown to MCP clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mcp {
    pub exposure: Exposure,
    /// About how many tokens of definitions `auto` shows at most.
    pub budget_tokens: usize,
    /// Larger results are given in part; the whole can be read by handle.
    pub result_bytes: usize,
}

impl Default for Mcp {
    fn default() -> Mcp {
        Mcp {
            exposure: Exposure::Auto,
            budget_tokens: 8000,
            result_bytes: 64 << 10,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// Every tool is listed.
    Direct,
    /// Only the tools that find and call others are listed.
    Search,
    /// Direct while the definitions are few, search when they are many.
    Auto,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sandboxing {
    /// The tool is not run.
    #[default]
    Required,
    /// The tool runs with the layers there are, and every outcome says which are not.
    BestEffort,
    /// The tool runs unconfined, and every outcome says so.
    Off,
}

/// A config that was read, with what is wrong with it.
pub struct Read {
    pub config: Option<Config>,
    pub text: String,
    /// Where everything stands; a file that says nothing has no places.
    pub node: Option<Node>,
    pub problems: Vec<Problem>,
}

/// The published JSON Schema of `.glee/config.yml`.
pub fn schema() -> Value {
    schemars::schema_for!(Wire).to_value()
}

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| match Schema::new(schema()) {
    Ok(schema) => schema,
    Err(err) => unreachable!("the config schema is generated, and bounded: {err:?}"),
});

/// Reads the config; a project without one has the defaults.
pub fn load(path: &Path) -> io::Result<Read> {
    match document::load(path) {
        Ok(text) => Ok(read(text)),
        Err(err) if err.kind() == io::ErrorKind::NotFound || is_placeholder(path) => Ok(Read {
            config: Some(Config::default()),
            text: String::new(),
            node: None,
            problems: Vec::new(),
        }),
        Err(err) => Err(err),
    }
}

pub fn read(text: String) -> Read {
    // A file of comments only says nothing, and that is fine.
    if text
        .lines()
        .all(|it| it.trim_start().is_empty() || it.trim_start().starts_with('#'))
    {
        return Read {
            config: Some(Config::default()),
            text,
            node: None,
            problems: Vec::new(),
        };
    }
    let (wire, node, mut problems) = document::read::<Wire>(&text, &SCHEMA, &[]);
    let (Some(wire), Some(node)) = (wire, node) else {
        return Read {
            config: None,
            text,
            node: None,
            problems,
        };
    };
    let mut hosts = |list: Vec<String>, pointer: &str| hosts(&list, pointer, &node, &mut problems);
    let max = wire.security.max_permissions;
    let many = wire.security.agent_tools;
    let otherwise = AgentTools::default();
    let config = Config {
        max_permissions: Ceiling {
            network: match max.network {
                None | Some(WireNetwork::All(false)) => Network::None,
                Some(WireNetwork::All(true)) => Network::Public,
                Some(WireNetwork::Hosts(list)) => {
                    Network::Hosts(hosts(list.hosts, "/security/max_permissions/network/hosts"))
                }
            },
            read: max.fs.read,
            write: max.fs.write,
            secrets: max.secrets,
        },
        agent_tools: AgentTools {
            per_minute: many
                .per_minute
                .map_or(otherwise.per_minute, |it| it as usize),
            total: many.total.map_or(otherwise.total, |it| it as usize),
        },
        sandbox: match wire.sandbox {
            None | Some(WireSandbox::Required) => Sandboxing::Required,
            Some(WireSandbox::BestEffort) => Sandboxing::BestEffort,
            Some(WireSandbox::Off) => Sandboxing::Off,
        },
        mcp: mcp(&wire.mcp),
        allowed_hosts: wire
            .http
            .allowed_hosts
            .map(|it| hosts(it, "/http/allowed_hosts")),
        bundles: Bundles {
            allowed_hosts: hosts(wire.bundles.allowed_hosts, "/bundles/allowed_hosts"),
            secrets: wire.bundles.secrets.into_iter().collect(),
            most_tools: wire
                .bundles
                .most_tools
                .map_or(Bundles::default().most_tools, |it| it as usize),
            most_bundles: wire
                .bundles
                .most_bundles
                .map_or(Bundles::default().most_bundles, |it| it as usize),
        },
        rules: rules::rules(wire.rules, &node, &mut problems),
        autonomy: wire.autonomy.map(rules::level),
        principles: wire
            .principles
            .and_then(|it| rules::principles(it, &node, &mut problems)),
        approvals: approvals(&wire.approvals, &node, &mut problems),
        audit: audit(&wire.audit),
        builtins: builtins::settings(wire.builtins, &node, &mut problems),
        server: server::server(&wire.server),
        traces: telemetry::traces(&wire.telemetry, &node, &mut problems),
        calls: Calls {
            per_minute: wire.limits.calls_per_minute.map(NonZeroU32::get),
            at_once: wire.limits.calls_at_once.map(NonZeroU32::get),
        },
    };
    Read {
        config: problems.is_empty().then_some(config),
        text,
        node: Some(node),
        problems,
    }
}

fn hosts(
    list: &[String],
    pointer: &str,
    node: &Node,
    problems: &mut Vec<Problem>,
) -> Vec<HostPattern> {
    let mut read = Vec::new();
    for (at, host) in list.iter().enumerate() {
        match host.parse() {
            Ok(host) => read.push(host),
            Err(err) => {
                let place = node.place_of(&format!("{pointer}/{at}"));
                problems.push(Problem::error("host", place, format!("{err}")));
            }
        }
    }
    read
}

fn approvals(wire: &WireApprovals, node: &Node, problems: &mut Vec<Problem>) -> Approvals {
    let otherwise = Approvals::default();
    let expire_after = match wire.expire_after.as_deref().map(span) {
        None => otherwise.expire_after,
        Some(Ok(span)) => span,
        Some(Err(why)) => {
            let place = node.place_of("/approvals/expire_after");
            problems.push(Problem::error("duration", place, why));
            otherwise.expire_after
        }
    };
    let count = |given: Option<u32>, otherwise| given.map_or(otherwise, |it| it as usize);
    Approvals {
        expire_after,
        most_pending_of_one: count(wire.pending_per_caller, otherwise.most_pending_of_one),
        most_pending: count(wire.pending, otherwise.most_pending),
        elicitation: match wire.elicitation {
            Some(WireElicitation::Allow) => Elicitation::Allow,
            None | Some(WireElicitation::Stdio) => Elicitation::Stdio,
            Some(WireElicitation::Off) => Elicitation::Off,
        },
    }
}

/// `90s`, `30m`, `24h` or `7d`.
fn span(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no time such as 90s, 30m, 24h or 7d");
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 24 * 3600,
        _ => return Err(wrong()),
    };
    let count: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    match count.checked_mul(seconds) {
        Some(0) => Err("what has expired before it is asked can never be answered".to_owned()),
        Some(seconds) if seconds <= LONGEST_PENDING => Ok(Duration::from_secs(seconds)),
        _ => Err("nothing waits longer than a year".to_owned()),
    }
}

const LONGEST_PENDING: u64 = 365 * 24 * 3600;

fn mcp(wire: &WireMcp) -> Mcp {
    let otherwise = Mcp::default();
    Mcp {
        exposure: match wire.exposure {
            None | Some(WireExposure::Auto) => Exposure::Auto,
            Some(WireExposure::Direct) => Exposure::Direct,
            Some(WireExposure::Search) => Exposure::Search,
        },
        budget_tokens: wire
            .budget_tokens
            .map_or(otherwise.budget_tokens, |it| it as usize),
        result_bytes: wire
            .result_bytes
            .map_or(otherwise.result_bytes, |it| (it as usize).max(LEAST_RESULT)),
    }
}

fn audit(wire: &WireAudit) -> Audit {
    let otherwise = Audit::default();
    Audit {
        rotate_bytes: wire
            .rotate_bytes
            .map_or(otherwise.rotate_bytes, |it| it.max(LEAST_JOURNAL)),
        fsync: match wire.fsync {
            None | Some(WireFsync::Soon) => Fsync::Soon,
            Some(WireFsync::Always) => Fsync::Always,
        },
    }
}

/// Smaller files would be more names than lines.
const LEAST_JOURNAL: u64 = 4096;
/// Less than this says nothing.
const LEAST_RESULT: usize = 1024;

/// What holds for every tool of the project: `.glee/config.yml`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "glee config")]
struct Wire {
    #[serde(default)]
    security: Security,
    #[serde(default)]
    http: Http,
    /// What to do when this machine cannot hold a tool to its permissions; `required` unless given.
    #[serde(default)]
    sandbox: Option<WireSandbox>,
    #[serde(default)]
    mcp: WireMcp,
    /// Rules of this project, beside those that come with glee.
    #[serde(default)]
    rules: Vec<WireRule>,
    /// What asks by what a tool can do; nothing unless given.
    #[serde(default)]
    autonomy: Option<WireAutonomy>,
    #[serde(default)]
    principles: Option<WirePrinciples>,
    #[serde(default)]
    approvals: WireApprovals,
    #[serde(default)]
    audit: WireAudit,
    #[serde(default)]
    bundles: WireBundles,
    #[serde(default)]
    builtins: WireBuiltins,
    #[serde(default)]
    server: WireServer,
    #[serde(default)]
    limits: WireLimits,
    #[serde(default)]
    telemetry: WireTelemetry,
}

/// How often each tool may be called. A tool may say less of itself, and not more.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WireLimits {
    /// In a minute; as often as anybody likes unless given.
    #[serde(default)]
    calls_per_minute: Option<NonZeroU32>,
    /// At once; 1 024 unless given here or by the tool.
    #[serde(default)]
    calls_at_once: Option<NonZeroU32>,
}

/// What holds for the tools of bundles, which come in through the REST API.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WireBundles {
    /// The only hosts that they may call; none unless given.
    #[serde(default)]
    allowed_hosts: Vec<String>,
    /// The environment variables that `${NAME}` may stand for in them; none unless given.
    #[serde(default)]
    secrets: Vec<String>,
    /// How many there may be; 20 000 unless given.
    #[serde(default)]
    most_tools: Option<u32>,
    /// How many bundles there may be; 1 000 unless given.
    #[serde(default)]
    most_bundles: Option<u32>,
}

/// How people are asked.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WireApprovals {
    /// How long a question, and a yes that nobody uses, is good for: `90s`, `30m`, `24h`, `7d`; `24h` unless given.
    #[serde(default)]
    expire_after: Option<String>,
    /// How many questions of one caller may wait for an answer; 100 unless given.
    #[serde(default)]
    pending_per_caller: Option<u32>,
    /// How many may wait in all; 1 000 unless given.
    #[serde(default)]
    pending: Option<u32>,
    /// Which MCP clients are trusted to ask their own users; `stdio` unless given.
    #[serde(default)]
    elicitation: Option<WireElicitation>,
}

/// How calls are recorded.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WireAudit {
    /// A journal that would grow beyond this gets a number, and the next one is begun; 67 108 864 unless given, 4 096 at least.
    #[serde(default)]
    rotate_bytes: Option<u64>,
    /// When events are forced to disk; `soon` unless given.
    #[serde(default)]
    fsync: Option<WireFsync>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum WireElicitation {
    /// Every client that can show forms asks its user.
    Allow,
    /// Only clients over standard input and output do; those that come over HTTP do not.
    Stdio,
    /// Clients are not asked; somebody answers elsewhere.
    Off,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum WireFsync {
    /// A moment later, many at once.
    Soon,
    /// Before the call goes on.
    Always,
}

/// How tools are shown to MCP clients.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WireMcp {
    /// Whether clients are shown every tool, or only the tools to find and call them with; `auto` unless given.
    #[serde(default)]
    exposure: Option<WireExposure>,
    /// How many tokens of definitions `auto` may show, about; 8 000 unless given.
    #[serde(default)]
    budget_tokens: Option<u32>,
    /// Larger results are given in part, and wholly by handle; 65 536 unless given, 1 024 at least.
    #[serde(default)]
    result_bytes: Option<u32>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum WireExposure {
    /// Every tool.
    Direct,
    /// Only the meta tools.
    Search,
    /// Every tool while the definitions fit the budget.
    Auto,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum WireSandbox {
    /// Do not run the tool.
    Required,
    /// Run it with the layers there are, and say which are not.
    BestEffort,
    /// Run it unconfined, and say so.
    Off,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Security {
    /// The most that tools made by agents may ask for; nothing unless given.
    #[serde(default)]
    max_permissions: MaxPermissions,
    #[serde(default)]
    agent_tools: WireAgentTools,
}

/// How many tools agents may make.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WireAgentTools {
    /// How many one agent may make in a minute; 10 unless given.
    #[serde(default)]
    per_minute: Option<u32>,
    /// How many there may be of all agents; 200 unless given.
    #[serde(default)]
    total: Option<u32>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MaxPermissions {
    #[serde(default)]
    network: Option<WireNetwork>,
    #[serde(default)]
    fs: Fs,
    /// Names of secrets.
    #[serde(default)]
    secrets: Vec<String>,
}

/// Paths from the project's root, or absolute ones.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fs {
    #[serde(default)]
    read: Vec<String>,
    #[serde(default)]
    write: Vec<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Http {
    /// When given, the only hosts that http tools may call, whatever their own permissions say.
    #[serde(default)]
    allowed_hosts: Option<Vec<String>>,
}
