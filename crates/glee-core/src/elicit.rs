//! What is asked of whoever calls, when it is not among the arguments: in rounds, each of them a few
//! requests that can be answered together.

use serde_json::{Map, Value};

use crate::outcome::{Failure, FailureKind};
use crate::port::{Party, Supply};
use crate::schema::Schema;
use crate::secret::SecretValues;
use crate::template::{Scope, Template};

/// Requests that are made at once, each under its key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Round(pub Vec<(String, Request)>);

#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// A person fills in these inputs.
    Form {
        message: Template,
        fields: Vec<String>,
    },
    /// The caller's model writes the input.
    Sample {
        prompt: Template,
        max_tokens: u32,
        into: String,
    },
    /// The caller names the directories it works in.
    Roots { into: String },
}

impl Request {
    /// The inputs it fills.
    pub fn fills(&self) -> &[String] {
        match self {
            Request::Form { fields, .. } => fields,
            Request::Sample { into, .. } | Request::Roots { into } => std::slice::from_ref(into),
        }
    }
}

/// A request as it is put to the caller.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    pub key: String,
    pub what: Ask,
    /// Whether the call cannot be made without it.
    pub required: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    Form {
        message: String,
        /// JSON Schema of an object: the inputs that are missing.
        schema: Value,
    },
    Sample {
        prompt: String,
        max_tokens: u32,
    },
    Roots,
}

/// Asks, round by round, for what is missing, and puts the answers among the arguments. Nobody is bothered for a call
/// that lacks something else: the check of its arguments says so.
pub async fn elicit(
    rounds: &[Round],
    inputs: &Schema,
    args: &mut Map<String, Value>,
    party: &dyn Party,
) -> Result<(), Failure> {
    if is_hopeless(rounds, inputs, args) {
        return Ok(());
    }
    for round in rounds {
        let asked = missing(round, inputs, args);
        if asked.is_empty() {
            continue;
        }
        match party.supply(&asked).await {
            Supply::Given(answers) => take(round, answers, args),
            Supply::Declined { key } => {
                return Err(Failure::new(
                    FailureKind::InvalidInput,
                    format!("`{key}` was asked for, and nobody wanted to answer"),
                ));
            }
            // What cannot be asked for may be optional; the arguments are checked as they are.
            Supply::Nobody => return Ok(()),
        }
    }
    Ok(())
}

/// Whether an input is required that is neither there nor asked for, and has no default.
fn is_hopeless(rounds: &[Round], inputs: &Schema, args: &Map<String, Value>) -> bool {
    let requests = rounds.iter().flat_map(|it| &it.0).map(|it| &it.1);
    inputs.properties().any(|(name, schema)| {
        inputs.requires(name)
            && schema.get("default").is_none()
            && !args.contains_key(name)
            && !requests.clone().any(|it| it.fills().contains(name))
    })
}

fn missing(round: &Round, inputs: &Schema, args: &Map<String, Value>) -> Vec<Asked> {
    let secrets = SecretValues::default();
    let scope = Scope::new(args, &secrets);
    let text = |template: &Template| template.text(&scope).ok().flatten().unwrap_or_default();
    let absent = |name: &String| !args.contains_key(name);
    round
        .0
        .iter()
        .filter(|(_, request)| request.fills().iter().any(absent))
        .map(|(key, request)| Asked {
            key: key.clone(),
            required: request
                .fills()
                .iter()
                .any(|it| absent(it) && inputs.requires(it)),
            what: match request {
                Request::Form { message, fields } => Ask::Form {
                    message: text(message),
                    schema: form(inputs, fields.iter().filter(|it| absent(it))),
                },
                Request::Sample {
                    prompt, max_tokens, ..
                } => Ask::Sample {
                    prompt: text(prompt),
                    max_tokens: *max_tokens,
                },
                Request::Roots { .. } => Ask::Roots,
            },
        })
        .collect()
}

fn form<'a>(inputs: &Schema, fields: impl Iterator<Item = &'a String> + Clone) -> Value {
    let properties: Map<String, Value> = inputs
        .properties()
        .filter(|(name, _)| fields.clone().any(|it| it == *name))
        .map(|(name, schema)| (name.clone(), schema.clone()))
        .collect();
    let required: Vec<&String> = fields.filter(|it| inputs.requires(it)).collect();
    serde_json::json!({"type": "object", "properties": properties, "required": required})
}

/// Only what was asked for is taken, and never over an argument that is there.
fn take(round: &Round, mut answers: Map<String, Value>, args: &mut Map<String, Value>) {
    for (key, request) in &round.0 {
        let Some(answer) = answers.remove(key) else {
            continue;
        };
        match (request, answer) {
            (Request::Form { fields, .. }, Value::Object(mut given)) => {
                for field in fields {
                    if let Some(value) = given.remove(field) {
                        args.entry(field.clone()).or_insert(value);
                    }
                }
            }
            (Request::Form { .. }, _) => {}
            (Request::Sample { into, .. } | Request::Roots { into }, answer) => {
                args.entry(into.clone()).or_insert(answer);
            }
        }
    }
}
