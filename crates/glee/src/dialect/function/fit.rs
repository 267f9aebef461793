//! A schema, told in the language of a provider. What it cannot say is said in words or left out, and
//! every such loss is listed.

use serde_json::{Map, Value, json};

use glee_core::name::visible;

use super::fold::Folding;
use super::kind::{fields, is_map, kind, kind_of, names};
use super::tongue::{Tongue, is_plain};
use super::undo::{Field, Undo};

/// Schemas nested deeper than this, or larger, are told as far as that; the rest is JSON text.
const DEEPEST: usize = 9;
const MOST_NODES: usize = 1500;
/// A schema with more than this is not told at all.
const MOST_TOLD: usize = 4500;
/// Values that are listed, in one list and in all lists of a tool, and how long a long list may be.
const MOST_LISTED: usize = 900;
const MANY_LISTED: usize = 250;
const LONGEST_LISTED: usize = 15_000;

/// One thing that a told schema does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// JSON pointer into the tool's arguments; `*` stands for every item.
    pub at: String,
    pub what: String,
}

/// The schema of a tool's arguments as it is told, and the way back for the arguments.
pub(super) struct Told {
    pub(super) schema: Map<String, Value>,
    pub(super) undo: Undo,
    pub(super) losses: Vec<Loss>,
}

/// `Err` says why a tool with such arguments cannot be told at all.
pub(super) fn fit(source: &Value, tongue: &Tongue) -> Result<Told, String> {
    let mut fitting = Fitting::new(tongue, source);
    let folded = fitting.folding.root();
    if is_map(&folded) {
        return Err("its arguments can have any name".to_owned());
    }
    let (schema, undo) = fitting.object(&folded, "", 0)?;
    if fitting.is_spent() {
        return Err("its schema is too large".to_owned());
    }
    Ok(Told {
        schema,
        undo,
        losses: fitting.folding.losses,
    })
}

type Fitted = (Map<String, Value>, Undo);

struct Fitting<'a> {
    tongue: &'a Tongue,
    folding: Folding<'a>,
    nodes: usize,
    listed: usize,
}

