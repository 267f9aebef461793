//! The `impl` block of an http tool.

use std::collections::BTreeSet;
use std::time::Duration;

use glee_core::host::HostPattern;
use glee_core::json;
use glee_core::json_path::JsonPath;
use glee_core::model::{
    Annotations, Approval, Exec, Extract, Format, Http, Limits, Method, OWN_HEADERS, OnMismatch,
    Redirects, Retry,
};
use glee_core::permission::{Network, Permissions, SecretNeed};
use glee_core::schema::Schema;
use glee_core::template::{Names, Template, TemplateError, ValueTemplate};
use glee_core::url_template::{UrlTemplate, UrlTemplateError};
use regex::RegexBuilder;
use serde_json::Value;

use super::wire::{self, StoredTool};
use super::{MOST_WRONG, Run, Surroundings, Wrong, calls, how};

/// Kept of a response.
const USUAL_BYTES: usize = 5 << 20;
const MOST_BYTES: usize = 64 << 20;
const MOST_RETRIES: u32 = 10;
/// What a pattern may become when it is compiled.
const PATTERN_BYTES: usize = 128 << 10;
/// A request that fails is sent again so often, where that does no harm.
const RETRY: Retry = Retry {
    times: 2,
    pause: Duration::from_millis(250),
};

struct Reader<'a> {
    names: Names,
    /// `${version}` is the tool's own, unless an argument is called so.
    version: &'a str,
    wrong: &'a mut Vec<Wrong>,
}

pub(super) fn read(
    stored: &StoredTool,
    inputs: &Schema,
    around: &Surroundings,
    wrong: &mut Vec<Wrong>,
) -> Option<Run> {
    let wire: wire::Http = how(&stored.how, wrong)?;
    let arguments: BTreeSet<String> = inputs.properties().map(|it| it.0.clone()).collect();
    for twice in arguments.intersection(&around.secrets) {
        let why = format!("`{twice}` is the name of a secret; a caller could stand in for it");
        wrong.push(Wrong::new("/argSchema/properties", why));
    }
    let mut reader = Reader {
        names: Names {
            inputs: arguments,
            secrets: around.secrets.clone(),
        },
        version: &stored.version,
        wrong,
    };
    let method = method(wire.method);
    let url = reader.url(&wire.url_template, inputs);
    let headers = reader.headers(&wire);
    let body = reader.body(&wire, method);
    let (format, extract) = reader.extract(&wire)?;
    let network = reader.network(url.as_ref()?, around);
    let longest = Duration::from_secs(3600);
    let timeout = Duration::from_millis(wire.timeout_ms.unwrap_or(10_000));
    if timeout.is_zero() || timeout > longest {
        reader.wrong("/impl/timeoutMs", "it must be between 1 and 3600000");
    }
    if wire.max_retries.is_some_and(|it| it > MOST_RETRIES) {
        reader.wrong("/impl/maxRetries", "it must be between 0 and 10");
    }
    if wire.success_codes.iter().any(|it| !(100..600).contains(it)) {
        reader.wrong("/impl/successCodes", "they are between 100 and 599");
    }
    let (url, headers, body, network) = (url?, headers?, body?, network?);
    let mut used: BTreeSet<&str> = url.holes().map(|it| it.name.as_str()).collect();
    used.extend(
        headers
            .iter()
            .flat_map(|it| it.1.holes())
            .map(|it| it.name.as_str()),
    );
    used.extend(
        body.iter()
            .flat_map(ValueTemplate::holes)
            .map(|it| it.name.as_str()),
    );
    let secrets = around
        .secrets
        .iter()
        .filter(|it| used.contains(it.as_str()));
    Some(Run {
        permissions: Permissions {
            network,
            secrets: secrets
                .map(|it| (it.clone(), SecretNeed::Required))
                .collect(),
            ..Permissions::default()
        },
        exec: Exec::Http(Box::new(Http {
            method,
            url,
            headers,
            query: Vec::new(),
            body,
            auth: None,
            success_codes: wire.success_codes,
            retry: Retry {
                times: wire.max_retries.unwrap_or(RETRY.times),
                ..RETRY
            },
            redirects: Redirects::Refuse,
        })),
        format,
        extract,
        on_mismatch: match wire.error_mode {
            wire::ErrorMode::Fail => OnMismatch::Fail,
            wire::ErrorMode::Empty => OnMismatch::Empty,
        },
        approval: Approval::Never,
        annotations: Annotations::default(),
        limits: Limits {
            timeout,
            output_bytes: wire
                .max_response_bytes
                .map_or(USUAL_BYTES, |it| (it.get() as usize).min(MOST_BYTES)),
            sent_bytes: wire.max_sent_bytes.map(|it| it.get() as usize),
            calls: calls(wire.max_calls_per_minute, wire.max_concurrent_calls),
            ..Limits::default()
        },
    })
}

