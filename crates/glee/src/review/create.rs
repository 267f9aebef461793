//! An agent makes a tool: under the ceiling, under a name that is nobody's, and for people to look at
//! before anybody can call it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Component, Path};

use glee_core::ceiling::beyond;
use glee_core::event::What;
use glee_core::model::{Exec, Origin, ToolSpec};
use glee_core::name;
use glee_core::outcome::{Failure, FailureKind};
use glee_core::permission::{Ceiling, Network, Permissions, absolute};
use glee_core::port::Caller;
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::config::AgentTools;
use crate::dialect::document::MAX_BYTES;
use crate::dialect::manifest::{self, check, write};
use crate::dialect::problem::Severity;
use crate::exec::find_entrypoint;
use crate::store::reviews::{Record, now};
use crate::store::staged::Staged;

/// Most files besides the manifest, the bytes of all together, and the longest name.
const MOST_FILES: usize = 32;
const MOST_BYTES: usize = 1 << 20;
const LONGEST_NAME: usize = 200;

/// What a person is told when the agent gives no reason of its own.
const REASON: &str = "it was made by an agent";

/// A tool as an agent hands it in.
pub struct Proposal {
    pub name: String,
    /// In the words of a manifest.
    pub definition: Map<String, Value>,
    /// Texts for the tool's own directory, by name.
    pub files: BTreeMap<String, String>,
    /// What the agent's program calls itself.
    pub client: Option<String>,
}

#[derive(Debug)]
pub struct Created {
    /// From the project's root.
    pub path: String,
    /// What could be better about it.
    pub warnings: Vec<String>,
}

/// Something wrong with a proposal.
struct Wrong {
    pointer: String,
    message: String,
    fix: Option<String>,
}

impl App {
    /// Makes a tool that waits for review. Who makes it is whoever called, whatever they say.
    pub fn create_tool(&self, proposal: &Proposal, by: &Caller) -> Result<Created, Failure> {
        // A ceiling that cannot be read is none.
        let config = self.config().map_err(|err| {
            let why = format!("no tool can be made under this config: {err}");
            Failure::new(FailureKind::PermissionDenied, why)
        })?;
        self.check_name(&proposal.name)?;
        let (spec, text, warnings) = self.read(proposal, by)?;
        hold(&spec, &config.max_permissions, self)?;
        let records = self.review_records();
        let _alone = records.alone().map_err(|err| unwritten(&err))?;
        self.check_name(&spec.name)?;
        self.count(by, config.agent_tools)?;
        let mut files = proposal.files.clone();
        files.insert("tool.yml".to_owned(), text);
        let staged =
            Staged::write(&self.project().tools(), &files).map_err(|err| unwritten(&err))?;
        // What was decided about a tool of this name that is no more is nothing to this one.
        match records.remove(&spec.name) {
            Err(err) if err.kind() != io::ErrorKind::NotFound => return Err(unwritten(&err)),
            _ => {}
        }
        let permissions = in_words(&spec.permissions);
        let created = What::Created { permissions };
        self.note(&spec.name, Some(spec.document), by, created)?;
        staged.place(&spec.name).map_err(|err| match err.kind() {
            io::ErrorKind::AlreadyExists => taken(&spec.name, &spec.name),
            _ => unwritten(&err),
        })?;
        let record = Record {
            creator: by.name.clone(),
            client: proposal.client.clone(),
            created_at: now(),
            trials: None,
            decision: None,
        };
        // Without it the tool is an agent's all the same: its manifest says so, and nobody decided.
        records
            .put(&spec.name, &record)
            .map_err(|err| unwritten(&err))?;
        // Others hear of it by the change on disk; so would we, a little later.
        let _ = self.reload();
        Ok(Created {
            path: format!(".glee/tools/{}/tool.yml", spec.name),
            warnings,
        })
    }

