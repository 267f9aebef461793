//! The digest of a tool: one SHA-256 over its manifest, the files of its directory, and the file it
//! runs. Whoever has seen a digest can tell whether the tool is still the same.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use glee_core::model::ToolSpec;
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

/// Most files and most bytes of one tool. A digest that left something out would promise too much, so
/// a tool beyond this has none.
const MOST_FILES: usize = 4096;
const MOST_BYTES: u64 = 64 << 20;

/// What changes when anything here is written down in another way.
const FORM: &[u8] = b"glee tool digest 1\0";

/// The contents of programs that stand outside of a tool's directory. Many tools may run the same
/// one, and it may be large.
#[derive(Default)]
pub struct Programs(HashMap<PathBuf, Contents>);

#[derive(Clone, Copy)]
struct Contents {
    hash: [u8; 32],
    length: u64,
}

/// In lower-case hex. `entry` is what the tool runs, wherever that is: a file, or the directory of a
/// package.
pub fn digest(
    spec: &ToolSpec,
    entry: Option<&Path>,
    root: &Path,
    programs: &mut Programs,
) -> Option<String> {
    let mut sum = Sum {
        hash: Sha256::new_with_prefix(FORM),
        files: MOST_FILES,
        bytes: MOST_BYTES,
    };
    sum.hash.update(spec.document);
    let own = spec.source.parent()?;
    sum.below(own, Path::new(""), &spec.source).ok()?;
    if let Some(entry) = entry.filter(|it| !is_inside(it, own)) {
        let name = entry.strip_prefix(root).unwrap_or(entry);
        match entry.is_dir() {
            true => sum.below(entry, name, Path::new("")).ok()?,
            false => sum.program(entry, name, programs).ok()?,
        }
    }
    Some(HEXLOWER.encode(&sum.hash.finalize()))
}

/// Whether the walk through a directory meets the file itself, and not a link to it.
fn is_inside(entry: &Path, directory: &Path) -> bool {
    match (entry.canonicalize(), directory.canonicalize()) {
        (Ok(entry), Ok(directory)) => entry.starts_with(directory),
        _ => false,
    }
}

/// There is more than one digest may cover.
struct TooMuch;

struct Sum {
    hash: Sha256,
    files: usize,
    bytes: u64,
}

impl Sum {
    /// Everything below a directory, in the order of names, but for one file.
    fn below(&mut self, directory: &Path, name: &Path, but: &Path) -> Result<(), TooMuch> {
        let Ok(entries) = fs::read_dir(directory) else {
            return self.record(b'-', name, b"");
        };
        let mut paths: Vec<PathBuf> = Vec::new();
        for entry in entries.flatten() {
            if paths.len() >= self.files {
                return Err(TooMuch);
            }
            paths.push(entry.path());
        }
        paths.sort();
        for path in paths.iter().filter(|it| *it != but) {
            let Some(last) = path.file_name() else {
                continue;
            };
            let name = name.join(last);
            match fs::symlink_metadata(path) {
                // Python writes there what it makes of the modules.
                Ok(found) if found.is_dir() && last == "__pycache__" => {}
                Ok(found) if found.is_dir() => self.below(path, &name, but)?,
                Ok(found) if found.is_symlink() => {
                    let target = fs::read_link(path).unwrap_or_default();
                    self.record(b'l', &name, target.as_os_str().as_bytes())?;
                }
                _ => self.file(path, &name)?,
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, name: &Path) -> Result<(), TooMuch> {
        let contents = contents(path, self.bytes);
        self.contents(name, contents)
    }

    fn program(
        &mut self,
        path: &Path,
        name: &Path,
        programs: &mut Programs,
    ) -> Result<(), TooMuch> {
        let known = programs.0.get(path).copied();
        let contents = match known {
            Some(known) => Ok(Some(known)),
            None => contents(path, self.bytes),
        };
        if let Ok(Some(read)) = contents {
            programs.0.insert(path.to_owned(), read);
        }
        self.contents(name, contents)
    }

    fn contents(
        &mut self,
        name: &Path,
        contents: io::Result<Option<Contents>>,
    ) -> Result<(), TooMuch> {
        match contents {
            Ok(Some(it)) => {
                self.bytes = self.bytes.checked_sub(it.length).ok_or(TooMuch)?;
                self.record(b'f', name, &it.hash)
            }
            Ok(None) => Err(TooMuch),
            // What cannot be read is no secret way to change a tool: when it can be, the digest is
            // another one.
            Err(_) => self.record(b'-', name, b""),
        }
    }

    /// Lengths go before what they are of, so that no two different tools write the same.
    fn record(&mut self, kind: u8, name: &Path, what: &[u8]) -> Result<(), TooMuch> {
        self.files = self.files.checked_sub(1).ok_or(TooMuch)?;
        let name = name.as_os_str().as_bytes();
        self.hash.update([kind]);
        for part in [name, what] {
            self.hash.update((part.len() as u64).to_le_bytes());
            self.hash.update(part);
        }
        Ok(())
    }
}

/// `None` when there is more than `most`.
fn contents(path: &Path, most: u64) -> io::Result<Option<Contents>> {
    // A FIFO would wait for a writer.
    let mut file = File::options()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let (mut hash, mut length) = (Sha256::new(), 0);
    let mut chunk = [0; 16 << 10];
    loop {
        let read = file.read(&mut chunk)?;
        if read == 0 {
            let hash = hash.finalize().into();
            return Ok(Some(Contents { hash, length }));
        }
        length += read as u64;
        if length > most {
            return Ok(None);
        }
        hash.update(&chunk[..read]);
    }
}
