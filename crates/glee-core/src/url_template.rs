//! A URL with holes whose shape the arguments cannot change.
//!
//! The author's text is split into origin, path segments and query pairs before anything is filled
//! in. An argument fills one segment or one value, percent-encoded, so it can add neither a
//! segment, nor a parameter, nor another host.

use thiserror::Error;
use url::Url;

use crate::template::{Hole, Names, Part, Scope, Template, TemplateError, TooLarge};

#[derive(Clone, Debug)]
pub struct UrlTemplate {
    origin: Origin,
    segments: Vec<Template>,
    query: Vec<(Template, Option<Template>)>,
}

#[derive(Clone, Debug)]
enum Origin {
    /// `https://api.example.com:8443`, as the author wrote it.
    Fixed(Url),
    /// The author put a placeholder into scheme, host or port: the result must pass `hosts`.
    Filled(Template),
}

#[derive(Clone, Debug, Error)]
pub enum UrlTemplateError {
    #[error("{}", .0[0])]
    Template(Vec<TemplateError>),
    #[error("not a URL: {0}")]
    NotAUrl(String),
    #[error("a URL must start with http:// or https://, not `{0}:`")]
    Scheme(String),
    #[error("a URL must not carry a user name or password; use `auth`")]
    UserInfo,
    #[error("a URL with a fragment (`#…`) is never sent; remove it")]
    Fragment,
}

#[derive(Debug, Error, PartialEq, Eq)]
pub enum FillError {
    #[error("`{name}` fills a part of the URL's path and has no value")]
    Absent { name: String },
    // The value is not quoted: a secret may stand in it.
    #[error(
        "`{name}` is empty, `.`, `..` or holds a control character, and would change the URL's path"
    )]
    Segment { name: String },
    #[error("the filled URL is not one: {0}")]
    NotAUrl(String),
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}

/// Stands for the n-th hole while the text is taken apart: private-use characters.
const HOLE_BASE: u32 = 0xF0000;
const HOLE_MAX: u32 = 0xFFFD;

impl UrlTemplate {
    pub fn parse(text: &str, names: &Names) -> Result<UrlTemplate, UrlTemplateError> {
        let template = Template::parse(text, names).map_err(UrlTemplateError::Template)?;
        let (skeleton, holes) = skeleton(&template)?;
        if skeleton.contains('#') {
            return Err(UrlTemplateError::Fragment);
        }
        let after_scheme = skeleton.find("://").map_or(0, |at| at + 3);
        let end = skeleton[after_scheme..]
            .find(['/', '?', '\\'])
            .map_or(skeleton.len(), |at| after_scheme + at);
        let (origin, rest) = skeleton.split_at(end);
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, query),
            None => (rest, ""),
        };
        let refill = |piece: &str| refill(piece, &holes);
        Ok(UrlTemplate {
            origin: self::origin(origin, &refill)?,
            segments: match path.strip_prefix('/') {
                Some(path) => path.split('/').map(refill).collect(),
                None if path.is_empty() => Vec::new(),
                None => return Err(UrlTemplateError::NotAUrl("a backslash in the path".into())),
            },
            query: query
                .split('&')
                .filter(|pair| !pair.is_empty())
                .map(|pair| match pair.split_once('=') {
                    Some((key, value)) => (refill(key), Some(refill(value))),
                    None => (refill(pair), None),
                })
                .collect(),
        })
    }

    /// Whether the arguments have no say in scheme, host and port.
    pub fn has_fixed_origin(&self) -> bool {
        matches!(self.origin, Origin::Fixed(_))
    }

    /// The host the author wrote, if the author wrote one.
    pub fn fixed_origin(&self) -> Option<&Url> {
        match &self.origin {
            Origin::Fixed(url) => Some(url),
            Origin::Filled(_) => None,
        }
    }

    fn filled_origin(&self) -> Option<&Template> {
        match &self.origin {
            Origin::Fixed(_) => None,
            Origin::Filled(template) => Some(template),
        }
    }

    pub fn holes(&self) -> impl Iterator<Item = &Hole> {
        self.filled_origin()
            .into_iter()
            .chain(&self.segments)
            .chain(
                self.query
                    .iter()
                    .flat_map(|(key, value)| std::iter::once(key).chain(value)),
            )
            .flat_map(Template::holes)
    }

    /// Holes that cannot be left out: those of the origin and of the path.
    pub fn required_holes(&self) -> impl Iterator<Item = &Hole> {
        self.filled_origin()
            .into_iter()
            .chain(&self.segments)
            .flat_map(Template::holes)
    }

    /// Whether the author left the whole URL to one argument, as a tool that fetches any page does.
    fn is_one_hole(&self, origin: &Template) -> bool {
        origin.whole().is_some() && self.segments.is_empty() && self.query.is_empty()
    }

    pub fn fill(&self, scope: &Scope<'_>) -> Result<Url, FillError> {
        let mut text = match &self.origin {
            Origin::Fixed(url) => url.as_str().trim_end_matches('/').to_owned(),
            Origin::Filled(template) => {
                let origin = template.text(scope)?.ok_or_else(|| absent(template))?;
                if !self.is_one_hole(template) {
                    only_an_origin(&origin)?;
                }
                origin
            }
        };
        for segment in &self.segments {
            text.push('/');
            text.push_str(&fill_segment(segment, scope)?);
        }
        let mut separator = '?';
        for (key, value) in &self.query {
            let Some(key) = key.text_with(scope, encode)? else {
                continue;
            };
            let pair = match value {
                None => key,
                Some(value) => match value.text_with(scope, encode)? {
                    Some(value) => format!("{key}={value}"),
                    None => continue,
                },
            };
            text.push(separator);
            text.push_str(&pair);
            separator = '&';
        }
        let url = Url::parse(&text).map_err(|err| FillError::NotAUrl(err.to_string()))?;
        check(&url).map_err(|err| FillError::NotAUrl(err.to_string()))?;
        if let Origin::Fixed(fixed) = &self.origin
            && fixed.origin() != url.origin()
        {
            return Err(FillError::NotAUrl(
                "its host is not the one in the manifest".into(),
            ));
        }
        Ok(url)
    }
}

