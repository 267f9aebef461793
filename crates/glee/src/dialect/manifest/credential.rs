//! Credentials that stand in a manifest as they are. They belong in the environment, not in a file that
//! people share.

use serde_json::Value;

use crate::dialect::problem::Problem;
use crate::dialect::yaml::{Kind, Node};

/// How a well-known credential looks.
struct Shape {
    what: &'static str,
    prefixes: &'static [&'static str],
    /// What may follow, beside letters and digits.
    also: &'static str,
    /// How much follows, at least.
    least: usize,
}

const fn shape(
    what: &'static str,
    prefixes: &'static [&'static str],
    also: &'static str,
    least: usize,
) -> Shape {
    Shape {
        what,
        prefixes,
        also,
        least,
    }
}

const SHAPES: &[Shape] = &[
    shape("an AWS access key", &["AKIA", "ASIA"], "", 16),
    shape(
        "a GitHub token",
        &["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"],
        "_",
        20,
    ),
    shape("a GitLab token", &["glpat-"], "_-", 20),
    shape(
        "a Slack token",
        &["xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xapp-"],
        "-",
        16,
    ),
    shape(
        "a Slack webhook",
        &["https://hooks.slack.com/services/"],
        "/",
        24,
    ),
    shape("a Google API key", &["AIza"], "_-", 35),
    shape("a Google access token", &["ya29."], "_-", 20),
    shape(
        "a Stripe key",
        &["sk_live_", "rk_live_", "sk_test_", "rk_test_", "whsec_"],
        "",
        16,
    ),
    shape("an Anthropic key", &["sk-ant-"], "_-", 20),
    shape(
        "an OpenAI key",
        &["sk-proj-", "sk-svcacct-", "sk-"],
        "_-",
        20,
    ),
    shape("a Hugging Face token", &["hf_"], "", 30),
    shape("an npm token", &["npm_"], "", 36),
    shape("a SendGrid key", &["SG."], "._-", 40),
    shape("a JWT", &["eyJ"], "._-", 30),
];

pub(super) fn literal(root: &Node, problems: &mut Vec<Problem>) {
    match &root.kind {
        Kind::Scalar(Value::String(text)) => {
            if let Some(what) = found(text) {
                problems.push(
                    Problem::warning(
                        "secret-in-manifest",
                        root.place.clone(),
                        format!("this looks like {what}"),
                    )
                    .fix("declare it in permissions.secrets and write `${NAME}` here; if it was real, replace it"),
                );
            }
        }
        Kind::Scalar(_) => {}
        Kind::List(items) => items.iter().for_each(|it| literal(it, problems)),
        Kind::Map(entries) => entries.iter().for_each(|it| literal(&it.value, problems)),
    }
}

/// What a text holds that looks like a credential.
fn found(text: &str) -> Option<&'static str> {
    if text.contains("-----BEGIN ") && text.contains("PRIVATE KEY") {
        return Some("a private key");
    }
    let shape = SHAPES.iter().find(|shape| {
        let prefixes = shape.prefixes.iter();
        let mut places = prefixes.flat_map(|it| text.match_indices(it));
        places.any(|(at, prefix)| {
            let begins_a_word = !text[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
            begins_a_word && shape.fits(prefix, &text[at + prefix.len()..])
        })
    })?;
    Some(shape.what)
}

impl Shape {
    fn fits(&self, prefix: &str, rest: &str) -> bool {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !self.also.contains(c));
        let body = &rest[..end.unwrap_or(rest.len())];
        // A placeholder goes on where a credential ends.
        let goes_on = rest[body.len()..].starts_with(['$', '<', '{', '*', '.', '…']);
        body.len() >= self.least
            && !goes_on
            && is_random(body)
            && (prefix != "eyJ" || body.split('.').filter(|it| it.len() >= 8).count() == 3)
    }
}

/// Words, and the same letter again and again, stand for a credential where one is explained.
fn is_random(body: &str) -> bool {
    let upper = body.to_ascii_uppercase();
    let mut letters: Vec<char> = upper.chars().collect();
    letters.sort_unstable();
    letters.dedup();
    let longest = body
        .split(|c: char| !c.is_ascii_alphanumeric())
        .map(str::len)
        .max();
    let stands_for_one = ["EXAMPLE", "PLACEHOLDER", "YOUR", "XXXX"];
    letters.len() >= 8
        && longest.is_some_and(|it| it >= 8)
        && body.contains(|c: char| c.is_ascii_digit())
        && body.contains(|c: char| c.is_ascii_alphabetic())
        && !stands_for_one.iter().any(|it| upper.contains(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Put together here, so that nobody who looks for credentials finds one in this file.
    const RANDOM: &str = "Q7pX2mV9kT4wZ8cB1nR6sD3fG5hJ0lYaEuIoPqWe";

    #[test]
    fn se_10_well_known_credentials_are_seen() {
        for (prefix, length) in [
            ("ghp_", 36),
            ("gho_", 36),
            ("github_pat_", 40),
            ("glpat-", 20),
            ("xoxb-", 24),
            ("xoxp-", 24),
            ("AIza", 35),
            ("ya29.", 30),
            ("sk_live_", 24),
            ("rk_live_", 24),
            ("sk-", 40),
            ("sk-proj-", 40),
            ("sk-ant-", 40),
            ("hf_", 34),
            ("npm_", 36),
        ] {
            let token = format!("{prefix}{}", &RANDOM[..length]);
            for text in [
                token.clone(),
                format!("Bearer {token}"),
                format!("https://api.example.com/x?key={token}&y=1"),
                format!("{{\"key\":\"{token}\"}}"),
            ] {
                assert!(found(&text).is_some(), "{text}");
            }
        }
        let aws = format!("AKIA{}", RANDOM[..16].to_ascii_uppercase());
        assert_eq!(found(&aws), Some("an AWS access key"));
        let hook = "https://hooks.slack.com/services/T01ABCDEF/B02GHIJKL/";
        assert!(found(&format!("{hook}{}", &RANDOM[..24])).is_some());
        let jwt = format!("eyJ{0}.eyJ{0}.{0}", &RANDOM[..20]);
        assert_eq!(found(&jwt), Some("a JWT"));
        let block = "-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----";
        assert_eq!(found(block), Some("a private key"));
    }

    #[test]
    fn se_10_words_and_placeholders_are_not() {
        for text in [
            "",
            "sk-",
            "Bearer ${API_KEY}",
            "ghp_${TOKEN}",
            "sk-${KEY_ID}-1234567890abcdefghij",
            "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            "AKIAIOSFODNN7EXAMPLE",
            "sk-your-api-key-goes-right-here-1",
            "sk-learn-is-a-library-for-machine-learning",
            "task-1234567890abcdefghijklmnop",
            "risk-q7px2mv9kt4wz8cb1nr6sd3fg",
            "eyJhbGciOiJIUzI1NiJ9",
            "AIzaShort1",
            "xoxb-…",
            "hf_model_name",
            "a commit 3f786850e387550fdab836ed7e6dc881de23001b",
            "0190b8c4-7c40-7000-8000-000000000000",
            "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
            "how to write a PRIVATE KEY",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }
}
