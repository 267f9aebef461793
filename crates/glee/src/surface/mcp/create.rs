//! `glee_tool_create`: an agent hands in a tool, which waits for a person.

use std::collections::BTreeMap;

use glee_core::outcome::{Failure, FailureKind, head};
use glee_core::port::Caller;
use rmcp::RoleServer;
use rmcp::model::CallToolResult;
use rmcp::service::RequestContext;
use serde_json::{Map, Value};

use super::result;
use super::{Server, broken};
use crate::review::{Created, Proposal};

/// Longest name of a client that is kept, in bytes.
const LONGEST_CLIENT: usize = 200;

impl Server {
    /// The arguments were checked before.
    pub(super) async fn create(
        &self,
        args: &Map<String, Value>,
        caller: &Caller,
        context: &RequestContext<RoleServer>,
    ) -> CallToolResult {
        let client = context.client_info().map(|it| {
            let told = format!("{} {}", it.name, it.version);
            head(told.trim(), LONGEST_CLIENT)
        });
        let proposal = proposal(args, client);
        let name = proposal.name.clone();
        match self.propose(proposal, caller).await {
            Ok(created) => result::whole_or_large(told(&name, created), false, &self.shelf(caller)),
            Err(failure) => result::error(&failure, &self.shelf(caller)),
        }
    }

    async fn propose(&self, proposal: Proposal, caller: &Caller) -> Result<Created, Failure> {
        let Some(_inside) = self.shared.calls.enter(&caller.name) else {
            let why = "too many calls are under way already";
            return Err(Failure::new(FailureKind::RateLimited, why).retryable());
        };
        let (app, by) = (self.shared.app.clone(), caller.clone());
        // It waits for other processes, and for the disk.
        tokio::task::spawn_blocking(move || app.create_tool(&proposal, &by))
            .await
            .unwrap_or_else(|_| Err(broken()))
    }
}

fn proposal(args: &Map<String, Value>, client: Option<String>) -> Proposal {
    let object = |key: &str| args.get(key).and_then(Value::as_object);
    let files = object("files").into_iter().flatten();
    let files: BTreeMap<String, String> = files
        .map(|(name, text)| (name.clone(), text.as_str().unwrap_or_default().to_owned()))
        .collect();
    Proposal {
        name: args["name"].as_str().unwrap_or_default().to_owned(),
        definition: object("definition").cloned().unwrap_or_default(),
        files,
        client,
    }
}

fn told(name: &str, created: Created) -> Map<String, Value> {
    let mut out = Map::new();
    out.insert("name".into(), name.into());
    out.insert("status".into(), "pending_review".into());
    out.insert("path".into(), created.path.into());
    let next =
        format!("nobody can call it before a person has looked at it: `glee tools review {name}`");
    out.insert("next".into(), next.into());
    if !created.warnings.is_empty() {
        out.insert("warnings".into(), created.warnings.into());
    }
    out
}
