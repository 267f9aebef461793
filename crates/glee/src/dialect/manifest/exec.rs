//! The three `exec` blocks of a manifest.

use std::time::Duration;

use glee_core::json_path::JsonPath;
use glee_core::model::{
    Auth, Command, Dashes, Exec, Field, Format, Http, KeyPlace, Method, OAuthGrant, OWN_HEADERS,
    Python, Redirects, Retry,
};
use glee_core::permission::{Network, Permissions, SecretNeed};
use glee_core::schema::Schema;
use glee_core::template::{Template, ValueTemplate};
use glee_core::url_template::{UrlTemplate, UrlTemplateError};
use indexmap::IndexMap;

use super::{Problem, Reader, format, milliseconds, wire};

/// What an `exec` block says: how to run, for how long, and what of the result to keep.
pub(super) struct ReadExec {
    pub(super) exec: Exec,
    pub(super) timeout: Duration,
    pub(super) format: Format,
    pub(super) extract: Option<JsonPath>,
    pub(super) fields: Vec<Field>,
}

impl Reader<'_> {
    pub(super) fn exec(
        &mut self,
        kind: wire::Kind,
        wire: wire::Exec,
        outputs: wire::Format,
        permissions: &Permissions,
        inputs: &Schema,
    ) -> Option<ReadExec> {
        let blocks = [
            (wire.http.is_some(), wire::Kind::Http, "http"),
            (wire.command.is_some(), wire::Kind::Command, "command"),
            (wire.python.is_some(), wire::Kind::Python, "python"),
        ];
        let wanted = blocks.iter().find(|it| it.1 == kind).map_or("", |it| it.2);
        for (_, _, other) in blocks.iter().filter(|it| it.0 && it.1 != kind) {
            let place = self.node.key_place_of(&format!("/exec/{other}"));
            self.problem(
                Problem::error(
                    "exec-kind",
                    place,
                    format!("`kind: {wanted}` does not go with `exec.{other}`"),
                )
                .fix(format!(
                    "keep only `exec.{wanted}`, or write `kind: {other}`"
                )),
            );
        }
        match (kind, wire.http, wire.command, wire.python) {
            (wire::Kind::Http, Some(http), _, _) => self.http(http, outputs, permissions, inputs),
            (wire::Kind::Command, _, Some(command), _) => self.command(command, outputs),
            (wire::Kind::Python, _, _, Some(python)) => self.python(python, outputs),
            _ => {
                self.error(
                    "exec-kind",
                    "/exec",
                    format!("`kind: {wanted}` needs `exec.{wanted}`"),
                );
                None
            }
        }
    }

    fn http(
        &mut self,
        wire: wire::Http,
        outputs: wire::Format,
        permissions: &Permissions,
        inputs: &Schema,
    ) -> Option<ReadExec> {
        if permissions.network == Network::None {
            let place = self.node.place_of("/permissions/network");
            self.problem(
                Problem::error(
                    "network",
                    place,
                    "an http tool cannot run with `network: false`",
                )
                .fix("grant the host it calls: `network: {hosts: [...]}`"),
            );
        }
        let method = match wire.method {
            wire::Method::Get => Method::Get,
            wire::Method::Post => Method::Post,
            wire::Method::Put => Method::Put,
            wire::Method::Patch => Method::Patch,
            wire::Method::Delete => Method::Delete,
            wire::Method::Head => Method::Head,
        };
        if wire.body.is_some() && matches!(method, Method::Get | Method::Head) {
            let place = self.node.key_place_of("/exec/http/body");
            self.problem(Problem::error(
                "body",
                place,
                format!("a {} request has no body", method.as_str()),
            ));
        }
        let url = self.url(&wire.url, "/exec/http/url", permissions, inputs);
        let sends_json = wire
            .headers
            .iter()
            .any(|(name, value)| name.eq_ignore_ascii_case("content-type") && is_json(value));
        let headers = self.headers(wire.headers);
        let query: Vec<_> = wire
            .query
            .into_iter()
            .map(|(key, value)| {
                let pointer = format!("/exec/http/query/{}", glee_core::schema::escape(&key));
                self.literal_key(&key, &pointer);
                self.value_template(value, &pointer).map(|it| (key, it))
            })
            .collect();
        let body = match wire.body {
            Some(body) => self.value_template(body, "/exec/http/body").map(Some),
            None => Some(None),
        };
        if let Some(Some(ValueTemplate::Text(text))) = &body
            && sends_json
            && text.whole().is_none()
            && text.holes().next().is_some()
        {
            let message = "a JSON body written as text with placeholders is never sent, because an argument could write fields into it";
            self.problem(
                Problem::error("body", self.node.place_of("/exec/http/body"), message)
                    .fix("write the body as a mapping, not as text"),
            );
        }
        let auth = match wire.auth {
            Some(auth) => self.auth(auth, permissions, inputs).map(Some),
            None => Some(None),
        };
        let response = wire.response.unwrap_or(wire::Response {
            json_path: None,
            fields: Vec::new(),
        });
        if outputs == wire::Format::Text
            && (response.json_path.is_some() || !response.fields.is_empty())
        {
            self.error(
                "response",
                "/exec/http/response",
                "`response` picks from JSON, but `outputs.format` is text",
            );
        }
        let extract = response
            .json_path
            .and_then(|it| self.json_path(&it, "/exec/http/response/json_path"));
        let fields = response
            .fields
            .into_iter()
            .enumerate()
            .filter_map(|(at, it)| {
                let path =
                    self.json_path(&it.path, &format!("/exec/http/response/fields/{at}/path"))?;
                Some(Field {
                    name: it.name,
                    path,
                })
            })
            .collect();
        Some(ReadExec {
            timeout: milliseconds(wire.timeout_ms, Duration::from_secs(10)),
            format: format(outputs),
            extract,
            fields,
            exec: Exec::Http(Box::new(Http {
                method,
                url: url?,
                headers: headers?,
                query: query.into_iter().collect::<Option<_>>()?,
                body: body?,
                auth: auth?,
                success_codes: wire
                    .success_codes
                    .iter()
                    .filter_map(|it| u16::try_from(it.0).ok())
                    .collect(),
                retry: wire.retry.map_or(
                    Retry {
                        times: 0,
                        pause: Duration::ZERO,
                    },
                    |it| Retry {
                        times: u32::try_from(it.times.0).unwrap_or_default(),
                        pause: milliseconds(it.pause_ms, Duration::from_millis(250)),
                    },
                ),
                redirects: match wire.redirects {
                    Some(wire::Redirects::Follow) => Redirects::Follow,
                    Some(wire::Redirects::Refuse) | None => Redirects::Refuse,
                },
            })),
        })
    }

    fn url(
        &mut self,
        text: &str,
        pointer: &str,
        permissions: &Permissions,
        inputs: &Schema,
    ) -> Option<UrlTemplate> {
        let url = match UrlTemplate::parse(text, &self.names) {
            Ok(url) => url,
            Err(UrlTemplateError::Template(errors)) => {
                self.template_errors(errors, text, pointer);
                return None;
            }
            Err(err) => {
                self.error("url", pointer, err.to_string());
                return None;
            }
        };
        for hole in url.required_holes() {
            if self.names.inputs.contains(&hole.name) && !inputs.always_present(&hole.name) {
                let message = format!(
                    "`{}` stands in the URL's path, but may be absent",
                    hole.name
                );
                self.problem(
                    Problem::error("url", self.node.place_of(pointer), message).fix(format!(
                        "add `{}` to `required`, or give it a default",
                        hole.name
                    )),
                );
            }
            if permissions.secrets.get(&hole.name) == Some(&SecretNeed::Optional) {
                let message = format!(
                    "the secret `{}` stands in the URL's path, but may be absent",
                    hole.name
                );
                self.problem(
                    Problem::error("url", self.node.place_of(pointer), message).fix(format!(
                        "make it required: `{}: {{type: string}}`",
                        hole.name
                    )),
                );
            }
        }
        match (url.fixed_origin(), &permissions.network) {
            (None, Network::Public) => self.problem(
                Problem::error(
                    "url-host",
                    self.node.place_of(pointer),
                    "arguments choose the host, and `network: true` lets them choose any",
                )
                .fix("list the hosts that are meant: `network: {hosts: [...]}`"),
            ),
            (Some(origin), Network::Hosts(hosts)) => {
                let host = origin
                    .host_str()
                    .unwrap_or_default()
                    .trim_matches(['[', ']']);
                let port = origin.port_or_known_default().unwrap_or_default();
                if !hosts.iter().any(|it| it.matches(host, port)) {
                    self.problem(
                        Problem::error(
                            "url-host",
                            self.node.place_of(pointer),
                            format!(
                                "`{host}` is not among the granted hosts, so the tool can never run"
                            ),
                        )
                        .fix(format!("add `{host}` to permissions.network.hosts")),
                    );
                }
            }
            _ => {}
        }
        Some(url)
    }

    fn headers(&mut self, wire: IndexMap<String, String>) -> Option<Vec<(String, Template)>> {
        let headers: Vec<_> = wire
            .into_iter()
            .map(|(name, value)| {
                let pointer = format!("/exec/http/headers/{}", glee_core::schema::escape(&name));
                self.header_name(&name, &pointer);
                let value = self.template(&value, &pointer)?;
                Some((name, value))
            })
            .collect();
        headers.into_iter().collect()
    }

    fn header_name(&mut self, name: &str, pointer: &str) {
        let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        let place = self.node.key_place_of(pointer);
        if name.is_empty() || !name.bytes().all(token) {
            self.problem(Problem::error(
                "header",
                place,
                format!("`{}` cannot be the name of a header", name.escape_debug()),
            ));
        } else if OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
            self.problem(
                Problem::error("header", place, format!("`{name}` is set by glee"))
                    .fix("remove it"),
            );
        }
    }

    fn auth(
        &mut self,
        wire: wire::Auth,
        permissions: &Permissions,
        inputs: &Schema,
    ) -> Option<Auth> {
        let at = |rest: &str| format!("/exec/http/auth/{rest}");
        match (
            wire.bearer,
            wire.basic,
            wire.api_key,
            wire.hmac,
            wire.oauth2,
        ) {
            (Some(it), None, None, None, None) => Some(Auth::Bearer {
                token: self.template(&it.token, &at("bearer/token"))?,
            }),
            (None, Some(it), None, None, None) => {
                let username = self.template(&it.username, &at("basic/username"));
                let password = self.template(&it.password, &at("basic/password"));
                Some(Auth::Basic {
                    username: username?,
                    password: password?,
                })
            }
            (None, None, Some(it), None, None) => {
                let place = match it.place {
                    wire::KeyPlace::Header => KeyPlace::Header,
                    wire::KeyPlace::Query => KeyPlace::Query,
                };
                if place == KeyPlace::Header {
                    self.header_name(&it.name, &at("api_key/name"));
                }
                Some(Auth::ApiKey {
                    place,
                    name: it.name,
                    value: self.template(&it.value, &at("api_key/value"))?,
                })
            }
            (None, None, None, Some(it), None) => {
                let header = it.header.unwrap_or_else(|| "X-Signature".to_owned());
                let timestamp_header = it
                    .timestamp_header
                    .unwrap_or_else(|| "X-Timestamp".to_owned());
                self.header_name(&header, &at("hmac/header"));
                self.header_name(&timestamp_header, &at("hmac/timestamp_header"));
                Some(Auth::Hmac {
                    secret: self.template(&it.secret, &at("hmac/secret"))?,
                    header,
                    timestamp_header,
                })
            }
            (None, None, None, None, Some(it)) => {
                let token_url =
                    self.url(&it.token_url, &at("oauth2/token_url"), permissions, inputs);
                let client_id = self.template(&it.client_id, &at("oauth2/client_id"));
                let client_secret = match it.client_secret {
                    Some(text) => Some(self.template(&text, &at("oauth2/client_secret"))?),
                    None => None,
                };
                let grant = match it.refresh_token {
                    Some(text) => {
                        OAuthGrant::RefreshToken(self.template(&text, &at("oauth2/refresh_token"))?)
                    }
                    None => OAuthGrant::ClientCredentials,
                };
                Some(Auth::OAuth2 {
                    token_url: token_url?,
                    grant,
                    client_id: client_id?,
                    client_secret,
                    scope: it.scope,
                })
            }
            _ => {
                self.error(
                    "auth",
                    "/exec/http/auth",
                    "`auth` holds exactly one of bearer, basic, api_key, hmac, oauth2",
                );
                None
            }
        }
    }

    fn json_path(&mut self, text: &str, pointer: &str) -> Option<JsonPath> {
        match JsonPath::parse(text) {
            Ok(path) => Some(path),
            Err(err) => {
                self.error("json-path", pointer, err.to_string());
                None
            }
        }
    }

    fn command(&mut self, wire: wire::Command, outputs: wire::Format) -> Option<ReadExec> {
        if wire.entrypoint.is_empty() || wire.entrypoint.contains('\0') {
            self.error(
                "entrypoint",
                "/exec/command/entrypoint",
                "the entrypoint is empty",
            );
        }
        if wire.entrypoint.contains("${") {
            self.error(
                "entrypoint",
                "/exec/command/entrypoint",
                "arguments cannot choose the program",
            );
        }
        let stdout = wire.stdout.map_or(outputs, |it| it.format);
        self.formats_agree(stdout, outputs, "/exec/command/stdout/format");
        let args: Vec<_> = wire
            .args
            .iter()
            .enumerate()
            .map(|(at, text)| self.template(text, &format!("/exec/command/args/{at}")))
            .collect();
        let env = self.environment(wire.env, "/exec/command/env");
        let stdin = match wire.stdin {
            Some(stdin) => self.value_template(stdin, "/exec/command/stdin").map(Some),
            None => Some(None),
        };
        Some(ReadExec {
            timeout: milliseconds(wire.timeout_ms, Duration::from_secs(30)),
            format: format(stdout),
            extract: None,
            fields: Vec::new(),
            exec: Exec::Command(Command {
                entrypoint: wire.entrypoint,
                args: args.into_iter().collect::<Option<_>>()?,
                cwd: wire.cwd.unwrap_or_else(|| ".".to_owned()),
                env: env?,
                stdin: stdin?,
                exit_codes_ok: match wire.exit_codes_ok {
                    Some(codes) => codes
                        .iter()
                        .filter_map(|it| i32::try_from(it.0).ok())
                        .collect(),
                    None => vec![0],
                },
                dashes: if wire.allow_dash {
                    Dashes::Allow
                } else {
                    Dashes::Refuse
                },
            }),
        })
    }

    fn python(&mut self, wire: wire::Python, outputs: wire::Format) -> Option<ReadExec> {
        let identifier = |it: &str| {
            !it.is_empty()
                && !it.starts_with(|c: char| c.is_numeric())
                && it.chars().all(|c| c.is_alphanumeric() || c == '_')
        };
        if !wire.module.split('.').all(identifier) {
            self.error(
                "module",
                "/exec/python/module",
                format!("`{}` is not the name of a module", wire.module),
            );
        }
        if !identifier(&wire.function) {
            self.error(
                "function",
                "/exec/python/function",
                format!("`{}` is not the name of a function", wire.function),
            );
        }
        let returns = wire.returns.unwrap_or(outputs);
        self.formats_agree(returns, outputs, "/exec/python/return");
        let args: Vec<_> = wire
            .args
            .into_iter()
            .enumerate()
            .map(|(at, value)| self.value_template(value, &format!("/exec/python/args/{at}")))
            .collect();
        let kwargs: Vec<_> = wire
            .kwargs
            .into_iter()
            .map(|(key, value)| {
                let value = self.value_template(value, &format!("/exec/python/kwargs/{key}"))?;
                Some((key, value))
            })
            .collect();
        let env = self.environment(wire.env, "/exec/python/env");
        Some(ReadExec {
            timeout: milliseconds(wire.timeout_ms, Duration::from_secs(30)),
            format: format(returns),
            extract: None,
            fields: Vec::new(),
            exec: Exec::Python(Python {
                module: wire.module,
                function: wire.function,
                args: args.into_iter().collect::<Option<_>>()?,
                kwargs: kwargs.into_iter().collect::<Option<_>>()?,
                venv: wire.venv,
                cwd: wire.cwd.unwrap_or_else(|| ".".to_owned()),
                env: env?,
            }),
        })
    }

    fn formats_agree(&mut self, inner: wire::Format, outputs: wire::Format, pointer: &str) {
        if inner != outputs {
            self.problem(
                Problem::error(
                    "format",
                    self.node.place_of(pointer),
                    "this is not what `outputs.format` says",
                )
                .fix("leave it out; `outputs.format` decides"),
            );
        }
    }

    fn environment(
        &mut self,
        wire: IndexMap<String, String>,
        pointer: &str,
    ) -> Option<Vec<(String, Template)>> {
        let env: Vec<_> = wire
            .into_iter()
            .map(|(name, value)| {
                let pointer = format!("{pointer}/{}", glee_core::schema::escape(&name));
                if name.is_empty() || name.contains(['=', '\0']) || name.contains("${") {
                    let place = self.node.key_place_of(&pointer);
                    self.problem(Problem::error(
                        "env",
                        place,
                        format!("`{name}` cannot be the name of an environment variable"),
                    ));
                }
                Some((name, self.template(&value, &pointer)?))
            })
            .collect();
        env.into_iter().collect()
    }
}

/// Whether a content type says JSON: `application/json`, or one that is built on it.
fn is_json(content_type: &str) -> bool {
    let text = content_type.to_ascii_lowercase();
    let essence = text.split(';').next().unwrap_or_default().trim();
    essence == "application/json" || essence.ends_with("+json")
}