impl Reader<'_> {
    fn wrong(&mut self, pointer: &str, message: impl Into<String>) {
        if self.wrong.len() <= MOST_WRONG {
            self.wrong.push(Wrong::new(pointer, message));
        }
    }

    fn template_errors(&mut self, pointer: &str, errors: Vec<TemplateError>) {
        for err in errors {
            let why = format!(
                "{}; secrets are listed in bundles.secrets of the config",
                err.problem
            );
            self.wrong(pointer, why);
        }
    }

    fn template(&mut self, text: &str, pointer: &str) -> Option<Template> {
        match Template::parse(&self.with_version(text), &self.names) {
            Ok(template) => Some(template),
            Err(errors) => {
                self.template_errors(pointer, errors);
                None
            }
        }
    }

    /// A version holds nothing that a template would take for more than text.
    fn with_version(&self, text: &str) -> String {
        const HOLE: &str = "${version}";
        if self.names.inputs.contains("version") {
            return text.to_owned();
        }
        let mut out = String::new();
        for piece in text.split_inclusive(HOLE) {
            match piece.strip_suffix(HOLE) {
                // `$${version}` is the text itself.
                Some(before) if !before.ends_with('$') => {
                    out.push_str(before);
                    out.push_str(self.version);
                }
                _ => out.push_str(piece),
            }
        }
        out
    }

    fn url(&mut self, text: &str, inputs: &Schema) -> Option<UrlTemplate> {
        const AT: &str = "/impl/urlTemplate";
        if !text.starts_with("http://") && !text.starts_with("https://") {
            self.wrong(AT, "it must begin with http:// or https://");
            return None;
        }
        let url = match UrlTemplate::parse(&self.with_version(text), &self.names) {
            Ok(url) => url,
            Err(UrlTemplateError::Template(errors)) => {
                self.template_errors(AT, errors);
                return None;
            }
            Err(err) => {
                self.wrong(AT, err.to_string());
                return None;
            }
        };
        let absent: Vec<String> = url
            .required_holes()
            .map(|it| it.name.clone())
            .filter(|it| self.names.inputs.contains(it) && !inputs.always_present(it))
            .collect();
        for name in absent {
            let why = format!("`{name}` stands in the path, but may be absent; make it required");
            self.wrong(AT, why);
        }
        Some(url)
    }

    /// The hosts that the tool may call: the one that its URL names, or those of the config, among which the
    /// arguments choose.
    fn network(&mut self, url: &UrlTemplate, around: &Surroundings) -> Option<Network> {
        let Some(origin) = url.fixed_origin() else {
            return Some(Network::Hosts(around.allowed_hosts.clone()));
        };
        let host = origin.host_str().unwrap_or_default();
        let port = origin.port_or_known_default().unwrap_or_default();
        let bare = host.trim_matches(['[', ']']);
        let is_allowed = |it: &HostPattern| {
            it.matches(bare, port) || bare.parse().is_ok_and(|ip| it.names_address(ip, port))
        };
        if !around.allowed_hosts.iter().any(is_allowed) {
            let why = format!(
                "`{host}` is not among bundles.allowed_hosts of .glee/config.yml, the only hosts that tools of bundles may call"
            );
            self.wrong("/impl/urlTemplate", why);
            return None;
        }
        match format!("{host}:{port}").parse() {
            Ok(own) => Some(Network::Hosts(vec![own])),
            Err(err) => {
                self.wrong("/impl/urlTemplate", format!("{err}"));
                None
            }
        }
    }

    fn headers(&mut self, wire: &wire::Http) -> Option<Vec<(String, Template)>> {
        let mut headers = Some(Vec::new());
        for (name, value) in &wire.headers {
            let pointer = format!("/impl/headers/{}", glee_core::schema::escape(name));
            let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
            if name.is_empty() || !name.bytes().all(token) {
                self.wrong(&pointer, "it cannot be the name of a header");
            } else if OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
                self.wrong(&pointer, "it is set by glee");
            }
            match (self.template(value, &pointer), &mut headers) {
                (Some(value), Some(headers)) => headers.push((name.clone(), value)),
                _ => headers = None,
            }
        }
        headers
    }

    /// Text that is JSON, but for its placeholders, is taken apart, so that no argument can write fields
    /// into it. Other text is filled as it is.
    fn body(&mut self, wire: &wire::Http, method: Method) -> Option<Option<ValueTemplate>> {
        const AT: &str = "/impl/bodyTemplate";
        let text = wire.body_template.as_str();
        if text.is_empty() {
            return Some(None);
        }
        if matches!(method, Method::Get | Method::Head) {
            self.wrong(AT, format!("a {} request has no body", method.as_str()));
            return None;
        }
        let says = |word: &str| {
            wire.headers.iter().any(|(name, value)| {
                name.eq_ignore_ascii_case("content-type")
                    && value.to_ascii_lowercase().contains(word)
            })
        };
        let read = json::parse(&with_quoted_holes(text));
        match read {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => self.value(value, AT).map(Some),
            _ if (says("json") || text.trim_start().starts_with(['{', '[']))
                && text.contains("${") =>
            {
                let why = "it is no JSON, which its beginning or the content type says it is";
                self.wrong(AT, why);
                None
            }
            _ => self
                .template(text, AT)
                .map(|it| Some(ValueTemplate::Text(it))),
        }
    }

    fn value(&mut self, value: Value, pointer: &str) -> Option<ValueTemplate> {
        Some(match value {
            Value::String(text) => ValueTemplate::Text(self.template(&text, pointer)?),
            Value::Array(items) => {
                let items: Vec<_> = items
                    .into_iter()
                    .map(|it| self.value(it, pointer))
                    .collect();
                ValueTemplate::List(items.into_iter().collect::<Option<_>>()?)
            }
            Value::Object(map) => {
                if map.keys().any(|it| it.contains("${")) {
                    self.wrong(pointer, "only values can have `${x}` in them, not keys");
                    return None;
                }
                let fields: Vec<_> = map
                    .into_iter()
                    .map(|(key, it)| Some((key, self.value(it, pointer)?)))
                    .collect();
                ValueTemplate::Map(fields.into_iter().collect::<Option<_>>()?)
            }
            other => ValueTemplate::Literal(other),
        })
    }

    fn extract(&mut self, wire: &wire::Http) -> Option<(Format, Option<Extract>)> {
        const AT: &str = "/impl/extractExpr";
        let format = match wire.response_encoding {
            wire::Encoding::Json => Format::Json,
            wire::Encoding::Text => Format::Text,
        };
        let text = wire.extract_expr.as_str();
        if text.is_empty() {
            return Some((format, None));
        }
        if !text.starts_with('$') {
            let built = RegexBuilder::new(text)
                .size_limit(PATTERN_BYTES)
                .dfa_size_limit(PATTERN_BYTES)
                .build();
            return match built {
                Ok(regex) => Some((format, Some(Extract::Match(regex)))),
                Err(err) => {
                    self.wrong(AT, format!("it is no regular expression: {err}"));
                    None
                }
            };
        }
        if format == Format::Text {
            self.wrong(AT, "a JSONPath needs the responseEncoding json");
            return None;
        }
        match JsonPath::parse(text) {
            Ok(path) => Some((format, Some(Extract::Path(path)))),
            Err(err) => {
                self.wrong(AT, err.to_string());
                None
            }
        }
    }
}