/// Percent-encodes everything but RFC 3986's unreserved characters.
pub fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn skeleton(template: &Template) -> Result<(String, Vec<Hole>), UrlTemplateError> {
    let mut text = String::new();
    let mut holes = Vec::new();
    for part in template.parts() {
        match part {
            Part::Text(literal) => {
                let odd = |c: char| c.is_control() || c.is_whitespace() || c as u32 >= HOLE_BASE;
                if literal.contains(odd) {
                    return Err(UrlTemplateError::NotAUrl("it holds white space".into()));
                }
                text.push_str(literal);
            }
            Part::Hole(hole) => {
                let mark = char::from_u32(HOLE_BASE + holes.len() as u32)
                    .filter(|_| holes.len() < HOLE_MAX as usize)
                    .ok_or_else(|| UrlTemplateError::NotAUrl("too many placeholders".into()))?;
                text.push(mark);
                holes.push(hole.clone());
            }
        }
    }
    Ok((text, holes))
}

fn refill(piece: &str, holes: &[Hole]) -> Template {
    let mut parts = Vec::new();
    let mut literal = String::new();
    for c in piece.chars() {
        match (c as u32)
            .checked_sub(HOLE_BASE)
            .and_then(|at| holes.get(at as usize))
        {
            Some(hole) => {
                if !literal.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut literal)));
                }
                parts.push(Part::Hole(hole.clone()));
            }
            None => literal.push(c),
        }
    }
    if !literal.is_empty() {
        parts.push(Part::Text(literal));
    }
    Template::from_parts(parts)
}

fn origin(piece: &str, refill: &impl Fn(&str) -> Template) -> Result<Origin, UrlTemplateError> {
    let template = refill(piece);
    if template.holes().next().is_some() {
        return Ok(Origin::Filled(template));
    }
    let url = Url::parse(piece).map_err(|err| UrlTemplateError::NotAUrl(err.to_string()))?;
    check(&url)?;
    Ok(Origin::Fixed(url))
}

fn check(url: &Url) -> Result<(), UrlTemplateError> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(UrlTemplateError::Scheme(url.scheme().to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(UrlTemplateError::UserInfo);
    }
    if url.fragment().is_some() {
        return Err(UrlTemplateError::Fragment);
    }
    Ok(())
}

/// An argument that stands for a host must not bring a path or a query along: `x.test/admin?` would
/// turn the author's own path into a value.
fn only_an_origin(text: &str) -> Result<(), FillError> {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    if rest.contains(['/', '\\', '?', '#', '@']) || rest.contains(char::is_control) {
        return Err(FillError::NotAUrl(
            "what fills its host may hold only a host and a port".into(),
        ));
    }
    Ok(())
}

