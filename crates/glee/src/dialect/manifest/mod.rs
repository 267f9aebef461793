//! Manifests: `.glee/tools/<name>/tool.yml` to the model, with every problem at its place.

pub mod check;
mod credential;
mod exec;
mod wire;
pub mod write;

use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use glee_core::host::HostPattern;
use glee_core::model::{
    Annotations, Approval, Example, Exec, Extract, Format, Limits, OnMismatch, Origin, Outputs,
    Standing, Tasks, ToolSpec,
};
use glee_core::permission::{Network, Permissions, SecretNeed};
use glee_core::rule::condition::Condition;
use glee_core::schema::{Schema, escape};
use glee_core::template::{Names, ValueTemplate};
use glee_core::turn::Calls;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::condition::{self, WireTests};
use super::document::Read;
use super::network::WireNetwork;
use super::problem::Problem;
use super::reader::{self, Reader, Words};

const MIB: usize = 1 << 20;

/// The published JSON Schema of manifests.
pub fn schema() -> Value {
    schemars::schema_for!(wire::Manifest).to_value()
}

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| match Schema::new(schema()) {
    Ok(schema) => schema,
    Err(err) => unreachable!("the manifest schema is generated, and bounded: {err:?}"),
});

/// What stands in for a key that is missing or wrong, so that the rest of the manifest is checked in
/// the same run. Only keys on which nothing else depends.
const STAND_INS: &[(&str, &str)] = &[
    ("name", "\"\""),
    ("title", "null"),
    ("description", "\"\""),
    ("version", "1"),
    ("tags", "[]"),
    ("creator", "null"),
    ("approval", "{\"required\": false}"),
    ("examples", "[]"),
    ("limits", "{}"),
    ("annotations", "{}"),
    ("elicit", "[]"),
    ("task", "\"never\""),
];

const WORDS: Words = Words {
    thing: "tool",
    home: "directory",
    undeclared: "neither an input nor a declared secret",
    declare: "in inputs.schema.properties or permissions.secrets",
};

/// Reads a manifest that stands in a directory called `directory`.
pub fn read(text: &str, directory: &str, source: &Path) -> Read<ToolSpec> {
    reader::read(text, &SCHEMA, STAND_INS, &WORDS, |reader, wire| {
        reader.tool(wire, directory, source)
    })
}