    /// A name that no tool has, and that nobody could take for one that a tool has.
    fn check_name(&self, new: &str) -> Result<(), Failure> {
        if name::is_reserved(new) {
            return Err(taken(new, "glee's own tools"));
        }
        // Others are shown to models in a changed form, which would be another name to be taken for.
        if name::check(new).is_err() || !name::is_model_safe(new) {
            return Err(Failure::new(
                FailureKind::InvalidInput,
                "the name of a tool that an agent makes has 1 to 64 letters of A–Z, digits, `_` and `-`, and begins with none of `-`",
            ));
        }
        // Those on disk now, and those that are built in.
        let there = entries(&self.project().tools()).map_err(|err| unwritten(&err))?;
        let tools = self.tools();
        let built_in = tools.tools().filter(|it| it.origin == Origin::BuiltIn);
        let built_in = built_in.map(|it| it.name.as_str());
        let names: BTreeSet<&str> = there.iter().map(String::as_str).chain(built_in).collect();
        let names: Vec<&str> = names.into_iter().collect();
        match name::look_alike(new, &names) {
            None => Ok(()),
            Some(other) => Err(taken(new, other)),
        }
    }

    /// The tool and the text of its manifest, or everything that is wrong with the proposal.
    fn read(
        &self,
        proposal: &Proposal,
        by: &Caller,
    ) -> Result<(ToolSpec, String, Vec<String>), Failure> {
        let name = proposal.name.as_str();
        let own = self.project().tools().join(name);
        let mut wrong = wrong_files(&proposal.files);
        if proposal.definition.contains_key("creator") {
            wrong.push(Wrong::new(
                "/creator",
                "who makes a tool is not for its definition to say",
            ));
        }
        let text = write::write(&definition(proposal, by));
        if text.len() as u64 > MAX_BYTES {
            wrong.push(Wrong::new("", "the definition is larger than 1024 KiB"));
            return Err(invalid(name, &wrong));
        }
        let read = manifest::read(&text, name, &own.join("tool.yml"));
        let mut problems = read.problems;
        if let (Some(spec), Some(node)) = (&read.model, &read.node) {
            problems.extend(check::schemas(spec, node));
            problems.extend(check::check(spec, node));
            wrong.extend(missing(spec, self.project().root(), &own, &proposal.files));
        }
        let (errors, warnings): (Vec<_>, Vec<_>) = problems
            .into_iter()
            .partition(|it| it.severity == Severity::Error);
        wrong.extend(errors.into_iter().map(|it| {
            let node = read.node.as_ref();
            let pointer = node.and_then(|node| node.pointer_at(&it.place));
            let pointer = pointer.unwrap_or_default();
            // Some say where they are, in their own way.
            let place = format!("{}: ", pointer.trim_start_matches('/').replace('/', "."));
            Wrong {
                message: it
                    .message
                    .strip_prefix(&place)
                    .unwrap_or(&it.message)
                    .to_owned(),
                fix: it.fix,
                pointer,
            }
        }));
        match read.model {
            Some(spec) if wrong.is_empty() => {
                let warnings = warnings.into_iter().map(|it| it.message).collect();
                Ok((spec, text, warnings))
            }
            _ => Err(invalid(name, &wrong)),
        }
    }

    /// Whether there is room for one more. Counted are the records, which outlive every process.
    fn count(&self, by: &Caller, most: AgentTools) -> Result<(), Failure> {
        let records = self.review_records();
        let there = entries(&self.project().tools()).map_err(|err| unwritten(&err))?;
        let known = records.names().map_err(|err| unwritten(&err))?;
        let known: Vec<&String> = known.iter().filter(|it| there.contains(it)).collect();
        if known.len() >= most.total {
            let why = format!(
                "agents have made {} tools here, and may not make more",
                known.len()
            );
            return Err(Failure::new(FailureKind::RateLimited, why).hint(
                "a person removes some, or raises `security.agent_tools.total` in .glee/config.yml",
            ));
        }
        let recent = known
            .iter()
            .filter_map(|it| records.get(it).ok().flatten())
            .filter(|it| it.creator == by.name && it.is_recent())
            .count();
        if recent >= most.per_minute {
            let why = format!("`{}` has made {recent} tools within a minute", by.name);
            return Err(Failure::new(FailureKind::RateLimited, why)
                .retryable()
                .hint("wait a minute"));
        }
        Ok(())
    }
}

