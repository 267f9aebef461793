//! How documents write what is asked of the caller: `elicit`, a list of rounds.

use glee_core::elicit::{Request, Round};
use glee_core::name::RESERVED_PREFIX;
use glee_core::schema::escape;
use glee_core::template::{Names, Template, TemplateError};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;

/// Requests that are made together, by key.
pub type WireRound = IndexMap<String, WireRequest>;

/// A form for a person (`message`, `fields`), a text by the caller's model (`sample`, `into`), or the
/// directories the caller works in (`roots: true`, `into`). What is among the arguments already is not
/// asked for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WireRequest {
    /// What the person is told.
    #[serde(default)]
    message: Option<String>,
    /// The inputs to fill in; their schemas make the form.
    #[serde(default)]
    fields: Vec<String>,
    /// What the caller's model is asked.
    #[serde(default)]
    sample: Option<String>,
    /// Most tokens of the model's answer; 1 000 unless given.
    #[serde(default)]
    max_tokens: Option<u32>,
    #[serde(default)]
    roots: bool,
    /// The input that takes the answer.
    #[serde(default)]
    into: Option<String>,
}

/// What is wrong with a request, and where below `/elicit`.
pub enum Wrong {
    Shape(String, String),
    NoInput(String, String),
    Template(String, String, Vec<TemplateError>),
}

/// Turns rounds into the model's. Only inputs may stand in their texts: what is asked is shown to
/// whoever calls.
pub fn read(wire: Vec<WireRound>, names: &Names) -> Result<Vec<Round>, Vec<Wrong>> {
    let names = Names {
        inputs: names.inputs.clone(),
        ..Names::default()
    };
    let mut wrong = Vec::new();
    let mut rounds = Vec::new();
    for (at, requests) in wire.into_iter().enumerate() {
        let mut round = Round::default();
        for (key, request) in requests {
            let pointer = format!("/elicit/{at}/{}", escape(&key));
            if key.starts_with(RESERVED_PREFIX) {
                let why = format!("keys that begin with `{RESERVED_PREFIX}` are glee's own");
                wrong.push(Wrong::Shape(pointer, why));
                continue;
            }
            match one(request, &names, &pointer) {
                Ok(request) => round.0.push((key, request)),
                Err(err) => wrong.push(err),
            }
        }
        rounds.push(round);
    }
    if wrong.is_empty() {
        Ok(rounds)
    } else {
        Err(wrong)
    }
}

fn one(wire: WireRequest, names: &Names, pointer: &str) -> Result<Request, Wrong> {
    let template = |key: &str, text: String| {
        Template::parse(&text, names)
            .map_err(|errors| Wrong::Template(format!("{pointer}/{key}"), text, errors))
    };
    let request = match wire {
        WireRequest {
            message: Some(message),
            fields,
            sample: None,
            max_tokens: None,
            roots: false,
            into: None,
        } if !fields.is_empty() => Request::Form {
            message: template("message", message)?,
            fields,
        },
        WireRequest {
            message: None,
            fields,
            sample: Some(prompt),
            max_tokens,
            roots: false,
            into: Some(into),
        } if fields.is_empty() => Request::Sample {
            prompt: template("sample", prompt)?,
            max_tokens: max_tokens.unwrap_or(1000),
            into,
        },
        WireRequest {
            message: None,
            fields,
            sample: None,
            max_tokens: None,
            roots: true,
            into: Some(into),
        } if fields.is_empty() => Request::Roots { into },
        _ => {
            return Err(Wrong::Shape(
                pointer.to_owned(),
                "write `message` and `fields`, or `sample` and `into`, or `roots: true` and `into`"
                    .to_owned(),
            ));
        }
    };
    let stranger = request
        .fills()
        .iter()
        .enumerate()
        .find(|(_, name)| !names.inputs.contains(*name));
    match stranger {
        None => Ok(request),
        Some((at, name)) => {
            let place = match &request {
                Request::Form { .. } => format!("{pointer}/fields/{at}"),
                Request::Sample { .. } | Request::Roots { .. } => format!("{pointer}/into"),
            };
            Err(Wrong::NoInput(place, name.clone()))
        }
    }
}
