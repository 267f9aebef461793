//! Text with holes: parsed once, filled structurally, in a single pass.
//!
//! `${query}` takes an argument or a declared secret, `${user.emails[0]}` reaches into it, `$${` is a
//! literal `${`. What an argument contains is never read as a template again, so an argument saying
//! `${API_KEY}` stays those nine letters.

use std::cell::Cell;
use std::collections::BTreeSet;

use serde_json::{Map, Value};
use thiserror::Error;

use crate::json_path::{self, Step};
use crate::name;
use crate::secret::SecretValues;

/// What one call may put into templates altogether. A 1 MB argument named a thousand times must not
/// become a gigabyte.
pub const FILL_LIMIT: usize = 4 << 20;

/// The names a template may use.
#[derive(Clone, Debug, Default)]
pub struct Names {
    pub inputs: BTreeSet<String>,
    pub secrets: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Text(String),
    Hole(Hole),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hole {
    pub source: Source,
    pub name: String,
    pub steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Input,
    Secret,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{problem}")]
pub struct TemplateError {
    /// Byte offset into the template's text.
    pub at: usize,
    pub problem: TemplateProblem,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TemplateProblem {
    #[error("`${{` is never closed")]
    Unclosed,
    #[error("`${{{0}}}` is not a placeholder: write a name, or a path like `user.emails[0]`")]
    BadPath(String),
    #[error("`${{{name}}}` is neither an input nor a declared secret")]
    Undeclared {
        name: String,
        nearest: Option<String>,
    },
    #[error("`${{{0}}}` reaches into a secret; a secret is one piece of text")]
    IntoSecret(String),
}

#[derive(Debug, Error, PartialEq, Eq)]
#[error("the filled templates of one call exceed {FILL_LIMIT} bytes")]
pub struct TooLarge;

/// What the holes of one call are filled with.
pub struct Scope<'a> {
    args: &'a Map<String, Value>,
    secrets: &'a SecretValues,
    left: Cell<usize>,
}

impl<'a> Scope<'a> {
    pub fn new(args: &'a Map<String, Value>, secrets: &'a SecretValues) -> Scope<'a> {
        Scope {
            args,
            secrets,
            left: Cell::new(FILL_LIMIT),
        }
    }

    fn spend(&self, bytes: usize) -> Result<(), TooLarge> {
        self.left
            .set(self.left.get().checked_sub(bytes).ok_or(TooLarge)?);
        Ok(())
    }

    fn value(&self, hole: &Hole) -> Option<Value> {
        match hole.source {
            Source::Input => json_path::walk(self.args.get(&hole.name)?, &hole.steps).cloned(),
            Source::Secret => self
                .secrets
                .get(&hole.name)
                .map(|it| Value::String(it.reveal().to_owned())),
        }
    }
}

impl Template {
    /// Reads a template; every undeclared or broken placeholder is reported, not only the first.
    pub fn parse(text: &str, names: &Names) -> Result<Template, Vec<TemplateError>> {
        let mut parts = Vec::new();
        let mut errors = Vec::new();
        let mut literal = String::new();
        let mut at = 0;
        while let Some(found) = text[at..].find('$') {
            let dollar = at + found;
            literal.push_str(&text[at..dollar]);
            let rest = &text[dollar..];
            if rest.starts_with("$${") {
                literal.push_str("${");
                at = dollar + 3;
            } else if let Some(inner) = rest.strip_prefix("${") {
                let Some(end) = inner.find('}') else {
                    errors.push(TemplateError {
                        at: dollar,
                        problem: TemplateProblem::Unclosed,
                    });
                    return Err(errors);
                };
                match hole(&inner[..end], names) {
                    Ok(hole) => {
                        if !literal.is_empty() {
                            parts.push(Part::Text(std::mem::take(&mut literal)));
                        }
                        parts.push(Part::Hole(hole));
                    }
                    Err(problem) => errors.push(TemplateError {
                        at: dollar,
                        problem,
                    }),
                }
                at = dollar + 2 + end + 1;
            } else {
                literal.push('$');
                at = dollar + 1;
            }
        }
        literal.push_str(&text[at..]);
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        if errors.is_empty() {
            Ok(Template { parts })
        } else {
            Err(errors)
        }
    }

    pub(crate) fn from_parts(parts: Vec<Part>) -> Template {
        Template { parts }
    }

    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    pub fn holes(&self) -> impl Iterator<Item = &Hole> {
        self.parts.iter().filter_map(|part| match part {
            Part::Hole(hole) => Some(hole),
            Part::Text(_) => None,
        })
    }