/// The definition, with what is not the agent's to say: who made it, and that a person is asked.
fn definition(proposal: &Proposal, by: &Caller) -> Map<String, Value> {
    let mut definition = Map::new();
    definition.insert("name".into(), proposal.name.clone().into());
    definition.extend(proposal.definition.clone());
    let approval = definition
        .entry("approval")
        .or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(approval) = approval {
        approval.insert("required".into(), true.into());
        // A person may say later when nobody needs to be asked; the agent may not.
        approval.shift_remove("when");
        let reason = approval.get("reason").and_then(Value::as_str);
        if reason.is_none_or(|it| it.trim().is_empty()) {
            approval.insert("reason".into(), REASON.into());
        }
    }
    definition.shift_remove("creator");
    definition.insert("creator".into(), by.name.clone().into());
    definition
}

/// Names of plain files in the tool's own directory, and not too many of them.
fn wrong_files(files: &BTreeMap<String, String>) -> Vec<Wrong> {
    let at = |name: &str| format!("/files/{}", glee_core::schema::escape(name));
    let mut wrong = Vec::new();
    let bytes: usize = files.values().map(String::len).sum();
    if files.len() > MOST_FILES || bytes > MOST_BYTES {
        let most = format!(
            "at most {MOST_FILES} files of together {} KiB",
            MOST_BYTES >> 10
        );
        wrong.push(Wrong::new("/files", most));
    }
    for name in files.keys() {
        let is_plain = |it: Component<'_>| match it {
            Component::Normal(part) => {
                let part = part.to_string_lossy();
                // The digest of a tool leaves out what python makes of modules.
                !part.starts_with(['.', '-']) && part != "__pycache__"
            }
            _ => false,
        };
        let path = Path::new(name);
        let is_file = !name.is_empty()
            && name.len() <= LONGEST_NAME
            && path.components().all(is_plain)
            // Nothing was left out, as `//`, `/./` and a `/` at the end would be.
            && path.components().collect::<std::path::PathBuf>().as_os_str() == name.as_str()
            && !name.chars().any(|c| name::is_invisible(c) || c == '\\');
        if !is_file {
            wrong.push(Wrong::new(
                &at(name),
                "a file is named by a plain path inside the tool's directory, such as `run.sh` or `lib/a.py`",
            ));
        } else if name == "tool.yml" {
            wrong.push(Wrong::new(
                &at(name),
                "the manifest is made from the definition",
            ));
        } else if files
            .keys()
            .any(|it| it != name && Path::new(it).starts_with(path))
        {
            wrong.push(Wrong::new(&at(name), "it is both a file and a directory"));
        }
    }
    wrong
}

/// What the tool runs must be there, or come with it.
fn missing(
    spec: &ToolSpec,
    root: &Path,
    own: &Path,
    files: &BTreeMap<String, String>,
) -> Option<Wrong> {
    let brought = |path: &Path| {
        let inside = path.strip_prefix(own).ok()?;
        Some(files.get(inside.to_str()?))
    };
    match &spec.exec {
        Exec::Http(_) | Exec::Native(_) => None,
        Exec::Command(command) => {
            let pointer = "/exec/command/entrypoint";
            let path = absolute(root, &command.entrypoint);
            match brought(&path).filter(|_| command.entrypoint.contains('/')) {
                Some(Some(text)) if text.starts_with("#!") => None,
                Some(Some(_)) => Some(Wrong::new(
                    pointer,
                    "the file does not begin with `#!` and the program that reads it",
                )),
                Some(None) => Some(Wrong::new(pointer, "there is no such file among `files`")),
                None => {
                    let why = find_entrypoint(root, &command.entrypoint).err()?;
                    Some(Wrong::new(pointer, why))
                }
            }
        }
        Exec::Python(python) => {
            let cwd = absolute(root, &python.cwd);
            let module = cwd.join(python.module.replace('.', "/"));
            let places = [module.with_extension("py"), module.join("__init__.py")];
            let is_own = cwd.starts_with(own);
            let comes = places.iter().any(|it| brought(it).flatten().is_some());
            (is_own && !comes).then(|| {
                Wrong::new(
                    "/exec/python/module",
                    "there is no such module among `files`",
                )
            })
        }
    }
}

