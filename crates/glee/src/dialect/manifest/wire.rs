//! A manifest as it is written. These structs are the published schema; nothing else reads them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

use super::super::condition::WireTests;
use super::super::elicit::WireRound;
use super::super::network::WireNetwork;

/// A tool of glee: `.glee/tools/<name>/tool.yml`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "glee tool manifest")]
pub(super) struct Manifest {
    /// The tool's name: the same as its directory's.
    pub(super) name: String,
    /// A name for people.
    #[serde(default)]
    pub(super) title: Option<String>,
    /// What the tool does, for the agent that must decide whether to use it.
    pub(super) description: String,
    /// How the tool runs; `exec` holds the block of the same name.
    pub(super) kind: Kind,
    /// Counts up when the tool changes.
    pub(super) version: Bounded<1, { u64::MAX }>,
    /// Words to find the tool by.
    #[serde(default)]
    pub(super) tags: Vec<String>,
    /// Which agent made the tool; glee writes this, and such tools are held to `security.max_permissions`.
    #[serde(default)]
    pub(super) creator: Option<String>,
    pub(super) inputs: Inputs,
    /// What is asked of the caller when it is not among the arguments, round by round.
    #[serde(default)]
    pub(super) elicit: Vec<WireRound>,
    pub(super) outputs: Outputs,
    pub(super) exec: Exec,
    pub(super) permissions: Permissions,
    pub(super) approval: Approval,
    /// Calls that show how to use the tool; `glee test` runs them.
    #[serde(default)]
    pub(super) examples: Vec<Example>,
    #[serde(default)]
    pub(super) limits: Limits,
    #[serde(default)]
    pub(super) annotations: Annotations,
    /// Whether a call may go on in the background while its caller comes back for the answer.
    #[serde(default)]
    pub(super) task: Task,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum Task {
    #[default]
    Never,
    Supported,
    Required,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum Kind {
    Http,
    Command,
    Python,
}

/// What the tool takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Inputs {
    /// JSON Schema 2020-12; its root is an object, and each property has a type and a description.
    pub(super) schema: IndexMap<String, Value>,
}

/// What the tool gives back.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Outputs {
    pub(super) format: Format,
    /// JSON Schema 2020-12. An output that breaks it is returned with a warning.
    #[serde(default)]
    pub(super) schema: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum Format {
    Json,
    Text,
    /// `{"content": [blocks], "structured": {…}}`: pictures, sound, documents.
    Content,
}

/// How the tool runs: exactly the block of its `kind`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Exec {
    #[serde(default)]
    pub(super) http: Option<Http>,
    #[serde(default)]
    pub(super) command: Option<Command>,
    #[serde(default)]
    pub(super) python: Option<Python>,
}

/// glee makes this request. `${name}` takes an argument or a declared secret.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Http {
    pub(super) method: Method,
    /// An argument in the path fills one segment; it cannot change the host.
    pub(super) url: String,
    #[serde(default)]
    pub(super) headers: IndexMap<String, String>,
    /// A list repeats its key; what is absent is left out.
    #[serde(default)]
    pub(super) query: IndexMap<String, Value>,
    /// A map, list, number or boolean is sent as JSON, a text as it is.
    #[serde(default)]
    pub(super) body: Option<Value>,
    #[serde(default)]
    pub(super) auth: Option<Auth>,
    /// For the whole call, retries included; 10 000 unless given.
    #[serde(default)]
    pub(super) timeout_ms: Option<Bounded<1, 3_600_000>>,
    /// Any 2xx unless given.
    #[serde(default)]
    pub(super) success_codes: Vec<Bounded<100, 599>>,
    #[serde(default)]
    pub(super) retry: Option<Retry>,
    #[serde(default)]
    pub(super) redirects: Option<Redirects>,
    #[serde(default)]
    pub(super) response: Option<Response>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(inline)]
pub(super) enum Method {
    Get,
    Post,
    Put,
    Patch,
    Delete,
    Head,
}

/// Sends a failed request again: after 429, 502, 503, 504 or a failed connection. POST and PATCH only
/// when `annotations.idempotent` says that this is harmless.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Retry {
    pub(super) times: Bounded<0, 10>,
    /// Before the first retry; doubles with each further one.
    #[serde(default)]
    pub(super) pause_ms: Option<Bounded<1, 60_000>>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum Redirects {
    Refuse,
    Follow,
}

