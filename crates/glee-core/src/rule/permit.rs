//! Permissions as words, and the list of words that may be used at all.

use std::collections::BTreeSet;

use crate::model::{Exec, Method, Needs, ToolSpec};
use crate::permission::Network;
use crate::policy::{Case, Decision, Rule};

/// What a tool needs, in the words of `ALLOWED_TOOL_PERMS`.
pub fn words(spec: &ToolSpec) -> Vec<&'static str> {
    let mut words = Vec::new();
    let permissions = &spec.permissions;
    if !permissions.read.is_empty() {
        words.push("fs:read");
    }
    if !permissions.write.is_empty() {
        words.push("fs:write");
    }
    let networked = permissions.network != Network::None;
    match &spec.exec {
        Exec::Http(http) => {
            words.push("net:read");
            if !matches!(http.method, Method::Get | Method::Head) {
                words.push("net:write");
            }
        }
        // What a process does with a connection nobody can tell.
        Exec::Command(_) | Exec::Python(_) if networked => {
            words.extend(["net:read", "net:write", "proc:exec"])
        }
        Exec::Command(_) | Exec::Python(_) => words.push("proc:exec"),
        Exec::Native(native) => match native.needs {
            Needs::Exactly(words) => return words.to_vec(),
            Needs::More(more) => {
                words.extend(more);
                // Which way it uses the network, only the function itself knows.
                if networked && !more.iter().any(|it| it.starts_with("net:")) {
                    words.extend(["net:read", "net:write"]);
                }
            }
        },
    }
    words
}

/// Denies tools that need a permission which is not among these.
pub struct AllowedPermissions(BTreeSet<String>);

impl AllowedPermissions {
    /// From a list with commas; an empty list allows nothing.
    pub fn parse(list: &str) -> AllowedPermissions {
        let words = list.split(',').map(|it| it.trim().to_ascii_lowercase());
        AllowedPermissions(words.filter(|it| !it.is_empty()).collect())
    }
}

impl Rule for AllowedPermissions {
    fn name(&self) -> &str {
        "ALLOWED_TOOL_PERMS"
    }

    fn about(&self) -> &str {
        "never runs a tool that needs a permission which the environment does not list"
    }

    fn remedy(&self) -> &str {
        "more words in the variable ALLOWED_TOOL_PERMS, or fewer permissions in the tool's manifest"
    }

    fn judge(&self, case: &Case<'_>) -> Result<Decision, String> {
        let missing: Vec<&str> = words(case.spec)
            .into_iter()
            .filter(|it| !self.0.contains(*it))
            .collect();
        if missing.is_empty() {
            return Ok(Decision::Allow);
        }
        Ok(Decision::Deny {
            reason: format!("not among ALLOWED_TOOL_PERMS: {}", missing.join(", ")),
        })
    }
}
