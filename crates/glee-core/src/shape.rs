//! From what a tool gave to what the caller gets: parse, extract, project, verify.

use serde_json::{Map, Value};

use crate::content::Content;
use crate::json;
use crate::model::{Extract, Field, Format, OnMismatch, Outputs};
use crate::outcome::{Failure, FailureKind, Output, Truncated};
use crate::redact::Redactor;
use crate::schema::sentence;

/// How much of a response a pattern is looked for in. Nobody can stop a search that has begun, and it takes
/// time with the length of both.
const MOST_SEARCHED: usize = 256 << 10;

/// What an executor brings back.
#[derive(Clone, Debug, PartialEq)]
pub struct Raw {
    pub body: Body,
    pub truncated: Option<Truncated>,
    /// What whoever ran it has to say of it.
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    Bytes(Vec<u8>),
    Value(Value),
    /// There is none, for this reason, and the author can do without.
    Nothing(String),
}

impl From<Body> for Raw {
    fn from(body: Body) -> Raw {
        Raw {
            body,
            truncated: None,
            warnings: Vec::new(),
        }
    }
}

/// What is not as promised becomes a warning or a failure, as the tool says.
pub fn shape(outputs: &Outputs, raw: Raw, redactor: &Redactor) -> Result<Output, Failure> {
    if let Body::Nothing(why) = raw.body {
        return Ok(nothing(outputs.format, vec![why]));
    }
    let mut warnings = Vec::new();
    // What was kept in another form than it came; no reason to stop.
    let mut remarks = Vec::new();
    let mut raw = found(outputs, raw, redactor, &mut warnings);
    let said = std::mem::take(&mut raw.warnings);
    let truncated = raw.truncated;
    let value = parse(outputs.format, raw, &mut warnings, &mut remarks);
    let value = if warnings.is_empty() {
        extract(outputs, value, &mut warnings)
    } else {
        value
    };
    if warnings.is_empty()
        && let Some(schema) = &outputs.schema
    {
        let violations = schema.violations(&value);
        if !violations.is_empty() {
            warnings.push(format!(
                "the output breaks its schema: {}",
                sentence(&violations)
            ));
        }
    }
    let is_content = outputs.format == Format::Content
        && warnings.is_empty()
        && match Content::parse(&value) {
            Ok(_) => true,
            Err(why) => {
                warnings.push(format!("the output is not typed content: {why}"));
                false
            }
        };
    warnings.splice(0..0, remarks);
    match outputs.on_mismatch {
        OnMismatch::Fail if !warnings.is_empty() => {
            Err(Failure::new(FailureKind::OutputInvalid, warnings.join("; ")).with("value", value))
        }
        OnMismatch::Empty if !warnings.is_empty() => Ok(nothing(outputs.format, warnings)),
        _ => Ok(Output {
            value,
            is_content,
            warnings: said.into_iter().chain(warnings).collect(),
            truncated,
        }),
    }
}

/// The output of a tool that has none.
fn nothing(format: Format, warnings: Vec<String>) -> Output {
    Output {
        value: match format {
            Format::Text => Value::String(String::new()),
            Format::Json | Format::Content => Value::Null,
        },
        warnings,
        ..Output::default()
    }
}

/// What a pattern finds in the text, before anything is made of it. Half a secret would not be known for
/// one, so they are taken out first.
fn found(outputs: &Outputs, raw: Raw, redactor: &Redactor, warnings: &mut Vec<String>) -> Raw {
    let (Some(Extract::Match(regex)), Body::Bytes(bytes)) = (&outputs.extract, &raw.body) else {
        return raw;
    };
    let searched = &bytes[..bytes.len().min(MOST_SEARCHED)];
    let text = redactor.text(String::from_utf8_lossy(searched).into_owned());
    let found = regex
        .captures(&text)
        .and_then(|it| it.get(1).or_else(|| it.get(0)));
    let Some(found) = found else {
        let within = match searched.len() < bytes.len() {
            true => format!(", as far as its first {MOST_SEARCHED} bytes go"),
            false => String::new(),
        };
        warnings.push(format!("`{regex}` is not in the response{within}"));
        return raw;
    };
    let body = Body::Bytes(found.as_str().as_bytes().to_vec());
    Raw { body, ..raw }
}

fn parse(format: Format, raw: Raw, warnings: &mut Vec<String>, remarks: &mut Vec<String>) -> Value {
    let bytes = match raw.body {
        Body::Value(value) => return value,
        Body::Bytes(bytes) => bytes,
        Body::Nothing(_) => return Value::Null,
    };
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(err) => {
            let (end, bytes) = (err.utf8_error(), err.as_bytes());
            // A cut may fall inside a character; that is not the tool's fault.
            if raw.truncated.is_some() && end.error_len().is_none() {
                String::from_utf8_lossy(&bytes[..end.valid_up_to()]).into_owned()
            } else {
                warnings.push(
                    "the output is not UTF-8; what could not be read stands as \u{FFFD}".into(),
                );
                return Value::String(String::from_utf8_lossy(bytes).into_owned());
            }
        }
    };
    match format {
        Format::Text => Value::String(text),
        Format::Json | Format::Content if text.trim().is_empty() && raw.truncated.is_none() => {
            Value::Null
        }
        Format::Json | Format::Content => match json::parse_output(&text) {
            Ok((value, notes)) => {
                remarks.extend(notes);
                value
            }
            Err(err) => {
                let why = match raw.truncated {
                    Some(_) => "the output was cut and is given as text".to_owned(),
                    None => format!("the output should be JSON and is given as text: {err}"),
                };
                warnings.push(why);
                Value::String(text)
            }
        },
    }
}