    /// The hole, when the template is nothing but that hole.
    pub fn whole(&self) -> Option<&Hole> {
        match self.parts.as_slice() {
            [Part::Hole(hole)] => Some(hole),
            _ => None,
        }
    }

    /// The filled value: of the argument's own type when the template is one hole, text otherwise,
    /// `None` when a hole has nothing to put in.
    pub fn value(&self, scope: &Scope<'_>) -> Result<Option<Value>, TooLarge> {
        match self.whole() {
            Some(hole) => match scope.value(hole) {
                Some(value) => {
                    scope.spend(size(&value))?;
                    Ok(Some(value))
                }
                None => Ok(None),
            },
            None => Ok(self.text(scope)?.map(Value::String)),
        }
    }

    /// The words of an argument vector that this becomes: none when a hole has nothing to put in,
    /// and one per element when it is nothing but a hole for a list.
    pub fn words(&self, scope: &Scope<'_>) -> Result<Vec<String>, TooLarge> {
        Ok(match self.value(scope)? {
            None => Vec::new(),
            Some(Value::Array(items)) => items.into_iter().filter_map(as_text).collect(),
            Some(value) => as_text(value).into_iter().collect(),
        })
    }

    /// The filled text; `None` when a hole has nothing to put in.
    pub fn text(&self, scope: &Scope<'_>) -> Result<Option<String>, TooLarge> {
        self.text_with(scope, str::to_owned)
    }

    /// Like `text`, with what goes into the holes encoded and the author's own text left alone.
    pub fn text_with(
        &self,
        scope: &Scope<'_>,
        encode: impl Fn(&str) -> String,
    ) -> Result<Option<String>, TooLarge> {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Hole(hole) => match scope.value(hole).and_then(as_text) {
                    Some(text) => {
                        scope.spend(text.len())?;
                        out.push_str(&encode(&text));
                    }
                    None => return Ok(None),
                },
            }
        }
        Ok(Some(out))
    }
}

/// How a value reads inside text. `null` is nothing, as an absent argument is.
pub fn as_text(value: Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}

/// A JSON value whose strings are templates.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueTemplate {
    Text(Template),
    Literal(Value),
    List(Vec<ValueTemplate>),
    Map(Vec<(String, ValueTemplate)>),
}

impl ValueTemplate {
    /// The filled value; list elements and map fields whose hole has nothing to put in are dropped.
    pub fn fill(&self, scope: &Scope<'_>) -> Result<Option<Value>, TooLarge> {
        match self {
            ValueTemplate::Text(template) => template.value(scope),
            ValueTemplate::Literal(value) => Ok(Some(value.clone())),
            ValueTemplate::List(items) => {
                let mut filled = Vec::with_capacity(items.len());
                for item in items {
                    filled.extend(item.fill(scope)?);
                }
                Ok(Some(Value::Array(filled)))
            }
            ValueTemplate::Map(fields) => {
                let mut filled = Map::new();
                for (key, field) in fields {
                    if let Some(value) = field.fill(scope)? {
                        filled.insert(key.clone(), value);
                    }
                }
                Ok(Some(Value::Object(filled)))
            }
        }
    }

    pub fn holes(&self) -> Vec<&Hole> {
        match self {
            ValueTemplate::Text(template) => template.holes().collect(),
            ValueTemplate::Literal(_) => Vec::new(),
            ValueTemplate::List(items) => items.iter().flat_map(ValueTemplate::holes).collect(),
            ValueTemplate::Map(fields) => fields.iter().flat_map(|(_, it)| it.holes()).collect(),
        }
    }
}

fn hole(path: &str, names: &Names) -> Result<Hole, TemplateProblem> {
    let bad = || TemplateProblem::BadPath(path.to_owned());
    let mut steps = json_path::steps(path).map_err(|_| bad())?;
    let is_word = |it: &str| {
        it.chars()
            .all(|c| c.is_alphanumeric() || c == '_' || c == '-')
    };
    let words = steps.iter().all(|step| match step {
        Step::Key(key) => is_word(key),
        Step::Index(_) => true,
    });
    if !words {
        return Err(bad());
    }
    let Step::Key(name) = steps.remove(0) else {
        return Err(bad());
    };
    let source = if names.inputs.contains(&name) {
        Source::Input
    } else if names.secrets.contains(&name) {
        Source::Secret
    } else {
        let known = names
            .inputs
            .iter()
            .chain(&names.secrets)
            .map(String::as_str);
        let nearest = name::nearest(&name, known).map(str::to_owned);
        return Err(TemplateProblem::Undeclared { name, nearest });
    };
    if source == Source::Secret && !steps.is_empty() {
        return Err(TemplateProblem::IntoSecret(path.to_owned()));
    }
    Ok(Hole {
        source,
        name,
        steps,
    })
}

fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => 2 + items.iter().map(size).sum::<usize>(),
        Value::Object(map) => {
            2 + map
                .iter()
                .map(|(key, it)| key.len() + size(it))
                .sum::<usize>()
        }
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;
    use serde_json::json;

    fn names() -> Names {
        Names {
            inputs: ["q", "count", "user", "opt"].map(str::to_owned).into(),
            secrets: ["KEY"].map(str::to_owned).into(),
        }
    }

    fn fill(text: &str, args: Value) -> Option<Value> {
        let secrets = SecretValues::from([("KEY".to_owned(), Secret::new("s3cret"))]);
        let args = args.as_object().unwrap().clone();
        Template::parse(text, &names())
            .unwrap()
            .value(&Scope::new(&args, &secrets))
            .unwrap()
    }

    #[test]
    fn a_whole_hole_keeps_its_type() {
        assert_eq!(fill("${count}", json!({"count": 5})), Some(json!(5)));
        assert_eq!(
            fill("${user}", json!({"user": {"a": [1]}})),
            Some(json!({"a": [1]}))
        );
        assert_eq!(fill("n=${count}", json!({"count": 5})), Some(json!("n=5")));
        assert_eq!(fill("${opt}", json!({"opt": null})), Some(json!(null)));
    }

    #[test]
    fn an_absent_argument_drops_the_whole_text() {
        assert_eq!(fill("${opt}", json!({})), None);
        assert_eq!(fill("x ${opt} y", json!({})), None);
        assert_eq!(fill("x ${opt}", json!({"opt": null})), None);
        assert_eq!(fill("${user.a[1]}", json!({"user": {"a": [1]}})), None);
    }

    #[test]
    fn a_single_pass_and_escapes() {
        assert_eq!(fill("${q}", json!({"q": "${KEY}"})), Some(json!("${KEY}")));
        assert_eq!(
            fill("<${q}>", json!({"q": "${KEY}"})),
            Some(json!("<${KEY}>"))
        );
        assert_eq!(fill("$${q} $q $", json!({})), Some(json!("${q} $q $")));
        assert_eq!(fill("$$${q}", json!({"q": 1})), Some(json!("$${q}")));
        assert_eq!(
            fill("Bearer ${KEY}", json!({})),
            Some(json!("Bearer s3cret"))
        );
        assert_eq!(
            fill("${user.a[0].b}", json!({"user": {"a": [{"b": 1}]}})),
            Some(json!(1))
        );
    }

    #[test]
    fn every_problem_is_found() {
        let errors = Template::parse("${HOME} ${cuont} ${a b} ${KEY.x} ${", &names()).unwrap_err();
        let problems: Vec<_> = errors.into_iter().map(|it| (it.at, it.problem)).collect();
        assert_eq!(
            problems,
            [
                (
                    0,
                    TemplateProblem::Undeclared {
                        name: "HOME".into(),
                        nearest: None
                    }
                ),
                (
                    8,
                    TemplateProblem::Undeclared {
                        name: "cuont".into(),
                        nearest: Some("count".into())
                    }
                ),
                (17, TemplateProblem::BadPath("a b".into())),
                (24, TemplateProblem::IntoSecret("KEY.x".into())),
                (33, TemplateProblem::Unclosed),
            ]
        );
    }

    #[test]
    fn an_expansion_bomb_is_refused() {
        let template = Template::parse(&"${q}".repeat(1000), &names()).unwrap();
        let args = json!({"q": "x".repeat(1 << 20)})
            .as_object()
            .unwrap()
            .clone();
        assert_eq!(
            template.text(&Scope::new(&args, &SecretValues::new())),
            Err(TooLarge)
        );
    }

    #[test]
    fn values_drop_what_is_absent() {
        let template = ValueTemplate::Map(vec![
            ("keep".into(), ValueTemplate::Literal(json!(1))),
            (
                "drop".into(),
                ValueTemplate::Text(Template::parse("${opt}", &names()).unwrap()),
            ),
            (
                "list".into(),
                ValueTemplate::List(vec![
                    ValueTemplate::Text(Template::parse("${opt}", &names()).unwrap()),
                    ValueTemplate::Text(Template::parse("${q}", &names()).unwrap()),
                ]),
            ),
        ]);
        let args = json!({"q": true}).as_object().unwrap().clone();
        let secrets = SecretValues::new();
        let filled = template.fill(&Scope::new(&args, &secrets)).unwrap();
        assert_eq!(filled, Some(json!({"keep": 1, "list": [true]})));
    }
}
