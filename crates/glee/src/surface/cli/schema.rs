//! `glee schema`: the JSON Schemas that editors and other programs use.

use super::print;
use super::status::Status;
use crate::config;
use crate::dialect::{manifest, prompt, resource};

/// Print the JSON Schema of manifests, prompts, resources, the config or the rules.
///
/// Editors with a YAML language server check manifests as you type when the file begins with
/// `# yaml-language-server: $schema=PATH`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[arg(value_enum, default_value_t = Which::Tool)]
    which: Which,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Which {
    /// Manifests: .glee/tools/<name>/tool.yml
    Tool,
    /// Prompts: .glee/prompts/<name>.yml
    Prompt,
    /// Resources: .glee/resources/<name>.yml
    Resource,
    /// The config: .glee/config.yml
    Config,
    /// What need not ask any more: .glee/rules.yml
    Rules,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Status> {
    print::json(&match args.which {
        Which::Tool => manifest::schema(),
        Which::Prompt => prompt::schema(),
        Which::Resource => resource::schema(),
        Which::Config => config::schema(),
        Which::Rules => config::standing::schema(),
    })?;
    Ok(Status::Ok)
}
