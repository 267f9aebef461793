//! What holds a process to its grant: the sandbox profile of a call.

use std::collections::HashMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use glee_core::ceiling::SYSTEM;
use glee_core::model::{self, Exec, Origin, ToolSpec};
use glee_core::outcome::{Failure, FailureKind, Held};
use glee_core::permission;
use glee_core::protect::{FROM_AGENTS, PROTECTED, SHELL_FILES, UNLESS_NAMED};
use glee_sandbox::{Confinement, Limits, Network, Profile, Sandbox, State, Strength, Tier};

use super::egress::Egress;
use super::entrypoint::find_entrypoint;
use super::place::PATH;
use super::process::Wanted;
use super::python::{KEEPERS, find_interpreter, module_files};
use super::repositories;

/// glee's own directory, below a project's root.
const OWN: &str = ".glee";

/// git's own directory there; a file that names it, in another worktree and in a submodule.
const GIT: &str = ".git";

/// Strengths that are remembered, one for each profile.
const MOST_KNOWN: usize = 256;

#[derive(Clone)]
pub struct Cage {
    pub(super) sandbox: Sandbox,
    pub(super) confinement: Confinement,
    pub(super) egress: Arc<Egress>,
    /// Directories that no grant opens.
    hidden: Arc<[PathBuf]>,
    /// Directories with programs beside the system's.
    programs: Arc<[PathBuf]>,
    known: Arc<Mutex<HashMap<Profile, Answer>>>,
}

/// What this machine holds of a profile.
enum Answer {
    Known(Strength),
    /// Somebody waits for it.
    Awaited(WeakShared<BoxFuture<'static, Result<Strength, Failure>>>),
}

type Asking = Shared<BoxFuture<'static, Result<Strength, Failure>>>;

impl Cage {
    pub fn new(
        sandbox: Sandbox,
        confinement: Confinement,
        egress: Egress,
        hidden: Vec<PathBuf>,
    ) -> Cage {
        Cage {
            sandbox,
            confinement,
            egress: Arc::new(egress),
            hidden: hidden.into(),
            programs: Arc::new([]),
            known: Arc::default(),
        }
    }

    /// The same for programs that are never run unconfined, whatever the config puts up with; those of these
    /// directories among them.
    pub(crate) fn strict(&self, programs: &[PathBuf]) -> Cage {
        Cage {
            confinement: Confinement::Required,
            programs: programs.into(),
            ..self.clone()
        }
    }

    /// Where programs are looked for: first in what the project names, then in the system.
    pub(super) fn path(&self) -> String {
        let of = |it: &PathBuf| match it.join("bin") {
            bin if bin.is_dir() => bin,
            _ => it.clone(),
        };
        let named = self.programs.iter().map(|it| of(it).display().to_string());
        let all: Vec<String> = named.chain([PATH.to_owned()]).collect();
        all.join(":")
    }

    /// Whether a program that stands here can be started: with what its links lead to, it is in the project, the
    /// system's, or one of those that the project names.
    pub(crate) fn can_start(&self, program: &Path, root: &Path) -> bool {
        let Ok(real) = program.canonicalize() else {
            return false;
        };
        let named = self.programs.iter().map(|it| self::real(it));
        real.starts_with(root)
            || is_system(&real)
            || named.into_iter().any(|it| real.starts_with(it))
    }

    /// Starts what will hold a tool, for a call that is about to come. Nothing of the tool runs yet.
    pub async fn prepare(&self, spec: &ToolSpec, root: &Path) {
        if matches!(spec.exec, Exec::Http(_) | Exec::Native(_)) {
            return;
        }
        // The call itself will say what is wrong.
        if let Ok(profile) = self.profile(spec, root).await {
            let _ = self.strength(profile).await;
        }
    }

