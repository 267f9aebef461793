//! A prompt: messages with holes, which a person picks and fills in.

use serde_json::{Map, Value, json};

use crate::admit::check_arguments;
use crate::content::{Block, Body};
use crate::elicit::{Round, elicit};
use crate::outcome::{Failure, FailureKind};
use crate::port::Party;
use crate::schema::{Schema, SchemaError};
use crate::secret::SecretValues;
use crate::template::{Scope, Template, TooLarge};

#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    pub name: String,
    pub title: Option<String>,
    pub description: String,
    pub arguments: Vec<Argument>,
    /// An object of the arguments, all of them texts.
    pub inputs: Schema,
    pub messages: Vec<Message>,
    /// What is asked of the caller when it is not among the arguments.
    pub elicit: Vec<Round>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    pub name: String,
    pub description: String,
    pub required: bool,
    /// What is proposed while somebody types; other texts are allowed.
    pub values: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub role: Role,
    pub said: Said,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    User,
    Assistant,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    Text(Template),
    /// Base64.
    Image {
        data: String,
        mime_type: String,
    },
    Audio {
        data: String,
        mime_type: String,
    },
    Resource {
        uri: Template,
        mime_type: Option<String>,
        text: Template,
    },
}

/// The schema that calls of a prompt with these arguments are held to.
pub fn inputs(arguments: &[Argument]) -> Result<Schema, Vec<SchemaError>> {
    let properties: Map<String, Value> = arguments
        .iter()
        .map(|it| {
            let property = json!({"type": "string", "description": it.description});
            (it.name.clone(), property)
        })
        .collect();
    let required: Vec<&str> = arguments
        .iter()
        .filter(|it| it.required)
        .map(|it| it.name.as_str())
        .collect();
    Schema::new(json!({
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
        "required": required,
    }))
}

impl Prompt {
    /// Elicit, check, fill. A message with a hole for which there is nothing is left out.
    pub async fn render(
        &self,
        mut args: Map<String, Value>,
        party: &dyn Party,
    ) -> Result<Vec<(Role, Block)>, Failure> {
        elicit(&self.elicit, &self.inputs, &mut args, party).await?;
        check_arguments(&self.name, &self.inputs, &mut args)?;
        self.fill(&args).map_err(|err| {
            Failure::new(
                FailureKind::InvalidInput,
                format!("`{}` cannot be filled in: {err}", self.name),
            )
        })
    }

    fn fill(&self, args: &Map<String, Value>) -> Result<Vec<(Role, Block)>, TooLarge> {
        let secrets = SecretValues::default();
        let scope = Scope::new(args, &secrets);
        let mut filled = Vec::new();
        for message in &self.messages {
            let block = message.said.fill(&scope)?;
            filled.extend(block.map(|it| (message.role, it)));
        }
        Ok(filled)
    }
}

impl Said {
    fn fill(&self, scope: &Scope<'_>) -> Result<Option<Block>, TooLarge> {
        Ok(match self {
            Said::Text(text) => text.text(scope)?.map(Block::Text),
            Said::Image { data, mime_type } => Some(Block::Image {
                data: data.clone(),
                mime_type: mime_type.clone(),
            }),
            Said::Audio { data, mime_type } => Some(Block::Audio {
                data: data.clone(),
                mime_type: mime_type.clone(),
            }),
            Said::Resource {
                uri,
                mime_type,
                text,
            } => match (uri.text(scope)?, text.text(scope)?) {
                (Some(uri), Some(text)) => Some(Block::Resource {
                    uri,
                    mime_type: mime_type.clone(),
                    body: Body::Text(text),
                }),
                _ => None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::elicit::{Asked, Request};
    use crate::port::{Approver, Later, Note, Supply, Waits};
    use crate::template::Names;

    /// Answers every form with the same topic.
    struct Knows(&'static str);

    impl Party for Knows {
        fn hear(&self, _: Note) {}

        fn supply<'a>(&'a self, asked: &'a [Asked]) -> Later<'a, Supply> {
            let answer = (asked[0].key.clone(), json!({"topic": self.0}));
            Box::pin(async move { Supply::Given([answer].into_iter().collect()) })
        }

        fn approver(&self) -> Option<&dyn Approver> {
            None
        }
    }

    fn prompt() -> Prompt {
        let argument = |name: &str, required| Argument {
            name: name.into(),
            description: String::new(),
            required,
            values: Vec::new(),
        };
        let arguments = vec![argument("topic", true), argument("tone", false)];
        let names = Names {
            inputs: arguments.iter().map(|it| it.name.clone()).collect(),
            ..Names::default()
        };
        let template = |text: &str| Template::parse(text, &names).unwrap();
        let text = |role, text: &str| Message {
            role,
            said: Said::Text(template(text)),
        };
        Prompt {
            name: "explain".into(),
            title: None,
            description: String::new(),
            inputs: inputs(&arguments).unwrap(),
            arguments,
            messages: vec![
                text(Role::User, "Explain ${topic}."),
                text(Role::User, "Be ${tone}."),
                Message {
                    role: Role::Assistant,
                    said: Said::Resource {
                        uri: template("notes://${topic}"),
                        mime_type: None,
                        text: template("on ${topic}"),
                    },
                },
            ],
            elicit: vec![Round(vec![(
                "what".into(),
                Request::Form {
                    message: template("About what?"),
                    fields: vec!["topic".into()],
                },
            )])],
        }
    }

    fn render(args: Value, party: &dyn Party) -> Result<Vec<(Role, Block)>, Failure> {
        let args = args.as_object().unwrap().clone();
        prompt().render(args, party).now_or_never().unwrap()
    }

    fn texts(rendered: Vec<(Role, Block)>) -> Vec<String> {
        let text = |(_, block)| match block {
            Block::Text(text) => text,
            Block::Resource { uri, .. } => uri,
            other => panic!("{other:?}"),
        };
        rendered.into_iter().map(text).collect()
    }

    #[test]
    fn a_message_without_its_argument_is_left_out() {
        let rendered = render(json!({"topic": "tides"}), &Waits).unwrap();
        assert_eq!(rendered[0].0, Role::User);
        assert_eq!(rendered[1].0, Role::Assistant);
        assert_eq!(texts(rendered), ["Explain tides.", "notes://tides"]);
        let rendered = render(json!({"topic": "${tone}", "tone": "brief"}), &Waits).unwrap();
        assert_eq!(
            texts(rendered),
            ["Explain ${tone}.", "Be brief.", "notes://${tone}"]
        );
    }

    #[test]
    fn what_is_missing_is_asked_for() {
        let rendered = render(json!({}), &Knows("owls")).unwrap();
        assert_eq!(texts(rendered)[0], "Explain owls.");
    }

    #[test]
    fn every_violation_is_listed() {
        let failure = render(json!({"tnoe": "x", "tone": 5}), &Waits).unwrap_err();
        assert_eq!(failure.kind, FailureKind::InvalidInput);
        let listed = failure.details["violations"].to_string();
        for part in ["`topic` is required", "did you mean `tone`", "/tone"] {
            assert!(listed.contains(part), "{part}: {listed}");
        }
    }

    #[test]
    fn an_expansion_bomb_is_refused() {
        let topic = "x".repeat(3 << 20);
        let failure = render(json!({"topic": topic}), &Waits).unwrap_err();
        assert_eq!(failure.kind, FailureKind::InvalidInput);
    }
}
