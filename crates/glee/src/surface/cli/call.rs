//! `glee call`: a tool call as a model's provider writes it, answered in its own form.

use std::io::Read;

use anyhow::Context;
use glee_core::json;
use glee_core::port::{Caller, Cancel};

use super::run::stop_signal;
use super::status::{self, Status};
use super::{Session, print};
use crate::dialect::function::Format;
use crate::exec::Stay;
use crate::surface::function;

/// Make the tool calls of a model's message, and print what goes back to the model.
///
/// Takes one call, a list of calls or the whole message, and answers with a tool message (openai), a
/// function_call_output (openai-responses), a tool_result (anthropic), a functionResponse (gemini), or
/// {tool_call_id, output, success, error} (tool-result). A tool that fails is an answer too; the exit
/// code says so.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  echo '{\"id\": \"call_1\", \"type\": \"function\", \"function\": {\"name\": \"hello\", \"arguments\": \"{}\"}}' | glee call --format openai"
)]
pub(super) struct Args {
    /// Whose words the call is in
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(Format::ALL.map(Format::name)))]
    format: String,

    /// The tools were exported with --strict
    #[arg(long)]
    strict: bool,

    /// The call: JSON, @FILE, or - for stdin
    #[arg(default_value = "-")]
    call: String,
}

pub(super) fn run(session: &Session, args: &Args) -> anyhow::Result<Status> {
    let text = match args.call.as_str() {
        "-" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            text
        }
        call => match call.strip_prefix('@') {
            Some(path) => std::fs::read_to_string(path).with_context(|| path.to_owned())?,
            None => call.to_owned(),
        },
    };
    let body = json::parse(&text).context("the call is not JSON")?;
    let format = Format::named(&args.format).context("there is no such format")?;
    let app = session.app(Stay::ForOneCall)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let caller = Caller {
        name: "user".to_owned(),
    };
    let answered = runtime.block_on(async {
        let stop = Cancel::when(stop_signal());
        function::answer(&app, format, args.strict, &body, &caller, &stop).await
    });
    match answered {
        Ok((answer, failed)) => {
            print::json(&answer)?;
            app.tell_the_rest();
            Ok(failed.map_or(Status::Ok, status::of))
        }
        Err(failure) => {
            print::refusal(&failure, session.json)?;
            Ok(Status::Usage)
        }
    }
}
