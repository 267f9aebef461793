//! A schema, told in the language of a provider. What it cannot say is said in words or left out, and
//! every such loss is listed.

use serde_json::{Map, Value, json};

use glee_core::name::visible;

use super::tongue::{self, Tongue, is_plain};
use super::undo::{Field, Undo};

/// Schemas nested deeper than this, or larger, are told as far as that; the rest is JSON text.
const DEEPEST: usize = 9;
const MOST_NODES: usize = 1500;
/// A schema with more than this is not told at all.
const MOST_TOLD: usize = 4500;
/// Parts of schemas that are looked at for one tool. References can multiply without end.
const MOST_WORK: usize = 200_000;
/// Values that are listed, in one list and in all lists of a tool, and how long a long list may be.
const MOST_LISTED: usize = 900;
const MANY_LISTED: usize = 250;
const LONGEST_LISTED: usize = 15_000;
/// References that lead to references.
const MOST_HOPS: usize = 32;

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
    let merged = fitting.merged(source, "");
    let folded = fitting.folded(merged, "");
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
        losses: fitting.losses,
    })
}

/// The schema with nothing but an object at its root; what stands below is as it was.
pub(super) fn flat_root(source: &Value) -> (Map<String, Value>, Vec<Loss>) {
    let mut fitting = Fitting::new(&tongue::OPENAI, source);
    let merged = fitting.merged(source, "");
    let mut folded = fitting.folded(merged, "");
    // Others may refer to these.
    if let Some(shared) = source.get("$defs") {
        folded.insert("$defs".into(), shared.clone());
    }
    (folded, fitting.losses)
}

type Fitted = (Map<String, Value>, Undo);

struct Fitting<'a> {
    tongue: &'a Tongue,
    root: &'a Value,
    nodes: usize,
    work: usize,
    listed: usize,
    losses: Vec<Loss>,
}

