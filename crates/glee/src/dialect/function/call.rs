//! Calls as models make them, and answers as they read them.

use glee_core::content::{Block, Content};
use glee_core::json;
use glee_core::outcome::{Outcome, Output};
use serde_json::{Map, Value, json};

use super::Format;

/// One call.
pub struct Ask {
    /// By which the answer is told from others.
    pub id: Option<String>,
    /// As the model calls the tool.
    pub name: String,
    /// What is wrong with the arguments is for the model to know.
    pub args: Result<Map<String, Value>, String>,
}

pub struct Asks {
    pub calls: Vec<Ask>,
    /// A single call is answered with a single answer.
    pub is_list: bool,
}

/// A call, a list of calls, or the model's whole message. What is not a call is passed over in a list.
pub fn read(format: Format, body: &Value) -> Result<Asks, String> {
    let inside = match format {
        Format::OpenAi | Format::ToolResult => ["/tool_calls", "/choices/0/message/tool_calls"],
        Format::OpenAiResponses => ["/output", "/response/output"],
        Format::Anthropic => ["/content", "/message/content"],
        Format::Gemini => ["/parts", "/candidates/0/content/parts"],
    };
    let list = inside
        .iter()
        .find_map(|it| body.pointer(it))
        .or(Some(body))
        .and_then(Value::as_array);
    let calls = match list {
        Some(items) => items.iter().filter_map(|it| one(format, it)).collect(),
        None => one(format, body).into_iter().collect::<Vec<Ask>>(),
    };
    if calls.is_empty() {
        return Err(format!(
            "there is no call in it; one looks like this: {}",
            example(format)
        ));
    }
    Ok(Asks {
        calls,
        is_list: list.is_some(),
    })
}