fn extract(outputs: &Outputs, value: Value, warnings: &mut Vec<String>) -> Value {
    let value = match &outputs.extract {
        // What a pattern found is all there is.
        None | Some(Extract::Match(_)) => value,
        Some(Extract::Path(path)) => path.select(&value).unwrap_or_else(|| {
            warnings.push(format!("`{path}` is not in the response"));
            Value::Null
        }),
    };
    match value {
        value if outputs.fields.is_empty() => value,
        Value::Array(items) => Value::Array(
            items
                .iter()
                .map(|item| project(&outputs.fields, item))
                .collect(),
        ),
        Value::Object(_) => project(&outputs.fields, &value),
        other => other,
    }
}

fn project(fields: &[Field], value: &Value) -> Value {
    let mut out = Map::new();
    for field in fields {
        if let Some(selected) = field.path.select(value) {
            out.insert(field.name.clone(), selected);
        }
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::{Secret, SecretValues};

    fn idle() -> Redactor {
        Redactor::new(&SecretValues::default())
    }

    /// Pieces of a secret would not be known for what they are.
    #[test]
    fn a_pattern_cannot_cut_a_secret_in_pieces() {
        let secrets = SecretValues::from([("KEY".to_owned(), Secret::new("hunter2-very-secret"))]);
        let outputs = Outputs {
            extract: Some(Extract::Match("key=(.{6})".parse().unwrap())),
            ..outputs()
        };
        let raw = text("key=hunter2-very-secret");
        let shaped = shape(&outputs, raw, &Redactor::new(&secrets)).unwrap();
        let value = shaped.value.to_string();
        assert!(!value.contains("hunter"), "{value}");
    }
    use crate::json_path::JsonPath;
    use crate::schema::Schema;
    use serde_json::json;

    fn outputs() -> Outputs {
        Outputs {
            format: Format::Json,
            extract: None,
            fields: vec![],
            schema: None,
            on_mismatch: OnMismatch::Warn,
        }
    }

    fn text(body: &str) -> Raw {
        Body::Bytes(body.as_bytes().to_vec()).into()
    }

    #[test]
    fn seed_example() {
        let field = |name: &str| Field {
            name: name.into(),
            path: JsonPath::parse(name).unwrap(),
        };
        let outputs = Outputs {
            extract: Some(Extract::Path(JsonPath::parse("web.results").unwrap())),
            fields: vec![field("title"), field("url")],
            ..outputs()
        };
        let body = r#"{"web":{"results":[{"title":"A","url":"https://a","description":"..."},{"title":"B"}]}}"#;
        let shaped = shape(&outputs, text(body), &idle()).unwrap();
        assert_eq!(
            shaped.value,
            json!([{"title": "A", "url": "https://a"}, {"title": "B"}])
        );
        let shaped = shape(&outputs, text("{}"), &idle()).unwrap();
        assert_eq!(shaped.value, Value::Null);
        assert_eq!(shaped.warnings, ["`web.results` is not in the response"]);
    }

    #[test]
    fn a_mismatch_warns_or_fails() {
        let schema = Some(Schema::new(json!({"type": "array"})).unwrap());
        let warn = Outputs {
            schema: schema.clone(),
            ..outputs()
        };
        let shaped = shape(&warn, text("{}"), &idle()).unwrap();
        assert_eq!((shaped.value, shaped.warnings.len()), (json!({}), 1));
        let fail = Outputs {
            schema,
            on_mismatch: OnMismatch::Fail,
            ..outputs()
        };
        assert_eq!(
            shape(&fail, text("{}"), &idle()).unwrap_err().kind,
            FailureKind::OutputInvalid
        );
    }

    #[test]
    fn a_pattern_finds_text() {
        let found = |pattern: &str, format| {
            let outputs = Outputs {
                format,
                extract: Some(Extract::Match(pattern.parse().unwrap())),
                on_mismatch: OnMismatch::Fail,
                ..outputs()
            };
            shape(&outputs, text("temp=12.5 C"), &idle()).map(|it| it.value)
        };
        assert_eq!(found(r"temp=\S+", Format::Text), Ok(json!("temp=12.5")));
        assert_eq!(found(r"temp=(\S+)", Format::Text), Ok(json!("12.5")));
        assert_eq!(found(r"temp=(\S+)", Format::Json), Ok(json!(12.5)));
        let failure = found("wind", Format::Text).unwrap_err();
        assert_eq!(failure.kind, FailureKind::OutputInvalid);
    }

    #[test]
    fn an_author_can_do_without() {
        let outputs = Outputs {
            extract: Some(Extract::Path(JsonPath::parse("$.a").unwrap())),
            on_mismatch: OnMismatch::Empty,
            ..outputs()
        };
        let shaped = shape(&outputs, text("{}"), &idle()).unwrap();
        assert_eq!((shaped.value, shaped.warnings.len()), (Value::Null, 1));
        let raw = Raw::from(Body::Nothing("it failed".into()));
        let outputs = Outputs {
            format: Format::Text,
            ..outputs
        };
        let shaped = shape(&outputs, raw, &idle()).unwrap();
        assert_eq!(
            (shaped.value, shaped.warnings[0].as_str()),
            (json!(""), "it failed")
        );
    }

    #[test]
    fn not_json_is_text_with_a_warning() {
        let shaped = shape(&outputs(), text("oops"), &idle()).unwrap();
        assert_eq!((shaped.value, shaped.warnings.len()), (json!("oops"), 1));
        assert_eq!(
            shape(&outputs(), text(" \n"), &idle()).unwrap().value,
            Value::Null
        );
        let cut = Raw {
            truncated: Some(Truncated {
                kept: 4,
                total: Some(9),
            }),
            ..text("[1, ü")
        };
        assert_eq!(
            shape(&outputs(), cut, &idle()).unwrap().value,
            json!("[1, ü")
        );
    }
}
