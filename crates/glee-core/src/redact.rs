//! Takes the secrets of a call out of everything that leaves it.
//!
//! A secret is recognised raw and in the forms things commonly turn it into: percent-encoded,
//! JSON-escaped (also twice, and as Go does it), base64 (whatever stands before it) and hex; of a secret of
//! many lines, such as a key, each long line by itself. Other transforms cannot be undone here, nor can base64
//! that is broken into lines within the secret.

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, MatchKind};
use data_encoding::{BASE64_NOPAD, BASE64URL_NOPAD, HEXLOWER, HEXUPPER};
use serde_json::{Map, Value};

use crate::outcome::{Failure, Output};
use crate::secret::{Secret, SecretValues};
use crate::url_template::encode;

/// Shorter secrets occur by chance; replacing them would destroy the result.
pub const SHORTEST: usize = 8;

/// Shorter lines of a longer secret say little of it, and occur elsewhere.
const SHORTEST_LINE: usize = 16;

pub struct Redactor {
    /// The names of secrets that are too short to be looked for.
    short: Vec<String>,
    search: Option<AhoCorasick>,
    needles: Vec<String>,
    marks: Vec<String>,
}

impl Redactor {
    /// Whether there is nothing to look for.
    pub fn is_idle(&self) -> bool {
        self.search.is_none()
    }

    pub fn new(secrets: &SecretValues) -> Redactor {
        let mut needles = Vec::new();
        let mut marks = Vec::new();
        let mut short = Vec::new();
        for (name, secret) in secrets {
            if is_short(secret) {
                short.push(name.clone());
            }
            for form in forms(secret.reveal()) {
                if form.len() >= SHORTEST && !needles.contains(&form) {
                    needles.push(form);
                    marks.push(format!("[REDACTED:{name}]"));
                }
            }
        }
        let search = (!needles.is_empty())
            .then(|| {
                AhoCorasickBuilder::new()
                    .match_kind(MatchKind::LeftmostLongest)
                    .build(&needles)
                    .ok()
            })
            .flatten();
        Redactor {
            short,
            search,
            needles,
            marks,
        }
    }

    /// What people should know who rely on it.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        self.short.iter().map(|name| short_secret(name))
    }

    pub fn text(&self, text: String) -> String {
        match &self.search {
            Some(search) if search.is_match(&text) => search.replace_all(&text, &self.marks),
            _ => text,
        }
    }

    pub fn value(&self, value: Value) -> Value {
        if self.is_idle() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => {
                Value::Array(items.into_iter().map(|it| self.value(it)).collect())
            }
            Value::Object(map) => Value::Object(self.map(map)),
            // A secret may be all digits and come back as a number.
            Value::Number(number) => {
                let text = number.to_string();
                let redacted = self.text(text.clone());
                if redacted == text {
                    Value::Number(number)
                } else {
                    Value::String(redacted)
                }
            }
            other => other,
        }
    }

    pub fn map(&self, map: Map<String, Value>) -> Map<String, Value> {
        if self.is_idle() {
            return map;
        }
        map.into_iter()
            .map(|(key, value)| (self.text(key), self.value(value)))
            .collect()
    }

    pub fn output(&self, output: Output) -> Output {
        let value = match (output.truncated, output.value) {
            (Some(_), Value::String(text)) => Value::String(self.cut(text)),
            (_, value) => value,
        };
        Output {
            value: self.value(value),
            is_content: output.is_content,
            warnings: output
                .warnings
                .into_iter()
                .map(|it| self.text(it))
                .collect(),
            truncated: output.truncated,
        }
    }

    pub fn failure(&self, mut failure: Failure) -> Failure {
        // An output that was cut and then refused stands here.
        if let Some(Value::String(text)) = failure.details.get_mut("value") {
            *text = self.cut(std::mem::take(text));
        }
        Failure {
            message: self.text(failure.message),
            details: self.map(failure.details),
            hint: failure.hint.map(|it| self.text(it)),
            ..failure
        }
    }

    /// Text whose end was cut off.
    pub fn cut_text(&self, text: String) -> String {
        self.text(self.cut(text))
    }

    /// Where text was cut, half a secret may stand at its end and be recognised by nobody.
    fn cut(&self, mut text: String) -> String {
        let longest_tail = self
            .needles
            .iter()
            .filter_map(|needle| {
                (SHORTEST / 2..needle.len()).rev().find(|&length| {
                    needle.is_char_boundary(length) && text.ends_with(&needle[..length])
                })
            })
            .max();
        if let Some(length) = longest_tail {
            text.truncate(text.len() - length);
        }
        text
    }
}

/// Text that comes in pieces. A secret may be broken between two, so what could be the beginning of one is held
/// back until it is known.
pub struct Pieces {
    redactor: Redactor,
    longest: usize,
    held: Vec<u8>,
}