/// Credentials for the request: exactly one of these.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Auth {
    #[serde(default)]
    pub(super) bearer: Option<Bearer>,
    #[serde(default)]
    pub(super) basic: Option<Basic>,
    #[serde(default)]
    pub(super) api_key: Option<ApiKey>,
    #[serde(default)]
    pub(super) hmac: Option<Hmac>,
    #[serde(default)]
    pub(super) oauth2: Option<OAuth2>,
}

/// `Authorization: Bearer <token>`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Bearer {
    pub(super) token: String,
}

/// `Authorization: Basic …`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Basic {
    pub(super) username: String,
    pub(super) password: String,
}

/// A key in a header or in the query.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ApiKey {
    #[serde(rename = "in")]
    pub(super) place: KeyPlace,
    pub(super) name: String,
    pub(super) value: String,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum KeyPlace {
    Header,
    Query,
}

/// HMAC-SHA256 in hex over `METHOD\npath?query\ntimestamp\nsha256(body)`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Hmac {
    pub(super) secret: String,
    /// The header that carries the signature; `X-Signature` unless given.
    #[serde(default)]
    pub(super) header: Option<String>,
    /// The header that carries the Unix time; `X-Timestamp` unless given.
    #[serde(default)]
    pub(super) timestamp_header: Option<String>,
}

/// A bearer token fetched from `token_url` and kept until it expires; with `refresh_token` by that
/// grant, otherwise by client credentials.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OAuth2 {
    pub(super) token_url: String,
    pub(super) client_id: String,
    #[serde(default)]
    pub(super) client_secret: Option<String>,
    #[serde(default)]
    pub(super) refresh_token: Option<String>,
    #[serde(default)]
    pub(super) scope: Option<String>,
}

/// What of the response is the result.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Response {
    /// A dotted path (`web.results`, `items[0].name`) or, when it starts with `$`, RFC 9535 JSONPath.
    #[serde(default)]
    pub(super) json_path: Option<String>,
    /// Which fields to keep, of the object or of each object in the list.
    #[serde(default)]
    pub(super) fields: Vec<Field>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Field {
    /// The name in the result.
    pub(super) name: String,
    /// Where to read it from.
    pub(super) path: String,
}

/// A program and its arguments, never through a shell.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Command {
    /// A path from the project's root (`./scripts/x.sh`), an absolute path, or a program's name.
    pub(super) entrypoint: String,
    /// One word each; a word whose argument is absent is left out.
    #[serde(default)]
    pub(super) args: Vec<String>,
    #[serde(default)]
    pub(super) cwd: Option<String>,
    /// Added to a small clean environment, together with the declared secrets.
    #[serde(default)]
    pub(super) env: IndexMap<String, String>,
    /// What the program reads: a text as it is, anything else as JSON.
    #[serde(default)]
    pub(super) stdin: Option<Value>,
    #[serde(default)]
    pub(super) stdout: Option<Stdout>,
    /// `[0]` unless given.
    #[serde(default)]
    pub(super) exit_codes_ok: Option<Vec<Bounded<0, 255>>>,
    /// 30 000 unless given.
    #[serde(default)]
    pub(super) timeout_ms: Option<Bounded<1, 3_600_000>>,
    /// Lets an argument that fills a whole word start with `-`. Otherwise it is refused unless an
    /// earlier word is `--`, because the program would take it for an option.
    #[serde(default)]
    pub(super) allow_dash: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Stdout {
    pub(super) format: Format,
}

/// A Python function.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Python {
    /// Found from `cwd`, then in the virtual environment.
    pub(super) module: String,
    pub(super) function: String,
    #[serde(default)]
    pub(super) args: Vec<Value>,
    #[serde(default)]
    pub(super) kwargs: IndexMap<String, Value>,
    /// A virtual environment's directory; the system's python3 unless given.
    #[serde(default)]
    pub(super) venv: Option<String>,
    #[serde(default)]
    pub(super) cwd: Option<String>,
    #[serde(default)]
    pub(super) env: IndexMap<String, String>,
    /// How the return value is given back; as `outputs.format` unless given.
    #[serde(default, rename = "return")]
    pub(super) returns: Option<Format>,
    /// 30 000 unless given.
    #[serde(default)]
    pub(super) timeout_ms: Option<Bounded<1, 3_600_000>>,
}

