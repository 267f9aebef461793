//! Everything that is wrong with a project's documents, in one run.

mod idle;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use glee_core::ceiling::beyond;
use glee_core::model::{Exec, Origin, ToolSpec};
use glee_core::permission::{Ceiling, absolute};
use glee_core::redact::{is_short, short_secret};
use glee_core::resource::{Holds, Resource};
use glee_core::secret::Secret;
use glee_core::template::{Source, Template};

use crate::builtin::Settings;
use crate::config::{self, standing};
use crate::dialect::document::Read;
use crate::dialect::manifest::check;
use crate::dialect::problem::{Problem, Severity};
use crate::dialect::yaml::Node;
use crate::dialect::{prompt, resource};
use crate::exec::{find_entrypoint, find_interpreter, search_path};
use crate::project::Project;
use crate::store::documents::{self, Document};
use crate::store::paths::Paths;
use crate::store::{manifests, resources};

pub struct Report {
    pub files: Vec<File>,
}

pub struct File {
    /// From the project's root.
    pub path: PathBuf,
    pub text: String,
    pub problems: Vec<Problem>,
}

impl Report {
    pub fn count(&self, severity: Severity) -> usize {
        self.files
            .iter()
            .flat_map(|it| &it.problems)
            .filter(|it| it.severity == severity)
            .count()
    }
}

pub fn lint(project: &Project) -> io::Result<Report> {
    let mut files = Vec::new();
    // A config that cannot be read hides no manifest.
    let config = config::load(&project.config()).unwrap_or_else(|err| config::Read {
        config: None,
        text: String::new(),
        node: None,
        problems: vec![Problem::error(
            "unreadable",
            0..0,
            format!("the file {err}"),
        )],
    });
    let ceiling = config
        .config
        .as_ref()
        .map(|it| it.max_permissions.clone())
        .unwrap_or_default();
    let tools = manifests::load(&project.tools())?;
    let mut problems = config.problems;
    if let (Some(config), Some(node)) = (&config.config, &config.node) {
        let known: idle::Known<'_> = tools
            .iter()
            .map(|it| (it.directory.as_str(), it.read.model.as_ref()))
            .collect();
        let all_known = !project.bundles().exists();
        let rules = config.rules.iter().enumerate();
        problems.extend(rules.flat_map(|(at, it)| idle::idle(at, it, &known, all_known, node)));
    }
    if !problems.is_empty() {
        problems.sort_by_key(|it| (it.place.start, std::cmp::Reverse(it.severity)));
        files.push(File {
            path: ".glee/config.yml".into(),
            text: config.text,
            problems,
        });
    }
    let standing = standing::load(&project.standing_rules()).unwrap_or_else(|err| standing::Read {
        rules: None,
        text: String::new(),
        problems: vec![Problem::error(
            "unreadable",
            0..0,
            format!("the file {err}"),
        )],
    });
    if !standing.problems.is_empty() {
        files.push(File {
            path: ".glee/rules.yml".into(),
            text: standing.text,
            problems: standing.problems,
        });
    }
    let builtins = config.config.map(|it| it.builtins).unwrap_or_default();
    for document in tools {
        let mut problems = document.read.problems;
        if let (Some(spec), Some(node)) = (&document.read.model, &document.read.node) {
            problems.extend(check::schemas(spec, node));
            problems.extend(check::check(spec, node));
            problems.extend(unused_secrets(spec, node));
            problems.extend(short_secrets(spec, node));
            problems.extend(missing_files(spec, node, project.root()));
            problems.extend(name_of_a_builtin(spec, node, &builtins));
            problems.extend(above_ceiling(spec, node, &ceiling, project.root()));
        }
        problems.sort_by_key(|it| (it.place.start, std::cmp::Reverse(it.severity)));
        files.push(File {
            path: inside(project, document.path),
            text: document.text,
            problems,
        });
    }
    for document in documents::load(&project.prompts(), prompt::read)? {
        files.push(file(project, document));
    }
    let mut resources = documents::load(&project.resources(), resource::read)?;
    same_uris(&mut resources);
    for mut document in resources {
        let problem = missing_resource(&document.read, project.root());
        document.read.problems.extend(problem);
        files.push(file(project, document));
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Report { files })
}

