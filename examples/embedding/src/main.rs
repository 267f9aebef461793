//! A program that embeds glee, adds a tool of its own and serves MCP on standard input and output.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use glee::app::{App, Wiring};
use glee::approve::absent::Absent;
use glee::native::{About, Context, Failure, FailureKind, NativeTool};
use glee::project::Project;
use glee::surface::mcp::stdio;

/// Counts the words of a text.
struct CountWords;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The text whose words are counted
    text: String,
    /// Words with fewer letters do not count
    #[serde(default)]
    shortest: usize,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Output {
    words: usize,
}

impl NativeTool for CountWords {
    type Input = Input;
    type Output = Output;

    fn about(&self) -> About {
        About::new("count_words", "Count the words of a text.")
    }

    /// A person is asked about long texts.
    fn asks(&self, input: &Input, _workspace: &Path) -> Option<String> {
        (input.text.len() > 10_000).then(|| "the text is long".to_owned())
    }

    async fn run(&self, input: Input, context: Context<'_>) -> Result<Output, Failure> {
        if input.text.trim().is_empty() {
            return Err(Failure::new(FailureKind::InvalidInput, "there is no text"));
        }
        context.progress(0.0, Some(1.0), Some("counting"));
        let words = input.text.split_whitespace();
        let counted = words.filter(|it| it.chars().count() >= input.shortest);
        Ok(Output {
            words: counted.count(),
        })
    }
}

fn main() -> anyhow::Result<()> {
    // Tools that are processes are started through this very program.
    glee::run_if_launcher();
    let root = std::env::args().nth(1).context("usage: embedding DIR")?;
    let project = Project::at(Path::new(&root))?.context("there is no .glee in that directory")?;
    let wiring = Wiring {
        natives: vec![glee::native::tool(CountWords)?],
        ..Wiring::with(Absent)
    };
    let app = Arc::new(App::open(project, wiring)?);
    tokio::runtime::Runtime::new()?.block_on(stdio::serve(app))
}
