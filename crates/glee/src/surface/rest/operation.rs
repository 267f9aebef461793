//! One operation of the API: how it is answered, and what is told of it. The router and the OpenAPI document
//! are both made of the same list, so neither knows an operation that the other does not.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use axum::{Router, handler::Handler};
use futures_util::future::{Either, Ready, ready};
use glee_core::outcome::{Failure, FailureKind};
use glee_core::slug;
use schemars::JsonSchema;
use schemars::generate::SchemaGenerator;
use serde_json::{Map, Value, json};

use super::answer::Refused;
use super::params::{Param, bundle_id};
use crate::store::tokens::Scope;
use crate::surface::principal::Principal;

pub(super) struct Operation {
    method: &'static str,
    path: &'static str,
    /// Made when all is known that it needs.
    answer: Box<dyn FnOnce(Arc<[Scope]>) -> MethodRouter>,
    /// What a body may be that is larger than others.
    most_bytes: Option<usize>,
    id: &'static str,
    about: &'static str,
    /// What is told of it, which is what it needs unless others may do a part of it.
    scope: Option<Scope>,
    needs: Vec<Scope>,
    /// What a part of the path may be, where only few words are.
    words: Option<(&'static str, Vec<&'static str>)>,
    query: &'static [Param],
    body: Option<Sent>,
    responses: Vec<(u16, &'static str, Reply)>,
}

type Schema = fn(&mut SchemaGenerator) -> Value;

/// What comes with a request.
enum Sent {
    Json(Schema),
    /// Bytes of this media type.
    Bytes(&'static str),
}

enum Reply {
    Nothing,
    Json(Value),
    Text(&'static str),
    Bytes(&'static str),
}

impl Operation {
    pub(super) fn new<H, T, S>(
        method: &'static str,
        path: &'static str,
        id: &'static str,
        about: &'static str,
        handler: H,
        state: S,
    ) -> Operation
    where
        H: Handler<T, S>,
        T: 'static,
        S: Clone + Send + Sync + 'static,
    {
        let filter = match method {
            "GET" => MethodFilter::GET,
            "PUT" => MethodFilter::PUT,
            "POST" => MethodFilter::POST,
            "PATCH" => MethodFilter::PATCH,
            "DELETE" => MethodFilter::DELETE,
            other => unreachable!("{other} is not used"),
        };
        Operation {
            method,
            path,
            answer: Box::new(move |needs| on(filter, Gated { handler, needs }).with_state(state)),
            most_bytes: None,
            id,
            about,
            scope: None,
            needs: Vec::new(),
            words: None,
            query: &[],
            body: None,
            responses: Vec::new(),
        }
    }

    pub(super) fn scope(mut self, scope: Scope) -> Operation {
        self.scope = Some(scope);
        self.also(scope)
    }

    /// Another one that it needs.
    pub(super) fn also(mut self, scope: Scope) -> Operation {
        self.needs.push(scope);
        self
    }

    /// For whoever has this scope all of it, and for others what is their own.
    pub(super) fn own_or(mut self, scope: Scope) -> Operation {
        self.scope = Some(scope);
        self
    }

    /// A part of the path is one of these.
    pub(super) fn one_of(mut self, part: &'static str, words: &[&'static str]) -> Operation {
        self.words = Some((part, words.to_vec()));
        self
    }

    pub(super) fn query(mut self, query: &'static [Param]) -> Operation {
        self.query = query;
        self
    }

    pub(super) fn body<T: JsonSchema>(mut self) -> Operation {
        self.body = Some(Sent::Json(|generator| {
            generator.subschema_for::<T>().to_value()
        }));
        self
    }

    /// A body of this media type, which may be as large as this.
    pub(super) fn takes_bytes(mut self, kind: &'static str, most: usize) -> Operation {
        self.body = Some(Sent::Bytes(kind));
        self.most_bytes = Some(most);
        self
    }

    /// An answer of this status, whose body is of a schema of the document.
    pub(super) fn gives(mut self, status: u16, about: &'static str, schema: &str) -> Operation {
        let schema = json!({"$ref": format!("#/components/schemas/{schema}")});
        self.responses.push((status, about, Reply::Json(schema)));
        self
    }

    pub(super) fn gives_text(mut self, about: &'static str, kind: &'static str) -> Operation {
        self.responses.push((200, about, Reply::Text(kind)));
        self
    }

    pub(super) fn gives_bytes(mut self, about: &'static str, kind: &'static str) -> Operation {
        self.responses.push((200, about, Reply::Bytes(kind)));
        self
    }

    pub(super) fn gives_nothing(mut self, about: &'static str) -> Operation {
        self.responses.push((204, about, Reply::Nothing));
        self
    }

    /// Failures besides those that every operation has.
    pub(super) fn fails(mut self, statuses: &[u16]) -> Operation {
        for &status in statuses {
            let schema = json!({"$ref": "#/components/schemas/Failure"});
            self.responses
                .push((status, reason(status), Reply::Json(schema)));
        }
        self
    }

    pub(super) fn route(self, router: Router) -> Router {
        let mut answer = (self.answer)(self.needs.into());
        if let Some(most) = self.most_bytes {
            answer = answer.layer(DefaultBodyLimit::max(most));
        }
        router.route(self.path, answer)
    }

    pub(super) fn path(&self) -> &'static str {
        self.path
    }