fn fill_segment(segment: &Template, scope: &Scope<'_>) -> Result<String, FillError> {
    let Some(hole) = segment.holes().next() else {
        // The author's own text: `..` in it is the author's business.
        return Ok(segment.text(scope)?.unwrap_or_default());
    };
    let refuse = || FillError::Segment {
        name: hole.name.clone(),
    };
    let raw = segment.text(scope)?.ok_or_else(|| absent(segment))?;
    // Control characters mean nothing good in a path, and `.`, `..` and the empty segment would
    // make the server read another path than the author wrote.
    if matches!(raw.as_str(), "" | "." | "..") || raw.contains(char::is_control) {
        return Err(refuse());
    }
    let filled = segment
        .text_with(scope, encode)?
        .ok_or_else(|| absent(segment))?;
    let dots = filled.replace("%2e", ".").replace("%2E", ".");
    if matches!(dots.as_str(), "." | "..") {
        return Err(refuse());
    }
    Ok(filled)
}

fn absent(template: &Template) -> FillError {
    let name = template
        .holes()
        .next()
        .map(|hole| hole.name.clone())
        .unwrap_or_default();
    FillError::Absent { name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::SecretValues;
    use serde_json::{Value, json};

    fn names() -> Names {
        Names {
            inputs: ["a", "b", "host"].map(str::to_owned).into(),
            secrets: [].into(),
        }
    }

    fn fill(text: &str, args: Value) -> Result<String, FillError> {
        let args = args.as_object().unwrap().clone();
        UrlTemplate::parse(text, &names())
            .unwrap()
            .fill(&Scope::new(&args, &SecretValues::new()))
            .map(String::from)
    }

    #[test]
    fn an_argument_is_one_segment() {
        let at = |a: &str| fill("https://x.test/u/${a}/p?k=${b}", json!({"a": a, "b": 1}));
        assert_eq!(at("x").unwrap(), "https://x.test/u/x/p?k=1");
        assert_eq!(
            at("a/b?c#d%2f\\;@").unwrap(),
            "https://x.test/u/a%2Fb%3Fc%23d%252f%5C%3B%40/p?k=1"
        );
        assert_eq!(
            at("//evil.test/").unwrap(),
            "https://x.test/u/%2F%2Fevil.test%2F/p?k=1"
        );
        assert_eq!(at("%2e%2e").unwrap(), "https://x.test/u/%252e%252e/p?k=1");
        for bad in ["", ".", "..", "a\r\nb", "a\0"] {
            assert!(matches!(at(bad), Err(FillError::Segment { .. })), "{bad:?}");
        }
        assert!(fill("https://x.test/a%2e${a}", json!({"a": "x"})).is_ok());
        assert!(fill("https://x.test/%2e${a}", json!({"a": "."})).is_err());
    }

    #[test]
    fn a_query_value_is_one_value_and_absent_ones_drop() {
        let at = |args| fill("https://x.test/?a=${a}&b=${b}&c=1", args).unwrap();
        assert_eq!(
            at(json!({"a": "1&c=2", "b": "ü +"})),
            "https://x.test/?a=1%26c%3D2&b=%C3%BC%20%2B&c=1"
        );
        assert_eq!(at(json!({"b": 2})), "https://x.test/?b=2&c=1");
        assert_eq!(at(json!({})), "https://x.test/?c=1");
    }

    #[test]
    fn origins() {
        assert!(
            UrlTemplate::parse("https://x.test/${a}", &names())
                .unwrap()
                .has_fixed_origin()
        );
        let filled = UrlTemplate::parse("https://${host}/x", &names()).unwrap();
        assert!(!filled.has_fixed_origin());
        assert_eq!(
            fill("https://${host}/x", json!({"host": "y.test"})).unwrap(),
            "https://y.test/x"
        );
        for bad in [
            "y.test/admin?",
            "y.test\\admin",
            "y.test?",
            "y.test#",
            "u@y.test",
            "y.te\tst",
        ] {
            assert!(
                fill("https://${host}/x", json!({"host": bad})).is_err(),
                "{bad}"
            );
        }
        assert_eq!(
            fill("${a}/x", json!({"a": "http://y.test:81"})).unwrap(),
            "http://y.test:81/x"
        );
        assert_eq!(
            fill("${a}", json!({"a": "http://y.test/p?q=1"})).unwrap(),
            "http://y.test/p?q=1"
        );
        for bad in [
            "http://u:p@y.test/",
            "ftp://y.test",
            "file:///etc/passwd",
            "y.test",
            "http://",
        ] {
            assert!(fill("${a}", json!({"a": bad})).is_err(), "{bad}");
        }
        assert!(fill("https://x.test/${a}", json!({})).is_err());
    }

    #[test]
    fn broken_templates() {
        for bad in [
            "nothing",
            "ftp://x.test/",
            "https://u@x.test/",
            "https://x.test/#f",
            "https://x y/",
            "https://x.test\\@evil.test/",
            "https:///p",
        ] {
            let parsed = UrlTemplate::parse(bad, &names());
            assert!(parsed.is_err() || bad == "https:///p", "{bad}");
        }
    }
}
