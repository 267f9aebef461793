//! What a tool is, whatever document it was read from.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use regex::Regex;
use serde_json::{Map, Value};

use crate::elicit::Round;
use crate::json_path::JsonPath;
use crate::outcome::Failure;
use crate::permission::Permissions;
use crate::port::Function;
use crate::rule::condition::Condition;
use crate::schema::Schema;
use crate::template::{Template, ValueTemplate};
use crate::turn::Calls;
use crate::url_template::UrlTemplate;

#[derive(Clone, Debug)]
pub struct ToolSpec {
    pub name: String,
    pub version: String,
    pub title: Option<String>,
    pub description: String,
    pub tags: Vec<String>,
    pub inputs: Schema,
    /// What is asked of the caller when it is not among the arguments.
    pub elicit: Vec<Round>,
    pub outputs: Outputs,
    pub exec: Exec,
    pub permissions: Permissions,
    pub approval: Approval,
    pub annotations: Annotations,
    pub limits: Limits,
    pub tasks: Tasks,
    pub examples: Vec<Example>,
    pub origin: Origin,
    /// The document the tool was read from; empty when it was not read from any.
    pub source: PathBuf,
    /// The SHA-256 of that document as it was read, or of what stands for it.
    pub document: [u8; 32],
}

impl ToolSpec {
    /// The directory that is the tool's own, with all that lies in it. A tool of a bundle is one document
    /// among others and has none.
    pub fn directory(&self) -> Option<&Path> {
        match self.is_of_bundle() {
            true => None,
            false => self.source.parent(),
        }
    }

    pub fn is_of_bundle(&self) -> bool {
        self.source.extension().is_some_and(|it| it == "json")
    }
}

/// How a tool runs. A closed set: one `match` dispatches, and a new kind does not compile until
/// every place has answered.
#[derive(Clone, Debug)]
pub enum Exec {
    Http(Box<Http>),
    Command(Command),
    Python(Python),
    Native(Native),
}

/// A function of the program itself.
#[derive(Clone)]
pub struct Native {
    pub function: Arc<dyn Function>,
    pub needs: Needs,
}

/// What a function needs, in the words of `ALLOWED_TOOL_PERMS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// What its permissions tell, and these.
    More(&'static [&'static str]),
    /// These, whatever its permissions are.
    Exactly(&'static [&'static str]),
}

impl fmt::Debug for Native {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Native")
    }
}

impl Exec {
    pub fn kind(&self) -> &'static str {
        match self {
            Exec::Http(_) => "http",
            Exec::Command(_) => "command",
            Exec::Python(_) => "python",
            Exec::Native(_) => "native",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Http {
    pub method: Method,
    pub url: UrlTemplate,
    pub headers: Vec<(String, Template)>,
    pub query: Vec<(String, ValueTemplate)>,
    pub body: Option<ValueTemplate>,
    pub auth: Option<Auth>,
    /// Empty means any 2xx.
    pub success_codes: Vec<u16>,
    pub retry: Retry,
    pub redirects: Redirects,
}

/// Headers no tool may set, in lower case. They say where a request ends and who reads it; a value
/// from an argument could smuggle a second request or reach another host than the one that was judged.
pub const OWN_HEADERS: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
    Put,
    Patch,
    Delete,
    Head,
}

impl Method {
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
            Method::Head => "HEAD",
        }
    }

    /// Whether sending the request twice does what sending it once does.
    pub fn is_idempotent(self) -> bool {
        !matches!(self, Method::Post | Method::Patch)
    }
}

#[derive(Clone, Debug)]
pub enum Auth {
    Bearer {
        token: Template,
    },
    Basic {
        username: Template,
        password: Template,
    },
    ApiKey {
        place: KeyPlace,
        name: String,
        value: Template,
    },
    /// HMAC-SHA256 over method, path with query, timestamp and body.
    Hmac {
        secret: Template,
        header: String,
        timestamp_header: String,
    },
    OAuth2 {
        token_url: UrlTemplate,
        grant: OAuthGrant,
        client_id: Template,
        client_secret: Option<Template>,
        scope: Option<String>,
    },
}

impl Auth {
    pub fn templates(&self) -> Vec<&Template> {
        match self {
            Auth::Bearer { token } => vec![token],
            Auth::Basic { username, password } => vec![username, password],
            Auth::ApiKey { value, .. } => vec![value],
            Auth::Hmac { secret, .. } => vec![secret],
            Auth::OAuth2 {
                grant,
                client_id,
                client_secret,
                ..
            } => {
                let refresh = match grant {
                    OAuthGrant::ClientCredentials => None,
                    OAuthGrant::RefreshToken(token) => Some(token),
                };
                std::iter::once(client_id)
                    .chain(client_secret)
                    .chain(refresh)
                    .collect()
            }
        }
    }
}