    /// What this machine holds of a profile. Asking starts a launcher, so the answer is remembered, until a
    /// launcher comes up weaker than it says: that one starts nothing.
    pub(super) async fn strength(&self, profile: Profile) -> Result<Strength, Failure> {
        // Who asks at the same time waits for the same answer, and the launcher behind it, instead of
        // starting another. Nobody waits for the answer about another profile.
        let asking = {
            let mut known = lock(&self.known);
            let asking = match known.get(&profile) {
                Some(Answer::Known(strength)) => return Ok(strength.clone()),
                Some(Answer::Awaited(asking)) => asking.upgrade(),
                None => None,
            };
            asking.unwrap_or_else(|| {
                if known.len() >= MOST_KNOWN {
                    known.clear();
                }
                let asking = self.ask(profile.clone());
                known.extend(asking.downgrade().map(|it| (profile, Answer::Awaited(it))));
                asking
            })
        };
        asking.await
    }

    /// What was remembered is no longer so.
    pub(super) fn forget(&self, profile: &Profile) {
        lock(&self.known).remove(profile);
    }

    /// Asks, as long as anybody waits for the answer.
    fn ask(&self, profile: Profile) -> Asking {
        let (sandbox, known) = (self.sandbox.clone(), self.known.clone());
        let wanted = Wanted::default();
        let recall = wanted.recall();
        let asking = tokio::task::spawn_blocking(move || {
            let strength = sandbox.strength_unless(&profile, &recall);
            let confinement = profile.confinement;
            let is_held = strength.tier != Tier::None || confinement == Confinement::Off;
            if is_held {
                lock(&known).insert(profile, Answer::Known(strength.clone()));
            } else {
                // It may be otherwise the next time: perhaps a launcher only did not come up.
                lock(&known).remove(&profile);
            }
            match confinement {
                Confinement::Required if !is_held => Err(unavailable(&strength)),
                _ => Ok(strength),
            }
        });
        let asking = async move {
            let answer = asking.await;
            drop(wanted);
            answer.unwrap_or_else(|err| Err(Failure::new(FailureKind::Internal, err.to_string())))
        };
        asking.boxed().shared()
    }

    /// What holds a tool on this machine.
    pub async fn explain(&self, spec: &ToolSpec, root: &Path) -> Result<Explained, Failure> {
        let profile = self.profile(spec, root).await?;
        let strength = self.strength(profile.clone()).await?;
        Ok(Explained {
            network: match &profile.network {
                Network::None => "no socket to anywhere".to_owned(),
                Network::Outbound { .. } => {
                    "public addresses, nothing on this machine or its private networks".to_owned()
                }
                Network::Proxy { .. } => "only the granted hosts, through glee's proxy".to_owned(),
            },
            protected: profile
                .protect
                .into_iter()
                .filter(|it| profile.write.iter().any(|root| it.starts_with(root)))
                .collect(),
            read: profile.read,
            write: profile.write,
            limits: spec.limits,
            held: held(&strength),
        })
    }

    /// Whether anything holds a tool to its permissions here, whatever the config puts up with.
    pub async fn can_hold(&self, spec: &ToolSpec, root: &Path) -> bool {
        let Ok(profile) = self.profile(spec, root).await else {
            return false;
        };
        let strength = self.strength(profile).await;
        self.confinement != Confinement::Off && strength.is_ok_and(|it| it.tier != Tier::None)
    }

    /// What this machine can hold at all, for a tool that is granted nothing.
    pub async fn best(&self) -> Result<Best, Failure> {
        let profile = Profile {
            confinement: Confinement::BestEffort,
            network: Network::None,
            read: Vec::new(),
            write: Vec::new(),
            protect: Vec::new(),
            hide: Vec::new(),
            limits: limits(&model::Limits::default()),
        };
        let strength = self.strength(profile).await?;
        let layers = strength.layers.iter().map(|it| match &it.state {
            State::Enforced => (it.layer.name(), Ok(())),
            State::Missing { why } => (it.layer.name(), Err(why.clone())),
        });
        Ok(Best {
            tier: strength.tier.name(),
            layers: layers.collect(),
        })
    }