impl Pieces {
    pub fn new(redactor: Redactor) -> Pieces {
        Pieces {
            longest: redactor.needles.iter().map(String::len).max().unwrap_or(1),
            redactor,
            held: Vec::new(),
        }
    }

    /// What can be told when this has come.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.held.extend_from_slice(bytes);
        let mut told = Vec::new();
        let mut at = 0;
        let mut known = self.known(at);
        if let Some(search) = &self.redactor.search {
            for found in search.find_iter(&self.held) {
                if found.start() >= known {
                    break;
                }
                told.extend_from_slice(&self.held[at..found.start()]);
                told.extend_from_slice(self.redactor.marks[found.pattern()].as_bytes());
                at = found.end();
                // Before that nothing has changed, and to look takes its time.
                if at > known {
                    known = self.known(at);
                }
            }
        }
        if at < known {
            let end = at + whole_characters(&self.held[at..known]);
            told.extend_from_slice(&self.held[at..end]);
            at = end;
        }
        self.held.drain(..at);
        String::from_utf8_lossy(&told).into_owned()
    }

    /// Where, from here on, a secret may have begun whose rest is still to come. One that begins before that
    /// stands here as a whole.
    fn known(&self, at: usize) -> usize {
        let first = (self.held.len() + 1).saturating_sub(self.longest).max(at);
        let begins = |from: &usize| {
            let rest = &self.held[*from..];
            let needles = self.redactor.needles.iter();
            needles
                .map(String::as_bytes)
                .any(|it| it.len() > rest.len() && it.starts_with(rest))
        };
        let held = self.held.len();
        (first..held).find(begins).unwrap_or(held)
    }

    /// What is left when nothing more comes. It may have been cut anywhere.
    pub fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&std::mem::take(&mut self.held)).into_owned();
        self.redactor.cut_text(text)
    }
}

/// How many of these bytes are no part of a character whose rest is still to come.
fn whole_characters(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let at = bytes.len() - back;
        let length = match bytes[at] {
            0x80..=0xBF => continue,
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xFF => 4,
            _ => 1,
        };
        return if length > back { at } else { bytes.len() };
    }
    bytes.len()
}

/// Whether a secret occurs by chance.
pub fn is_short(secret: &Secret) -> bool {
    secret.reveal().len() < SHORTEST
}

/// What is wrong with such a secret.
pub fn short_secret(name: &str) -> String {
    format!("{name} has fewer than {SHORTEST} bytes, so it is not taken out of results and logs")
}

fn forms(secret: &str) -> Vec<String> {
    let bytes = secret.as_bytes();
    let mut forms = vec![
        secret.to_owned(),
        HEXLOWER.encode(bytes),
        HEXUPPER.encode(bytes),
    ];
    // Encoders agree neither on the case of the digits, nor on the space, nor on what needs no
    // encoding: JavaScript leaves `!'()*` alone, HTML forms only `*`, Python's `quote` the slash.
    for kept in ["", "!'()*", "*", "/"] {
        let mut percent = encode(secret);
        for c in kept.bytes() {
            percent = percent.replace(&format!("%{c:02X}"), &char::from(c).to_string());
        }
        for form in [lower_digits(&percent), percent] {
            forms.push(form.replace("%20", "+"));
            forms.push(form);
        }
    }
    let json = escaped(secret);
    for form in [ascii(&json), for_html(&json), json] {
        forms.push(escaped(&form));
        forms.push(form.replace('/', "\\/"));
        forms.push(form);
    }
    let is_telling = |it: &&str| it.len() >= SHORTEST_LINE && !it.starts_with("-----");
    if secret.trim().contains('\n') {
        let lines = secret.lines().map(str::trim).filter(is_telling);
        forms.extend(lines.map(str::to_owned));
    }
    // Base64 of a longer text that holds the secret depends on how many bytes stand before it; the
    // characters that also depend on its neighbours are left out.
    for offset in 0..3 {
        let mut padded = vec![0_u8; offset];
        padded.extend_from_slice(bytes);
        for encoding in [&BASE64_NOPAD, &BASE64URL_NOPAD] {
            let encoded = encoding.encode(&padded);
            let start = [0, 2, 3][offset];
            let end = padded.len() / 3 * 4;
            let stable = encoded.get(start..end).map(str::to_owned);
            // Where nothing stands behind the secret, its last characters are known as well.
            let last = encoded.get(start..).map(str::to_owned);
            forms.extend(stable.into_iter().chain(last));
        }
    }
    forms
}

/// As it stands between the quotes of a JSON text.
fn escaped(text: &str) -> String {
    let json = Value::String(text.to_owned()).to_string();
    json[1..json.len() - 1].to_owned()
}

