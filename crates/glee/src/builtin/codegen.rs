//! Code, written by a model of the project's choice: `tool_codegen`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use glee_core::outcome::{Failure, FailureKind};
use glee_core::permission::{Network, SecretNeed};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Model;
use super::search::host_of;
use crate::exec::http::{Fetch, Hosts, HttpExec, Others};
use crate::native::{About, Context, NativeTool};

const TASK: &str =
    "Write the code that the user asks for. Answer with one code block and nothing else.";
/// A model takes its time.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) struct ToolCodegen {
    pub(super) http: Arc<HttpExec>,
    pub(super) model: Option<Model>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    /// What the code shall do
    #[schemars(length(min = 1, max = 100000))]
    spec: String,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Output {
    code: String,
}

impl NativeTool for ToolCodegen {
    type Input = Input;
    type Output = Output;

    fn about(&self) -> About {
        let about = About::new(
            "tool_codegen",
            "Have a model write code. It is given back as it is, and not run.",
        )
        .needs_exactly(&["llm"])
        .tags(&["code"])
        .timeout(PATIENCE + Duration::from_secs(1));
        match &self.model {
            None => about,
            Some(model) => {
                let about = about.network(Network::Hosts(host_of(&model.url)));
                match &model.key {
                    Some(key) => about.secret(key, SecretNeed::Required),
                    None => about,
                }
            }
        }
    }

    async fn run(&self, input: Input, context: Context<'_>) -> Result<Output, Failure> {
        let model = self.model.as_ref().ok_or_else(|| {
            Failure::new(FailureKind::Disabled, "`tool_codegen` has no model to ask")
                .hint("set `builtins.model` in .glee/config.yml: `{url: https://api.openai.com/v1, name: …, key: OPENAI_API_KEY}`")
        })?;
        let mut headers =
            BTreeMap::from([("content-type".to_owned(), "application/json".to_owned())]);
        if let Some(key) = model.key.as_deref().and_then(|it| context.secret(it)) {
            headers.insert(
                "authorization".to_owned(),
                format!("Bearer {}", key.reveal()),
            );
        }
        let mut url = model.url.clone();
        let path = format!("{}/chat/completions", url.path().trim_end_matches('/'));
        url.set_path(&path);
        let body = json!({
            "model": model.name,
            "messages": [
                {"role": "system", "content": TASK},
                {"role": "user", "content": input.spec},
            ],
        });
        let fetch = Fetch {
            method: reqwest::Method::POST,
            headers,
            body: Some(body.to_string()),
            timeout: PATIENCE,
            limit: 4 << 20,
            url,
        };
        let hosts = Hosts::new(&host_of(&model.url), Others::Nobody);
        let fetched = self.http.fetch(fetch, &hosts).await?;
        let answer: Value = serde_json::from_slice(&fetched.bytes).unwrap_or_default();
        match answer
            .pointer("/choices/0/message/content")
            .and_then(Value::as_str)
        {
            Some(said) if fetched.status == 200 => Ok(Output { code: code(said) }),
            _ => {
                let message = format!("the model gave no code; it answered {}", fetched.status);
                let said = answer.pointer("/error/message").cloned();
                Err(Failure::new(FailureKind::HttpError, message)
                    .with("status", fetched.status)
                    .with("message", said.unwrap_or_default())
                    .hint("look at `builtins.model` in .glee/config.yml, and at the key"))
            }
        }
    }
}

/// What stands in the first block, or all of it when there is none.
fn code(said: &str) -> String {
    let Some((_, after)) = said.split_once("```") else {
        return said.trim().to_owned();
    };
    // The language stands behind the fence.
    let (_, block) = after.split_once('\n').unwrap_or(("", after));
    let block = block.split("```").next().unwrap_or_default();
    block.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::code;

    #[test]
    fn the_code_of_an_answer() {
        assert_eq!(code("Here:\n```python\nx = 1\n```\nDone."), "x = 1");
        assert_eq!(code("x = 1\n"), "x = 1");
        assert_eq!(code("```\na\n\nb\n"), "a\n\nb");
    }
}
