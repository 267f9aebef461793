//! What holds a process to its grant: the sandbox profile of a call.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use glee_core::admit::Admitted;
use glee_core::model::{Exec, Origin};
use glee_core::outcome::{Failure, FailureKind, Held};
use glee_core::permission;
use glee_sandbox::{Confinement, Limits, Network, Profile, Sandbox, State, Strength, Tier};

use super::command::find_entrypoint;
use super::egress::Egress;
use super::python::{find_interpreter, module_files};

/// Paths below a project's root that no tool may change, whatever it was granted: who writes them
/// decides what runs next.
const PROTECTED: &[&str] = &[
    ".glee/config.yml",
    ".glee/tools",
    ".glee/rules.yml",
    ".glee/approvals",
    ".glee/audit",
    ".glee/bundles",
    ".git/hooks",
    ".git/config",
    ".mcp.json",
];

/// Files of the person's home that a shell runs by itself.
const SHELL_FILES: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".config/fish/config.fish",
];

/// Where programs are for every tool; these need no grant.
const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt"];

#[derive(Clone)]
pub struct Cage {
    pub(super) sandbox: Sandbox,
    confinement: Confinement,
    egress: Arc<Egress>,
}

impl Cage {
    pub fn new(sandbox: Sandbox, confinement: Confinement, egress: Egress) -> Cage {
        Cage {
            sandbox,
            confinement,
            egress: Arc::new(egress),
        }
    }

    /// Whether this machine can hold the call. What the sandbox has made ready for the answer waits
    /// for the call itself.
    pub(super) async fn hold(&self, call: &Admitted) -> Result<Held, Failure> {
        let profile = self.profile(call)?;
        let strength = self.strength(profile).await?;
        Ok(held(&strength))
    }

    pub(super) async fn strength(&self, profile: Profile) -> Result<Strength, Failure> {
        let sandbox = self.sandbox.clone();
        let confinement = profile.confinement;
        let strength = tokio::task::spawn_blocking(move || sandbox.strength(&profile))
            .await
            .map_err(|err| Failure::new(FailureKind::Internal, err.to_string()))?;
        match (confinement, strength.tier) {
            (Confinement::Required, Tier::None) => Err(unavailable(&strength)),
            _ => Ok(strength),
        }
    }

    /// The same for every call of a tool, so that warm launchers can be shared.
    pub(super) fn profile(&self, call: &Admitted) -> Result<Profile, Failure> {
        let grant = call.grant();
        let mut read = resolved(call, &grant.read, "fs.read")?;
        let write = resolved(call, &grant.write, "fs.write")?;
        read.extend(own_files(call));
        read.retain(|it| !SYSTEM.iter().any(|system| it.starts_with(system)));
        read.sort();
        read.dedup();
        Ok(Profile {
            confinement: self.confinement,
            network: self.network(&grant.network).map_err(|err| {
                Failure::new(
                    FailureKind::Internal,
                    format!("no way out could be opened: {err}"),
                )
            })?,
            read,
            write,
            protect: protected(call.root()),
            limits: Limits {
                memory: Some(1 << 30),
                processes: Some(128),
                ..Limits::default()
            },
        })
    }

    fn network(&self, granted: &permission::Network) -> io::Result<Network> {
        Ok(match granted {
            permission::Network::None => Network::None,
            permission::Network::Public => Network::Outbound {
                granted: Vec::new(),
            },
            permission::Network::Hosts(hosts) => Network::Proxy {
                socket: self.egress.socket(hosts)?,
            },
        })
    }
}

/// In words for outcomes and the audit log.
pub(super) fn held(strength: &Strength) -> Held {
    let missing = strength.layers.iter().filter_map(|it| match &it.state {
        State::Enforced => None,
        State::Missing { why } => Some(format!("{}: {why}", it.layer.name())),
    });
    Held {
        by: strength.tier.name().to_owned(),
        missing: missing.collect(),
    }
}

fn unavailable(strength: &Strength) -> Failure {
    let missing = held(strength).missing;
    let first = missing.first().cloned().unwrap_or_default();
    Failure::new(
        FailureKind::SandboxUnavailable,
        format!("this machine cannot hold the tool to its permissions: {first}"),
    )
    .with("missing", missing)
    .hint("run `glee doctor`; `sandbox: best-effort` in .glee/config.yml runs tools with the layers there are")
}

/// Grants as the kernel sees them. What does not exist grants nothing. For a tool made by an agent a
/// link on the way is a trick: its ceiling was judged by name.
fn resolved(call: &Admitted, granted: &[PathBuf], key: &str) -> Result<Vec<PathBuf>, Failure> {
    let mut paths = Vec::new();
    for path in granted {
        let Ok(real) = path.canonicalize() else {
            continue;
        };
        if real != *path && matches!(call.spec().origin, Origin::Agent { .. }) {
            return Err(Failure::new(
                FailureKind::PermissionDenied,
                format!(
                    "{key}: `{}` leads elsewhere by a link, which a tool made by an agent may not use",
                    path.display()
                ),
            ));
        }
        paths.push(real);
    }
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// What the tool itself is made of: its directory, its program, its interpreter and module.
fn own_files(call: &Admitted) -> Vec<PathBuf> {
    let root = call.root();
    let mut own: Vec<PathBuf> = call
        .spec()
        .source
        .parent()
        .map(Path::to_owned)
        .into_iter()
        .collect();
    match &call.spec().exec {
        Exec::Http(_) => {}
        Exec::Command(command) => own.extend(find_entrypoint(root, &command.entrypoint)),
        Exec::Python(python) => {
            let interpreter = find_interpreter(root, python.venv.as_deref()).ok();
            let real = interpreter.as_ref().and_then(|it| it.canonicalize().ok());
            for python in interpreter.into_iter().chain(real) {
                own.extend(installation(&python).map(Path::to_owned));
                own.push(python);
            }
            own.extend(module_files(root, python));
        }
    }
    own.into_iter()
        .filter_map(|it| it.canonicalize().ok())
        .collect()
}

/// The directory an interpreter is installed in. A link in `~/bin` is no installation: granting what
/// is above it would grant the person's home.
fn installation(python: &Path) -> Option<&Path> {
    let prefix = python.parent()?.parent()?;
    let is_library = |it: PathBuf| it.join("os.py").is_file();
    let installed = prefix.join("pyvenv.cfg").is_file()
        || std::fs::read_dir(prefix.join("lib"))
            .is_ok_and(|entries| entries.flatten().any(|it| is_library(it.path())));
    installed.then_some(prefix)
}

fn protected(root: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = PROTECTED.iter().map(|it| root.join(it)).collect();
    if let Some(home) = std::env::var_os("HOME") {
        paths.extend(SHELL_FILES.iter().map(|it| Path::new(&home).join(it)));
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_a_home_is_no_installation() {
        let home = tempfile::tempdir().unwrap();
        let python = home.path().join("bin/python3");
        std::fs::create_dir_all(home.path().join("lib/python3.11/site-packages")).unwrap();
        assert_eq!(installation(&python), None);
        std::fs::write(home.path().join("lib/python3.11/os.py"), "").unwrap();
        assert_eq!(installation(&python), Some(home.path()));
    }
}