impl<'a> Fitting<'a> {
    fn new(tongue: &'a Tongue, root: &'a Value) -> Fitting<'a> {
        Fitting {
            tongue,
            folding: Folding::new(root),
            nodes: 0,
            listed: 0,
        }
    }

    fn is_spent(&self) -> bool {
        self.folding.is_spent() || self.nodes > MOST_TOLD
    }

    fn lose(&mut self, at: &str, what: impl Into<String>) {
        self.folding.lose(at, what);
    }

    fn any(&mut self, schema: &Value, at: &str, depth: usize) -> Result<Fitted, String> {
        self.nodes += 1;
        if self.is_spent() {
            return Ok((Map::new(), Undo::Same));
        }
        let merged = self.folding.merged(schema, at);
        if depth > DEEPEST || self.nodes > MOST_NODES {
            return Ok(self.text(&merged, at, "it is nested too deep or too large"));
        }
        let variants = self.folding.variants(&merged, at);
        match (variants, self.tongue.unions) {
            (Some(variants), true) => self.union(&merged, &variants, at, depth),
            (Some(_), false) => {
                let folded = self.folding.folded(merged, at);
                self.one(&folded, at, depth)
            }
            (None, _) => self.one(&merged, at, depth),
        }
    }

    /// A schema of one type, which may be null as well.
    fn one(
        &mut self,
        schema: &Map<String, Value>,
        at: &str,
        depth: usize,
    ) -> Result<Fitted, String> {
        let (kind, nullable) = kind(schema);
        let (mut told, undo) = match kind.as_deref() {
            Some("object") if is_map(schema) || fields(schema).is_empty() => {
                self.text(schema, at, "an object with any keys is given as JSON text")
            }
            Some("object") => self.object(schema, at, depth)?,
            Some("array") => self.array(schema, at, depth)?,
            Some("null") if !self.tongue.null_is_a_type => {
                self.text(schema, at, "null cannot be the only value")
            }
            Some(kind) => (self.scalar(schema, kind, at), Undo::Same),
            None => self.text(schema, at, "a value of any type is given as JSON text"),
        };
        if nullable && kind.as_deref() != Some("null") {
            self.allow_null(&mut told);
        }
        Ok((told, undo))
    }

    fn object(
        &mut self,
        schema: &Map<String, Value>,
        at: &str,
        depth: usize,
    ) -> Result<Fitted, String> {
        let required = names(schema.get("required"));
        let mut told = self.start(schema, "object", at);
        let (mut properties, mut wanted, mut undo) = (Map::new(), Vec::new(), Vec::new());
        for (name, inner) in fields(schema) {
            let at = format!("{at}/{}", glee_core::schema::escape(&name));
            let is_required = required.contains(&name);
            if self.tongue.plain_names && !is_plain(&name) {
                if is_required {
                    return Err(format!("`{name}` is no name for an argument there"));
                }
                self.lose(&at, "it is left out: it is no name for an argument there");
                continue;
            }
            let (mut fitted, back) = self.any(&inner, &at, depth + 1)?;
            let merged = self.folding.quietly(|it| it.merged(&inner, &at));
            let takes_null = kind(&merged).1;
            let null_is_absent = self.tongue.all_required && !is_required;
            if null_is_absent {
                self.allow_null(&mut fitted);
            }
            if is_required || self.tongue.all_required {
                wanted.push(Value::from(name.clone()));
            }
            undo.push(Field {
                name: name.clone(),
                undo: back,
                null_is_absent: null_is_absent && !takes_null,
            });
            properties.insert(name, fitted.into());
        }
        let open = match schema.get("additionalProperties") {
            None | Some(Value::Bool(false)) => schema.contains_key("patternProperties"),
            Some(_) => true,
        };
        if open {
            self.lose(at, "no other properties can be given");
        }
        if properties.is_empty() && self.tongue.types_in_capitals && depth > 0 {
            return Ok(self.text(schema, at, "none of its properties can be told"));
        }
        if !(properties.is_empty() && self.tongue.types_in_capitals) {
            told.insert("properties".into(), properties.into());
        }
        if !wanted.is_empty() || self.tongue.closed {
            told.insert("required".into(), wanted.into());
        }
        if self.tongue.closed {
            told.insert("additionalProperties".into(), false.into());
        }
        let undo = Undo::Fields(undo);
        let undo = if undo.is_idle() { Undo::Same } else { undo };
        Ok((told, undo))
    }

    fn array(
        &mut self,
        schema: &Map<String, Value>,
        at: &str,
        depth: usize,
    ) -> Result<Fitted, String> {
        let mut told = self.start(schema, "array", at);
        let inside = format!("{at}/*");
        let items = match (schema.get("prefixItems"), schema.get("items")) {
            (Some(Value::Array(first)), _) => {
                match (first.first(), first.windows(2).all(|it| it[0] == it[1])) {
                    (Some(one), true) => {
                        self.lose(at, "how many items there are is not told");
                        one.clone()
                    }
                    _ => {
                        let why = "a list whose items differ is given as JSON text";
                        return Ok(self.text(schema, at, why));
                    }
                }
            }
            (_, Some(items)) => items.clone(),
            (_, None) => json!(true),
        };
        let (items, undo) = self.any(&items, &inside, depth + 1)?;
        told.insert("items".into(), items.into());
        let undo = match undo.is_idle() {
            true => Undo::Same,
            false => Undo::Items(Box::new(undo)),
        };
        Ok((told, undo))
    }

    fn scalar(&mut self, schema: &Map<String, Value>, kind: &str, at: &str) -> Map<String, Value> {
        let mut told = self.start(schema, kind, at);
        let mut listed = match (schema.get("const"), schema.get("enum")) {
            (Some(only), _) => vec![only.clone()],
            (None, Some(Value::Array(all))) => all.clone(),
            _ => return told,
        };
        listed.retain(|it| kind_of(it) == kind || (kind == "number" && it.is_number()));
        if self.tongue.lists_texts && listed.contains(&"".into()) {
            self.lose(at, "that it can be empty is not told");
            listed.retain(|it| it != "");
        }
        let length: usize = listed.iter().map(|it| it.to_string().len()).sum();
        let too_many = self.listed + listed.len() > MOST_LISTED
            || (listed.len() > MANY_LISTED && length > LONGEST_LISTED);
        let not_texts = self.tongue.lists_texts && !listed.iter().all(Value::is_string);
        if too_many || not_texts {
            self.lose(at, "the values it can have are told in words only");
            let shown: Vec<String> = listed.iter().take(20).map(Value::to_string).collect();
            say(&mut told, &format!("one of {}", shown.join(", ")));
        } else if !listed.is_empty() {
            self.listed += listed.len();
            told.insert("enum".into(), listed.into());
        }
        told
    }

    fn union(
        &mut self,
        schema: &Map<String, Value>,
        variants: &[Map<String, Value>],
        at: &str,
        depth: usize,
    ) -> Result<Fitted, String> {
        let (mut all, mut undo, mut has_null) = (Vec::new(), Vec::new(), false);
        for variant in variants {
            if variant.get("type") == Some(&"null".into()) {
                has_null = true;
                continue;
            }
            let (told, back) = self.any(&Value::from(variant.clone()), at, depth + 1)?;
            let told = Value::from(told);
            if !all.contains(&told) {
                all.push(told);
                undo.push((variant.clone(), back));
            }
        }
        let mut told = match all.len() {
            0 => return Ok(self.text(schema, at, "it has no value that can be told")),
            1 => all.remove(0).as_object().cloned().unwrap_or_default(),
            _ => Map::from_iter([("anyOf".to_owned(), Value::from(all))]),
        };
        if let Some(Value::String(words)) = schema.get("description")
            && !told.contains_key("description")
        {
            told.insert("description".into(), visible(words).into());
        }
        if has_null {
            self.allow_null(&mut told);
        }
        let undo = match undo.len() {
            1 => undo.remove(0).1,
            _ if undo.iter().all(|it| it.1.is_idle()) => Undo::Same,
            _ => Undo::Either(undo),
        };
        Ok((told, undo))
    }

    /// What is there of a schema whatever its type is: its words, and the keywords that are known.
    fn start(&mut self, schema: &Map<String, Value>, kind: &str, at: &str) -> Map<String, Value> {
        let mut told = Map::new();
        let of = kind.to_owned();
        let kind = match self.tongue.types_in_capitals {
            true => kind.to_uppercase(),
            false => kind.to_owned(),
        };
        told.insert("type".into(), kind.into());
        if let Some(Value::String(words)) = schema.get("description") {
            told.insert("description".into(), visible(words).into());
        }
        let mut in_words = Vec::new();
        for (keyword, value) in schema {
            if TOLD.contains(&keyword.as_str()) {
                continue;
            }
            let known = self.tongue.keywords.contains(&keyword.as_str())
                && is_of(keyword, &of)
                && (keyword != "format"
                    || value
                        .as_str()
                        .is_some_and(|it| self.tongue.formats.contains(&it)));
            if known && self.tongue.counts_in_text.contains(&keyword.as_str()) {
                let count = value.as_f64().unwrap_or_default() as u64;
                told.insert(keyword.clone(), count.to_string().into());
            } else if known {
                told.insert(keyword.clone(), value.clone());
            } else if !SILENT.contains(&keyword.as_str()) {
                self.lose(at, format!("`{keyword}` is told in words only"));
                let value = value.to_string();
                if value.len() <= 100 {
                    in_words.push(format!("{keyword}: {value}"));
                }
            }
        }
        if !in_words.is_empty() {
            say(&mut told, &in_words.join(", "));
        }
        told
    }

    /// A value that the language has no words for.
    fn text(&mut self, schema: &Map<String, Value>, at: &str, why: &str) -> Fitted {
        self.lose(at, why);
        let mut told = Map::new();
        let kind = if self.tongue.types_in_capitals {
            "STRING"
        } else {
            "string"
        };
        told.insert("type".into(), kind.into());
        if let Some(Value::String(words)) = schema.get("description") {
            told.insert("description".into(), visible(words).into());
        }
        say(&mut told, "as JSON text");
        (told, Undo::Text)
    }

    fn allow_null(&self, told: &mut Map<String, Value>) {
        if !self.tongue.null_is_a_type {
            told.insert("nullable".into(), true.into());
            return;
        }
        if let Some(Value::Array(all)) = told.get_mut("anyOf") {
            if !all.iter().any(|it| it["type"] == "null") {
                all.push(json!({"type": "null"}));
            }
            return;
        }
        if let Some(Value::String(kind)) = told.get("type").filter(|it| **it != "null") {
            let both = json!([kind, "null"]);
            told.insert("type".into(), both);
        }
        if let Some(Value::Array(listed)) = told.get_mut("enum")
            && !listed.contains(&Value::Null)
        {
            listed.push(Value::Null);
        }
    }
}

