//! Prompts: `.glee/prompts/<name>.yml` to the model, with every problem at its place.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use glee_core::prompt::{self, Argument, Message, Prompt, Role, Said};
use glee_core::schema::Schema;
use glee_core::template::Names;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::document::Read;
use super::elicit::WireRound;
use super::reader::{self, Reader, Words};
use super::yaml::Kind;

/// The published JSON Schema of prompts.
pub fn schema() -> Value {
    schemars::schema_for!(Wire).to_value()
}

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| match Schema::new(schema()) {
    Ok(schema) => schema,
    Err(err) => unreachable!("the prompt schema is generated, and bounded: {err:?}"),
});

const STAND_INS: &[(&str, &str)] = &[
    ("name", "\"\""),
    ("title", "null"),
    ("description", "\"\""),
    ("messages", "[]"),
    ("elicit", "[]"),
];

const WORDS: Words = Words {
    thing: "prompt",
    home: "file",
    undeclared: "not an argument of this prompt",
    declare: "in arguments",
};

/// A prompt of glee: `.glee/prompts/<name>.yml`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "glee prompt")]
struct Wire {
    /// The prompt's name: the same as its file's, without `.yml`.
    name: String,
    /// A name for people.
    #[serde(default)]
    title: Option<String>,
    /// What the prompt is for.
    description: String,
    #[serde(default)]
    arguments: Vec<WireArgument>,
    /// What is asked of the caller when it is not among the arguments, round by round.
    #[serde(default)]
    elicit: Vec<WireRound>,
    /// `${name}` takes an argument. A message whose argument is absent is left out.
    messages: Vec<WireMessage>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WireArgument {
    name: String,
    description: String,
    #[serde(default)]
    required: bool,
    /// What is proposed while somebody types; other texts are allowed.
    #[serde(default)]
    values: Vec<String>,
}

/// One message: a role, and exactly one of `text`, `image`, `audio`, `resource`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WireMessage {
    role: WireRole,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    image: Option<WireMedia>,
    #[serde(default)]
    audio: Option<WireMedia>,
    #[serde(default)]
    resource: Option<WireResource>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum WireRole {
    User,
    Assistant,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WireMedia {
    /// Base64.
    data: String,
    mime_type: String,
}

/// A document inside the message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WireResource {
    uri: String,
    #[serde(default)]
    mime_type: Option<String>,
    text: String,
}

/// Reads a prompt that stands in a file called `<stem>.yml`.
pub fn read(text: &str, stem: &str) -> Read<Prompt> {
    reader::read(text, &SCHEMA, STAND_INS, &WORDS, |reader, wire| {
        reader.prompt(wire, stem)
    })
}

impl Reader<'_> {
    fn prompt(&mut self, wire: Wire, stem: &str) -> Option<Prompt> {
        self.name(&wire.name, stem);
        let arguments = self.arguments(wire.arguments);
        let elicit = self.elicit(wire.elicit);
        let messages = self.messages(wire.messages);
        let inputs = match prompt::inputs(&arguments) {
            Ok(inputs) => Some(inputs),
            Err(errors) => {
                let why = errors.into_iter().next().map(|it| it.reason);
                self.error("argument", "/arguments", why.unwrap_or_default());
                None
            }
        };
        Some(Prompt {
            name: wire.name,
            title: wire.title,
            description: wire.description,
            arguments,
            inputs: inputs?,
            messages: messages?,
            elicit,
        })
    }

    fn arguments(&mut self, wire: Vec<WireArgument>) -> Vec<Argument> {
        let mut names = BTreeSet::new();
        for (at, argument) in wire.iter().enumerate() {
            let name = &argument.name;
            let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
            if name.is_empty() || !name.chars().all(is_word) {
                let message = format!("`{name}` cannot be the name of an argument");
                self.error("argument", &format!("/arguments/{at}/name"), message);
            } else if !names.insert(name.clone()) {
                let message = format!("there are two arguments `{name}`");
                self.error("argument", &format!("/arguments/{at}/name"), message);
            }
        }
        self.names = Names {
            inputs: names,
            ..Names::default()
        };
        let argument = |it: WireArgument| Argument {
            name: it.name,
            description: it.description,
            required: it.required,
            values: it.values,
        };
        wire.into_iter().map(argument).collect()
    }

    fn messages(&mut self, wire: Vec<WireMessage>) -> Option<Vec<Message>> {
        // What stands in for messages that are wrong says nothing about them.
        let written = self.node.get("/messages").map(|it| &it.kind);
        if matches!(written, Some(Kind::List(items)) if items.is_empty()) {
            self.error("messages", "/messages", "a prompt has at least one message");
        }
        let messages: Vec<_> = wire
            .into_iter()
            .enumerate()
            .map(|(at, it)| self.message(it, &format!("/messages/{at}")))
            .collect();
        messages.into_iter().collect()
    }

    fn message(&mut self, wire: WireMessage, pointer: &str) -> Option<Message> {
        let said = match (wire.text, wire.image, wire.audio, wire.resource) {
            (Some(text), None, None, None) => {
                Said::Text(self.plain_template(&text, &format!("{pointer}/text"))?)
            }
            (None, Some(it), None, None) => Said::Image {
                data: self.base64(&it.data, &format!("{pointer}/image/data"))?,
                mime_type: it.mime_type,
            },
            (None, None, Some(it), None) => Said::Audio {
                data: self.base64(&it.data, &format!("{pointer}/audio/data"))?,
                mime_type: it.mime_type,
            },
            (None, None, None, Some(it)) => {
                let uri = self.plain_template(&it.uri, &format!("{pointer}/resource/uri"));
                let text = self.plain_template(&it.text, &format!("{pointer}/resource/text"));
                Said::Resource {
                    uri: uri?,
                    mime_type: it.mime_type,
                    text: text?,
                }
            }
            _ => {
                let message = "a message holds exactly one of text, image, audio, resource";
                self.error("messages", pointer, message);
                return None;
            }
        };
        Some(Message {
            role: match wire.role {
                WireRole::User => Role::User,
                WireRole::Assistant => Role::Assistant,
            },
            said,
        })
    }
}