/// JSON text as encoders write it that think of HTML.
fn for_html(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

/// The percent-encoded text with `%2f` for `%2F`, and its letters left alone.
fn lower_digits(percent: &str) -> String {
    let mut digits = 0;
    percent
        .chars()
        .map(|c| {
            if c == '%' {
                digits = 2;
            } else if digits > 0 {
                digits -= 1;
                return c.to_ascii_lowercase();
            }
            c
        })
        .collect()
}

/// JSON text as encoders write it that escape everything beyond ASCII.
fn ascii(json: &str) -> String {
    let mut out = String::new();
    for c in json.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Truncated;
    use data_encoding::BASE64;
    use serde_json::json;

    fn redactor(secret: &str) -> Redactor {
        Redactor::new(&SecretValues::from([(
            "KEY".to_owned(),
            Secret::new(secret),
        )]))
    }

    #[test]
    fn every_form_is_found() {
        let secret = "P@ss \"Wörd\"/*12345";
        let redactor = redactor(secret);
        for text in [
            secret.to_owned(),
            encode(secret),
            "P%40ss%20%22W%c3%b6rd%22%2f%2a12345".to_owned(),
            "P%40ss+%22W%C3%B6rd%22%2F*12345".to_owned(),
            "P%40ss%20%22W%C3%B6rd%22/%2A12345".to_owned(),
            json!(secret).to_string(),
            r#"P@ss \"W\u00f6rd\"/*12345"#.to_owned(),
            r#"P@ss \"Wörd\"\/*12345"#.to_owned(),
            HEXLOWER.encode(secret.as_bytes()),
            BASE64.encode(format!("user:{secret}").as_bytes()),
            BASE64.encode(format!("u:{secret}!").as_bytes()),
            BASE64.encode(format!("ab{secret}xyz").as_bytes()),
        ] {
            let redacted = redactor.text(format!("<{text}>"));
            assert!(redacted.contains("[REDACTED:KEY]"), "{text} → {redacted}");
        }
        assert_eq!(
            redactor.value(json!({"a": [secret], secret: 1})),
            json!({"a": ["[REDACTED:KEY]"], "[REDACTED:KEY]": 1})
        );
    }

    #[test]
    fn forms_of_other_encoders_are_found() {
        let secret = "a<b>&\"c\"12345";
        let redactor_of = redactor(secret);
        for text in [
            r#"a\u003cb\u003e\u0026\"c\"12345"#.to_owned(),
            json!(json!({"k": secret}).to_string()).to_string(),
        ] {
            let redacted = redactor_of.text(text.clone());
            assert!(redacted.contains("[REDACTED:KEY]"), "{text} → {redacted}");
        }
        let key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\nshort\n-----END KEY-----\n";
        let redactor = redactor(key);
        assert_eq!(
            redactor.text("x AQEFAASCBKcwggSjAgEAAoIB short -----BEGIN KEY-----".into()),
            "x [REDACTED:KEY] short -----BEGIN KEY-----"
        );
    }

    #[test]
    fn numbers_and_short_secrets() {
        assert_eq!(
            redactor("1234567890").value(json!(1234567890)),
            json!("[REDACTED:KEY]")
        );
        assert_eq!(redactor("abc").text("abcabc".into()), "abcabc");
        assert_eq!(redactor("").text("abc".into()), "abc");
    }

    #[test]
    fn a_secret_broken_anywhere_is_found() {
        let (secret, text) = (
            "supersecret-ü",
            "aß supersecret-ü, superb, c3VwZXJzZWNyZXQtw7w and supersec",
        );
        let whole = redactor(secret).cut_text(text.to_owned());
        assert!(!whole.contains(secret), "{whole}");
        for size in 1..text.len() {
            let mut pieces = Pieces::new(redactor(secret));
            let mut told = String::new();
            for piece in text.as_bytes().chunks(size) {
                told += &pieces.push(piece);
                assert!(!told.contains("supersec"), "{told}");
            }
            told += &pieces.finish();
            assert_eq!(told, whole, "in pieces of {size}");
        }
        // What cannot be one is told at once.
        let mut pieces = Pieces::new(redactor(secret));
        assert_eq!(pieces.push(b"first\nsup"), "first\n");
        assert_eq!(pieces.push(b"er"), "");
        assert_eq!(pieces.push(b"b"), "superb");
        let mut idle = Pieces::new(Redactor::new(&SecretValues::new()));
        assert_eq!(idle.push("aß".as_bytes()), "aß");
        assert_eq!(idle.push(&"ß".as_bytes()[..1]), "");
        assert_eq!(idle.push(&"ß".as_bytes()[1..]), "ß");
    }

    #[test]
    fn half_a_secret_at_a_cut_goes_too() {
        let output = Output {
            is_content: false,
            value: json!("text supersec"),
            warnings: vec![],
            truncated: Some(Truncated {
                kept: 13,
                total: None,
            }),
        };
        assert_eq!(redactor("supersecret").output(output).value, json!("text "));
    }
}
