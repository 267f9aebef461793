//! A schema in one piece: references followed, what `allOf` adds put together, and several forms made one where
//! there can be only one.

use data_encoding::HEXLOWER_PERMISSIVE;
use serde_json::{Map, Value, json};

use super::fit::Loss;
use super::kind::{fields, kind, names, values};

/// Parts of schemas that are looked at for one tool. References can multiply without end.
const MOST_WORK: usize = 200_000;
/// References that lead to references.
const MOST_HOPS: usize = 32;

pub(super) struct Folding<'a> {
    root: &'a Value,
    work: usize,
    pub(super) losses: Vec<Loss>,
}

impl<'a> Folding<'a> {
    pub(super) fn new(root: &'a Value) -> Folding<'a> {
        Folding {
            root,
            work: 0,
            losses: Vec::new(),
        }
    }

    pub(super) fn is_spent(&self) -> bool {
        self.work > MOST_WORK
    }

    /// Whether there is room for as much as this.
    fn spend(&mut self, schema: &Value) -> bool {
        self.work += glee_core::json::count(schema);
        !self.is_spent()
    }

    pub(super) fn lose(&mut self, at: &str, what: impl Into<String>) {
        self.losses.push(Loss {
            at: at.to_owned(),
            what: what.into(),
        });
    }

    /// The root with nothing but an object; what stands below is as it was.
    pub(super) fn root(&mut self) -> Map<String, Value> {
        let merged = self.merged(self.root, "");
        self.folded(merged, "")
    }

    /// The schema with its references followed, and with all that `allOf` adds.
    pub(super) fn merged(&mut self, schema: &Value, at: &str) -> Map<String, Value> {
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
            match target_of(target, self.root) {
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

    /// The forms that a value can have, when there are several. Each says of the value what is said of all.
    pub(super) fn variants(
        &mut self,
        schema: &Map<String, Value>,
        at: &str,
    ) -> Option<Vec<Map<String, Value>>> {
        let mut around = schema.clone();
        around.shift_remove("description");
        let any = around.shift_remove("anyOf");
        let one = around.shift_remove("oneOf");
        if let Some(Value::Array(forms)) = any.or(one) {
            let mut variants = Vec::new();
            for form in &forms {
                // References can multiply without end.
                if !self.spend(&Value::Object(around.clone())) {
                    break;
                }
                let mut variant = self.merged(form, at);
                self.merge(&mut variant, around.clone(), at);
                variants.push(variant);
            }
            return Some(variants);
        }
        let Some(Value::Array(types)) = schema.get("type") else {
            return None;
        };
        if types.iter().filter(|it| *it != "null").count() < 2 {
            return None;
        }
        let of = |kind: &Value| {
            let mut variant = around.clone();
            variant.insert("type".into(), kind.clone());
            variant
        };
        Some(types.iter().map(of).collect())
    }

    /// One schema in place of a union: for objects what they have together, otherwise the first form.
    pub(super) fn folded(&mut self, schema: Map<String, Value>, at: &str) -> Map<String, Value> {
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
    pub(super) fn quietly<T>(&mut self, look: impl FnOnce(&mut Self) -> T) -> T {
        let known = self.losses.len();
        let seen = look(self);
        self.losses.truncate(known);
        seen
    }
}

/// Keywords whose values are no schemas.
pub(super) const VALUES: &[&str] = &["default", "const", "enum", "examples"];

/// What a reference leads to: by a pointer, or to where an anchor is.
pub(super) fn target_of<'a>(reference: &str, root: &'a Value) -> Option<&'a Value> {
    let fragment = decoded(reference.strip_prefix('#')?)?;
    match fragment.is_empty() || fragment.starts_with('/') {
        true => root.pointer(&fragment),
        false => anchored(&fragment, root),
    }
}

fn anchored<'a>(name: &str, schema: &'a Value) -> Option<&'a Value> {
    match schema {
        Value::Object(map) if map.get("$anchor").is_some_and(|it| it == name) => Some(schema),
        Value::Object(map) => map
            .iter()
            .filter(|(key, _)| !VALUES.contains(&key.as_str()))
            .find_map(|(_, it)| anchored(name, it)),
        Value::Array(items) => items.iter().find_map(|it| anchored(name, it)),
        _ => None,
    }
}

/// A fragment of a URL as what it stands for.
fn decoded(fragment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escaped = match first {
            b'%' => after.split_at_checked(2),
            _ => None,
        };
        let byte = escaped.and_then(|it| HEXLOWER_PERMISSIVE.decode(it.0).ok());
        match (byte, escaped) {
            (Some(byte), Some((_, after))) => {
                bytes.extend(byte);
                rest = after;
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_lead_where_they_say() {
        let root = json!({
            "$defs": {"a b": {"const": 1}, "c/d%": {"const": 2}, "e": [{"$anchor": "here", "const": 3}]},
            "default": {"$anchor": "no"},
        });
        let found = |to: &str| target_of(to, &root).map(|it| it["const"].clone());
        assert_eq!(found("#/$defs/a%20b"), Some(json!(1)));
        assert_eq!(found("#/%24defs/c~1d%25"), Some(json!(2)));
        assert_eq!(found("#/$defs/c~1d%"), Some(json!(2)));
        assert_eq!(found("#here"), Some(json!(3)));
        assert_eq!(found("#"), Some(Value::Null));
        for to in ["#no", "#/nowhere", "other#here", "#%ff"] {
            assert_eq!(found(to), None, "{to}");
        }
    }
}
