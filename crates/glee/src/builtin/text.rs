//! Texts: `tool_json_parse`, `tool_text_search`.

use std::io::Read;

use glee_core::json;
use glee_core::outcome::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocking;
use super::pattern::{Case, Pattern, TooLong, invalid};
use super::workspace::{Ground, Workspace, errno, failure};
use crate::native::{About, Context, NativeTool};

/// Bytes of a document, and matches of a search.
const MOST_BYTES: u64 = 8 << 20;
const MOST_MATCHES: usize = 10_000;

pub(super) struct ToolJsonParse(pub(super) Ground);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    /// The JSON itself
    #[serde(default)]
    stdin: Option<String>,
    /// A file of the project that holds it, instead
    #[serde(default)]
    file: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Pretty {
    /// The same JSON, indented; numbers and texts as they were written
    json: String,
}

impl NativeTool for ToolJsonParse {
    type Input = Document;
    type Output = Pretty;

    fn about(&self) -> About {
        About::new(
            "tool_json_parse",
            "Check JSON and give it back indented, from a text or from a file of the project.",
        )
        .reads(&["."])
        .tags(&["text"])
        .read_only()
    }

    async fn run(&self, input: Document, context: Context<'_>) -> Result<Pretty, Failure> {
        let (root, ground) = (context.workspace().to_owned(), self.0.clone());
        blocking(move |_| {
            let text = match (input.stdin, input.file) {
                (Some(text), None) => text,
                (None, Some(file)) => of_file(&Workspace::open(&root, &ground)?, &file)?,
                _ => return Err(invalid("give either `stdin` or `file`".to_owned())),
            };
            let json = json::indented(&text).map_err(|err| invalid(format!("it is {err}")))?;
            Ok(Pretty { json })
        })
        .await
    }
}

fn of_file(workspace: &Workspace, file: &str) -> Result<String, Failure> {
    let path = workspace.inside(file)?;
    let (file, found) = workspace.file(&path)?;
    if found.st_size as u64 > MOST_BYTES {
        return Err(invalid(format!(
            "the file has more than {MOST_BYTES} bytes"
        )));
    }
    let mut text = String::new();
    std::fs::File::from(file)
        .take(MOST_BYTES)
        .read_to_string(&mut text)
        .map_err(|err| match err.kind() {
            std::io::ErrorKind::InvalidData => invalid("the file is not UTF-8 text".to_owned()),
            _ => failure(&path, errno(&err)),
        })?;
    Ok(text)
}

pub(super) struct ToolTextSearch;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Search {
    /// A regular expression
    #[schemars(length(max = 10000))]
    pattern: String,
    /// The text to search
    stdin: String,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Matches {
    /// What matched, in order
    matches: Vec<String>,
}

impl NativeTool for ToolTextSearch {
    type Input = Search;
    type Output = Matches;

    fn about(&self) -> About {
        About::new(
            "tool_text_search",
            "Find all that a regular expression matches in a text, in time that grows with the text alone.",
        )
        .tags(&["text"])
        .read_only()
    }

    async fn run(&self, input: Search, _: Context<'_>) -> Result<Matches, Failure> {
        blocking(move |stop| {
            if input.stdin.len() as u64 > MOST_BYTES {
                let message = format!("`stdin` has more than {MOST_BYTES} bytes");
                return Err(invalid(message).hint("search it in parts"));
            }
            let pattern = Pattern::new(&input.pattern, Case::Told)?;
            let found = pattern.places(&input.stdin, stop).take(MOST_MATCHES);
            let found = found.map(|it| Ok(input.stdin[it?].to_owned()));
            let matches = found.collect::<Result<_, TooLong>>().map_err(|_| {
                invalid("to search this text for this pattern would take too long".to_owned())
                    .hint("a simpler pattern, without large repetitions; or the text in parts")
            })?;
            Ok(Matches { matches })
        })
        .await
    }
}
