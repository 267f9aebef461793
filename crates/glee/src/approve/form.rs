//! Asks the person at the terminal for what a call lacks.

use std::io;

use glee_core::elicit::{Ask, Asked};
use glee_core::name::spelled_out;
use glee_core::port::Supply;
use glee_core::schema::{Schema, sentence};
use serde_json::{Map, Value};

use super::terminal::{self, Tty};

/// How often one field is asked for before the person is taken to mean no.
const TRIES: usize = 3;

struct Form {
    key: String,
    message: String,
    fields: Vec<Field>,
}

struct Field {
    name: String,
    schema: Value,
    required: bool,
}

/// Lets the person fill in the forms. What else is asked for is not a person's to answer.
pub async fn fill(asked: &[Asked]) -> Supply {
    if !terminal::is_there() {
        return Supply::Nobody;
    }
    let forms: Vec<Form> = asked.iter().filter_map(form).collect();
    let talk = move |tty: &mut Tty| fill_all(tty, &forms);
    terminal::converse(talk).await.unwrap_or(Supply::Nobody)
}

fn form(asked: &Asked) -> Option<Form> {
    let Ask::Form { message, schema } = &asked.what else {
        return None;
    };
    let required = |name: &String| {
        let listed = schema["required"].as_array();
        listed.is_some_and(|it| it.iter().any(|it| it == name))
    };
    let field = |(name, schema): (&String, &Value)| Field {
        required: required(name),
        name: name.clone(),
        schema: schema.clone(),
    };
    let properties = schema["properties"].as_object()?;
    Some(Form {
        key: asked.key.clone(),
        message: message.clone(),
        fields: properties.iter().map(field).collect(),
    })
}

fn fill_all(tty: &mut Tty, forms: &[Form]) -> io::Result<Supply> {
    let mut answers = Map::new();
    for form in forms {
        tty.say(&format!("{}\n", spelled_out(&form.message)))?;
        let mut given = Map::new();
        for field in &form.fields {
            match ask(tty, field)? {
                Said::Value(value) => {
                    given.insert(field.name.clone(), value);
                }
                Said::Nothing => {}
                Said::No => {
                    return Ok(Supply::Declined {
                        key: form.key.clone(),
                    });
                }
            }
        }
        answers.insert(form.key.clone(), given.into());
    }
    Ok(Supply::Given(answers))
}

enum Said {
    Value(Value),
    /// The field can do without, or has a default.
    Nothing,
    No,
}

fn ask(tty: &mut Tty, field: &Field) -> io::Result<Said> {
    for _ in 0..TRIES {
        tty.say(&label(field))?;
        // Ctrl-D ends the conversation.
        let Some(line) = tty.line()? else {
            return Ok(Said::No);
        };
        if line.is_empty() {
            match field.required && field.schema.get("default").is_none() {
                true => continue,
                false => return Ok(Said::Nothing),
            }
        }
        let value = value(&line, &field.schema);
        // What cannot be checked here is checked with the other arguments.
        let violations = Schema::new(field.schema.clone())
            .map(|it| it.violations(&value))
            .unwrap_or_default();
        if violations.is_empty() {
            return Ok(Said::Value(value));
        }
        tty.say(&format!("  {}\n", spelled_out(&sentence(&violations))))?;
    }
    Ok(Said::No)
}

fn label(field: &Field) -> String {
    let mut remarks = Vec::new();
    if let Some(choices) = field.schema["enum"].as_array() {
        let choices: Vec<String> = choices.iter().map(shown).collect();
        remarks.push(format!("one of {}", choices.join(", ")));
    }
    match field.schema.get("default") {
        Some(default) => remarks.push(format!("default {}", shown(default))),
        None if !field.required => remarks.push("optional".to_owned()),
        None => {}
    }
    let mut label = format!("  {}", field.name);
    if let Some(description) = field.schema["description"].as_str() {
        label.push_str(&format!(" — {description}"));
    }
    if !remarks.is_empty() {
        label.push_str(&format!(" ({})", remarks.join("; ")));
    }
    format!("{}: ", spelled_out(&label))
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// For a text as it was typed, otherwise as JSON where it is JSON.
fn value(text: &str, schema: &Value) -> Value {
    let is_text = match &schema["type"] {
        Value::String(one) => one == "string",
        Value::Array(many) => many.iter().any(|it| it == "string"),
        _ => false,
    };
    match serde_json::from_str(text) {
        Ok(value) if !is_text => value,
        _ => text.into(),
    }
}
