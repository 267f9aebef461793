//! What the engine of containers has: `tool_docker_list`.

use std::path::PathBuf;

use glee_core::outcome::{Failure, FailureKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::exec::http::engine_client;
use crate::native::{About, Context, NativeTool};

/// Where Docker and Podman have their sockets.
const USUAL: &[&str] = &["/var/run/docker.sock", "/run/podman/podman.sock"];
/// Read of an answer.
const MOST_BYTES: usize = 16 << 20;

/// With its socket, when the project names it.
pub(super) struct ToolDockerList(pub(super) Option<PathBuf>);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    /// What to list
    r#type: Kind,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Containers,
    Images,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Output {
    /// Their names
    items: Vec<String>,
}

impl NativeTool for ToolDockerList {
    type Input = Input;
    type Output = Output;

    fn about(&self) -> About {
        About::new(
            "tool_docker_list",
            "List the containers or the images of this machine's Docker or Podman.",
        )
        .needs(&["docker"])
        .tags(&["containers"])
        .read_only()
    }

    async fn run(&self, input: Input, _: Context<'_>) -> Result<Output, Failure> {
        let usual = || USUAL.iter().map(PathBuf::from).find(|it| it.exists());
        let socket = self
            .0
            .clone()
            .or_else(usual)
            .ok_or_else(|| absent(format!("there is no socket at {}", USUAL.join(" or "))))?;
        let path = match input.r#type {
            Kind::Containers => "containers/json?all=true",
            Kind::Images => "images/json",
        };
        let answer = engine_client(&socket)?
            .get(format!("http://localhost/{path}"))
            .send()
            .await
            .map_err(|_| absent(format!("nobody answers at {}", socket.display())))?;
        let status = answer.status();
        if !status.is_success() {
            let message = format!("the engine of containers answered {status}");
            return Err(Failure::new(FailureKind::HttpError, message));
        }
        let bytes = bounded(answer).await?;
        let listed: Vec<Value> = serde_json::from_slice(&bytes)
            .map_err(|_| absent("what answers there is no engine of containers".to_owned()))?;
        Ok(Output {
            items: listed
                .iter()
                .flat_map(|it| names(it, input.r#type))
                .collect(),
        })
    }
}

async fn bounded(mut answer: reqwest::Response) -> Result<Vec<u8>, Failure> {
    let broken = |err: reqwest::Error| Failure::new(FailureKind::HttpError, err.to_string());
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(broken)? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MOST_BYTES {
            let message = "the engine's list is too long";
            return Err(Failure::new(FailureKind::ExecutionError, message));
        }
    }
    Ok(bytes)
}

/// Of a container without its slash; of an image by its tags, or by its id.
fn names(item: &Value, kind: Kind) -> Vec<String> {
    let list = match kind {
        Kind::Containers => &item["Names"],
        Kind::Images => &item["RepoTags"],
    };
    let names = list
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    let mut names: Vec<String> = names
        .map(|it| it.trim_start_matches('/').to_owned())
        .collect();
    if names.is_empty() {
        names.extend(item["Id"].as_str().map(str::to_owned));
    }
    names
}

fn absent(why: String) -> Failure {
    Failure::new(
        FailureKind::Disabled,
        format!("`tool_docker_list` found no engine of containers: {why}"),
    )
    .hint("start Docker or Podman, or name its socket under `builtins.docker` in .glee/config.yml")
}
