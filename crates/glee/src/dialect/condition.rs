//! How documents write conditions on arguments: `{force: {equals: true}, amount: {more_than: 100}}`.

use glee_core::rule::condition::ArgumentTest;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// Arguments by name (`a.b` for one inside another), and what they must be.
pub type WireTests = IndexMap<String, WireTest>;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WireTest {
    /// Exactly this.
    #[serde(default)]
    equals: Option<Value>,
    /// Exactly one of these.
    #[serde(default)]
    one_of: Option<Vec<Value>>,
    /// The whole text, with `*` and `?`.
    #[serde(default)]
    glob: Option<String>,
    /// A regular expression that is found in the text.
    #[serde(default)]
    regex: Option<String>,
    /// A number above this one.
    #[serde(default)]
    more_than: Option<f64>,
    /// A number below this one.
    #[serde(default)]
    less_than: Option<f64>,
    /// Whether it is given at all.
    #[serde(default)]
    exists: Option<bool>,
}

pub fn tests(wire: WireTests) -> Vec<(String, ArgumentTest)> {
    wire.into_iter()
        .map(|(name, wire)| {
            let test = ArgumentTest {
                equals: wire.equals,
                one_of: wire.one_of,
                glob: wire.glob,
                regex: wire.regex,
                more_than: wire.more_than,
                less_than: wire.less_than,
                exists: wire.exists,
            };
            (name, test)
        })
        .collect()
}