impl Reader<'_> {
    fn tool(&mut self, wire: wire::Manifest, directory: &str, source: &Path) -> Option<ToolSpec> {
        self.name(&wire.name, directory);
        let inputs = self.inputs(wire.inputs)?;
        self.names = Names {
            inputs: inputs.properties().map(|(name, _)| name.clone()).collect(),
            secrets: wire.permissions.secrets.keys().cloned().collect(),
        };
        for twice in self.names.inputs.intersection(&self.names.secrets) {
            let place = self
                .node
                .key_place_of(&format!("/permissions/secrets/{twice}"));
            self.problems.push(
                Problem::error(
                    "name-collision",
                    place,
                    format!("`{twice}` is both an input and a secret"),
                )
                .fix("rename the input; a caller could stand in for the secret"),
            );
        }
        let elicit = self.elicit(wire.elicit);
        let permissions = self.permissions(wire.permissions);
        let approval = self.approval(wire.approval);
        let annotations = Annotations {
            read_only: wire.annotations.read_only,
            destructive: wire.annotations.destructive,
            idempotent: wire.annotations.idempotent,
        };
        let format = wire.outputs.format;
        let schema = self.output_schema(wire.outputs.schema)?;
        let read = self.exec(wire.kind, wire.exec, format, &permissions, &inputs)?;
        let output_bytes = match read.exec {
            Exec::Http(_) => 5 * MIB,
            Exec::Command(_) | Exec::Python(_) | Exec::Native(_) => MIB,
        };
        Some(ToolSpec {
            name: wire.name,
            version: wire.version.0.to_string(),
            title: wire.title,
            description: wire.description,
            tags: wire.tags,
            inputs,
            elicit,
            outputs: Outputs {
                format: read.format,
                extract: read.extract.map(Extract::Path),
                fields: read.fields,
                schema,
                on_mismatch: OnMismatch::Warn,
            },
            exec: read.exec,
            permissions,
            approval,
            annotations,
            tasks: match wire.task {
                wire::Task::Never => Tasks::Never,
                wire::Task::Supported => Tasks::Supported,
                wire::Task::Required => Tasks::Required,
            },
            limits: limits(&wire.limits, read.timeout, output_bytes),
            examples: wire.examples.into_iter().map(example).collect(),
            origin: match wire.creator {
                // Until somebody has seen what people think of it, nobody does.
                Some(creator) => Origin::Agent {
                    creator,
                    standing: Standing::Pending,
                },
                None => Origin::User,
            },
            source: source.to_owned(),
            document: Sha256::digest(self.text).into(),
        })
    }

    fn inputs(&mut self, wire: wire::Inputs) -> Option<Schema> {
        if wire.schema.get("type").and_then(Value::as_str) != Some("object") {
            let place = match wire.schema.contains_key("type") {
                true => "/inputs/schema/type",
                false => "/inputs/schema",
            };
            self.problem(
                Problem::error(
                    "schema-root",
                    self.node.place_of(place),
                    "the root of `inputs.schema` must be `type: object`",
                )
                .fix("add `type: object`"),
            );
        }
        self.schema(wire.schema.into_iter().collect(), "/inputs/schema")
    }

    fn output_schema(&mut self, wire: Option<Value>) -> Option<Option<Schema>> {
        match wire {
            None | Some(Value::Null) => Some(None),
            Some(source) => self.schema(source, "/outputs/schema").map(Some),
        }
    }

    fn schema(&mut self, source: Value, pointer: &str) -> Option<Schema> {
        match Schema::new(source) {
            Ok(schema) => Some(schema),
            Err(errors) => {
                for err in errors {
                    self.error(
                        "invalid-schema",
                        &format!("{pointer}{}", err.pointer),
                        err.reason,
                    );
                }
                None
            }
        }
    }

    fn permissions(&mut self, wire: wire::Permissions) -> Permissions {
        let network = match wire.network {
            None | Some(WireNetwork::All(false)) => Network::None,
            Some(WireNetwork::All(true)) => Network::Public,
            Some(WireNetwork::Hosts(list)) => {
                let mut hosts = Vec::new();
                for (at, text) in list.hosts.iter().enumerate() {
                    match text.parse::<HostPattern>() {
                        Ok(host) => hosts.push(host),
                        Err(err) => self.error(
                            "host",
                            &format!("/permissions/network/hosts/{at}"),
                            err.to_string(),
                        ),
                    }
                }
                Network::Hosts(hosts)
            }
        };
        let fs = wire.fs.unwrap_or_default();
        for (list, key) in [(&fs.read, "read"), (&fs.write, "write")] {
            for (at, path) in list.iter().enumerate() {
                if path.is_empty() || path.contains('\0') {
                    self.error(
                        "path",
                        &format!("/permissions/fs/{key}/{at}"),
                        "a path cannot be empty or hold NUL",
                    );
                }
            }
        }
        for name in wire.secrets.keys() {
            let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if !name.chars().all(word)
                || name.starts_with(|c: char| c.is_ascii_digit())
                || name.is_empty()
            {
                let place = self
                    .node
                    .key_place_of(&format!("/permissions/secrets/{name}"));
                self.problem(Problem::error(
                    "secret-name",
                    place,
                    format!("`{name}` cannot be the name of an environment variable"),
                ));
            }
        }
        Permissions {
            network,
            read: fs.read,
            write: fs.write,
            secrets: wire
                .secrets
                .into_iter()
                .map(|(name, it)| {
                    (
                        name,
                        if it.required {
                            SecretNeed::Required
                        } else {
                            SecretNeed::Optional
                        },
                    )
                })
                .collect(),
        }
    }

    fn approval(&mut self, wire: wire::Approval) -> Approval {
        let when = wire.when.map(|it| self.condition(it.arguments));
        match (wire.required, wire.reason) {
            (false, _) if when.is_some() => {
                let place = self.node.place_of("/approval/when");
                let message = "`approval.when` says which calls ask, and none does";
                let problem = Problem::error("approval-when", place, message);
                self.problem(problem.fix("write `required: true`"));
                Approval::Never
            }
            (false, _) => Approval::Never,
            (true, Some(reason)) if !reason.trim().is_empty() => match when {
                Some(condition) => Approval::When { reason, condition },
                None => Approval::Always { reason },
            },
            (true, _) => {
                self.problem(
                    Problem::error(
                        "approval-reason",
                        self.node.place_of("/approval/required"),
                        "`approval.reason` is needed when approval is required",
                    )
                    .fix(
                        "say in one line why a person should look, e.g. `reason: sends a message`",
                    ),
                );
                Approval::Always {
                    reason: String::new(),
                }
            }
        }
    }

    fn condition(&mut self, tests: WireTests) -> Condition {
        let pointer = "/approval/when/arguments";
        if tests.is_empty() {
            let place = self.node.place_of(pointer);
            let message = "a condition of nothing says nothing; leave `when` out to ask always";
            self.problem(Problem::error("approval-when", place, message));
        }
        // A condition on something that nobody can give would never ask.
        for name in tests.keys() {
            let first = name.split('.').next().unwrap_or_default();
            if !self.names.inputs.contains(name) && !self.names.inputs.contains(first) {
                let place = self
                    .node
                    .key_place_of(&format!("{pointer}/{}", escape(name)));
                let message = format!("the tool has no input `{first}`, so it would never ask");
                self.problem(Problem::error("approval-when", place, message));
            }
        }
        Condition::new(condition::tests(tests)).unwrap_or_else(|flaws| {
            for flaw in flaws {
                let place = self.node.place_of(&format!("{pointer}{}", flaw.pointer));
                self.problem(Problem::error("approval-when", place, flaw.message));
            }
            Condition::default()
        })
    }

    /// A value whose strings are templates; its keys are the author's own.
    fn value_template(&mut self, value: Value, pointer: &str) -> Option<ValueTemplate> {
        match value {
            Value::String(text) => self.template(&text, pointer).map(ValueTemplate::Text),
            Value::Array(items) => {
                let items: Vec<_> = items
                    .into_iter()
                    .enumerate()
                    .map(|(at, item)| self.value_template(item, &format!("{pointer}/{at}")))
                    .collect();
                items
                    .into_iter()
                    .collect::<Option<_>>()
                    .map(ValueTemplate::List)
            }
            Value::Object(map) => {
                let fields: Vec<_> = map
                    .into_iter()
                    .map(|(key, item)| {
                        let pointer = format!("{pointer}/{}", glee_core::schema::escape(&key));
                        self.literal_key(&key, &pointer);
                        Some((key, self.value_template(item, &pointer)?))
                    })
                    .collect();
                fields
                    .into_iter()
                    .collect::<Option<_>>()
                    .map(ValueTemplate::Map)
            }
            literal => Some(ValueTemplate::Literal(literal)),
        }
    }

    fn literal_key(&mut self, key: &str, pointer: &str) {
        if key.contains("${") {
            let place = self.node.key_place_of(pointer);
            self.problem(Problem::error(
                "placeholder",
                place,
                "a placeholder cannot stand in a name, only in a value",
            ));
        }
    }
}