/// Nobody could tell which of the two is called, so neither is.
fn name_of_a_builtin(spec: &ToolSpec, node: &Node, builtins: &Settings) -> Option<Problem> {
    let builtin = builtins.enabled().find(|it| it.name == spec.name)?;
    let message = format!(
        "`{}` is a tool that comes with glee, in the bundle `{}`",
        builtin.name, builtin.bundle
    );
    Some(
        Problem::error("builtin-name", node.place_of("/name"), message).fix(format!(
            "give the tool another name, or list `{}` under `builtins.disable` in .glee/config.yml",
            builtin.name
        )),
    )
}

fn file<T>(project: &Project, document: Document<T>) -> File {
    let mut problems = document.read.problems;
    problems.sort_by_key(|it| (it.place.start, std::cmp::Reverse(it.severity)));
    File {
        path: inside(project, document.path),
        text: document.text,
        problems,
    }
}

fn inside(project: &Project, path: PathBuf) -> PathBuf {
    path.strip_prefix(project.root())
        .map(Path::to_owned)
        .unwrap_or(path)
}

/// Of two resources under one URI nobody could ever read the second.
fn same_uris(documents: &mut [Document<Resource>]) {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for document in documents {
        let (Some(resource), Some(node)) = (&document.read.model, &document.read.node) else {
            continue;
        };
        let uri = resource.uri.as_str().to_owned();
        match seen.get(&uri) {
            None => {
                seen.insert(uri, document.stem.clone());
            }
            Some(first) => {
                let message = format!("`{first}` has this URI already");
                let problem = Problem::error("same-uri", node.place_of("/uri"), message);
                document.read.problems.push(problem);
            }
        }
    }
}

fn missing_resource(read: &Read<Resource>, root: &Path) -> Option<Problem> {
    let (resource, node) = (read.model.as_ref()?, read.node.as_ref()?);
    let Holds::File(path) = &resource.holds else {
        return None;
    };
    let failure = resources::read_file(root, path).err()?;
    let place = node.place_of("/file");
    Some(Problem::error("missing-file", place, failure.message))
}

/// A command or a module gets its secrets by the environment, so only an http tool's can be seen
/// to be unused.
fn unused_secrets(spec: &ToolSpec, node: &Node) -> Vec<Problem> {
    let Exec::Http(http) = &spec.exec else {
        return Vec::new();
    };
    let mut used: Vec<&str> = Vec::new();
    let mut note = |source: Source, name| {
        if source == Source::Secret {
            used.push(name);
        }
    };
    http.url.holes().for_each(|it| note(it.source, &it.name));
    http.headers
        .iter()
        .flat_map(|(_, it)| it.holes())
        .for_each(|it| note(it.source, &it.name));
    let values = http.query.iter().map(|(_, it)| it).chain(&http.body);
    values
        .flat_map(|it| it.holes())
        .for_each(|it| note(it.source, &it.name));
    if let Some(auth) = &http.auth {
        auth.templates()
            .into_iter()
            .flat_map(Template::holes)
            .for_each(|it| note(it.source, &it.name));
    }
    let unused = spec
        .permissions
        .secrets
        .keys()
        .filter(|it| !used.contains(&it.as_str()));
    unused
        .map(|name| {
            let place = node.key_place_of(&format!("/permissions/secrets/{name}"));
            Problem::error(
                "unused-secret",
                place,
                format!("the secret `{name}` is declared but never used"),
            )
            .fix(format!("remove it, or use it as `${{{name}}}`"))
        })
        .collect()
}

/// Of the secrets that are set where lint runs.
fn short_secrets(spec: &ToolSpec, node: &Node) -> Vec<Problem> {
    let declared = spec.permissions.secrets.keys();
    declared
        .filter(|name| set(name).is_some_and(|it| is_short(&it)))
        .map(|name| {
            let place = node.key_place_of(&format!("/permissions/secrets/{name}"));
            Problem::warning("short-secret", place, short_secret(name)).fix("use a longer one")
        })
        .collect()
}

