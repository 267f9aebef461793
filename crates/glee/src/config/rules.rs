//! How the config writes rules, principles and autonomy.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use glee_core::admit::Otherwise;
use glee_core::rule::autonomy::Level;
use glee_core::rule::custom::{CustomRule, Example, Ruling, Written};
use glee_core::rule::defaults;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use url::Url;

use crate::dialect::condition::{self, WireTests};
use crate::dialect::problem::Problem;
use crate::dialect::yaml::Node;

/// A service that is asked before every call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrinciplesService {
    pub url: Url,
    pub timeout: Duration,
    pub otherwise: Otherwise,
}

/// The rules that can be used, in order; each was tried on its own examples.
pub(super) fn rules(
    written: Vec<WireRule>,
    node: &Node,
    problems: &mut Vec<Problem>,
) -> Vec<Arc<CustomRule>> {
    let mut names: BTreeSet<String> = defaults().iter().map(|it| it.name().to_owned()).collect();
    let mut rules = Vec::new();
    for (at, wire) in written.into_iter().enumerate() {
        if !names.insert(wire.name.clone()) {
            let place = node.place_of(&format!("/rules/{at}/name"));
            let message = format!("there is a rule `{}` already", wire.name);
            problems.push(Problem::error("rule", place, message));
        }
        match CustomRule::new(wire.written()) {
            Ok(rule) => rules.push(Arc::new(rule)),
            Err(flaws) => problems.extend(flaws.into_iter().map(|flaw| {
                let place = node.place_of(&format!("/rules/{at}{}", flaw.pointer));
                Problem::error("rule", place, flaw.message)
            })),
        }
    }
    rules
}

pub(super) fn principles(
    wire: WirePrinciples,
    node: &Node,
    problems: &mut Vec<Problem>,
) -> Option<PrinciplesService> {
    let url = match Url::parse(&wire.url) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => url,
        _ => {
            let message = "the principles are asked over http or https";
            problems.push(Problem::error(
                "url",
                node.place_of("/principles/url"),
                message,
            ));
            return None;
        }
    };
    Some(PrinciplesService {
        url,
        timeout: Duration::from_millis(wire.timeout_ms.unwrap_or(2000).max(1).into()),
        otherwise: match wire.on_error {
            None | Some(WireOnError::Deny) => Otherwise::Deny,
            Some(WireOnError::Ask) => Otherwise::Ask,
        },
    })
}

pub(super) fn level(wire: WireAutonomy) -> Level {
    match wire {
        WireAutonomy::Hitl => Level::Hitl,
        WireAutonomy::Supervised => Level::Supervised,
        WireAutonomy::Autonomous => Level::Autonomous,
        WireAutonomy::Yolo => Level::Yolo,
    }
}

/// What is allowed, asked or denied, beside the rules that come with glee. The strictest rule wins.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WireRule {
    /// How the rule is called where it decides.
    name: String,
    /// The tools it is for: names, or patterns with `*`; every tool unless given.
    #[serde(default)]
    tools: Vec<String>,
    /// Texts that no command may hold, as whole words.
    #[serde(default)]
    forbidden_patterns: Vec<String>,
    /// The first words of a command.
    #[serde(default)]
    prefix: Option<Vec<String>>,
    /// What must hold of a call; all of it.
    #[serde(default)]
    when: WireWhen,
    /// What is decided; `deny` unless given, for forbidden patterns only.
    #[serde(default)]
    decision: Option<WireDecision>,
    /// Why, for whoever is denied or asked.
    #[serde(default)]
    reason: Option<String>,
    /// Calls the rule speaks of. A rule whose examples fail is an error.
    #[serde(default, rename = "match")]
    matching: Vec<WireExample>,
    /// Calls it does not speak of.
    #[serde(default)]
    not_match: Vec<WireExample>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WireWhen {
    /// Arguments by name (`a.b` for one inside another), and what they must be.
    #[serde(default)]
    arguments: WireTests,
    /// The call goes to this host: `api.example.com`, `*.example.com`, `10.0.0.0/8`.
    #[serde(default)]
    host: Option<String>,
    /// The call names a path that lies here, or below.
    #[serde(default)]
    path_below: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum WireDecision {
    /// Autonomy does not ask; stricter rules still decide.
    Allow,
    /// A person is asked.
    Ask,
    /// The tool does not run.
    Deny,
}

/// A command line, or the arguments of a call.
#[derive(Debug, JsonSchema)]
#[serde(untagged)]
enum WireExample {
    Line(String),
    Arguments(Map<String, Value>),
}

impl<'de> Deserialize<'de> for WireExample {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WireExample, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(line) => Ok(WireExample::Line(line)),
            Value::Object(arguments) => Ok(WireExample::Arguments(arguments)),
            _ => Err(serde::de::Error::custom(
                "an example is a command line or an object of arguments",
            )),
        }
    }
}

/// A service that is asked before every call, after the rules.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WirePrinciples {
    /// Where it is asked, with POST.
    url: String,
    /// How long it may take; 2 000 unless given.
    #[serde(default)]
    timeout_ms: Option<u32>,
    /// What counts when it gives no answer, or none that can be read; `deny` unless given.
    #[serde(default)]
    on_error: Option<WireOnError>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum WireOnError {
    /// The tool does not run.
    Deny,
    /// A person is asked.
    Ask,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum WireAutonomy {
    /// Every call asks.
    Hitl,
    /// What uses the network, writes or destroys asks.
    Supervised,
    /// What destroys asks.
    Autonomous,
    /// Nothing asks but rules, and tools made by agents.
    Yolo,
}

impl WireRule {
    fn written(self) -> Written {
        let examples = |list: Vec<WireExample>| {
            list.into_iter()
                .map(|it| match it {
                    WireExample::Line(line) => Example::Line(line),
                    WireExample::Arguments(arguments) => Example::Arguments(arguments),
                })
                .collect()
        };
        Written {
            name: self.name,
            tools: self.tools,
            forbidden_patterns: self.forbidden_patterns,
            prefix: self.prefix,
            arguments: condition::tests(self.when.arguments),
            host: self.when.host,
            path_below: self.when.path_below,
            ruling: self.decision.map(|it| match it {
                WireDecision::Allow => Ruling::Allow,
                WireDecision::Ask => Ruling::Ask,
                WireDecision::Deny => Ruling::Deny,
            }),
            reason: self.reason,
            matching: examples(self.matching),
            not_matching: examples(self.not_match),
        }
    }
}
