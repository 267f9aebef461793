//! The documents of a flat directory: `.glee/prompts/<name>.yml`, `.glee/resources/<name>.yml`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::dialect::document::{self, Read};
use crate::dialect::problem::{Problem, Severity};

/// One document as it was found, whether or not it is any good.
pub struct Document<T> {
    /// The file's name without `.yml`.
    pub stem: String,
    pub path: PathBuf,
    pub text: String,
    pub read: Read<T>,
}

impl<T> Document<T> {
    /// Its meaning, or the first thing that makes it unusable.
    pub fn usable(self) -> Result<T, (String, String)> {
        let mut problems = self.read.problems.into_iter();
        let error = problems.find(|it| it.severity == Severity::Error);
        match (self.read.model, error) {
            (Some(model), None) => Ok(model),
            (_, Some(error)) => Err((self.stem, error.message)),
            (None, None) => Err((self.stem, "it could not be read".into())),
        }
    }
}

/// Reads every document of a directory, in the order of their names. One bad document never hides
/// another.
pub fn load<T>(directory: &Path, read: fn(&str, &str) -> Read<T>) -> io::Result<Vec<Document<T>>> {
    let mut paths: Vec<PathBuf> = match fs::read_dir(directory) {
        Ok(entries) => entries
            .map(|it| it.map(|it| it.path()))
            .collect::<io::Result<_>>()?,
        Err(err) if err.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(err) => return Err(err),
    };
    paths.sort();
    Ok(paths.into_iter().filter_map(|it| one(it, read)).collect())
}

fn one<T>(path: PathBuf, read: fn(&str, &str) -> Read<T>) -> Option<Document<T>> {
    let stem = path.file_name()?.to_string_lossy();
    let stem = stem.strip_suffix(".yml")?.to_owned();
    // Hidden files are what editors leave behind.
    if stem.starts_with('.') {
        return None;
    }
    let (text, read) = match document::load(&path) {
        Ok(text) => {
            let read = read(&text, &stem);
            (text, read)
        }
        Err(err) => {
            let problem = Problem::error("unreadable", 0..0, format!("the file {err}"));
            (String::new(), Read::failed(problem))
        }
    };
    Some(Document {
        stem,
        path,
        text,
        read,
    })
}
