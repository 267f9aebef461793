//! What a yes is bound to: the SHA-256 over everything that must not change between the question and
//! the run.

use data_encoding::HEXLOWER;
use glee_core::json;
use glee_core::model::{Exec, ToolSpec};
use glee_core::outcome::{Failure, FailureKind};
use glee_core::permission::{Network, SecretNeed};
use glee_core::port::Matter;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::Ledger;
use crate::exec;
use crate::store::digest;

/// What a yes is held against.
pub(super) struct Bound {
    pub(super) digest: String,
    pub(super) binding: String,
}

impl Ledger {
    /// Of the tool as it is on disk now; nothing for a tool that is too large for one.
    pub fn digest(&self, spec: &ToolSpec) -> Option<String> {
        // A function of this program is what its document says, in this version.
        if let Exec::Native(_) = &spec.exec {
            let version = env!("CARGO_PKG_VERSION").as_bytes();
            let whole = Sha256::new_with_prefix(spec.document).chain_update(version);
            return Some(HEXLOWER.encode(&whole.finalize()));
        }
        let entries = exec::entries(spec, &self.root);
        let mut programs = digest::Programs::default();
        digest::digest(spec, &entries, &self.root, &mut programs)
    }

    pub(super) fn bound(&self, matter: &Matter<'_>) -> Result<Bound, Failure> {
        let digest = self.digest(matter.spec).ok_or_else(|| {
            Failure::new(
                FailureKind::PermissionDenied,
                format!(
                    "`{}` cannot be approved: its files are too many or too large to tell whether they changed",
                    matter.spec.name
                ),
            )
        })?;
        let document = json!({
            "project": self.root.to_string_lossy(),
            "tool": matter.spec.name,
            "tool_digest": digest,
            "args": matter.args,
            "permissions": permissions(matter.spec),
            "caller": matter.caller.name,
        });
        let binding = HEXLOWER.encode(&Sha256::digest(json::canonical(&document)));
        Ok(Bound { digest, binding })
    }
}

fn permissions(spec: &ToolSpec) -> Value {
    let asked = &spec.permissions;
    let secrets: Map<String, Value> = asked
        .secrets
        .iter()
        .map(|(name, need)| (name.clone(), (*need == SecretNeed::Required).into()))
        .collect();
    json!({
        "network": match &asked.network {
            Network::None => json!(false),
            Network::Public => json!(true),
            Network::Hosts(hosts) => hosts.iter().map(ToString::to_string).collect(),
        },
        "read": asked.read,
        "write": asked.write,
        "secrets": secrets,
    })
}