fn method(method: wire::Method) -> Method {
    match method {
        wire::Method::Get => Method::Get,
        wire::Method::Post => Method::Post,
        wire::Method::Put => Method::Put,
        wire::Method::Patch => Method::Patch,
        wire::Method::Delete => Method::Delete,
        wire::Method::Head => Method::Head,
    }
}

/// `{"count": ${count}}` as `{"count": "${count}"}`: what stands alone keeps its type anyway.
fn with_quoted_holes(text: &str) -> String {
    let mut out = String::new();
    let (mut in_string, mut escaped) = (false, false);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if !in_string
            && rest.starts_with("${")
            && let Some(end) = rest.find('}')
        {
            out.push('"');
            out.push_str(&rest[..=end]);
            out.push('"');
            rest = &rest[end + 1..];
            continue;
        }
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            _ => {}
        }
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_quoted_where_they_are_not() {
        for (text, quoted) in [
            (r#"{"a": ${a}}"#, r#"{"a": "${a}"}"#),
            (r#"{"a": "${a}"}"#, r#"{"a": "${a}"}"#),
            (r#"{"a": "\"${a}"}"#, r#"{"a": "\"${a}"}"#),
            ("[${a},${b}]", r#"["${a}","${b}"]"#),
            ("${a", "${a"),
        ] {
            assert_eq!(with_quoted_holes(text), quoted);
        }
    }
}
