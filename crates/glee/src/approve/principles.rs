//! Asks a service whether a call is within the principles.

use std::sync::OnceLock;
use std::time::Duration;

use futures_util::StreamExt;
use glee_core::name;
use glee_core::port::{Deed, Later, Opinion, Principles};
use reqwest::Client;
use serde::Deserialize;
use serde_json::json;
use url::Url;

use crate::exec::http::own_client;

pub struct Service {
    url: Url,
    timeout: Duration,
    /// Setting one up costs milliseconds, and most commands make no call.
    client: OnceLock<Client>,
}

/// What the service says; more than this is not looked at.
#[derive(Deserialize)]
struct Answer {
    allowed: bool,
    #[serde(default)]
    reason: Option<String>,
}

/// Longest answer, in bytes.
const MAX_ANSWER: usize = 64 << 10;

impl Service {
    pub fn new(url: Url, timeout: Duration) -> Service {
        Service {
            url,
            timeout,
            client: OnceLock::new(),
        }
    }

    fn client(&self) -> Result<&Client, String> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = own_client().map_err(|err| err.message)?;
        Ok(self.client.get_or_init(|| client))
    }

    async fn ask(&self, client: &Client, deed: &Deed<'_>) -> Result<Opinion, String> {
        let question = json!({
            "action": "invoke",
            "tool_id": deed.tool,
            "permissions": deed.permissions,
            "safety_level": deed.safety_level,
            "agent_id": deed.agent,
            "project_id": deed.project,
        });
        // What went wrong may name the address, and the address may hold a password.
        let told = |err: reqwest::Error| match err.is_connect() {
            true => "nobody answers".to_owned(),
            false => err.without_url().to_string(),
        };
        let request = client
            .post(self.url.clone())
            .header("content-type", "application/json")
            .body(question.to_string());
        let response = request.send().await.map_err(told)?;
        if !response.status().is_success() {
            return Err(format!(
                "it answers with status {}",
                response.status().as_u16()
            ));
        }
        let mut body = Vec::new();
        let mut stream = response.bytes_stream();
        while let Some(chunk) = stream.next().await {
            body.extend_from_slice(&chunk.map_err(told)?);
            if body.len() > MAX_ANSWER {
                return Err("its answer is too long".to_owned());
            }
        }
        understood(&body).ok_or_else(|| "its answer is not {allowed, reason}".to_owned())
    }
}

fn understood(body: &[u8]) -> Option<Opinion> {
    // A list would do for the fields in their order.
    if !body.trim_ascii_start().starts_with(b"{") {
        return None;
    }
    let answer: Answer = serde_json::from_slice(body).ok()?;
    let reason = answer.reason.as_deref().map(name::visible);
    Some(Opinion {
        allowed: answer.allowed,
        reason: reason.unwrap_or_else(|| "it gives no reason".to_owned()),
    })
}

impl Principles for Service {
    fn consult<'a>(&'a self, deed: &'a Deed<'a>) -> Later<'a, Result<Opinion, String>> {
        Box::pin(async move {
            // Setting up the client is our own time, not the service's.
            let client = self.client()?;
            match tokio::time::timeout(self.timeout, self.ask(client, deed)).await {
                Ok(opinion) => opinion,
                Err(_) => Err(format!("no answer within {} ms", self.timeout.as_millis())),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_object_is_an_answer() {
        for body in [
            "[true]",
            "[true, null]",
            "true",
            "\"true\"",
            "",
            "{}",
            "{\"allowed\": 1}",
            "{\"allowed\": \"true\"}",
            "{\"allowed\": true, \"allowed\": false}",
            "{\"allowed\": true} x",
        ] {
            assert!(understood(body.as_bytes()).is_none(), "{body}");
        }
        assert!(understood(b" \n{\"allowed\": true}").is_some_and(|it| it.allowed));
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_in_a_reason() {
        let said = br#"{"allowed": false, "reason": "no\u001b[31m\u202e, never"}"#;
        let opinion = understood(said).unwrap();
        assert_eq!(
            (opinion.allowed, opinion.reason.as_str()),
            (false, "no[31m, never")
        );
    }
}
