//! What stands in the query of a request, held to what the operation says it takes.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use glee_core::outcome::{Failure, FailureKind};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use url::form_urlencoded;
use uuid::Uuid;

use super::answer::Refused;
use super::page;

/// One thing that a query may say.
pub(super) struct Param {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// Text that must be there.
    Needed,
    /// Commas between, or the name again.
    List,
    /// The same, of ids of bundles.
    Bundles,
    /// An id, of anything but a bundle.
    Id,
    Flag,
    Size,
    Count,
    /// One at least.
    Some,
    Seconds,
    /// One of these words, or none.
    Word(&'static [&'static str]),
    /// One of these words, the first unless it is said.
    OneOf(&'static [&'static str]),
}

impl Kind {
    fn is_list(self) -> bool {
        matches!(self, Kind::List | Kind::Bundles)
    }
}

impl Param {
    /// As OpenAPI tells it.
    pub(super) fn describe(&self) -> Value {
        let schema = match self.kind {
            Kind::Text => json!({"type": "string"}),
            Kind::Needed => json!({"type": "string", "minLength": 1, "maxLength": LONGEST}),
            Kind::List => json!({"type": "array", "items": {"type": "string"}}),
            Kind::Bundles => json!({"type": "array", "minItems": 1, "items": bundle_id()}),
            Kind::Id => json!({"type": "string", "format": "uuid"}),
            Kind::Flag => json!({"type": "boolean", "default": false}),
            Kind::Size => json!({"type": "integer", "minimum": 1, "default": page::USUAL}),
            Kind::Count | Kind::Seconds => json!({"type": "integer", "minimum": 0}),
            Kind::Some => json!({"type": "integer", "minimum": 1}),
            Kind::Word(words) => json!({"type": "string", "enum": words}),
            Kind::OneOf(words) => json!({"type": "string", "enum": words, "default": words[0]}),
        };
        let mut out = json!({
            "name": self.name, "in": "query", "description": self.about,
            "required": self.kind == Kind::Needed, "schema": schema,
        });
        if self.kind.is_list() {
            out["style"] = "form".into();
            out["explode"] = false.into();
        }
        out
    }
}

/// What the id of a bundle is.
pub(super) fn bundle_id() -> Value {
    json!({"type": "string", "format": "uuid", "pattern":
        "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-7[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$"})
}

/// Longest text that somebody looks for, in characters.
const LONGEST: usize = 1000;

/// A query as it came.
pub(super) struct Query(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Query, Refused> {
        let query = parts.uri.query().unwrap_or_default();
        Ok(Query(
            form_urlencoded::parse(query.as_bytes())
                .into_owned()
                .collect(),
        ))
    }
}

impl Query {
    /// Refuses what the operation does not take, and what is said twice.
    pub(super) fn check(self, params: &[Param]) -> Result<Query, Failure> {
        for (at, (name, _)) in self.0.iter().enumerate() {
            let Some(param) = params.iter().find(|it| it.name == name) else {
                let known: Vec<&str> = params.iter().map(|it| it.name).collect();
                let why = format!("the query may say {}", known.join(", "));
                return Err(bad(name, &why));
            };
            if !param.kind.is_list() && self.0[..at].iter().any(|it| it.0 == *name) {
                return Err(bad(name, "it is said twice"));
            }
        }
        let missing = params
            .iter()
            .find(|it| it.kind == Kind::Needed && self.text(it.name).is_none_or(str::is_empty));
        match missing {
            Some(it) => Err(bad(it.name, "it is missing")),
            None => Ok(self),
        }
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|it| it.0 == name);
        found.map(|it| it.1.as_str())
    }

    pub(super) fn needed(&self, name: &str) -> Result<&str, Failure> {
        match self.text(name) {
            Some(text) if text.chars().count() <= LONGEST => Ok(text),
            Some(_) => Err(bad(name, "it is longer than 1000 characters")),
            None => Err(bad(name, "it is missing")),
        }
    }

    pub(super) fn list(&self, name: &str) -> Vec<&str> {
        let mut list = self.items(name);
        list.retain(|it| !it.is_empty());
        list
    }

    /// As it was said, also where nothing was.
    pub(super) fn items(&self, name: &str) -> Vec<&str> {
        let given = self.0.iter().filter(|it| it.0 == name);
        let mut items: Vec<&str> = given.flat_map(|it| it.1.split(',')).collect();
        items.sort_unstable();
        items.dedup();
        items
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, Failure> {
        match self.text(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(bad(name, "it is either true or false")),
        }
    }

    pub(super) fn one_of(
        &self,
        name: &str,
        words: &[&'static str],
    ) -> Result<&'static str, Failure> {
        Ok(self.word(name, words)?.unwrap_or(words[0]))
    }

    pub(super) fn size(&self, name: &str) -> Result<usize, Failure> {
        let Some(text) = self.text(name) else {
            return Ok(page::USUAL);
        };
        let is_number = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        // More digits than fit are more than the most.
        match is_number.then(|| text.parse().unwrap_or(usize::MAX)) {
            None | Some(0) => Err(bad(name, "it is a number, and at least 1")),
            Some(size) => Ok(size.min(page::MOST)),
        }
    }

    pub(super) fn count(&self, name: &str) -> Result<Option<usize>, Failure> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        match text.bytes().all(|it| it.is_ascii_digit()) && !text.is_empty() {
            true => Ok(Some(text.parse().unwrap_or(usize::MAX))),
            false => Err(bad(name, "it is a number, and at least 0")),
        }
    }

    /// One at least.
    pub(super) fn some(&self, name: &str) -> Result<Option<usize>, Failure> {
        match self.count(name) {
            Err(_) | Ok(Some(0)) => Err(bad(name, "it is a number, and at least 1")),
            some => some,
        }
    }

    pub(super) fn word(
        &self,
        name: &str,
        words: &[&'static str],
    ) -> Result<Option<&'static str>, Failure> {
        let Some(said) = self.text(name) else {
            return Ok(None);
        };
        let known = words.iter().find(|it| **it == said);
        let why = || bad(name, &format!("it is one of {}", words.join(", ")));
        known.copied().map(Some).ok_or_else(why)
    }

    pub(super) fn id(&self, name: &str) -> Result<Option<Uuid>, Failure> {
        let said = self.text(name).map(str::parse);
        let id = said.transpose();
        id.map_err(|_| bad(name, "it is the id of an approval, which is a UUID"))
    }

    pub(super) fn seconds(&self, name: &str) -> Result<Option<u64>, Failure> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        match text.bytes().all(|it| it.is_ascii_digit()) && !text.is_empty() {
            true => Ok(Some(text.parse().unwrap_or(u64::MAX))),
            false => Err(bad(name, "it is a number of seconds")),
        }
    }
}

fn bad(name: &str, why: &str) -> Failure {
    let name = glee_core::name::shorten(name);
    Failure::new(
        FailureKind::InvalidInput,
        format!("`{name}` of the query: {why}"),
    )
    .with(
        "violations",
        json!([{"pointer": format!("/{name}"), "message": why}]),
    )
}

/// What stands in the path of a request.
pub(super) struct Place<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Place<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Place<T>, Refused> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(place)) => Ok(Place(place)),
            Err(err) => Err(Failure::new(FailureKind::InvalidInput, err.body_text()).into()),
        }
    }
}
