//! Paths into JSON: dotted (`web.results`, `items[0].name`) or, with a leading `$`, RFC 9535.

use std::fmt;

use serde_json::Value;
use serde_json_path::JsonPath as Rfc9535;
use thiserror::Error;

/// One step of a dotted path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Key(String),
    Index(usize),
}

#[derive(Clone, Debug)]
pub struct JsonPath {
    text: String,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Dotted(Vec<Step>),
    /// `many` when the query may select several values: then the answer is a list, also of one.
    Query {
        query: Box<Rfc9535>,
        many: bool,
    },
}

#[derive(Debug, Error, PartialEq, Eq)]
pub enum PathError {
    #[error("a path cannot be empty")]
    Empty,
    #[error("`{0}` is not a path: write it like `web.results` or `items[0].name`")]
    Dotted(String),
    #[error("`{path}` is not a JSONPath: {reason}")]
    Query { path: String, reason: String },
    #[error("`{0}` has more than one `..` or list of selectors, and could select without end")]
    Multiplies(String),
}

impl JsonPath {
    pub fn parse(text: &str) -> Result<JsonPath, PathError> {
        let kind = if text.starts_with('$') {
            let query = Rfc9535::parse(text).map_err(|err| PathError::Query {
                path: text.to_owned(),
                reason: err.message().to_owned(),
            })?;
            if multiplies(text) {
                return Err(PathError::Multiplies(text.to_owned()));
            }
            Kind::Query {
                query: Box::new(query),
                many: selects_many(text),
            }
        } else {
            Kind::Dotted(steps(text)?)
        };
        Ok(JsonPath {
            text: text.to_owned(),
            kind,
        })
    }

    /// What the path selects; `None` when nothing is there.
    pub fn select(&self, value: &Value) -> Option<Value> {
        match &self.kind {
            Kind::Dotted(steps) => walk(value, steps).cloned(),
            Kind::Query { query, many: true } => Some(Value::Array(
                query.query(value).all().into_iter().cloned().collect(),
            )),
            Kind::Query { query, many: false } => query.query(value).first().cloned(),
        }
    }
}

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Follows dotted steps down a value.
pub fn walk<'a>(value: &'a Value, steps: &[Step]) -> Option<&'a Value> {
    steps.iter().try_fold(value, |at, step| match step {
        Step::Key(key) => at.get(key),
        Step::Index(index) => at.get(index),
    })
}

/// Reads `a.b[0].c` into its steps.
pub fn steps(text: &str) -> Result<Vec<Step>, PathError> {
    if text.is_empty() {
        return Err(PathError::Empty);
    }
    let bad = || PathError::Dotted(text.to_owned());
    let mut steps = Vec::new();
    for part in text.split('.') {
        let (key, mut indices) = part.split_at(part.find('[').unwrap_or(part.len()));
        if key.contains(']') || (key.is_empty() && (indices.is_empty() || !steps.is_empty())) {
            return Err(bad());
        }
        if !key.is_empty() {
            steps.push(Step::Key(key.to_owned()));
        }
        while !indices.is_empty() {
            let (index, rest) = indices
                .strip_prefix('[')
                .and_then(|it| it.split_once(']'))
                .ok_or_else(bad)?;
            steps.push(Step::Index(index.parse().map_err(|_| bad())?));
            indices = rest;
        }
    }
    Ok(steps)
}

/// Whether an RFC 9535 query is not singular: a wildcard, descendant, filter, slice or union
/// outside quotes.
fn selects_many(query: &str) -> bool {
    let bare = without_quoted(query);
    bare.contains(['*', '?', ':', ',']) || bare.contains("..")
}

/// Whether a query could select the same values over and over. Each `..` after the first multiplies
/// what is selected, and so does each list of selectors: a response of 200 bytes becomes gigabytes.
fn multiplies(query: &str) -> bool {
    let bare = without_quoted(query);
    let lists = bare.split('[').filter(|it| it.contains(',')).count();
    bare.matches("..").count() > 1 || lists > 1 || bare.matches(',').count() > 32
}

fn without_quoted(query: &str) -> String {
    let mut quote = None;
    let mut escaped = false;
    let mut bare = String::new();
    for c in query.chars() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if matches!(c, '\'' | '"') => quote = Some(c),
            None => bare.push(c),
        }
    }
    bare
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn select(path: &str, value: Value) -> Option<Value> {
        JsonPath::parse(path).unwrap().select(&value)
    }

    #[test]
    fn dotted() {
        let value = json!({"web": {"results": [{"name": "a"}, {"name": "b"}]}, "a-b": 1});
        assert_eq!(
            select("web.results[1].name", value.clone()),
            Some(json!("b"))
        );
        assert_eq!(select("a-b", value.clone()), Some(json!(1)));
        assert_eq!(select("web.nothing", value.clone()), None);
        assert_eq!(select("web.results[7]", value), None);
        assert_eq!(select("[0][1]", json!([[1, 2]])), Some(json!(2)));
    }

    #[test]
    fn rfc9535() {
        let value = json!({"items": [{"n": 1}, {"n": 2}], "*": 7});
        assert_eq!(select("$.items[*].n", value.clone()), Some(json!([1, 2])));
        assert_eq!(select("$.items[0].n", value.clone()), Some(json!(1)));
        assert_eq!(select("$..n", value.clone()), Some(json!([1, 2])));
        assert_eq!(select("$['*']", value.clone()), Some(json!(7)));
        assert_eq!(select("$.items[?@.n > 5]", value.clone()), Some(json!([])));
        assert_eq!(
            select("$.items[0]['n','n']", value.clone()),
            Some(json!([1, 1]))
        );
        assert_eq!(select("$['..'].x..y", value.clone()), Some(json!([])));
        assert_eq!(select("$.none", value), None);
    }

    #[test]
    fn broken() {
        for path in [
            "",
            "$..*..*",
            "$..[?@..x]",
            "$[*,*][*,*]",
            ".",
            "a..b",
            "a.",
            "a[",
            "a[x]",
            "a[0",
            "a]b",
            "a[-1]",
            "$.[",
            "a.[0]",
        ] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }
}
