//! JSON Schema 2020-12, compiled once: it bounds itself, fills defaults and lists all violations.

mod bounds;
mod plain;
mod whole;
mod words;

use std::sync::{Arc, OnceLock};

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::{JsonType, PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::{json, name};

pub use bounds::{MAX_DEPTH, MAX_SUBSCHEMAS, MAX_WORK};
pub use words::show;

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
const LONGEST_MESSAGE: usize = 300;
/// Most violations listed; a list of a million wrong items is wrong in one way, not in a million.
const MOST_VIOLATIONS: usize = 1000;
/// Most work for one value as a whole: some seconds.
const MOST_WORK: u64 = 200_000_000;
/// Most defaults put into one value. Defaults can hold defaults, and a few lines of schema that refer
/// to each other would fill a value without end.
const MOST_DEFAULTS: usize = 10_000;

#[derive(Clone, Debug)]
pub struct Schema(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    source: Value,
    /// How much work one part of a value can cause, by the depth of the value. Values nested deeper
    /// could make validation take exponential time.
    work: bounds::Work,
    plain: bool,
    /// Compiling costs far more than the checks above, so it waits for the first use.
    validator: OnceLock<Result<Validator, SchemaError>>,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{reason}")]
pub struct SchemaError {
    /// JSON pointer into the schema.
    pub pointer: String,
    pub reason: String,
}

#[derive(Debug, Error, PartialEq, Eq)]
#[error("the defaults of its schema fill in more than {MOST_DEFAULTS} values")]
pub struct TooManyDefaults;

/// One way in which a value breaks its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// JSON pointer into the value.
    pub pointer: String,
    pub message: String,
    pub breach: Breach,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Breach {
    /// A property the schema does not know; the pointer ends in its name.
    Unknown {
        nearest: Option<String>,
    },
    Other,
}

impl PartialEq for Schema {
    fn eq(&self, other: &Schema) -> bool {
        self.source() == other.source()
    }
}

impl Schema {
    /// Takes a schema that is bounded and refers only to itself.
    pub fn new(source: Value) -> Result<Schema, Vec<SchemaError>> {
        if let Some(dialect) = source.get("$schema")
            && dialect.as_str().map(|it| it.trim_end_matches('#')) != Some(DIALECT)
        {
            return Err(vec![SchemaError {
                pointer: "/$schema".into(),
                reason: format!("only JSON Schema 2020-12 is understood ({DIALECT})"),
            }]);
        }
        let work = bounds::work_by_depth(&source, 1)?;
        Ok(Schema(Arc::new(Inner {
            plain: plain::is_plain(&source),
            source,
            work,
            validator: OnceLock::new(),
        })))
    }

    pub fn source(&self) -> &Value {
        &self.0.source
    }

    /// Whether it can be used. Compiles it to know, unless it is plain.
    pub fn compile(&self) -> Result<(), SchemaError> {
        if self.0.plain {
            return Ok(());
        }
        self.validator().map(|_| ())
    }

    fn validator(&self) -> Result<&Validator, SchemaError> {
        self.0
            .validator
            .get_or_init(|| compile(&self.0.source))
            .as_ref()
            .map_err(Clone::clone)
    }

    /// Every violation; none means the value is valid. A schema that cannot be compiled accepts
    /// nothing.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        let refuse = |message: String| {
            vec![Violation {
                pointer: String::new(),
                message,
                breach: Breach::Other,
            }]
        };
        if let Err(why) = self.check_work(value) {
            return refuse(why);
        }
        if self.0.plain && plain::surely_fits(&self.0.source, value) {
            return Vec::new();
        }
        match self.validator() {
            Err(err) => refuse(format!(
                "the schema cannot be used: {}: {}",
                err.pointer, err.reason
            )),
            Ok(validator) if validator.is_valid(value) => Vec::new(),
            Ok(validator) => {
                let mut listed: Vec<Violation> = validator
                    .iter_errors(value)
                    .flat_map(|it| describe(&it, &self.0.source))
                    .take(MOST_VIOLATIONS)
                    .collect();
                if listed.len() == MOST_VIOLATIONS {
                    listed.extend(refuse("further violations are not listed".into()));
                }
                listed
            }
        }
    }

    /// Whether the value can be checked in bounded time.
    fn check_work(&self, value: &Value) -> Result<(), String> {
        let wide;
        let work = if self.0.work.grows_with_width {
            wide = bounds::work_by_depth(&self.0.source, json::width(value))
                .map_err(|_| "is too wide for this schema to be checked")?;
            &wide
        } else {
            &self.0.work
        };
        let Some(each) = work.by_depth.get(json::depth(value)) else {
            return Err(format!(
                "nests deeper than the {} levels this schema can be checked for",
                work.by_depth.len() - 1
            ));
        };
        if each.saturating_mul(json::count(value) as u64) > MOST_WORK {
            return Err("holds more values than this schema can be checked for".into());
        }
        Ok(())
    }

    /// Puts the schema's defaults where the value says nothing, at any depth of `properties`; and writes whole numbers
    /// as such where the schema asks for them.
    pub fn fill(&self, value: &mut Map<String, Value>) -> Result<(), TooManyDefaults> {
        let mut left = MOST_DEFAULTS;
        let source = &self.0.source;
        fill_object(source, source, value, MAX_DEPTH, &mut left)?;
        whole::settle(source, value);
        Ok(())
    }

    /// The names of the top-level properties, in the author's order.
    pub fn properties(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.0
            .source
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
    }

    /// Whether a value without this top-level property is invalid.
    pub fn requires(&self, property: &str) -> bool {
        let required = self.0.source.get("required").and_then(Value::as_array);
        required.is_some_and(|it| it.iter().any(|name| name == property))
    }

    /// Whether a top-level property always has a value once defaults are filled in.
    pub fn always_present(&self, property: &str) -> bool {
        self.requires(property)
            || self.properties().any(|(name, it)| {
                name == property && resolve(&self.0.source, it).get("default").is_some()
            })
    }
}

