//! The documents of bundles as they are written: by clients, and on disk.

use std::fmt;
use std::num::NonZeroU32;

use glee_core::slug;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A bundle, as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StoredBundle {
    pub schema_version: String,
    #[serde(rename = "bundleID")]
    pub bundle_id: String,
    pub slug: String,
    #[serde(default)]
    pub display_name: String,
    #[serde(default)]
    pub description: String,
    pub is_enabled: bool,
    pub created_at: String,
    pub modified_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_deleted_at: Option<String>,
    /// By a clock that nobody can set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_deleted_boot: Option<Uptime>,
}

/// How long the machine had been up, since which start.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Uptime {
    pub boot: String,
    pub seconds: u64,
}

/// A tool, as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StoredTool {
    pub schema_version: String,
    #[serde(rename = "toolID")]
    pub tool_id: String,
    #[serde(rename = "bundleID")]
    pub bundle_id: String,
    pub slug: String,
    pub version: String,
    #[serde(default)]
    pub display_name: String,
    #[serde(default)]
    pub description: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(rename = "type")]
    pub kind: Kind,
    pub is_enabled: bool,
    /// Others write it, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_built_in: Option<bool>,
    pub arg_schema: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    #[serde(rename = "impl")]
    pub how: Map<String, Value>,
    pub created_at: String,
    pub modified_at: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A function of this program
    Go,
    /// A request that glee makes
    Http,
}

/// What a client says of a bundle.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "BundleBody")]
pub struct PutBundle {
    /// Letters, digits and `-`, at most 64 of them
    #[schemars(length(max = 64), extend("pattern" = slug::SLUG))]
    pub slug: String,
    #[serde(default)]
    #[schemars(length(max = 256))]
    pub display_name: String,
    #[serde(default)]
    #[schemars(length(max = 4096))]
    pub description: String,
    #[serde(default = "yes")]
    pub is_enabled: bool,
    // As in `PutTool`: what else stands in a document that somebody got from here.
    #[serde(default, rename = "bundleID")]
    #[schemars(extend("readOnly" = true))]
    pub bundle_id: Option<String>,
    #[serde(default, rename = "schemaVersion")]
    #[schemars(extend("readOnly" = true))]
    pub _schema_version: Option<String>,
    #[serde(default, rename = "isBuiltIn")]
    #[schemars(extend("readOnly" = true))]
    pub _is_built_in: Option<bool>,
    #[serde(default, rename = "createdAt")]
    #[schemars(extend("readOnly" = true))]
    pub _created_at: Option<String>,
    #[serde(default, rename = "modifiedAt")]
    #[schemars(extend("readOnly" = true))]
    pub _modified_at: Option<String>,
    #[serde(default, rename = "softDeletedAt")]
    #[schemars(extend("readOnly" = true))]
    pub _soft_deleted_at: Option<String>,
}

/// What a client says of a tool.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ToolBody")]
pub struct PutTool {
    #[serde(default)]
    #[schemars(length(max = 256))]
    pub display_name: String,
    #[serde(default)]
    #[schemars(length(max = 16384))]
    pub description: String,
    #[serde(default, deserialize_with = "one_too_many_at_most")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 64)))]
    pub tags: Vec<String>,
    #[serde(rename = "type")]
    pub kind: Kind,
    #[serde(default = "yes")]
    pub is_enabled: bool,
    /// A JSON Schema (2020-12) whose root is an object
    #[serde(default = "no_arguments")]
    #[schemars(with = "Map<String, Value>")]
    pub arg_schema: Value,
    /// A JSON Schema (2020-12) that the output is held to
    #[serde(default)]
    pub output_schema: Option<Value>,
    /// How it runs: of an `http` tool the request, of a `go` tool the function
    #[serde(rename = "impl")]
    #[schemars(with = "How")]
    pub how: Map<String, Value>,
    // What else stands in a document that somebody got from here and sends back. It says nothing new: the
    // path says which tool it is, and the rest is not the client's to say.
    #[serde(default, rename = "bundleID")]
    #[schemars(extend("readOnly" = true))]
    pub bundle_id: Option<String>,
    #[serde(default)]
    #[schemars(extend("readOnly" = true))]
    pub slug: Option<String>,
    #[serde(default)]
    #[schemars(extend("readOnly" = true))]
    pub version: Option<String>,
    #[serde(default, rename = "toolID")]
    #[schemars(extend("readOnly" = true))]
    pub _tool_id: Option<String>,
    #[serde(default, rename = "schemaVersion")]
    #[schemars(extend("readOnly" = true))]
    pub _schema_version: Option<String>,
    #[serde(default, rename = "isBuiltIn")]
    #[schemars(extend("readOnly" = true))]
    pub _is_built_in: Option<bool>,
    #[serde(default, rename = "createdAt")]
    #[schemars(extend("readOnly" = true))]
    pub _created_at: Option<String>,
    #[serde(default, rename = "modifiedAt")]
    #[schemars(extend("readOnly" = true))]
    pub _modified_at: Option<String>,
    #[serde(default, rename = "name")]
    #[schemars(extend("readOnly" = true))]
    pub _name: Option<String>,
    #[serde(default, rename = "disabledReason")]
    #[schemars(extend("readOnly" = true))]
    pub _disabled_reason: Option<String>,
    #[serde(default, rename = "usage")]
    #[schemars(extend("readOnly" = true))]
    pub _usage: Option<Map<String, Value>>,
}

