//! Code and command lines, in the sandbox: `run_code`, `shell`, `tool_exec`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use glee_core::outcome::Failure;
use glee_core::permission::Network;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::confined::{Confined, Site, Told, about};
use super::pattern::invalid;
use crate::exec::{Ended, Program};
use crate::native::About;

pub(super) struct RunCode(pub(super) Network);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Code {
    /// In which language the code is
    language: Language,
    /// The code itself, at most 100 000 bytes
    #[schemars(length(max = 100000))]
    code: String,
    /// Arguments of the program that the code is
    #[serde(default)]
    args: Vec<String>,
    /// Environment variables of the program
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// How many seconds it may take
    #[serde(default = "minute")]
    #[schemars(range(min = 0.01, max = 3600))]
    timeout: f64,
}

fn minute() -> f64 {
    60.0
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Language {
    Python,
    Bash,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Output {
    stdout: String,
    stderr: String,
    /// 128 and the signal, when it was ended by one
    exit_code: i32,
    /// In milliseconds
    duration: u64,
}

impl Confined for RunCode {
    type Input = Code;
    type Output = Output;

    fn about(&self) -> About {
        about(
            "run_code",
            "Run Python or bash code in the sandbox, in the project's directory. It has no network unless the project says so, and 60 seconds unless told otherwise.",
            &self.0,
        )
        .tags(&["code"])
    }

    fn refuses(&self, input: &Code, _: &Path) -> Result<(), Failure> {
        fits("code", &input.code)
    }

    async fn run(&self, input: Code, site: Site<'_>) -> Result<Told<Output>, Failure> {
        let start: &[&str] = match input.language {
            // What was printed before a deadline is told; a buffer would keep it.
            Language::Python => &["python3", "-u", "-c"],
            Language::Bash => &["bash", "-c", "--"],
        };
        let mut words: Vec<String> = start.iter().map(|&it| it.to_owned()).collect();
        words.push(input.code);
        if let Language::Bash = input.language {
            words.push("bash".to_owned());
        }
        words.extend(input.args);
        let program = Program {
            words,
            cwd: site.root().to_owned(),
            env: input.env.into_iter().collect(),
            stdin: String::new(),
            timeout: Duration::from_secs_f64(input.timeout),
        };
        Ok(told(site.run(program).await?))
    }
}

pub(super) struct Shell(pub(super) Network);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    /// The command line, at most 100 000 bytes
    #[schemars(length(max = 100000))]
    command: String,
    /// The directory to run it in, from the project's root
    #[serde(default)]
    cwd: Option<String>,
    /// How many seconds it may take
    #[serde(default = "half_a_minute")]
    #[schemars(range(min = 0.01, max = 3600))]
    timeout: f64,
}

fn half_a_minute() -> f64 {
    30.0
}

impl Confined for Shell {
    type Input = Line;
    type Output = Output;

    fn about(&self) -> About {
        about(
            "shell",
            "Run a command line in the sandbox, in the project's directory. It has no network unless the project says so, and 30 seconds unless told otherwise.",
            &self.0,
        )
        .tags(&["code"])
    }

    fn refuses(&self, input: &Line, _: &Path) -> Result<(), Failure> {
        fits("command", &input.command)
    }

    async fn run(&self, input: Line, site: Site<'_>) -> Result<Told<Output>, Failure> {
        let ended = line(&site, input).await?;
        Ok(told(ended))
    }
}

pub(super) struct ToolExec(pub(super) Network);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Cmd {
    /// The command line, at most 100 000 bytes
    #[schemars(length(max = 100000))]
    cmd: String,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Exit {
    stdout: String,
    stderr: String,
    exit_code: i32,
}

impl Confined for ToolExec {
    type Input = Cmd;
    type Output = Exit;

    fn about(&self) -> About {
        about(
            "tool_exec",
            "Run a command line in the sandbox, in the project's directory, for 30 seconds at most.",
            &self.0,
        )
        .needs_exactly(&["proc:exec"])
        .tags(&["code"])
    }

    fn refuses(&self, input: &Cmd, _: &Path) -> Result<(), Failure> {
        fits("cmd", &input.cmd)
    }

    async fn run(&self, input: Cmd, site: Site<'_>) -> Result<Told<Exit>, Failure> {
        let ended = line(
            &site,
            Line {
                command: input.cmd,
                cwd: None,
                timeout: half_a_minute(),
            },
        )
        .await?;
        Ok(Told {
            truncated: ended.truncated,
            warnings: ended.warnings(),
            output: Exit {
                stdout: ended.stdout,
                stderr: ended.stderr,
                exit_code: ended.code,
            },
        })
    }
}

/// A program is started with it as one argument, and the kernel counts bytes.
const MOST_BYTES: usize = 100_000;

fn fits(what: &str, text: &str) -> Result<(), Failure> {
    match text.len() > MOST_BYTES {
        true => {
            let message = format!(
                "`{what}` has {} bytes, and {MOST_BYTES} are the most",
                text.len()
            );
            Err(invalid(message).hint("write it to a file with `write_file`, and run that"))
        }
        false => Ok(()),
    }
}

async fn line(site: &Site<'_>, input: Line) -> Result<Ended, Failure> {
    let program = Program {
        // What begins with a dash is a command as well.
        words: ["bash", "-c", "--"]
            .map(str::to_owned)
            .into_iter()
            .chain([input.command])
            .collect(),
        cwd: site.directory(input.cwd.as_deref())?,
        env: Vec::new(),
        stdin: String::new(),
        timeout: Duration::from_secs_f64(input.timeout),
    };
    site.run(program).await
}

fn told(ended: Ended) -> Told<Output> {
    Told {
        truncated: ended.truncated,
        warnings: ended.warnings(),
        output: Output {
            exit_code: ended.code,
            duration: ended.duration.as_millis() as u64,
            stdout: ended.stdout,
            stderr: ended.stderr,
        },
    }
}