    /// The same for every call of a tool, so that warm launchers can be shared; until a repository comes or goes
    /// below what it may write.
    pub(super) async fn profile(&self, spec: &ToolSpec, root: &Path) -> Result<Profile, Failure> {
        let mut profile = self.lasting(spec, root)?;
        // What a person wrote is trusted with repositories. To look for them takes its time with each call.
        if spec.origin == Origin::User || profile.write.is_empty() {
            return Ok(profile);
        }
        let writable = profile.write.clone();
        let found = tokio::task::spawn_blocking(move || repositories::below(&writable)).await;
        let found = found.map_err(|err| Failure::new(FailureKind::Internal, err.to_string()))??;
        // The project's own is a matter of its own.
        let own = root.join(GIT);
        let is_named = |it: &PathBuf| profile.write.iter().any(|grant| grant.starts_with(it));
        let others = found.into_iter().filter(|it| *it != own && !is_named(it));
        let others: Vec<PathBuf> = others.collect();
        profile.protect.extend(others);
        Ok(profile)
    }

    /// What of it does not depend on what is in the directories.
    fn lasting(&self, spec: &ToolSpec, root: &Path) -> Result<Profile, Failure> {
        let grant = spec.permissions.grant(root);
        let mut read = resolved(spec, &grant.read, "fs.read")?;
        let write = resolved(spec, &grant.write, "fs.write")?;
        read.extend(own_files(spec, root));
        read.extend(self.programs.iter().filter_map(|it| it.canonicalize().ok()));
        read.retain(|it| !is_system(it));
        read.sort();
        read.dedup();
        Ok(Profile {
            confinement: self.confinement,
            network: self.network(&grant.network)?,
            protect: protected_from(spec, root, &write),
            hide: self.hidden_from(root, &read, &write)?,
            read,
            write,
            limits: limits_of(spec),
        })
    }

    /// What no grant opens, as the kernel sees it. What a grant contains must be there to be covered: what
    /// came later would be open.
    pub(super) fn hidden_from(
        &self,
        root: &Path,
        read: &[PathBuf],
        write: &[PathBuf],
    ) -> Result<Vec<PathBuf>, Failure> {
        // Nothing of it lies inside of a project, and to look at a home that hangs takes for ever.
        let is_outside = |it: &PathBuf| !it.starts_with(root);
        if !read.iter().chain(write).any(is_outside) && !self.hidden.iter().any(|it| is_system(it))
        {
            return Ok(Vec::new());
        }
        let mut hidden = Vec::new();
        for path in &*self.hidden {
            let path = real(path);
            if read.iter().chain(write).any(|it| path.starts_with(it)) {
                let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
                made.map_err(|err| {
                    Failure::new(
                        FailureKind::Internal,
                        format!("{} cannot be kept from the tool: {err}", path.display()),
                    )
                })?;
            }
            hidden.push(path);
        }
        Ok(hidden)
    }