/// A call that cannot be read is answered too, when it can be told which it is.
fn one(format: Format, call: &Value) -> Option<Ask> {
    let id = match format {
        Format::OpenAi | Format::ToolResult => call.get("id"),
        Format::OpenAiResponses if call["type"] == "function_call" => call.get("call_id"),
        Format::Anthropic if call["type"] == "tool_use" => call.get("id"),
        Format::OpenAiResponses | Format::Anthropic | Format::Gemini => None,
    };
    readable(format, call).or_else(|| {
        Some(Ask {
            id: Some(id.and_then(text)?),
            name: String::new(),
            args: Err("the call does not say which function it means".to_owned()),
        })
    })
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn readable(format: Format, call: &Value) -> Option<Ask> {
    match format {
        Format::OpenAi | Format::ToolResult => {
            let function = call.get("function")?;
            Some(Ask {
                id: text(&call["id"]),
                name: text(&function["name"])?,
                args: arguments(&function["arguments"]),
            })
        }
        Format::OpenAiResponses => (call["type"] == "function_call")
            .then(|| {
                Some(Ask {
                    id: text(&call["call_id"]),
                    name: text(&call["name"])?,
                    args: arguments(&call["arguments"]),
                })
            })
            .flatten(),
        Format::Anthropic => (call["type"] == "tool_use")
            .then(|| {
                Some(Ask {
                    id: text(&call["id"]),
                    name: text(&call["name"])?,
                    args: arguments(&call["input"]),
                })
            })
            .flatten(),
        Format::Gemini => {
            let nested = call.get("functionCall").or(call.get("function_call"));
            let call = nested.unwrap_or(call);
            Some(Ask {
                id: text(&call["id"]),
                name: text(&call["name"])?,
                args: arguments(&call["args"]),
            })
        }
    }
}

fn arguments(given: &Value) -> Result<Map<String, Value>, String> {
    let parsed = match given {
        Value::Null => return Ok(Map::new()),
        Value::String(text) if text.trim().is_empty() => return Ok(Map::new()),
        Value::String(text) => {
            json::parse(text).map_err(|err| format!("the arguments are {err}"))?
        }
        other => other.clone(),
    };
    match parsed {
        Value::Object(args) => Ok(args),
        _ => Err("the arguments are no JSON object".to_owned()),
    }
}

fn example(format: Format) -> Value {
    match format {
        Format::OpenAi | Format::ToolResult => json!({
            "id": "call_1", "type": "function", "function": {"name": "hello", "arguments": "{}"},
        }),
        Format::OpenAiResponses => json!({
            "type": "function_call", "call_id": "call_1", "name": "hello", "arguments": "{}",
        }),
        Format::Anthropic => json!({
            "type": "tool_use", "id": "toolu_1", "name": "hello", "input": {},
        }),
        Format::Gemini => json!({"functionCall": {"name": "hello", "args": {}}}),
    }
}

/// The answer to a call. Of a long one the model gets the first `largest` bytes.
pub fn write(format: Format, ask: &Ask, outcome: &Outcome, largest: usize) -> Value {
    let id = ask.id.clone().unwrap_or_default();
    let text = cut(told(outcome), largest);
    let failed = outcome.result.is_err();
    match format {
        Format::OpenAi => json!({"role": "tool", "tool_call_id": id, "content": text}),
        Format::OpenAiResponses => {
            json!({"type": "function_call_output", "call_id": id, "output": text})
        }
        Format::Anthropic => {
            let content = match &outcome.result {
                Ok(output) => pictures(output, &text),
                Err(_) => text.into(),
            };
            json!({"type": "tool_result", "tool_use_id": id, "content": content, "is_error": failed})
        }
        Format::Gemini => {
            let response = match &outcome.result {
                Ok(output) if text.len() < largest && !output.is_content => match &output.value {
                    Value::String(_) => json!({"output": text}),
                    value if output.warnings.is_empty() => json!({"output": value}),
                    value => json!({"output": value, "warnings": output.warnings}),
                },
                Ok(_) => json!({"output": text}),
                Err(_) => json!({"error": text}),
            };
            let mut answer = json!({"name": ask.name, "response": response});
            if let Some(id) = &ask.id {
                answer["id"] = id.as_str().into();
            }
            json!({"functionResponse": answer})
        }
        Format::ToolResult => match failed {
            false => json!({"tool_call_id": id, "output": text, "success": true}),
            true => json!({"tool_call_id": id, "output": "", "error": text, "success": false}),
        },
    }
}

fn told(outcome: &Outcome) -> String {
    match &outcome.result {
        Ok(output) => success(output),
        Err(failure) => failure.in_words(usize::MAX),
    }
}

fn success(output: &Output) -> String {
    let notes = output.notes();
    if output.is_content
        && let Ok(content) = Content::parse(&output.value)
    {
        return content.as_text();
    }
    match &output.value {
        value if !notes.is_empty() => json!({"result": value, "warnings": notes}).to_string(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// What Anthropic's models can look at.
const PICTURES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

/// Pictures as pictures, where the model can look at them.
fn pictures(output: &Output, text: &str) -> Value {
    let content = match output.is_content {
        true => Content::parse(&output.value).unwrap_or_default(),
        false => Content::default(),
    };
    let pictures: Vec<Value> = content
        .blocks
        .iter()
        .filter_map(|it| match it {
            Block::Image { data, mime_type } if PICTURES.contains(&mime_type.as_str()) => {
                Some(json!({
                    "type": "image",
                    "source": {"type": "base64", "media_type": mime_type, "data": data},
                }))
            }
            _ => None,
        })
        .collect();
    if pictures.is_empty() {
        return text.into();
    }
    let words = json!({"type": "text", "text": text});
    std::iter::once(words).chain(pictures).collect()
}

fn cut(text: String, largest: usize) -> String {
    if text.len() <= largest {
        return text;
    }
    let kept = text.floor_char_boundary(largest);
    format!("{}\n[{} more bytes]", &text[..kept], text.len() - kept)
}
