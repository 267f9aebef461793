//! The question whether a call may be made, put to the person behind a client.

use data_encoding::HEXLOWER;
use glee_core::elicit::Ask;
use glee_core::name::is_invisible;
use glee_core::port::{Answer, Question};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Longest question, in bytes.
const LONGEST: usize = 8 * 1024;

/// The question's name among others.
pub(super) const KEY: &str = "glee_approval";

pub(super) fn form(question: &Question<'_>) -> Ask {
    let permissions = &question.spec.permissions;
    let list = |it: &[String]| match it.is_empty() {
        true => "nothing".to_owned(),
        false => it.join(", "),
    };
    let args = Value::Object(question.args.clone());
    let message = format!(
        "{} wants to run `{}` ({}): {}\nnetwork: {}\nreads: {}\nwrites: {}\nsecrets: {}\narguments: {}",
        question.caller.name,
        question.spec.name,
        question.spec.exec.kind(),
        question.reason,
        permissions.network,
        list(&permissions.read),
        list(&permissions.write),
        list(&permissions.secrets.keys().cloned().collect::<Vec<_>>()),
        serde_json::to_string_pretty(&args).unwrap_or_default(),
    );
    let message = spelled_out(&message);
    Ask::Form {
        message,
        schema: json!({
            "type": "object",
            "properties": {
                "approve": {"type": "boolean", "title": "Run it", "default": false},
                "reason": {"type": "string", "title": "If not, why not"}
            },
            "required": ["approve"]
        }),
    }
}

/// As the person must see it: what is invisible, or turns text around, is spelled out.
fn spelled_out(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        if shown.len() > LONGEST {
            let left = text.len().saturating_sub(LONGEST);
            shown += &format!("… and about {left} bytes more, which do not fit here");
            break;
        }
        match is_invisible(c) && c != '\n' {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
    shown
}

/// Only a plain yes is a yes.
pub(super) fn read(answer: Option<&Value>) -> Answer {
    let Some(answer) = answer else {
        return Answer::Nobody {
            hint: "nobody answered the question".to_owned(),
        };
    };
    if answer["action"] == "accept" && answer["content"]["approve"] == true {
        return Answer::Approved;
    }
    let reason = answer["content"]["reason"].as_str().unwrap_or_default();
    Answer::Denied {
        reason: match reason.trim() {
            "" => "no reason was given".to_owned(),
            given => given.to_owned(),
        },
    }
}

/// Names one call: who, what, with which arguments, and the tool's document and files as they are now.
pub(super) fn digest(question: &Question<'_>, files: Option<String>) -> String {
    let mut hash = Sha256::new();
    for part in [
        question.caller.name.as_bytes(),
        question.spec.name.as_bytes(),
        &question.spec.document,
        files.unwrap_or_default().as_bytes(),
        question.reason.as_bytes(),
        Value::Object(question.args.clone()).to_string().as_bytes(),
    ] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    HEXLOWER.encode(&hash.finalize())
}