fn yes() -> bool {
    true
}

fn no_arguments() -> Value {
    serde_json::json!({"type": "object", "additionalProperties": false})
}

/// Only for the published schema: which of the two it is, `type` says.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "its schema is all that is wanted of it")]
enum How {
    Http(Http),
    Go(Go),
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Go {
    /// The name that the function is registered under
    pub(super) go_func: String,
    /// How often it may be called in a minute; as often as the project allows unless given
    #[serde(default)]
    pub(super) max_calls_per_minute: Option<NonZeroU32>,
    /// How many of its calls may run at once; as many as the project allows unless given
    #[serde(default)]
    pub(super) max_concurrent_calls: Option<NonZeroU32>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Http {
    #[serde(default)]
    pub(super) method: Method,
    /// Begins with `http://` or `https://`; `${x}` is an argument or a secret of the project
    pub(super) url_template: String,
    #[serde(default)]
    pub(super) headers: IndexMap<String, String>,
    #[serde(default)]
    pub(super) body_template: String,
    /// Any 2xx unless given
    #[serde(default)]
    #[schemars(inner(range(min = 100, max = 599)))]
    pub(super) success_codes: Vec<u16>,
    #[serde(default)]
    #[schemars(range(min = 1, max = 3_600_000))]
    pub(super) timeout_ms: Option<u64>,
    #[serde(default)]
    pub(super) response_encoding: Encoding,
    /// What of the response is kept: a JSONPath when it begins with `$`, else a regular expression, of
    /// which the first group is taken, or the whole match
    #[serde(default)]
    pub(super) extract_expr: String,
    /// What happens when the service fails: the call does too, or there is an empty result
    #[serde(default)]
    pub(super) error_mode: ErrorMode,
    /// How often it may be called in a minute; as often as the project allows unless given
    #[serde(default)]
    pub(super) max_calls_per_minute: Option<NonZeroU32>,
    /// How many of its calls may run at once; as many as the project allows unless given
    #[serde(default)]
    pub(super) max_concurrent_calls: Option<NonZeroU32>,
    /// Largest body that is sent
    #[serde(default)]
    pub(super) max_sent_bytes: Option<NonZeroU32>,
    /// What is kept of a response at most; 5 MiB unless given, and never more than 64
    #[serde(default)]
    pub(super) max_response_bytes: Option<NonZeroU32>,
    /// How often a request that failed is sent again, where that does no harm; 2 unless given, 10 at most
    #[serde(default)]
    #[schemars(range(max = 10))]
    pub(super) max_retries: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Method {
    #[default]
    Get,
    Post,
    Put,
    Patch,
    Delete,
    Head,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Encoding {
    #[default]
    Json,
    Text,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ErrorMode {
    #[default]
    Fail,
    Empty,
}

pub const MOST_TAGS: usize = 32;

/// No more than it takes to see that there are too many.
fn one_too_many_at_most<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    struct Tags;

    impl<'de> Visitor<'de> for Tags {
        type Value = Vec<String>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("a sequence")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Vec<String>, A::Error> {
            let mut tags = Vec::new();
            while let Some(tag) = from.next_element()? {
                if tags.len() <= MOST_TAGS {
                    tags.push(tag);
                }
            }
            Ok(tags)
        }
    }

    from.deserialize_seq(Tags)
}
