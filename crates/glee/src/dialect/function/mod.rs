//! Tools as the functions of a model's provider: how they are listed, how a call comes, and how it is
//! answered.

mod call;
mod fit;
mod fold;
mod kind;
mod plain;
mod tongue;
mod undo;

use glee_core::model::ToolSpec;
use glee_core::name::{self, visible};
use serde_json::{Map, Value, json};

pub use call::{Ask, Asks, read, write};
pub use fit::Loss;
use fit::{Told, fit};
use tongue::Tongue;

/// Longest description of a function that OpenAI takes, in characters.
const LONGEST_DESCRIPTION: usize = 1024;
/// Most functions that one request to OpenAI may list.
const MOST_FUNCTIONS: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Chat Completions.
    OpenAi,
    OpenAiResponses,
    Anthropic,
    Gemini,
    /// Called as OpenAI does, answered as `{tool_call_id, output, success, error?}`.
    ToolResult,
}

impl Format {
    pub const ALL: [Format; 5] = [
        Format::OpenAi,
        Format::OpenAiResponses,
        Format::Anthropic,
        Format::Gemini,
        Format::ToolResult,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Format::OpenAi => "openai",
            Format::OpenAiResponses => "openai-responses",
            Format::Anthropic => "anthropic",
            Format::Gemini => "gemini",
            Format::ToolResult => "tool-result",
        }
    }

    pub fn named(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Nothing where schemas are told as they are.
    fn tongue(self, strict: bool) -> Option<&'static Tongue> {
        match self {
            Format::Gemini => Some(&tongue::GEMINI),
            Format::OpenAi | Format::OpenAiResponses | Format::ToolResult => {
                strict.then_some(&tongue::OPENAI)
            }
            Format::Anthropic => strict.then_some(&tongue::ANTHROPIC),
        }
    }
}

/// What goes into a request as `tools`, and what was lost on the way.
pub struct Export {
    pub tools: Value,
    pub report: Vec<Remark>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The tool's own name; nothing for what is true of the whole list.
    pub tool: Option<String>,
    /// JSON pointer into its arguments.
    pub at: String,
    pub what: String,
}

/// The names that models call these tools by, in order.
pub fn names(format: Format, specs: &[&ToolSpec]) -> Vec<String> {
    let own = specs.iter().map(|it| it.name.as_str());
    match format {
        // There a name begins with a letter or `_`.
        Format::Gemini => name::for_models_by_letter(own),
        _ => name::for_models(own),
    }
}

/// One tool that cannot be told is left out; it never breaks the others. Each comes with the name that it
/// has among all tools there are.
pub fn export(format: Format, strict: bool, tools: &[(&ToolSpec, String)]) -> Export {
    let mut report = Vec::new();
    let mut functions = Vec::new();
    let mut room = Room::default();
    for (spec, name) in tools {
        let name = name.clone();
        let mut remark = |at: &str, what: &str| {
            report.push(Remark {
                tool: Some(spec.name.clone()),
                at: at.to_owned(),
                what: what.to_owned(),
            });
        };
        if name != spec.name {
            remark("", &format!("it is called `{name}`"));
        }
        if let Err(err) = spec.inputs.compile() {
            let why = format!("inputs.schema{}: {}", err.pointer, err.reason);
            remark("", &format!("it is left out: it cannot be used: {why}"));
            continue;
        }
        let mut told = told(format, strict, spec);
        if format == Format::Anthropic
            && strict
            && told.not_strict.is_none()
            && let Ok(found) = &told.schema
            && !room.takes(&found.schema)
        {
            // What it is told stays the same: a call is read by that.
            told.not_strict = Some("one request may hold no more that is".to_owned());
        }
        let Told { schema, losses, .. } = match told.schema {
            Ok(told) => told,
            Err(why) => {
                remark("", &format!("it is left out: {why}"));
                continue;
            }
        };
        if let Some(why) = &told.not_strict {
            remark("", &format!("it is not strict: {why}"));
        }
        for Loss { at, what } in &losses {
            remark(at, what);
        }
        let mut words = visible(&spec.description);
        if format.is_openai() && words.chars().count() > LONGEST_DESCRIPTION {
            remark("", "its description is cut");
            words = words
                .chars()
                .take(LONGEST_DESCRIPTION - 1)
                .collect::<String>()
                + "…";
        }
        let strict = strict && told.not_strict.is_none();
        functions.push(function(format, strict, name, words, schema));
    }
    if format.is_openai() && functions.len() > MOST_FUNCTIONS {
        report.push(Remark {
            tool: None,
            at: String::new(),
            what: format!(
                "these are {} functions, and one request may list {MOST_FUNCTIONS}; choose some with --only",
                functions.len()
            ),
        });
    }
    let tools = match format {
        Format::Gemini => json!([{"functionDeclarations": functions}]),
        _ => functions.into(),
    };
    Export { tools, report }
}

