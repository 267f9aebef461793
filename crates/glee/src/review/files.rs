//! The files of a tool, as a person sees them who must decide about it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use glee_core::model::ToolSpec;
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

use crate::exec;

/// Most files that are listed: a tool that has more has no digest, and cannot be approved.
const MOST_FILES: usize = 4096;
/// The largest file that is read, and the largest text that is shown: whatever an agent can bring is.
const MOST_BYTES: u64 = 8 << 20;
const LONGEST_SHOWN: usize = 1 << 20;

/// One file of a tool, besides its manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Inside the tool's directory, or from the project's root for what it runs elsewhere.
    pub name: String,
    pub body: Body,
    /// The SHA-256, in hex.
    pub hash: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Text(String),
    /// Something that is no text, or too much of it.
    Bytes(u64),
    Link(PathBuf),
    Unreadable,
}

/// Everything that belongs to a tool, in the order of names.
pub(super) fn of(spec: &ToolSpec, root: &Path) -> Vec<Part> {
    let mut parts = Vec::new();
    let Some(own) = spec.source.parent() else {
        return parts;
    };
    below(own, own, &spec.source, &mut parts);
    if let Some(entry) = exec::entry(spec, root).filter(|it| !it.starts_with(own)) {
        match entry.is_dir() {
            true => below(&entry, root, Path::new(""), &mut parts),
            false => {
                parts.push(part(&entry, root));
                // What a link leads to is what runs.
                let real = entry.canonicalize().ok().filter(|it| *it != entry);
                parts.extend(real.map(|it| part(&it, root)));
            }
        }
    }
    parts
}

/// The hash of each file, by name.
pub(super) fn hashes(parts: &[Part]) -> BTreeMap<String, String> {
    let named = parts.iter().map(|it| (it.name.clone(), it.hash.clone()));
    named.collect()
}

fn below(directory: &Path, from: &Path, but: &Path, parts: &mut Vec<Part>) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|it| it.path()).collect();
    paths.sort();
    for path in paths.iter().filter(|it| *it != but) {
        if parts.len() >= MOST_FILES {
            return;
        }
        match fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => below(path, from, but, parts),
            _ => parts.push(part(path, from)),
        }
    }
}

fn part(path: &Path, from: &Path) -> Part {
    let name = path.strip_prefix(from).unwrap_or(path);
    let body = body(path);
    let hash = match &body {
        (_, Some(hash)) => HEXLOWER.encode(hash),
        (_, None) => String::new(),
    };
    Part {
        name: name.display().to_string(),
        body: body.0,
        hash,
    }
}

fn body(path: &Path) -> (Body, Option<[u8; 32]>) {
    if let Ok(target) = fs::read_link(path) {
        let hash = Sha256::digest(target.as_os_str().as_encoded_bytes()).into();
        return (Body::Link(target), Some(hash));
    }
    // A FIFO would wait for a writer.
    let opened = File::options()
        .read(true)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
        .open(path);
    let Ok(file) = opened else {
        return (Body::Unreadable, None);
    };
    let is_file = file.metadata().is_ok_and(|it| it.is_file());
    let mut bytes = Vec::new();
    if !is_file || file.take(MOST_BYTES).read_to_end(&mut bytes).is_err() {
        return (Body::Unreadable, None);
    }
    let hash = Sha256::digest(&bytes).into();
    let body = match String::from_utf8(bytes) {
        Ok(text) if text.len() <= LONGEST_SHOWN => Body::Text(text),
        Ok(text) => Body::Bytes(text.len() as u64),
        Err(err) => Body::Bytes(err.as_bytes().len() as u64),
    };
    (body, Some(hash))
}
