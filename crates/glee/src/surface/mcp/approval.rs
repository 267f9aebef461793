//! The question whether a call may be made, put to the person behind a client.

use data_encoding::HEXLOWER;
use glee_core::elicit::Ask;
use glee_core::port::{Answer, Question};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::definition::visible;

/// The question's name among others.
pub(super) const KEY: &str = "glee_approval";

pub(super) fn form(question: &Question<'_>) -> Ask {
    let args = Value::Object(question.args.clone());
    let message = format!(
        "{} wants to run `{}`: {}\narguments: {}",
        question.caller.name,
        question.spec.name,
        visible(question.reason),
        visible(&serde_json::to_string_pretty(&args).unwrap_or_default()),
    );
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

/// Names one call: who, what, with which arguments, and the document of the tool as it is now.
pub(super) fn digest(question: &Question<'_>) -> String {
    let mut hash = Sha256::new();
    for part in [
        question.caller.name.as_str(),
        question.spec.name.as_str(),
        question.spec.version.as_str(),
        question.reason,
        &Value::Object(question.args.clone()).to_string(),
    ] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    HEXLOWER.encode(&hash.finalize())
}
