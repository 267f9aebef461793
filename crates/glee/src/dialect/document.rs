//! A YAML document held against the schema of what it should be, with every problem at its place.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::LazyLock;

use glee_core::schema::{Breach, Schema, Violation};
use rustix::fs::OFlags;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::problem::Problem;
use super::strict;
use super::yaml::{self, Node};

/// A document that was read. What it means may be used only when no problem is an error.
pub struct Read<T> {
    pub model: Option<T>,
    pub problems: Vec<Problem>,
    pub node: Option<Node>,
}

impl<T> Read<T> {
    /// Nothing could be made of it.
    pub fn failed(problem: Problem) -> Read<T> {
        Read {
            model: None,
            problems: vec![problem],
            node: None,
        }
    }
}

/// Largest document, in bytes.
pub const MAX_BYTES: u64 = 1 << 20;

/// Reads `text` as a `T`. With problems there may still be a `T`, made without the keys that nobody
/// knows and with `stand_ins` for top-level keys that are missing or wrong, for those who want to
/// find every problem in one run; it is not to be used for more.
pub fn read<T: DeserializeOwned>(
    text: &str,
    schema: &LazyLock<Schema>,
    stand_ins: &[(&str, &str)],
) -> (Option<T>, Option<Node>, Vec<Problem>) {
    let (node, mut problems) = yaml::parse(text);
    let Some(node) = node else {
        if problems.is_empty() {
            problems.push(Problem::error("empty", 0..0, "the document is empty"));
        }
        return (None, None, problems);
    };
    let value = node.to_value();
    // The schema is generated from `T`, so what deserialises needs no second look; holding a
    // document against the schema costs more than all the rest, and is for finding every problem.
    let first = strict::from_value(value.clone());
    match first {
        Ok(document) => (Some(document), Some(node), problems),
        Err(err) => {
            let violations = schema.violations(&value);
            if violations.is_empty() {
                problems.push(Problem::error("schema", node.place_of(""), err.to_string()));
                return (None, Some(node), problems);
            }
            problems.extend(violations.iter().map(|it| problem(it, &node)));
            let mut value = value;
            repair(&mut value, &violations, stand_ins);
            (strict::from_value(value).ok(), Some(node), problems)
        }
    }
}

fn repair(value: &mut Value, violations: &[Violation], stand_ins: &[(&str, &str)]) {
    for violation in violations {
        if let (Breach::Unknown { .. }, Some((parent, key))) =
            (&violation.breach, violation.pointer.rsplit_once('/'))
            && let Some(Value::Object(map)) = value.pointer_mut(parent)
        {
            map.shift_remove(&key.replace("~1", "/").replace("~0", "~"));
        }
    }
    let Value::Object(map) = value else { return };
    for (key, stand_in) in stand_ins {
        let wrong = violations
            .iter()
            .any(|it| it.breach == Breach::Other && it.pointer.split('/').nth(1) == Some(*key));
        if wrong || !map.contains_key(*key) {
            map.insert(
                (*key).to_owned(),
                serde_json::from_str(stand_in).unwrap_or_default(),
            );
        }
    }
}

fn problem(violation: &Violation, node: &Node) -> Problem {
    let pointer = violation.pointer.as_str();
    match &violation.breach {
        Breach::Unknown { nearest } => Problem {
            fix: nearest
                .as_ref()
                .map(|near| format!("did you mean `{near}`?")),
            ..Problem::error(
                "unknown-key",
                node.key_place_of(pointer),
                violation
                    .message
                    .split("; did you mean")
                    .next()
                    .unwrap_or_default(),
            )
        },
        Breach::Other if pointer.is_empty() => {
            Problem::error("schema", node.place_of(pointer), &violation.message)
        }
        Breach::Other => Problem::error(
            "schema",
            node.place_of(pointer),
            format!("{}: {}", pointer[1..].replace('/', "."), violation.message),
        ),
    }
}

/// The text of a document: a regular file of bounded size, in UTF-8.
pub fn load(path: &Path) -> io::Result<String> {
    let refuse = |why: String| Err(io::Error::new(io::ErrorKind::InvalidData, why));
    // Opening a FIFO would wait for a writer, and some files of /proc, which look regular, for the
    // kernel to say something.
    let file = File::options()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return refuse("is not a regular file".into());
    }
    // Otherwise it is read in small pieces, and there may be thousands of documents.
    let mut bytes = Vec::with_capacity(found.len().min(MAX_BYTES) as usize + 1);
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return refuse(format!("is larger than {} KiB", MAX_BYTES >> 10));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(err) => refuse(format!(
            "is not UTF-8 (byte {})",
            err.utf8_error().valid_up_to()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_wait_is_not_read() {
        for path in ["/proc/kmsg", "/dev/tty", "/dev/zero", "/"] {
            assert!(load(Path::new(path)).is_err(), "{path}");
        }
    }
}
