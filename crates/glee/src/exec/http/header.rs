//! Headers whose names the author fixed and whose values cannot break out of their line.

use glee_core::model::OWN_HEADERS;
use glee_core::outcome::Failure;
use reqwest::header::{HeaderName, HeaderValue};

use super::invalid;

pub(super) fn name(text: &str) -> Result<HeaderName, Failure> {
    let name = HeaderName::from_bytes(text.as_bytes())
        .map_err(|_| invalid(format!("`{}` is not a header's name", text.escape_debug())))?;
    if OWN_HEADERS.contains(&name.as_str()) {
        return Err(invalid(format!(
            "the header `{name}` is set by glee itself; remove it from the tool"
        )));
    }
    Ok(name)
}

pub(super) enum Kind {
    Open,
    /// Holds a secret: it leaves only for the host it was meant for.
    Secret,
}

/// The value is not repeated in the message: it may be a secret.
pub(super) fn value(name: &HeaderName, text: &str, kind: Kind) -> Result<HeaderValue, Failure> {
    let bad = || {
        invalid(format!(
            "the value of the header `{name}` holds a line break or another control character"
        ))
        .hint("remove it from the argument or secret that fills the header")
        .with("header", name.as_str())
    };
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    if text.contains(breaks) {
        return Err(bad());
    }
    let mut value = HeaderValue::from_bytes(text.as_bytes()).map_err(|_| bad())?;
    value.set_sensitive(matches!(kind, Kind::Secret));
    Ok(value)
}