/// Exactly what is too much, and what would not be.
fn hold(spec: &ToolSpec, ceiling: &Ceiling, app: &App) -> Result<(), Failure> {
    let excess = beyond(spec, ceiling, app.project().root(), app.files());
    if excess.is_empty() {
        return Ok(());
    }
    let why = format!(
        "beyond security.max_permissions: {}; a tool made by an agent may have at most: {ceiling}",
        excess.join(", ")
    );
    let allowed = json!({
        "network": ceiling.network.to_string(),
        "read": ceiling.read,
        "write": ceiling.write,
        "secrets": ceiling.secrets,
    });
    Err(Failure::new(FailureKind::PermissionDenied, why)
        .with("exceeds", excess)
        .with("allowed", allowed)
        .hint("ask for less; a person can raise the ceiling in .glee/config.yml"))
}

/// As the audit tells it: `{network:true,fs:{read:[],write:[]}}`.
fn in_words(permissions: &Permissions) -> String {
    let quoted = |it: &[String]| {
        let items: Vec<String> = it
            .iter()
            .map(|it| Value::from(it.as_str()).to_string())
            .collect();
        items.join(",")
    };
    let network = match &permissions.network {
        Network::None => "false".to_owned(),
        Network::Public => "true".to_owned(),
        Network::Hosts(hosts) => {
            let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
            format!("[{}]", quoted(&hosts))
        }
    };
    let secrets: Vec<String> = permissions.secrets.keys().cloned().collect();
    let secrets = match secrets.is_empty() {
        true => String::new(),
        false => format!(",secrets:[{}]", quoted(&secrets)),
    };
    format!(
        "{{network:{network},fs:{{read:[{}],write:[{}]}}{secrets}}}",
        quoted(&permissions.read),
        quoted(&permissions.write)
    )
}

/// What stands in the tools' directory, tool or not.
fn entries(tools: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(tools) {
        Ok(entries) => entries,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(err) => return Err(err),
    };
    let names = entries.map(|it| Ok(it?.file_name().to_string_lossy().into_owned()));
    names
        .filter(|it| !it.as_ref().is_ok_and(|it| it.starts_with('.')))
        .collect()
}

impl Wrong {
    fn new(pointer: &str, message: impl Into<String>) -> Wrong {
        Wrong {
            pointer: pointer.to_owned(),
            message: message.into(),
            fix: None,
        }
    }
}

fn invalid(name: &str, wrong: &[Wrong]) -> Failure {
    let told: Vec<String> = wrong
        .iter()
        .map(|it| match it.pointer.as_str() {
            "" => it.message.clone(),
            pointer => format!("{pointer}: {}", it.message),
        })
        .collect();
    let listed: Vec<Value> = wrong
        .iter()
        .map(|it| json!({"pointer": it.pointer, "message": it.message, "fix": it.fix}))
        .collect();
    Failure::new(
        FailureKind::InvalidInput,
        format!(
            "the definition of `{name}` is not valid: {}",
            told.join("; ")
        ),
    )
    .with("problems", listed)
}

fn taken(new: &str, other: &str) -> Failure {
    let why = match new == other {
        true => format!("there is a tool `{other}` already"),
        false => format!("`{}` could be taken for {other}", name::shorten(new)),
    };
    Failure::new(FailureKind::Conflict, why)
        .hint("choose another name; only a person removes a tool")
}

fn unwritten(err: &io::Error) -> Failure {
    let why = format!("the tool could not be written: {err}");
    Failure::new(FailureKind::Internal, why)
}