fn compile(source: &Value) -> Result<Validator, SchemaError> {
    jsonschema::draft202012::options()
        // The linear-time engine: a pattern with look-around does not compile, and none can hang.
        .with_pattern_options(PatternOptions::regex())
        .should_validate_formats(true)
        .build(source)
        .map_err(|err| SchemaError {
            // What the compiler complains about is a place in the schema itself.
            pointer: err.instance_path().to_string(),
            reason: describe(&err, &Value::Null)
                .into_iter()
                .map(|it| it.message)
                .collect::<Vec<_>>()
                .join("; "),
        })
}

fn fill_object(
    root: &Value,
    schema: &Value,
    value: &mut Map<String, Value>,
    depth: usize,
    left: &mut usize,
) -> Result<(), TooManyDefaults> {
    let schema = resolve(root, schema);
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return Ok(());
    };
    for (name, property) in properties {
        if !value.contains_key(name)
            && let Some(default) = resolve(root, property).get("default")
        {
            *left = left.checked_sub(1).ok_or(TooManyDefaults)?;
            value.insert(name.clone(), default.clone());
        }
        if let (Some(Value::Object(inner)), Some(depth)) =
            (value.get_mut(name), depth.checked_sub(1))
        {
            fill_object(root, property, inner, depth, left)?;
        }
    }
    Ok(())
}

/// Follows local references to the subschema they mean.
fn resolve<'a>(root: &'a Value, mut schema: &'a Value) -> &'a Value {
    for _ in 0..MAX_DEPTH {
        let target = schema
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|it| it.strip_prefix('#'))
            .and_then(|pointer| root.pointer(pointer));
        match target {
            Some(target) if schema.get("default").is_none() => schema = target,
            _ => break,
        }
    }
    schema
}

fn describe(err: &ValidationError<'_>, schema: &Value) -> Vec<Violation> {
    let pointer = err.instance_path().to_string();
    let one = |message: String| {
        vec![Violation {
            pointer: pointer.clone(),
            message: shorten(message),
            breach: Breach::Other,
        }]
    };
    match err.kind() {
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let known = siblings(err, schema);
            unexpected
                .iter()
                .map(|extra| unknown(&pointer, extra, &known))
                .collect()
        }
        Kind::Type { kind } => one(format!(
            "must be {}, not {}",
            types(kind),
            type_of(err.instance())
        )),
        Kind::Required { property } => {
            let property = property.as_str().unwrap_or_default();
            one(format!("`{property}` is required"))
        }
        Kind::Enum { options } => {
            let options: Vec<_> = options
                .as_array()
                .into_iter()
                .flatten()
                .map(Value::to_string)
                .collect();
            one(format!(
                "{} is not one of {}",
                err.instance(),
                options.join(", ")
            ))
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            // The form that was meant is the one whose own type fits; its problems are the useful
            // ones. When no form fits, the types that would are named.
            let is_inside = |it: &&ValidationError<'_>| {
                it.instance_path() != err.instance_path() || !matches!(it.kind(), Kind::Type { .. })
            };
            match context
                .iter()
                .find(|form| form.iter().all(|it| is_inside(&it)))
            {
                Some(form) => form.iter().flat_map(|it| describe(it, schema)).collect(),
                None => {
                    let expected: Vec<_> = context
                        .iter()
                        .flatten()
                        .filter_map(|it| match it.kind() {
                            Kind::Type { kind } => Some(types(kind)),
                            _ => None,
                        })
                        .collect();
                    one(format!(
                        "must be {}, not {}",
                        expected.join(" or "),
                        type_of(err.instance())
                    ))
                }
            }
        }
        _ => one(err.to_string()),
    }
}