    pub(super) fn network(&self, granted: &permission::Network) -> Result<Network, Failure> {
        Ok(match granted {
            permission::Network::None => Network::None,
            permission::Network::Public => Network::Outbound {
                granted: Vec::new(),
            },
            permission::Network::Hosts(hosts) => {
                let socket = self.egress.socket(hosts).map_err(|err| {
                    Failure::new(
                        FailureKind::Internal,
                        format!("no way out could be opened: {err}"),
                    )
                })?;
                Network::Proxy { socket }
            }
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What it holds is whole after every statement.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The tier of a machine, and each layer with the reason why it is missing, if it is.
pub struct Best {
    pub tier: &'static str,
    pub layers: Vec<(&'static str, Result<(), String>)>,
}

/// What holds a tool, for people to read.
pub struct Explained {
    pub network: String,
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    pub protected: Vec<PathBuf>,
    pub limits: model::Limits,
    pub held: Held,
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

/// Where a path leads, as far as it exists.
pub(crate) fn real(path: &Path) -> PathBuf {
    let found = path
        .ancestors()
        .find_map(|it| Some((it.canonicalize().ok()?, path.strip_prefix(it).ok()?)));
    found.map_or_else(
        || path.to_owned(),
        |(real, rest)| real.components().chain(rest.components()).collect(),
    )
}

/// Whether a path is there for every tool, without a grant.
pub(super) fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|it| path.starts_with(it))
}

/// Grants as the kernel sees them. What does not exist grants nothing. For a tool made by an agent a
/// link on the way is a trick: its ceiling was judged by name.
fn resolved(spec: &ToolSpec, granted: &[PathBuf], key: &str) -> Result<Vec<PathBuf>, Failure> {
    let mut paths = Vec::new();
    for path in granted {
        let Ok(real) = path.canonicalize() else {
            continue;
        };
        if real != *path && spec.origin.is_agent() {
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
fn own_files(spec: &ToolSpec, root: &Path) -> Vec<PathBuf> {
    let mut own: Vec<PathBuf> = spec
        .source
        .parent()
        .map(Path::to_owned)
        .into_iter()
        .collect();
    let mut interpreter = Vec::new();
    match &spec.exec {
        Exec::Http(_) | Exec::Native(_) => {}
        Exec::Command(command) => {
            own.extend(find_entrypoint(root, &command.entrypoint).map(|it| it.path));
        }
        Exec::Python(python) => {
            interpreter = match &python.venv {
                Some(venv) => files_of_interpreter(root, Some(venv)),
                // The system's python is found once, and so is what belongs to it: this is asked for each call.
                None => SYSTEM_PYTHON
                    .get_or_init(|| files_of_interpreter(root, None))
                    .clone(),
            };
            own.extend(module_files(root, python));
        }
    }
    own.into_iter()
        .filter_map(|it| it.canonicalize().ok())
        .chain(interpreter)
        .collect()
}

static SYSTEM_PYTHON: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// The interpreter, what its link leads to, and the installations of both.
fn files_of_interpreter(root: &Path, venv: Option<&str>) -> Vec<PathBuf> {
    let Ok(interpreter) = find_interpreter(root, venv) else {
        return Vec::new();
    };
    let real = interpreter.canonicalize().ok();
    let mut files = Vec::new();
    for python in [Some(interpreter), real].into_iter().flatten() {
        files.extend(installation(&python).and_then(|it| it.canonicalize().ok()));
        files.extend(python.canonicalize().ok());
    }
    files.sort();
    files.dedup();
    files
}

pub(super) fn limits(asked: &model::Limits) -> Limits {
    Limits {
        cpu: asked.cpu,
        memory: Some(asked.memory),
        processes: Some(asked.processes),
        open_files: Some(asked.open_files),
        file_size: Some(asked.file_size),
        scratch_size: asked.scratch,
    }
}

fn limits_of(spec: &ToolSpec) -> Limits {
    let mut limits = limits(&spec.limits);
    if let Exec::Python(_) = spec.exec {
        let stay = |it: u32| it.saturating_add(KEEPERS);
        limits.processes = limits.processes.map(stay);
    }
    limits
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

/// More, when an agent made the tool, or says what it does.
pub(super) fn protected_from(spec: &ToolSpec, root: &Path, writable: &[PathBuf]) -> Vec<PathBuf> {
    let mut paths = protected(root, writable);
    if spec.origin != Origin::User {
        paths.extend(FROM_AGENTS.iter().map(|it| root.join(it)));
    }
    // Of the tools that come with glee only one that names it changes what is git's own: much of it decides
    // what git runs next.
    let git = root.join(GIT);
    if spec.origin == Origin::BuiltIn {
        if !writable.iter().any(|it| it.starts_with(&git)) {
            paths.push(git);
        }
        // It says where else objects are.
        let objects = writable.iter().filter(|it| it.ends_with("objects"));
        paths.extend(objects.map(|it| it.join("info")));
    }
    paths
}

pub(super) fn protected(root: &Path, writable: &[PathBuf]) -> Vec<PathBuf> {
    let own = root.join(OWN);
    let mut paths: Vec<PathBuf> = PROTECTED.iter().map(|it| root.join(it)).collect();
    let within = |path: &Path| writable.iter().any(|grant| grant.starts_with(path));
    if within(&own) {
        // The rest of glee's own directory is open only to a grant that names it.
        let rest = UNLESS_NAMED.iter().map(|it| root.join(it));
        paths.extend(rest.filter(|it| !within(it)));
    } else {
        // What is protected as a whole needs nothing in the place of what is not there yet.
        paths.retain(|it| !it.starts_with(&own));
        paths.push(own);
    }
    let git = root.join(GIT);
    if git.is_file() {
        // Nothing can be put into a file; in its place something could.
        paths.retain(|it| !it.starts_with(&git));
        paths.push(git);
    }
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
