//! The digest of a tool: one SHA-256 over its manifest, the files of its directory, and what it
//! runs elsewhere. Whoever has seen a digest can tell whether the tool is still the same.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use glee_core::model::{Exec, ToolSpec};
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

/// Most files and most bytes of one tool. A digest that left something out would promise too much, so
/// a tool beyond this has none.
const MOST_FILES: usize = 4096;
const MOST_BYTES: u64 = 64 << 20;
/// The longest text that is shown to a person: whatever an agent can bring is.
pub const LONGEST_SHOWN: usize = 1 << 20;

/// What changes when anything here is written down in another way.
const FORM: &[u8] = b"glee tool digest 2\0";

/// The contents of programs that stand outside of a tool's directory. Many tools may run the same
/// one, and it may be large.
#[derive(Default)]
pub struct Programs(HashMap<PathBuf, Contents>);

#[derive(Clone)]
struct Contents {
    hash: [u8; 32],
    length: u64,
    start: Vec<u8>,
}

/// One thing that a digest was made of, besides the manifest.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Inside the tool's directory, or from the project's root for what it runs elsewhere.
    pub name: PathBuf,
    pub found: Found,
}

#[derive(Clone, Debug)]
pub enum Found {
    File {
        hash: [u8; 32],
        length: u64,
        /// The whole of it, unless it is longer than `LONGEST_SHOWN`.
        start: Vec<u8>,
    },
    /// Where a link leads in the end; what it says where it leads nowhere.
    Link(PathBuf),
    Unreadable,
}

/// In lower-case hex. `entries` are what the tool runs, wherever that is: files, or the directory of
/// a package.
pub fn digest(
    spec: &ToolSpec,
    entries: &[PathBuf],
    root: &Path,
    programs: &mut Programs,
) -> Option<String> {
    let mut sum = Sum::new(spec, root, None);
    sum.tool(spec, entries, programs).ok()?;
    Some(HEXLOWER.encode(&sum.hash.finalize()))
}

/// A digest together with what it was made of. Each file is read once for both, so that nobody can
/// be shown one thing and decide about another.
pub fn seen(spec: &ToolSpec, entries: &[PathBuf], root: &Path) -> Option<(String, Vec<Piece>)> {
    let mut sum = Sum::new(spec, root, Some(Vec::new()));
    sum.tool(spec, entries, &mut Programs::default()).ok()?;
    let digest = HEXLOWER.encode(&sum.hash.finalize());
    Some((digest, sum.seen.unwrap_or_default()))
}

/// There is more than one digest may cover.
struct TooMuch;

struct Sum<'a> {
    hash: Sha256,
    files: usize,
    bytes: u64,
    root: &'a Path,
    /// glee's own python takes no notice of what an earlier one made of a module. Whatever else a tool
    /// starts may.
    compiled: Compiled,
    seen: Option<Vec<Piece>>,
}

#[derive(PartialEq, Eq)]
enum Compiled {
    Counts,
    IsIgnored,
}

impl<'a> Sum<'a> {
    fn new(spec: &ToolSpec, root: &'a Path, seen: Option<Vec<Piece>>) -> Sum<'a> {
        Sum {
            hash: Sha256::new_with_prefix(FORM),
            files: MOST_FILES,
            bytes: MOST_BYTES,
            root,
            compiled: match &spec.exec {
                Exec::Python(_) => Compiled::IsIgnored,
                _ => Compiled::Counts,
            },
            seen,
        }
    }

    fn tool(
        &mut self,
        spec: &ToolSpec,
        entries: &[PathBuf],
        programs: &mut Programs,
    ) -> Result<(), TooMuch> {
        self.hash.update(spec.document);
        if spec.source.as_os_str().is_empty() {
            return Err(TooMuch);
        }
        if let Some(own) = spec.directory() {
            self.below(own, Path::new(""), &spec.source)?;
        }
        let own = spec.directory().and_then(|it| it.canonicalize().ok());
        for entry in entries {
            let name = self.name(entry);
            let Ok(real) = entry.canonicalize() else {
                self.unreadable(&name)?;
                continue;
            };
            let real_name = self.name(&real);
            if real_name != name {
                self.link(&name, &real_name, &[])?;
            }
            // The walk has met it.
            if own.as_ref().is_some_and(|own| real.starts_with(own)) {
                continue;
            }
            match real.is_dir() {
                true => self.below(&real, &real_name, Path::new(""))?,
                false => self.program(&real, &real_name, programs)?,
            }
        }
        Ok(())
    }

    /// From the project's root, so that it is the same for every copy of the project.
    fn name(&self, path: &Path) -> PathBuf {
        let real_root = self.root.canonicalize();
        let inside = path
            .strip_prefix(self.root)
            .or_else(|_| path.strip_prefix(real_root.as_deref().unwrap_or(self.root)));
        inside.unwrap_or(path).to_owned()
    }

    /// Everything below a directory, in the order of names, but for one file.
    fn below(&mut self, directory: &Path, name: &Path, but: &Path) -> Result<(), TooMuch> {
        let Ok(entries) = fs::read_dir(directory) else {
            return self.unreadable(name);
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
                Ok(found) if found.is_dir() => self.below(path, &name, but)?,
                Ok(found) if found.is_symlink() => {
                    let says = fs::read_link(path).unwrap_or_default();
                    // It may lead to another link, which may be turned.
                    let leads = path.canonicalize().map(|it| self.name(&it));
                    let leads = leads.as_deref().unwrap_or(&says);
                    self.link(&name, leads, says.as_os_str().as_bytes())?;
                }
                _ if self.compiled == Compiled::IsIgnored && is_compiled(path) => {}
                _ => {
                    let contents = self.read(path);
                    self.contents(&name, contents)?;
                }
            }
        }
        Ok(())
    }