/// The violations in one line, for those who only read the message.
pub fn sentence(violations: &[Violation]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<String> = violations
        .iter()
        .take(SHOWN)
        .map(|it| match it.pointer.as_str() {
            "" => it.message.clone(),
            pointer => format!("{pointer}: {}", it.message),
        })
        .collect();
    let more = violations.len().saturating_sub(SHOWN);
    let tail = if more > 0 {
        format!("; and {more} more")
    } else {
        String::new()
    };
    format!("{}{tail}", shown.join("; "))
}

fn types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => one.as_str().to_owned(),
        TypeKind::Multiple(many) => {
            let names: Vec<_> = many
                .iter()
                .filter(|it| *it != JsonType::Null)
                .map(JsonType::as_str)
                .collect();
            names.join(" or ")
        }
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn unknown(pointer: &str, extra: &str, known: &[String]) -> Violation {
    let nearest = name::nearest(extra, known.iter().map(String::as_str)).map(str::to_owned);
    let tail = match &nearest {
        Some(near) => format!("; did you mean `{near}`?"),
        None if known.is_empty() || known.len() > 8 => String::new(),
        None => format!("; known are {}", known.join(", ")),
    };
    Violation {
        pointer: shorten(format!("{pointer}/{}", escape(extra))),
        message: shorten(format!("`{extra}` is not known here{tail}")),
        breach: Breach::Unknown { nearest },
    }
}

/// The property names declared beside the `additionalProperties` that was broken.
fn siblings(err: &ValidationError<'_>, schema: &Value) -> Vec<String> {
    let path = err.schema_path().to_string();
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    let properties = schema.pointer(parent).and_then(|it| it.get("properties"));
    properties
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, _)| name.clone())
        .collect()
}