#[derive(Clone, Debug)]
pub enum OAuthGrant {
    ClientCredentials,
    RefreshToken(Template),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    Header,
    Query,
}

/// How often a failed request is sent again, and how long the first pause is. Later pauses double.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    pub times: u32,
    pub pause: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirects {
    Refuse,
    Follow,
}

#[derive(Clone, Debug)]
pub struct Command {
    /// As written: a path from the project's root, an absolute path, or a bare program name.
    pub entrypoint: String,
    pub args: Vec<Template>,
    pub cwd: String,
    pub env: Vec<(String, Template)>,
    pub stdin: Option<ValueTemplate>,
    pub exit_codes_ok: Vec<i32>,
    pub dashes: Dashes,
}

/// Whether an argument that fills a whole word may look like an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dashes {
    Refuse,
    Allow,
}

#[derive(Clone, Debug)]
pub struct Python {
    pub module: String,
    pub function: String,
    pub args: Vec<ValueTemplate>,
    pub kwargs: Vec<(String, ValueTemplate)>,
    pub venv: Option<String>,
    pub cwd: String,
    pub env: Vec<(String, Template)>,
}

#[derive(Clone, Debug)]
pub struct Outputs {
    pub format: Format,
    pub extract: Option<Extract>,
    pub fields: Vec<Field>,
    pub schema: Option<Schema>,
    pub on_mismatch: OnMismatch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Json,
    Text,
    /// A [`crate::content::Content`], as JSON.
    Content,
}

/// What of an output is kept.
#[derive(Clone, Debug)]
pub enum Extract {
    Path(JsonPath),
    /// The first group of the first match in the text, or the whole match when there is no group.
    Match(Regex),
}

impl fmt::Display for Extract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extract::Path(path) => path.fmt(f),
            Extract::Match(regex) => regex.fmt(f),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Field {
    pub name: String,
    pub path: JsonPath,
}

/// What happens when an output is not what was promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMismatch {
    Warn,
    Fail,
    /// There is no output then, and neither when a service fails: the author can do without.
    Empty,
}

#[derive(Clone, Debug)]
pub enum Approval {
    Never,
    Always {
        reason: String,
    },
    /// Only calls with such arguments ask.
    When {
        reason: String,
        condition: Condition,
    },
    /// The arguments decide.
    Depends(Depends),
}

/// Tells why a person must agree to a call with these arguments; nothing when nobody must. What it
/// cannot tell is asked.
#[derive(Clone)]
pub struct Depends(pub Arc<Asks>);

pub type Asks = dyn Fn(&Map<String, Value>, &Path) -> Result<Option<String>, Failure> + Send + Sync;

impl fmt::Debug for Depends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Depends")
    }
}

impl PartialEq for Depends {
    fn eq(&self, other: &Depends) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Depends {}

/// What the author says about a tool's effects; hints, never a grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
    pub idempotent: Option<bool>,
}

/// Whether a call may go on after its caller was told to come back for the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tasks {
    #[default]
    Never,
    Supported,
    Required,
}

/// How much one call may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub timeout: Duration,
    /// Kept of stdout, of stderr and of an HTTP body, each.
    pub output_bytes: usize,
    /// Of the body of a request that glee makes.
    pub sent_bytes: Option<usize>,
    /// Processor time of the whole tree; only the deadline unless given.
    pub cpu: Option<Duration>,
    /// Bytes of memory of the whole tree.
    pub memory: u64,
    /// Processes and threads of the whole tree.
    pub processes: u32,
    /// Open files of each process.
    pub open_files: u32,
    /// Bytes of the largest file that may be written.
    pub file_size: u64,
    /// Bytes of the private /tmp.
    pub scratch: u64,
    pub calls: Calls,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            timeout: Duration::from_secs(30),
            output_bytes: 1 << 20,
            sent_bytes: None,
            cpu: None,
            memory: 1 << 30,
            processes: 128,
            open_files: 1024,
            file_size: 1 << 30,
            scratch: 64 << 20,
            calls: Calls::default(),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Example {
    pub description: String,
    pub params: Map<String, Value>,
    pub expected: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    BuiltIn,
    User,
    Agent { creator: String, standing: Standing },
}

impl Origin {
    pub fn is_agent(&self) -> bool {
        matches!(self, Origin::Agent { .. })
    }
}

/// What people have decided about a tool that an agent made, as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// Nobody has looked at it, or it has changed since.
    #[default]
    Pending,
    Approved,
    Denied {
        reason: String,
    },
}

impl Standing {
    pub fn name(&self) -> &'static str {
        match self {
            Standing::Pending => "pending",
            Standing::Approved => "approved",
            Standing::Denied { .. } => "denied",
        }
    }
}