/// What the tool may touch; everything else is out of its reach.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Permissions {
    #[serde(default)]
    pub(super) network: Option<WireNetwork>,
    #[serde(default)]
    pub(super) fs: Option<Fs>,
    /// Environment variables handed over, by name.
    #[serde(default)]
    pub(super) secrets: BTreeMap<String, Secret>,
}

/// Paths from the project's root, or absolute ones.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Fs {
    #[serde(default)]
    pub(super) read: Vec<String>,
    #[serde(default)]
    pub(super) write: Vec<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Secret {
    #[serde(rename = "type")]
    #[expect(dead_code, reason = "the schema demands it; there is only one type")]
    pub(super) kind: SecretKind,
    /// Without it the tool does not run; `true` unless given.
    #[serde(default = "yes")]
    pub(super) required: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum SecretKind {
    String,
}

/// Whether a person must agree before each run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Approval {
    pub(super) required: bool,
    /// What the person is told; needed when `required` is true.
    #[serde(default)]
    pub(super) reason: Option<String>,
    /// When only some calls need it: what must hold of them. What cannot be told asks.
    #[serde(default)]
    pub(super) when: Option<ApprovalWhen>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ApprovalWhen {
    /// Arguments by name (`a.b` for one inside another), and what they must be; all of it.
    pub(super) arguments: WireTests,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Example {
    #[serde(default)]
    pub(super) description: String,
    #[serde(default)]
    pub(super) params: IndexMap<String, Value>,
    /// JSON, with `"..."` for any value and `...` for further ones; or text, with a line `...` for
    /// any lines.
    #[serde(default)]
    pub(super) expected_output: Option<Value>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Limits {
    /// Kept of stdout and stderr (1 MiB unless given) or of an HTTP body (5 MiB unless given).
    #[serde(default)]
    pub(super) output_bytes: Option<Bounded<1, 67_108_864>>,
    /// Processor time of the whole process tree; only the deadline limits it unless given.
    #[serde(default)]
    pub(super) cpu_ms: Option<Bounded<1, 3_600_000>>,
    /// Memory of the whole process tree; 1 GiB unless given.
    #[serde(default)]
    pub(super) memory_bytes: Option<Bounded<1_048_576, { u64::MAX }>>,
    /// Processes and threads of the whole tree; 128 unless given.
    #[serde(default)]
    pub(super) processes: Option<Bounded<1, 32_768>>,
    /// Open files of each process; 1 024 unless given.
    #[serde(default)]
    pub(super) open_files: Option<Bounded<16, 1_048_576>>,
    /// Largest file that may be written; 1 GiB unless given.
    #[serde(default)]
    pub(super) file_bytes: Option<u64>,
    /// Size of the private scratch directory; 64 MiB unless given.
    #[serde(default)]
    pub(super) scratch_bytes: Option<Bounded<65_536, { u64::MAX }>>,
    /// How often it may be called in a minute; as often as anybody likes unless given here or in the config.
    #[serde(default)]
    pub(super) calls_per_minute: Option<Bounded<1, 100_000>>,
    /// How many of its calls may run at once; 1 024 unless given here or in the config.
    #[serde(default)]
    pub(super) calls_at_once: Option<Bounded<1, 1024>>,
}

/// What the tool does to the world, as hints for clients; they grant nothing.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Annotations {
    #[serde(default)]
    pub(super) read_only: Option<bool>,
    #[serde(default)]
    pub(super) destructive: Option<bool>,
    #[serde(default)]
    pub(super) idempotent: Option<bool>,
}

/// A whole number within bounds. Serde and the schema both know them, so that what deserialises is
/// what the schema accepts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounded<const MIN: u64, const MAX: u64>(pub(super) u64);

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Bounded<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = u64::deserialize(deserializer)?;
        match (MIN..=MAX).contains(&value) {
            true => Ok(Bounded(value)),
            false => Err(de::Error::custom(format_args!(
                "{value} is not within {MIN} and {MAX}"
            ))),
        }
    }
}

impl<const MIN: u64, const MAX: u64> JsonSchema for Bounded<MIN, MAX> {
    fn schema_name() -> Cow<'static, str> {
        format!("Bounded_{MIN}_{MAX}").into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        match MAX {
            u64::MAX => json_schema!({"type": "integer", "minimum": MIN}),
            _ => json_schema!({"type": "integer", "minimum": MIN, "maximum": MAX}),
        }
    }
}

fn yes() -> bool {
    true
}