/// A key as one token of a JSON pointer.
pub fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn shorten(message: String) -> String {
    match message.char_indices().nth(LONGEST_MESSAGE) {
        Some((at, _)) => format!("{}…", &message[..at]),
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema(source: Value) -> Schema {
        Schema::new(source).unwrap()
    }

    #[test]
    fn all_violations_are_listed() {
        let schema = schema(json!({
            "type": "object", "additionalProperties": false, "required": ["query"],
            "properties": {"query": {"type": "string"}, "count": {"type": "integer"}, "size": {"enum": ["s", "l"]}}
        }));
        let found = schema.violations(&json!({"cuont": 1, "count": "x", "size": "m"}));
        let found: Vec<_> = found
            .iter()
            .map(|it| (it.pointer.as_str(), it.message.as_str()))
            .collect();
        assert!(
            found.contains(&("/cuont", "`cuont` is not known here; did you mean `count`?")),
            "{found:?}"
        );
        assert!(found.contains(&("", "`query` is required")), "{found:?}");
        assert!(
            found.contains(&("/size", "\"m\" is not one of \"s\", \"l\"")),
            "{found:?}"
        );
        assert_eq!(found.len(), 4, "{found:?}");
    }

    #[test]
    fn defaults_that_fill_each_other_without_end() {
        let schema = schema(json!({
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/n"}},
            "$defs": {"n": {
                "default": {},
                "properties": {"l": {"$ref": "#/$defs/n"}, "r": {"$ref": "#/$defs/n"}}
            }}
        }));
        assert_eq!(schema.fill(&mut Map::new()), Err(TooManyDefaults));
    }

    #[test]
    fn many_values_times_many_subschemas() {
        let options: Vec<_> = (0..5000).map(|at| json!({"const": at})).collect();
        let enumerated: Vec<_> = (0..50_000).collect();
        let many = Value::from(vec![-1; 1_000_000]);
        for items in [json!({"anyOf": options}), json!({"enum": enumerated})] {
            let schema = schema(json!({"type": "array", "items": items}));
            assert!(schema.violations(&json!([1, 2, 3])).is_empty());
            assert_eq!(schema.violations(&many).len(), 1);
        }
    }

    #[test]
    fn nested_unevaluated_keywords() {
        for keyword in ["anyOf", "oneOf"] {
            let mut nested = json!({"properties": {"p": {}}});
            for at in 0..12 {
                nested = json!({
                    keyword: [nested, {"properties": {format!("q{at}"): {}}}],
                    "unevaluatedProperties": {"type": "string"}
                });
            }
            let wide = json!({"p": 1, "a": 2, "b": 3, "c": 4, "d": 5});
            assert_eq!(schema(nested).violations(&wide).len(), 1);
        }
        // As people use it.
        let closed = schema(json!({
            "allOf": [{"properties": {"a": {}}}, {"properties": {"b": {"$ref": "#"}}}],
            "unevaluatedProperties": false
        }));
        let value = json!({"a": 1, "b": {"a": 1, "b": {"a": 1, "b": {}}}});
        assert!(closed.violations(&value).is_empty());
        assert_eq!(closed.violations(&json!({"a": 1, "x": 1})).len(), 1);
    }

    #[test]
    fn a_million_violations_are_not_listed() {
        let schema = schema(json!({"type": "array", "items": {"type": "string"}}));
        let found = schema.violations(&vec![0; 1_000_000].into());
        assert_eq!(found.len(), MOST_VIOLATIONS + 1);
    }

    #[test]
    fn defaults_at_any_depth() {
        let schema = schema(json!({
            "type": "object",
            "properties": {
                "n": {"type": "integer", "default": 10},
                "o": {"type": "object", "properties": {"x": {"default": [1]}, "y": {}}},
                "r": {"$ref": "#/$defs/r"}
            },
            "$defs": {"r": {"type": "string", "default": "d"}}
        }));
        let mut value = json!({"o": {"y": 1}}).as_object().unwrap().clone();
        schema.fill(&mut value).unwrap();
        assert_eq!(
            Value::Object(value),
            json!({"o": {"y": 1, "x": [1]}, "n": 10, "r": "d"})
        );
        assert!(
            schema.always_present("n") && schema.always_present("r") && !schema.always_present("o")
        );
    }

    #[test]
    fn strangers_schemas_are_refused() {
        for (source, pointer) in [
            (json!({"$ref": "http://169.254.169.254/x"}), "/$ref"),
            (
                json!({"properties": {"a": {"$ref": "file:///etc/passwd"}}}),
                "/properties/a/$ref",
            ),
            (json!({"$ref": "other.json#/x"}), "/$ref"),
            (json!({"$ref": "#"}), ""),
            (
                json!({"$schema": "http://json-schema.org/draft-07/schema#"}),
                "/$schema",
            ),
            (json!({"$ref": "#/$defs/none"}), "/$ref"),
        ] {
            assert_eq!(
                Schema::new(source.clone()).unwrap_err()[0].pointer,
                pointer,
                "{source}"
            );
        }
    }

    #[test]
    fn doubling_schemas_are_refused() {
        let mut defs = Map::new();
        for level in 0..40 {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            defs.insert(format!("d{level}"), json!({"allOf": [next.clone(), next]}));
        }
        defs.insert("d40".into(), json!({"type": "string"}));
        assert!(Schema::new(json!({"$ref": "#/$defs/d0", "$defs": defs})).is_err());
    }

    #[test]
    fn recursion_is_bounded_by_the_value() {
        let tree = schema(json!({"properties": {"l": {"$ref": "#"}, "r": {"$ref": "#"}}}));
        assert!(tree.0.work.by_depth.len() > MAX_DEPTH);
        let doubling = schema(json!({"allOf": [
            {"properties": {"x": {"$ref": "#"}}}, {"properties": {"x": {"$ref": "#"}}}
        ]}));
        assert!(doubling.0.work.by_depth.len() < 20);
        let mut value = json!(1);
        for _ in 0..60 {
            value = json!({"x": value});
        }
        assert!(!doubling.violations(&value).is_empty());
        assert!(tree.violations(&value).is_empty());
    }

    #[test]
    fn look_around_does_not_compile() {
        assert!(schema(json!({"pattern": "(?=a)"})).compile().is_err());
        assert_eq!(
            schema(json!({"properties": {"a": {"type": "strng"}}}))
                .compile()
                .unwrap_err()
                .pointer,
            "/properties/a/type"
        );
    }
}
