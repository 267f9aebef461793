//! The manifests of a project, read from `.glee/tools/<name>/tool.yml`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use glee_core::catalog::Snapshot;
use glee_core::model::ToolSpec;
use sha2::{Digest, Sha256};

use crate::dialect::document::{self, Read};
use crate::dialect::manifest::{self, check};
use crate::dialect::problem::{Problem, Severity};

/// One manifest as it was found, whether or not it is any good.
pub struct Document {
    pub directory: String,
    pub path: PathBuf,
    pub text: String,
    pub read: Read<ToolSpec>,
}

impl Document {
    /// The first thing that makes it unusable.
    pub fn error(&self) -> Option<&Problem> {
        self.read
            .problems
            .iter()
            .find(|it| it.severity == Severity::Error)
    }

    /// Compiles the schemas now, so that one that cannot be used makes the manifest unusable.
    pub fn compile(&mut self) {
        if let (Some(spec), Some(node)) = (&self.read.model, &self.read.node) {
            self.read.problems.extend(check::schemas(spec, node));
        }
    }
}

/// What tells a manifest from any other.
pub fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

/// The rule that a directory breaks without one.
const NO_MANIFEST: &str = "no-manifest";

/// So many manifests are read faster by one thread than by several.
const FEW: usize = 32;

/// Reads every manifest below a tools directory. One bad manifest never hides another.
pub fn load(tools: &Path) -> io::Result<Vec<Document>> {
    let mut directories: Vec<PathBuf> = match fs::read_dir(tools) {
        Ok(entries) => entries
            .collect::<io::Result<Vec<_>>>()?
            .into_iter()
            .map(|it| it.path())
            .collect(),
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(err) => return Err(err),
    };
    directories.sort();
    let read = |part: &[PathBuf]| {
        part.iter()
            .filter_map(|it| document(it))
            .collect::<Vec<_>>()
    };
    // A thread costs more than a few documents.
    if directories.len() < FEW {
        return Ok(read(&directories));
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = directories.len().div_ceil(threads).max(1);
    Ok(std::thread::scope(|scope| {
        let workers: Vec<_> = directories
            .chunks(share)
            .map(|part| scope.spawn(move || read(part)))
            .collect();
        workers
            .into_iter()
            .flat_map(|it| it.join().unwrap_or_default())
            .collect()
    }))
}

/// What calls can use of these manifests.
pub fn snapshot(documents: Vec<Document>) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for document in documents {
        let error = document.error();
        let is_gone = error.is_some_and(|it| it.rule == NO_MANIFEST);
        let error = error.map(|it| it.message.clone());
        match (document.read.model, error) {
            (Some(spec), None) => snapshot.insert(spec),
            (_, Some(error)) if is_gone => snapshot.insert_gone(document.directory, error),
            (_, error) => {
                snapshot.insert_broken(
                    document.directory,
                    error.unwrap_or_else(|| "it could not be read".into()),
                );
            }
        }
    }
    snapshot
}

fn document(directory: &Path) -> Option<Document> {
    let name = directory.file_name()?.to_string_lossy().into_owned();
    // Hidden directories and stray files are nobody's tools.
    if name.starts_with('.') || !directory.is_dir() {
        return None;
    }
    let path = directory.join("tool.yml");
    let (text, read) = match document::load(&path) {
        Ok(text) => {
            let read = manifest::read(&text, &name, &path);
            (text, read)
        }
        Err(err) => {
            let (rule, message) = match err.kind() {
                io::ErrorKind::NotFound => {
                    (NO_MANIFEST, "the directory has no tool.yml".to_owned())
                }
                _ => ("unreadable", format!("the file {err}")),
            };
            let problem = Problem::error(rule, 0..0, message);
            (String::new(), Read::failed(problem))
        }
    };
    Some(Document {
        directory: name,
        path,
        text,
        read,
    })
}