/// The arguments of a call, as the tool itself takes them.
pub fn restore(
    format: Format,
    strict: bool,
    spec: &ToolSpec,
    args: Map<String, Value>,
) -> Map<String, Value> {
    let told = format
        .tongue(strict)
        .and_then(|it| fit(spec.inputs.source(), it).ok());
    let Some(told) = told else {
        return args;
    };
    match told.undo.apply(args.into()) {
        Value::Object(args) => args,
        _ => Map::new(),
    }
}

/// What Anthropic takes in one request: so many strict tools, with so many optional arguments and unions.
#[derive(Default)]
struct Room {
    tools: usize,
    optional: usize,
    unions: usize,
}

impl Room {
    fn takes(&mut self, schema: &Map<String, Value>) -> bool {
        let mut with = Room {
            tools: self.tools + 1,
            ..*self
        };
        with.count(&Value::Object(schema.clone()));
        let fits = with.tools <= 20 && with.optional <= 24 && with.unions <= 16;
        if fits {
            *self = with;
        }
        fits
    }

    fn count(&mut self, schema: &Value) {
        let properties = schema["properties"].as_object();
        let required = schema["required"].as_array().map_or(0, Vec::len);
        self.optional += properties.map_or(0, |it| it.len().saturating_sub(required));
        self.unions += usize::from(schema.get("anyOf").is_some() || schema["type"].is_array());
        let inner = properties.into_iter().flat_map(|it| it.values());
        let forms = schema["anyOf"].as_array().into_iter().flatten();
        inner
            .chain(forms)
            .chain(schema.get("items"))
            .for_each(|it| self.count(it));
    }
}

struct Telling {
    schema: Result<Told, String>,
    /// Why it could not be, though it should.
    not_strict: Option<String>,
}

fn told(format: Format, strict: bool, spec: &ToolSpec) -> Telling {
    let source = spec.inputs.source();
    let as_it_is = || plain::told(source, format == Format::Anthropic);
    match format.tongue(strict).map(|it| fit(source, it)) {
        None => Telling {
            schema: as_it_is(),
            not_strict: None,
        },
        Some(Err(why)) if format != Format::Gemini => Telling {
            schema: as_it_is(),
            not_strict: Some(why),
        },
        Some(schema) => Telling {
            schema,
            not_strict: None,
        },
    }
}

impl Format {
    fn is_openai(self) -> bool {
        match self {
            Format::OpenAi | Format::OpenAiResponses | Format::ToolResult => true,
            Format::Anthropic | Format::Gemini => false,
        }
    }
}

fn function(
    format: Format,
    strict: bool,
    name: String,
    description: String,
    schema: Map<String, Value>,
) -> Value {
    match format {
        Format::OpenAi | Format::ToolResult => {
            let mut function =
                json!({"name": name, "description": description, "parameters": schema});
            if strict {
                function["strict"] = true.into();
            }
            json!({"type": "function", "function": function})
        }
        // There it is strict unless it says that it is not.
        Format::OpenAiResponses => json!({
            "type": "function",
            "name": name,
            "description": description,
            "parameters": schema,
            "strict": strict,
        }),
        Format::Anthropic => {
            let mut tool =
                json!({"name": name, "description": description, "input_schema": schema});
            if strict {
                tool["strict"] = true.into();
            }
            tool
        }
        Format::Gemini => {
            let mut function = json!({"name": name, "description": description});
            // An object without properties is refused; no parameters say the same.
            if schema.contains_key("properties") {
                function["parameters"] = schema.into();
            }
            function
        }
    }
}