fn format(wire: wire::Format) -> Format {
    match wire {
        wire::Format::Json => Format::Json,
        wire::Format::Text => Format::Text,
        wire::Format::Content => Format::Content,
    }
}

fn limits(wire: &wire::Limits, timeout: Duration, output_bytes: usize) -> Limits {
    let otherwise = Limits::default();
    // Bounded on the wire to what these types hold.
    let small = |given: u64| u32::try_from(given).unwrap_or(u32::MAX);
    Limits {
        timeout,
        output_bytes: wire.output_bytes.map_or(output_bytes, |it| {
            usize::try_from(it.0).unwrap_or(output_bytes)
        }),
        sent_bytes: None,
        cpu: wire.cpu_ms.map(|it| Duration::from_millis(it.0)),
        memory: wire.memory_bytes.map_or(otherwise.memory, |it| it.0),
        processes: wire.processes.map_or(otherwise.processes, |it| small(it.0)),
        open_files: wire
            .open_files
            .map_or(otherwise.open_files, |it| small(it.0)),
        file_size: wire.file_bytes.unwrap_or(otherwise.file_size),
        scratch: wire.scratch_bytes.map_or(otherwise.scratch, |it| it.0),
        calls: Calls {
            per_minute: wire.calls_per_minute.map(|it| small(it.0)),
            at_once: wire.calls_at_once.map(|it| small(it.0)),
        },
    }
}

fn milliseconds<const MIN: u64, const MAX: u64>(
    given: Option<wire::Bounded<MIN, MAX>>,
    otherwise: Duration,
) -> Duration {
    given.map_or(otherwise, |it| Duration::from_millis(it.0))
}

fn example(wire: wire::Example) -> Example {
    Example {
        description: wire.description,
        params: wire.params.into_iter().collect(),
        expected: wire.expected_output.and_then(|it| match it {
            Value::Null => None,
            Value::String(text) => Some(text),
            other => Some(other.to_string()),
        }),
    }
}