    fn program(
        &mut self,
        path: &Path,
        name: &Path,
        programs: &mut Programs,
    ) -> Result<(), TooMuch> {
        let contents = match programs.0.get(path) {
            Some(known) => Ok(Some(known.clone())),
            None => self.read(path),
        };
        if let Ok(Some(read)) = &contents {
            programs.0.insert(path.to_owned(), read.clone());
        }
        self.contents(name, contents)
    }

    fn read(&self, path: &Path) -> io::Result<Option<Contents>> {
        let keep = match &self.seen {
            Some(_) => LONGEST_SHOWN,
            None => 0,
        };
        contents(path, self.bytes, keep)
    }

    fn contents(
        &mut self,
        name: &Path,
        contents: io::Result<Option<Contents>>,
    ) -> Result<(), TooMuch> {
        match contents {
            Ok(Some(it)) => {
                self.bytes = self.bytes.checked_sub(it.length).ok_or(TooMuch)?;
                self.record(b'f', name, &it.hash)?;
                let Contents {
                    hash,
                    length,
                    start,
                } = it;
                self.show(
                    name,
                    Found::File {
                        hash,
                        length,
                        start,
                    },
                );
                Ok(())
            }
            Ok(None) => Err(TooMuch),
            Err(_) => self.unreadable(name),
        }
    }

    fn link(&mut self, name: &Path, leads: &Path, says: &[u8]) -> Result<(), TooMuch> {
        // No path has a zero in it.
        let both = [leads.as_os_str().as_bytes(), says].join(&0);
        self.record(b'l', name, &both)?;
        self.show(name, Found::Link(leads.to_owned()));
        Ok(())
    }

    /// What cannot be read is no secret way to change a tool: when it can be, the digest is another
    /// one.
    fn unreadable(&mut self, name: &Path) -> Result<(), TooMuch> {
        self.record(b'-', name, b"")?;
        self.show(name, Found::Unreadable);
        Ok(())
    }

    fn show(&mut self, name: &Path, found: Found) {
        if let Some(seen) = &mut self.seen {
            let name = name.to_owned();
            seen.push(Piece { name, found });
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

fn is_compiled(path: &Path) -> bool {
    let within = path.parent().and_then(Path::file_name);
    within.is_some_and(|it| it == "__pycache__") && path.extension().is_some_and(|it| it == "pyc")
}

/// `None` when there is more than `most`. Of what is there, the first `keep` bytes are kept.
fn contents(path: &Path, most: u64, keep: usize) -> io::Result<Option<Contents>> {
    // A FIFO would wait for a writer.
    let mut file = File::options()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let (mut hash, mut length, mut start) = (Sha256::new(), 0, Vec::new());
    let mut chunk = [0; 16 << 10];
    loop {
        let read = file.read(&mut chunk)?;
        if read == 0 {
            let hash = hash.finalize().into();
            return Ok(Some(Contents {
                hash,
                length,
                start,
            }));
        }
        length += read as u64;
        if length > most {
            return Ok(None);
        }
        hash.update(&chunk[..read]);
        let kept = read.min(keep.saturating_sub(start.len()));
        start.extend_from_slice(&chunk[..kept]);
    }
}