/// A secret as glee would find it; a blank one is none.
fn set(name: &str) -> Option<Secret> {
    let value = std::env::var(name).ok().map(Secret::new)?;
    (!value.reveal().trim().is_empty()).then_some(value)
}

/// The secrets that tools declare: how many there are, and what is wrong with which.
pub fn secrets(project: &Project) -> io::Result<(usize, Vec<String>)> {
    let tools = manifests::load(&project.tools())?;
    let names: BTreeSet<&String> = tools
        .iter()
        .filter_map(|it| it.read.model.as_ref())
        .flat_map(|it| it.permissions.secrets.keys())
        .collect();
    let problems = names.iter().filter_map(|name| match set(name) {
        None => Some(format!("{name} is not set")),
        Some(secret) if is_short(&secret) => Some(short_secret(name)),
        Some(_) => None,
    });
    Ok((names.len(), problems.collect()))
}

fn missing_files(spec: &ToolSpec, node: &Node, root: &Path) -> Vec<Problem> {
    let missing = |rule, pointer: &str, message: String| {
        Problem::error(rule, node.place_of(pointer), message)
    };
    let mut problems = Vec::new();
    let cwd = match &spec.exec {
        Exec::Http(_) | Exec::Native(_) => return problems,
        Exec::Command(command) => {
            if let Err(why) = find_entrypoint(root, &command.entrypoint) {
                problems.push(missing(
                    "missing-entrypoint",
                    "/exec/command/entrypoint",
                    why,
                ));
            }
            (&command.cwd, "/exec/command/cwd")
        }
        Exec::Python(python) => {
            match find_interpreter(root, python.venv.as_deref()) {
                Err(why) if python.venv.is_some() => {
                    problems.push(missing("missing-venv", "/exec/python/venv", why))
                }
                Err(why) => problems.push(missing("missing-python", "/exec/python", why)),
                Ok(interpreter) => {
                    let mut places = vec![absolute(root, &python.cwd)];
                    places.extend(search_path(&interpreter));
                    if !places.iter().any(|it| has_module(it, &python.module)) {
                        let message = format!(
                            "there is no module `{}` in `{}` or where python looks",
                            python.module, python.cwd
                        );
                        problems.push(
                            missing("missing-module", "/exec/python/module", message).fix(format!(
                                "create {}/{}.py",
                                python.cwd,
                                python.module.replace('.', "/")
                            )),
                        );
                    }
                }
            }
            (&python.cwd, "/exec/python/cwd")
        }
    };
    if !absolute(root, cwd.0).is_dir() {
        problems.push(missing(
            "missing-cwd",
            cwd.1,
            format!("there is no directory `{}`", cwd.0),
        ));
    }
    problems
}

fn has_module(directory: &Path, module: &str) -> bool {
    let path = directory.join(module.replace('.', "/"));
    if path.with_extension("py").is_file() || path.is_dir() {
        return true;
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return false;
    };
    let compiled = format!("{}.", name.to_string_lossy());
    std::fs::read_dir(parent).is_ok_and(|entries| {
        entries.flatten().any(|it| {
            let file = it.file_name().to_string_lossy().into_owned();
            file.starts_with(&compiled) && file.ends_with(".so")
        })
    })
}

fn above_ceiling(spec: &ToolSpec, node: &Node, ceiling: &Ceiling, root: &Path) -> Vec<Problem> {
    let Origin::Agent { creator, .. } = &spec.origin else {
        return Vec::new();
    };
    let excess = beyond(spec, ceiling, root, &Paths::of_this_machine());
    if excess.is_empty() {
        return Vec::new();
    }
    let message = format!(
        "made by `{creator}`, and beyond security.max_permissions: {}",
        excess.join(", ")
    );
    vec![
        Problem::error("above-ceiling", node.key_place_of("/permissions"), message)
            .fix("ask for less, or raise the ceiling in .glee/config.yml"),
    ]
}