impl<'a> Fitting<'a> {
    fn new(tongue: &'a Tongue, root: &'a Value) -> Fitting<'a> {
        Fitting {
            tongue,
            root,
            nodes: 0,
            work: 0,
            listed: 0,
            losses: Vec::new(),
        }
    }

    fn is_spent(&self) -> bool {
        self.work > MOST_WORK || self.nodes > MOST_TOLD
    }

    /// Whether there is room for as much as this.
    fn spend(&mut self, schema: &Value) -> bool {
        self.work += glee_core::json::count(schema);
        !self.is_spent()
    }

    fn lose(&mut self, at: &str, what: impl Into<String>) {
        self.losses.push(Loss {
            at: at.to_owned(),
            what: what.into(),
        });
    }

    fn any(&mut self, schema: &Value, at: &str, depth: usize) -> Result<Fitted, String> {
        self.nodes += 1;
        if self.is_spent() {
            return Ok((Map::new(), Undo::Same));
        }
        let merged = self.merged(schema, at);
        if depth > DEEPEST || self.nodes > MOST_NODES {
            return Ok(self.text(&merged, at, "it is nested too deep or too large"));
        }
        let variants = self.variants(&merged, at);
        match (variants, self.tongue.unions) {
            (Some(variants), true) => self.union(&merged, &variants, at, depth),
            (Some(_), false) => {
                let folded = self.folded(merged, at);
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
            let merged = self.quietly(|it| it.merged(&inner, &at));
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

    /// The schema with its references followed, and with all that `allOf` adds.
    fn merged(&mut self, schema: &Value, at: &str) -> Map<String, Value> {
        self.followed(schema, at, 0)
    }

    fn followed(&mut self, schema: &Value, at: &str, hops: usize) -> Map<String, Value> {
        let Value::Object(map) = schema else {
            return Map::new();
        };
        if !self.spend(schema) {
            return Map::new();
        }
        let mut merged = map.clone();
        let target = merged.shift_remove("$ref");
        let more = merged.shift_remove("allOf");
        if hops > MOST_HOPS {
            return merged;
        }
        if let Some(target) = target.as_ref().and_then(Value::as_str) {
            match self.target(target) {
                Some(found) => {
                    let found = self.followed(found, at, hops + 1);
                    self.merge(&mut merged, found, at);
                }
                None => self.lose(at, format!("what `{target}` refers to is not told")),
            }
        }
        for one in more.iter().filter_map(Value::as_array).flatten() {
            let one = self.followed(one, at, hops + 1);
            self.merge(&mut merged, one, at);
        }
        merged
    }

    fn target(&self, reference: &str) -> Option<&'a Value> {
        let pointer = reference.strip_prefix('#')?;
        self.root.pointer(pointer)
    }

    fn merge(&mut self, into: &mut Map<String, Value>, other: Map<String, Value>, at: &str) {
        for (keyword, value) in other {
            match (keyword.as_str(), into.get_mut(&keyword), value) {
                (_, None, value) => {
                    into.insert(keyword, value);
                }
                ("properties", Some(Value::Object(own)), Value::Object(more)) => {
                    for (name, schema) in more {
                        match own.get_mut(&name) {
                            None => {
                                own.insert(name, schema);
                            }
                            Some(both) if *both != schema => {
                                *both = json!({"allOf": [both.take(), schema]});
                            }
                            Some(_) => {}
                        }
                    }
                }
                ("required", Some(Value::Array(own)), Value::Array(more)) => {
                    let new: Vec<Value> = more.into_iter().filter(|it| !own.contains(it)).collect();
                    own.extend(new);
                }
                ("description" | "title" | "$defs" | "examples" | "default", Some(_), _) => {}
                (_, Some(own), value) if *own == value => {}
                (_, Some(_), _) => self.lose(at, format!("one of two `{keyword}` is not told")),
            }
        }
    }

    /// The forms that a value can have, when there are several.
    fn variants(
        &mut self,
        schema: &Map<String, Value>,
        at: &str,
    ) -> Option<Vec<Map<String, Value>>> {
        let mut base = schema.clone();
        let listed = ["anyOf", "oneOf"]
            .iter()
            .filter_map(|it| base.shift_remove(*it))
            .next();
        if let Some(Value::Array(variants)) = listed {
            base.shift_remove("description");
            let around = Value::Object(base.clone());
            let variants: Vec<Map<String, Value>> = variants
                .iter()
                .take_while(|_| self.spend(&around))
                .collect::<Vec<_>>()
                .into_iter()
                .map(|it| {
                    let mut variant = self.merged(it, at);
                    self.merge(&mut variant, base.clone(), at);
                    variant
                })
                .collect();
            return Some(variants);
        }
        let Some(Value::Array(types)) = schema.get("type") else {
            return None;
        };
        let several = types.iter().filter(|it| *it != "null").count() > 1;
        several.then(|| {
            let of = |kind: &Value| {
                let mut variant = base.clone();
                variant.shift_remove("description");
                variant.insert("type".into(), kind.clone());
                variant
            };
            types.iter().map(of).collect()
        })
    }

    /// One schema in place of a union: for objects what they have together, otherwise the first form.
    fn folded(&mut self, schema: Map<String, Value>, at: &str) -> Map<String, Value> {
        let Some(all) = self.variants(&schema, at) else {
            return schema;
        };
        let mut base = schema;
        base.shift_remove("anyOf");
        base.shift_remove("oneOf");
        let has_null = all.iter().any(|it| kind(it).1);
        let all: Vec<_> = all
            .into_iter()
            .filter(|it| kind(it).0.as_deref() != Some("null"))
            .map(|it| self.folded(it, at))
            .collect();
        let kinds: Vec<_> = all.iter().map(|it| kind(it).0).collect();
        let mut folded = match all.split_first() {
            None => base,
            Some((only, [])) => {
                let mut only = only.clone();
                self.merge(&mut only, base, at);
                only
            }
            Some((_, _)) if kinds.iter().all(|it| it.as_deref() == Some("object")) => {
                self.lose(at, "the properties of all its forms are told as one");
                let mut together = Map::new();
                let always = all.iter().map(|it| names(it.get("required")));
                let always =
                    always.reduce(|a, b| a.into_iter().filter(|it| b.contains(it)).collect());
                let mut properties = Map::new();
                for (name, inner) in all.iter().flat_map(fields) {
                    match properties.get_mut(&name) {
                        None => {
                            properties.insert(name, inner);
                        }
                        Some(known) if *known == inner => {}
                        Some(known) => match known.get_mut("anyOf").and_then(Value::as_array_mut) {
                            Some(forms) => forms.push(inner),
                            None => *known = json!({"anyOf": [known.take(), inner]}),
                        },
                    }
                }
                together.insert("type".into(), "object".into());
                together.insert("properties".into(), properties.into());
                together.insert("required".into(), always.unwrap_or_default().into());
                if let Some(words) = base.get("description") {
                    together.insert("description".into(), words.clone());
                }
                together
            }
            Some((first, _)) => {
                let listed: Option<Vec<Value>> = all
                    .iter()
                    .map(values)
                    .collect::<Option<Vec<_>>>()
                    .map(|it| it.concat());
                let same = kinds.iter().all(|it| *it == kinds[0]);
                let mut first = first.clone();
                match listed {
                    Some(listed) if same => {
                        first.shift_remove("const");
                        first.insert("enum".into(), listed.into());
                    }
                    _ => self.lose(at, "only the first of its forms is told"),
                }
                if let Some(words) = base.get("description") {
                    first.insert("description".into(), words.clone());
                }
                first
            }
        };
        if has_null && let Some(Value::String(kind)) = folded.get("type") {
            let both = json!([kind, "null"]);
            folded.insert("type".into(), both);
        }
        folded
    }

    /// Looks at something that is told elsewhere.
    fn quietly<T>(&mut self, look: impl FnOnce(&mut Self) -> T) -> T {
        let known = self.losses.len();
        let seen = look(self);
        self.losses.truncate(known);
        seen
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

/// The type that is not null, and whether null is one of the values too.
pub(super) fn kind(schema: &Map<String, Value>) -> (Option<String>, bool) {
    let has = |all: &[&str]| all.iter().any(|it| schema.contains_key(*it));
    match schema.get("type") {
        Some(Value::String(kind)) => (Some(kind.clone()), kind == "null"),
        Some(Value::Array(kinds)) => {
            let null = kinds.iter().any(|it| it == "null");
            let other = kinds
                .iter()
                .filter_map(Value::as_str)
                .find(|it| *it != "null");
            (other.or(null.then_some("null")).map(str::to_owned), null)
        }
        _ => {
            let listed = values(schema).unwrap_or_default();
            let null = listed.iter().any(Value::is_null);
            let mut kinds = listed.iter().filter(|it| !it.is_null()).map(kind_of);
            let first = kinds.next();
            let guessed = match first {
                Some(first) => kinds.all(|it| it == first).then_some(first),
                None if null => Some("null"),
                None if has(&["properties", "required", "additionalProperties"]) => Some("object"),
                None if has(&["items", "prefixItems", "minItems", "maxItems"]) => Some("array"),
                None if has(&["minLength", "maxLength", "pattern", "format"]) => Some("string"),
                None if has(&["minimum", "maximum", "multipleOf"]) => Some("number"),
                None => None,
            };
            (guessed.map(str::to_owned), null)
        }
    }
}

pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(it) if it.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

pub(super) fn values(schema: &Map<String, Value>) -> Option<Vec<Value>> {
    match (schema.get("const"), schema.get("enum")) {
        (Some(only), _) => Some(vec![only.clone()]),
        (None, Some(Value::Array(all))) => Some(all.clone()),
        _ => None,
    }
}

fn fields(schema: &Map<String, Value>) -> Vec<(String, Value)> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = names(schema.get("required"));
    let mut fields: Vec<(String, Value)> = properties
        .into_iter()
        .flatten()
        .filter(|(_, it)| **it != Value::Bool(false))
        .map(|(name, it)| (name.clone(), it.clone()))
        .collect();
    // What is required and not described can have any value.
    for name in required {
        if !fields.iter().any(|(it, _)| *it == name) {
            fields.push((name, json!(true)));
        }
    }
    fields
}

/// An object whose keys are not known beforehand, and which has no others.
fn is_map(schema: &Map<String, Value>) -> bool {
    let open = match schema.get("additionalProperties") {
        None | Some(Value::Bool(false)) => schema.contains_key("patternProperties"),
        Some(_) => true,
    };
    open && fields(schema).is_empty()
}

fn names(list: Option<&Value>) -> Vec<String> {
    let names = list.and_then(Value::as_array).into_iter().flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
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
