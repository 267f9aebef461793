//! The question whether a call may be made, put to the person behind a client.

use glee_core::elicit::Ask;
use glee_core::name::spelled_out;
use glee_core::port::{Answer, Question};
use serde_json::{Value, json};

/// Who answers, for those who read of it later: whoever sits at the client, which is trusted to ask.
pub(super) const BY: &str = "the client's user";

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
        spelled_out(&question.caller.name),
        question.spec.name,
        question.spec.exec.kind(),
        spelled_out(question.reason),
        permissions.network,
        spelled_out(&list(&permissions.read)),
        spelled_out(&list(&permissions.write)),
        list(&permissions.secrets.keys().cloned().collect::<Vec<_>>()),
        arguments(&args),
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

/// One line each; JSON escapes what would begin another.
fn arguments(args: &Value) -> String {
    let text = serde_json::to_string_pretty(args).unwrap_or_default();
    text.lines().map(spelled_out).collect::<Vec<_>>().join("\n")
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
