//! `glee export`: the tools as another program lists them.

use glee_core::outcome::FailureKind;
use serde_json::{Value, json};

use super::status::{self, Status};
use super::{Session, print};
use crate::dialect::function::Remark;
use crate::exec::Stay;
use crate::surface::function;

/// Print the tools as the functions of a model's provider, as MCP or as OpenAPI.
///
/// What is printed goes into a request as it is: `tools` of OpenAI, Anthropic and Gemini, the result of
/// MCP's tools/list, or a whole OpenAPI document. What a provider cannot be told is said on stderr; glee
/// checks every argument itself. With --json both are printed: {tools, report}.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  glee export openai --strict > tools.json\n  glee export anthropic --only hello,repo_stats\n  glee export openapi > openapi.json"
)]
pub(super) struct Args {
    /// How they are written
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(function::EXPORTS))]
    format: String,

    /// Only schemas that the provider can hold the model to
    #[arg(long)]
    strict: bool,

    /// Only these tools
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
}

pub(super) fn run(session: &Session, args: &Args) -> anyhow::Result<Status> {
    let app = session.app(Stay::Briefly)?;
    let export = match function::export(&app, &args.format, args.strict, &args.only) {
        Ok(export) => export,
        Err(failure) => {
            print::refusal(&failure, session.json)?;
            return Ok(match failure.kind {
                FailureKind::InvalidInput => Status::Usage,
                kind => status::of(kind),
            });
        }
    };
    if session.json {
        let report: Vec<Value> = export.report.iter().map(as_json).collect();
        print::json(&json!({"tools": export.tools, "report": report}))?;
        return Ok(Status::Ok);
    }
    for remark in &export.report {
        print::note("note", "33", &in_words(remark));
    }
    print::json(&export.tools)?;
    Ok(Status::Ok)
}

fn as_json(remark: &Remark) -> Value {
    json!({"tool": remark.tool, "at": remark.at, "what": remark.what})
}

fn in_words(remark: &Remark) -> String {
    let place = remark.at.trim_start_matches('/').replace('/', ".");
    match (&remark.tool, place.as_str()) {
        (None, _) => remark.what.clone(),
        (Some(tool), "") => format!("{tool}: {}", remark.what),
        (Some(tool), place) => format!("{tool}, {place}: {}", remark.what),
    }
}