    pub(super) fn method(&self) -> String {
        self.method.to_ascii_lowercase()
    }

    /// As OpenAPI tells it.
    pub(super) fn describe(&self, generator: &mut SchemaGenerator) -> Value {
        let mut parameters: Vec<Value> = in_path(self.path)
            .map(|name| {
                let schema = match &self.words {
                    Some((part, words)) if *part == name => {
                        json!({"type": "string", "enum": words})
                    }
                    _ => of_path(name),
                };
                json!({"name": name, "in": "path", "required": true, "schema": schema})
            })
            .collect();
        parameters.extend(self.query.iter().map(Param::describe));
        let mut responses = Map::new();
        for (status, about, reply) in &self.responses {
            let mut response = json!({"description": about});
            match reply {
                Reply::Nothing => {}
                Reply::Json(schema) => {
                    response["content"]["application/json"] = json!({"schema": schema})
                }
                Reply::Text(kind) => {
                    response["content"][*kind] = json!({"schema": {"type": "string"}})
                }
                Reply::Bytes(kind) => response["content"][*kind] = bytes(),
            }
            responses.insert(status.to_string(), response);
        }
        if self.scope.is_some() {
            let text = json!({"description": "There is no good token", "content": {"text/plain": {"schema": {"type": "string"}}}});
            responses.insert("401".into(), text);
            let refused = json!({"description": reason(403), "content": {
                "application/json": {"schema": {"$ref": "#/components/schemas/Failure"}},
                "text/plain": {"schema": {"type": "string"}},
            }});
            responses.insert("403".into(), refused);
        }
        if self.body.is_some() {
            let late = json!({"description": reason(408), "content": {
                "application/json": {"schema": {"$ref": "#/components/schemas/Failure"}},
            }});
            responses.insert("408".into(), late);
        }
        responses.sort_keys();
        let mut out = json!({
            "operationId": self.id,
            "summary": self.about,
            "parameters": parameters,
            "responses": responses,
        });
        match self.scope {
            Some(scope) => {
                out["security"] = json!([{"token": []}]);
                out["x-scope"] = scope.name().into();
            }
            None => out["security"] = json!([]),
        }
        if let Some(body) = &self.body {
            let content = match body {
                Sent::Json(schema) => json!({"application/json": {"schema": schema(generator)}}),
                Sent::Bytes(kind) => json!({*kind: bytes()}),
            };
            out["requestBody"] = json!({"required": true, "content": content});
        }
        out
    }
}

/// Whoever may not is told so before anything else of the request is read.
#[derive(Clone)]
struct Gated<H> {
    handler: H,
    needs: Arc<[Scope]>,
}

impl<H: Handler<T, S>, T: 'static, S: Send + 'static> Handler<T, S> for Gated<H> {
    type Future = Either<H::Future, Ready<Response>>;

    fn call(self, request: Request, state: S) -> Self::Future {
        match may(&request, &self.needs) {
            Ok(()) => Either::Left(self.handler.call(request, state)),
            Err(failure) => Either::Right(ready(Refused(failure).into_response())),
        }
    }
}

fn may(request: &Request, needs: &[Scope]) -> Result<(), Failure> {
    let by = request.extensions().get::<Principal>();
    needs.iter().try_for_each(|&scope| match by {
        Some(by) => by.need(scope),
        None => Err(Failure::new(FailureKind::Internal, "nobody was let in")),
    })
}

fn bytes() -> Value {
    json!({"schema": {"type": "string", "format": "binary"}})
}

/// What a part of a path is.
fn of_path(name: &str) -> Value {
    match name {
        "bundleID" => bundle_id(),
        "id" => json!({"type": "string", "format": "uuid"}),
        "toolSlug" => json!({"type": "string", "maxLength": slug::MOST, "pattern": slug::SLUG,
            "description": "Letters, digits and `-`, in their composed form (NFC)"}),
        "version" => json!({"type": "string", "maxLength": slug::MOST, "pattern": slug::VERSION,
            "description": "Letters, digits, `-` and `.`, in their composed form (NFC)"}),
        _ => json!({"type": "string", "minLength": 1}),
    }
}

fn in_path(path: &'static str) -> impl Iterator<Item = &'static str> {
    path.split('/')
        .filter_map(|it| it.strip_prefix('{')?.strip_suffix('}'))
}

fn reason(status: u16) -> &'static str {
    match status {
        400 => "What was sent is not what the operation takes",
        403 => "The token, a rule or a person does not allow it",
        404 => "There is no such thing",
        408 => "The body did not come in time",
        409 => "It is disabled, or in the way of something else",
        424 => "A secret is missing",
        429 => "There is too much of it",
        502 => "The tool failed",
        503 => "It cannot be done now",
        504 => "The tool took too long",
        507 => "The disk is full",
        _ => "It failed",
    }
}