/// Keywords that have a place of their own.
const TOLD: &[&str] = &[
    "type",
    "description",
    "enum",
    "const",
    "properties",
    "required",
    "items",
    "prefixItems",
    "additionalProperties",
    "patternProperties",
    "anyOf",
    "oneOf",
];
/// Keywords that demand nothing.
const SILENT: &[&str] = &[
    "title",
    "default",
    "examples",
    "$schema",
    "$id",
    "$anchor",
    "$comment",
    "$defs",
    "definitions",
    "deprecated",
    "readOnly",
    "writeOnly",
    "unevaluatedProperties",
    "contentMediaType",
    "contentEncoding",
    "contentSchema",
];

/// Whether a keyword says anything about values of this type.
fn is_of(keyword: &str, kind: &str) -> bool {
    match keyword {
        "minLength" | "maxLength" | "pattern" => kind == "string",
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => {
            kind == "integer" || kind == "number"
        }
        "minItems" | "maxItems" => kind == "array",
        "minProperties" | "maxProperties" => kind == "object",
        "format" => kind != "object" && kind != "array" && kind != "boolean",
        _ => true,
    }
}

/// Adds to what is said of a value.
fn say(told: &mut Map<String, Value>, words: &str) {
    let before = told.get("description").and_then(Value::as_str);
    let all = match before {
        Some(before) => format!("{before} ({words})"),
        None => words.to_owned(),
    };
    told.insert("description".into(), all.into());
}
