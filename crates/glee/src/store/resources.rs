//! What a resource holds, read: its text filled in, its file from inside the project, its bytes.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use data_encoding::BASE64;
use glee_core::content::Body;
use glee_core::outcome::{Failure, FailureKind};
use glee_core::resource::{Contents, Holds, Resource};
use glee_core::secret::SecretValues;
use glee_core::template::Scope;
use rustix::fs::{Mode, OFlags, open, openat};
use serde_json::{Map, Value};

/// Largest file, in bytes.
pub const MAX_FILE: u64 = 8 << 20;

/// Reads a resource under a URI whose parts fill the holes of its pattern.
pub fn read(
    resource: &Resource,
    uri: &str,
    holes: &Map<String, Value>,
    root: &Path,
) -> Result<Contents, Failure> {
    let body = match &resource.holds {
        Holds::Text(text) => {
            let secrets = SecretValues::default();
            let filled = text.text(&Scope::new(holes, &secrets));
            Body::Text(filled.map_err(too_large)?.unwrap_or_default())
        }
        Holds::Base64(data) => Body::Blob(data.clone()),
        Holds::File(path) => match String::from_utf8(read_file(root, path)?) {
            Ok(text) => Body::Text(text),
            Err(err) => Body::Blob(BASE64.encode(err.as_bytes())),
        },
    };
    Ok(Contents {
        uri: uri.to_owned(),
        mime_type: resource.mime_type.clone(),
        body,
    })
}

fn too_large(err: glee_core::template::TooLarge) -> Failure {
    Failure::new(FailureKind::InvalidInput, err.to_string())
}

/// The bytes of a file inside the project, wherever links on the way lead.
pub fn read_file(root: &Path, path: &str) -> Result<Vec<u8>, Failure> {
    let refuse = |kind, why: String| Failure::new(kind, format!("the file `{path}` {why}"));
    let missing = |err: io::Error| match err.kind() {
        io::ErrorKind::NotFound => refuse(FailureKind::FileNotFound, "does not exist".into()),
        _ => refuse(FailureKind::FileNotFound, format!("cannot be read: {err}")),
    };
    let real = root.join(path).canonicalize().map_err(missing)?;
    let inside = real
        .strip_prefix(root)
        .map_err(|_| refuse(FailureKind::InvalidPath, "leads out of the project".into()))?;
    let file = open_inside(root, inside).map_err(missing)?;
    let found = file.metadata().map_err(missing)?;
    if !found.is_file() {
        return Err(refuse(
            FailureKind::InvalidPath,
            "is not a regular file".into(),
        ));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(missing)?;
    if bytes.len() as u64 > MAX_FILE {
        let why = format!("is larger than {} MiB", MAX_FILE >> 20);
        return Err(refuse(FailureKind::InvalidPath, why));
    }
    Ok(bytes)
}

/// Opens step by step and follows no link: the path was resolved before, and what has become a link
/// since then was put there to lead out. A FIFO would wait for a writer, hence NONBLOCK.
fn open_inside(root: &Path, inside: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut at: OwnedFd = open(root, flags | OFlags::DIRECTORY, Mode::empty())?;
    let mut steps = inside.components().peekable();
    while let Some(Component::Normal(step)) = steps.next() {
        let kind = match steps.peek() {
            Some(_) => OFlags::DIRECTORY,
            None => OFlags::NONBLOCK,
        };
        at = openat(&at, step, flags | kind, Mode::empty())?;
    }
    Ok(at.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn kind(root: &Path, path: &str) -> Result<Vec<u8>, FailureKind> {
        read_file(root, path).map_err(|it| it.kind)
    }

    #[test]
    fn only_files_inside_are_read() {
        let place = tempfile::tempdir().unwrap();
        let outer = place.path().canonicalize().unwrap();
        let root = outer.join("project");
        std::fs::create_dir_all(root.join("docs")).unwrap();
        std::fs::write(root.join("docs/a.txt"), "inside").unwrap();
        std::fs::write(outer.join("secret"), "outside").unwrap();
        symlink(outer.join("secret"), root.join("link")).unwrap();
        symlink(&outer, root.join("up")).unwrap();
        symlink(root.join("docs/a.txt"), root.join("near")).unwrap();
        symlink("/dev/zero", root.join("zero")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            root.join("fifo"),
            rustix::fs::FileType::Fifo,
            Mode::RUSR,
            0,
        )
        .unwrap();
        assert_eq!(kind(&root, "docs/a.txt"), Ok(b"inside".to_vec()));
        assert_eq!(kind(&root, "docs/../near"), Ok(b"inside".to_vec()));
        for path in [
            "link",
            "up/secret",
            "../secret",
            "zero",
            "fifo",
            "docs",
            ".",
        ] {
            assert_eq!(kind(&root, path), Err(FailureKind::InvalidPath), "{path}");
        }
        let absolute = outer.join("secret").display().to_string();
        assert_eq!(kind(&root, &absolute), Err(FailureKind::InvalidPath));
        assert_eq!(kind(&root, "nothing"), Err(FailureKind::FileNotFound));
    }

    #[test]
    fn a_link_that_appears_after_the_check_is_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("outside")).unwrap();
        std::fs::write(root.join("outside/x"), "outside").unwrap();
        symlink("outside", root.join("directory")).unwrap();
        symlink("outside/x", root.join("file")).unwrap();
        for path in ["directory/x", "file"] {
            assert!(open_inside(&root, Path::new(path)).is_err(), "{path}");
        }
    }

    #[test]
    fn a_file_is_bounded() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let file = File::create(root.join("large")).unwrap();
        file.set_len(MAX_FILE).unwrap();
        assert_eq!(kind(&root, "large").map(|it| it.len() as u64), Ok(MAX_FILE));
        file.set_len(MAX_FILE + 1).unwrap();
        assert_eq!(kind(&root, "large"), Err(FailureKind::InvalidPath));
    }
}
