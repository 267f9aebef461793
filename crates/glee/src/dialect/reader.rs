//! What all documents have in common while their words are turned into the model's: a name, templates,
//! questions, and problems at their places.

use std::ops::Range;
use std::sync::LazyLock;

use data_encoding::BASE64;
use glee_core::elicit::Round;
use glee_core::name;
use glee_core::schema::Schema;
use glee_core::template::{Names, Template, TemplateError, TemplateProblem};
use serde::de::DeserializeOwned;

use super::document::{self, Read};
use super::elicit::{self, WireRound, Wrong};
use super::problem::Problem;
use super::yaml::Node;

/// A document that is being read. Problems are noted as they are found.
pub(super) struct Reader<'a> {
    pub(super) text: &'a str,
    pub(super) node: &'a Node,
    pub(super) names: Names,
    pub(super) words: &'static Words,
    pub(super) problems: Vec<Problem>,
}

/// Reads a document whose words are `W`; `turn` makes the model of them.
pub(super) fn read<W: DeserializeOwned, M>(
    text: &str,
    schema: &LazyLock<Schema>,
    stand_ins: &[(&str, &str)],
    words: &'static Words,
    turn: impl FnOnce(&mut Reader<'_>, W) -> Option<M>,
) -> Read<M> {
    let (wire, node, problems) = document::read::<W>(text, schema, stand_ins);
    let (Some(wire), Some(node)) = (wire, &node) else {
        return Read {
            model: None,
            problems,
            node,
        };
    };
    let mut reader = Reader {
        text,
        node,
        names: Names::default(),
        words,
        problems,
    };
    let model = turn(&mut reader, wire);
    Read {
        model,
        problems: reader.problems,
        node: Some(node.clone()),
    }
}

/// How a kind of document is spoken of.
pub(super) struct Words {
    /// `tool`, `prompt`.
    pub(super) thing: &'static str,
    /// What bears the document's name: its `directory` or its `file`.
    pub(super) home: &'static str,
    /// What a placeholder is that nobody declared.
    pub(super) undeclared: &'static str,
    /// Where to declare it.
    pub(super) declare: &'static str,
}

impl Reader<'_> {
    /// A document is called as the directory or file it stands in.
    pub(super) fn name(&mut self, written: &str, home: &str) {
        if self
            .node
            .get("/name")
            .is_none_or(|it| it.to_value() != written)
        {
            // A stand-in; that there is no name has been said.
            return;
        }
        let place = self.node.place_of("/name");
        let Words {
            thing, home: kind, ..
        } = self.words;
        if let Err(err) = name::check(written) {
            self.error("name", "/name", err.to_string());
        } else if written != home {
            let message = format!("the {thing} is called `{written}`, but its {kind} `{home}`");
            let fix = format!("rename the {kind} to `{written}`, or write `name: {home}`");
            self.problem(Problem::error(kind, place, message).fix(fix));
        } else if !name::is_model_safe(written) {
            let message = format!("models will not see `{written}` as it is written");
            self.problem(
                Problem::warning("name", place, message)
                    .fix("use only letters of A–Z, digits, `_` and `-`"),
            );
        }
    }

    pub(super) fn elicit(&mut self, wire: Vec<WireRound>) -> Vec<Round> {
        match elicit::read(wire, &self.names) {
            Ok(rounds) => rounds,
            Err(wrong) => {
                wrong.into_iter().for_each(|it| self.wrong_request(it));
                Vec::new()
            }
        }
    }

    fn wrong_request(&mut self, wrong: Wrong) {
        match wrong {
            Wrong::Shape(pointer, message) => self.error("elicit", &pointer, message),
            Wrong::NoInput(pointer, name) => {
                let message = format!("`{name}` is not an input of this {}", self.words.thing);
                self.error("elicit", &pointer, message);
            }
            Wrong::Template(pointer, text, errors) => {
                let is_secret = |it: &TemplateError| match &it.problem {
                    TemplateProblem::Undeclared { name, .. } => self.names.secrets.contains(name),
                    _ => false,
                };
                let (secrets, others): (Vec<_>, Vec<_>) = errors.into_iter().partition(is_secret);
                for err in secrets {
                    let place = self.placeholder(&text, err.at, &pointer);
                    let message =
                        "what is asked is shown to whoever calls; a secret cannot stand there";
                    self.problem(Problem::error("elicit", place, message));
                }
                self.template_errors(others, &text, &pointer);
            }
        }
    }

    pub(super) fn template(&mut self, text: &str, pointer: &str) -> Option<Template> {
        match Template::parse(text, &self.names) {
            Ok(template) => Some(template),
            Err(errors) => {
                self.template_errors(errors, text, pointer);
                None
            }
        }
    }

    /// A template whose placeholders are texts, into which nothing can reach.
    pub(super) fn plain_template(&mut self, text: &str, pointer: &str) -> Option<Template> {
        let template = self.template(text, pointer)?;
        let deep = template.holes().find(|it| !it.steps.is_empty());
        if let Some(hole) = deep {
            let message = format!("`{}` is one piece of text, with nothing inside", hole.name);
            self.error("placeholder", pointer, message);
            return None;
        }
        Some(template)
    }

    pub(super) fn template_errors(
        &mut self,
        errors: Vec<TemplateError>,
        text: &str,
        pointer: &str,
    ) {
        for err in errors {
            let place = self.placeholder(text, err.at, pointer);
            let problem = match &err.problem {
                TemplateProblem::Undeclared { name, nearest } => {
                    let message = format!("`${{{name}}}` is {}", self.words.undeclared);
                    Problem::error("unknown-placeholder", place, message).fix(match nearest {
                        Some(near) => format!("did you mean `${{{near}}}`?"),
                        None => format!(
                            "declare `{name}` {}; `$${{` is a literal `${{`",
                            self.words.declare
                        ),
                    })
                }
                TemplateProblem::Unclosed => {
                    Problem::error("placeholder", place, err.problem.to_string())
                        .fix("close it with `}`; `$${` is a literal `${`")
                }
                TemplateProblem::BadPath(_) | TemplateProblem::IntoSecret(_) => {
                    Problem::error("placeholder", place, err.problem.to_string())
                }
            };
            self.problem(problem);
        }
    }

    /// Base64, which may be broken into lines.
    pub(super) fn base64(&mut self, text: &str, pointer: &str) -> Option<String> {
        let joined: String = text.split_ascii_whitespace().collect();
        match BASE64.decode(joined.as_bytes()) {
            Ok(_) => Some(joined),
            Err(_) => {
                self.error("base64", pointer, "this is not base64");
                None
            }
        }
    }

    /// Where the placeholder at byte `at` of a scalar's text stands in the file. Quotes and escapes
    /// shift it, so it is looked for.
    fn placeholder(&self, text: &str, at: usize, pointer: &str) -> Range<usize> {
        let scalar = self.node.place_of(pointer);
        let end = text[at..].find('}').map_or(text.len(), |it| at + it + 1);
        let written = &text[at..end];
        let earlier = text[..at].matches(written).count();
        match self
            .text
            .get(scalar.clone())
            .and_then(|it| it.match_indices(written).nth(earlier))
        {
            Some((found, _)) => scalar.start + found..scalar.start + found + written.len(),
            None => scalar,
        }
    }

    pub(super) fn error(&mut self, rule: &'static str, pointer: &str, message: impl Into<String>) {
        self.problem(Problem::error(rule, self.node.place_of(pointer), message));
    }

    pub(super) fn problem(&mut self, problem: Problem) {
        self.problems.push(problem);
    }
}
