//! Who is at the other end of a connection, and what they may do. Set by the surface that let them in,
//! never by themselves.

use std::sync::Arc;

use glee_core::outcome::{Failure, FailureKind};

use crate::store::tokens::{RESERVED, Scope};

/// Tells, for a request that takes long, whether whoever made it would still be let in.
#[derive(Clone)]
pub struct Still(pub Arc<dyn Fn() -> bool + Send + Sync>);

impl Still {
    pub fn is_welcome(&self) -> bool {
        (self.0)()
    }

    /// Refuses whoever is not.
    pub fn need(&self) -> Result<(), Failure> {
        match self.is_welcome() {
            true => Ok(()),
            false => Err(Failure::new(
                FailureKind::PermissionDenied,
                "the token was revoked meanwhile",
            )),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    pub name: String,
    pub scopes: Vec<Scope>,
}

impl Principal {
    /// Somebody who came without a token.
    pub fn usual(name: &str) -> Principal {
        debug_assert!(RESERVED.contains(&name), "{name} could be a token's");
        Principal {
            name: name.to_owned(),
            scopes: Scope::USUAL.to_vec(),
        }
    }

    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope) || self.scopes.contains(&Scope::Admin)
    }

    /// Refuses whoever may not.
    pub fn need(&self, scope: Scope) -> Result<(), Failure> {
        if self.may(scope) {
            return Ok(());
        }
        let scope = scope.name();
        Err(Failure::new(
            FailureKind::PermissionDenied,
            format!(
                "the token of `{}` does not have the scope {scope}",
                self.name
            ),
        )
        .with("scope", scope)
        .hint(format!(
            "use a token that has it: `glee token create NAME --scope {scope}`"
        )))
    }
}
