//! Repositories below what a tool may write: what stands in a `.git` decides what git runs next, wherever it is.

use std::fs::{self, FileType};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use glee_core::outcome::{Failure, FailureKind};

/// Looked at before it is given up: with more, nobody knows what is there.
const MOST_ENTRIES: usize = 1_000_000;
/// Each is a mount of its own, and so is each directory on the way to it.
const MOST_FOUND: usize = 512;

/// Every `.git` below these directories. What is in one is not looked at, nor what a link leads to: where that lies
/// below them too, it is found there. A link in the place of a `.git` counts for what it leads to.
pub(super) fn below(directories: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    within(directories, MOST_ENTRIES, MOST_FOUND)
}

fn within(
    directories: &[PathBuf],
    most: usize,
    most_found: usize,
) -> Result<Vec<PathBuf>, Failure> {
    let is_gits = |it: &PathBuf| it.iter().any(is_git);
    let mut left: Vec<PathBuf> = directories
        .iter()
        .filter(|it| !is_gits(it))
        .cloned()
        .collect();
    let mut found = Vec::new();
    let mut seen = 0;
    while let Some(directory) = left.pop() {
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(err) => {
                found.extend(unlisted(directory, &err)?);
                continue;
            }
        };
        for entry in entries {
            let entry = entry.map_err(|err| unseen(&directory, &err))?;
            seen += 1;
            if seen > most || found.len() > most_found {
                return Err(too_many(&directory));
            }
            let kind = entry
                .file_type()
                .map_err(|err| unseen(&entry.path(), &err))?;
            if is_git(&entry.file_name()) {
                found.extend(leads_to(entry.path(), kind));
            } else if kind.is_dir() {
                left.push(entry.path());
            }
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// Case is folded, because there are disks that fold it.
fn is_git(name: &std::ffi::OsStr) -> bool {
    name.eq_ignore_ascii_case(".git")
}

/// Where what lies in a directory may not be known, it is protected as a whole: whoever knows a name in it may
/// write there all the same.
fn unlisted(directory: PathBuf, err: &io::Error) -> Result<Option<PathBuf>, Failure> {
    match err.kind() {
        // It went meanwhile.
        ErrorKind::NotFound | ErrorKind::NotADirectory => Ok(None),
        ErrorKind::PermissionDenied => Ok(Some(directory)),
        _ => Err(unseen(&directory, err)),
    }
}

fn leads_to(path: PathBuf, kind: FileType) -> Option<PathBuf> {
    match kind.is_symlink() {
        true => path.canonicalize().ok(),
        false => Some(path),
    }
}

fn unseen(at: &Path, err: &io::Error) -> Failure {
    let message = format!(
        "`{}` cannot be looked at, so nobody knows which git repositories must be protected: {err}",
        at.display()
    );
    Failure::new(FailureKind::PermissionDenied, message)
        .hint("a person takes it out of the project, or gives the tool less to write")
}

fn too_many(at: &Path) -> Failure {
    let message = format!(
        "there are too many files to find every git repository that must be protected; the search got to `{}`",
        at.display()
    );
    Failure::new(FailureKind::PermissionDenied, message).hint(
        "a person takes out of the project what is no part of it, or gives the tool less to write",
    )
}

#[cfg(test)]
mod tests {
    use rustix::fs::{Mode, OFlags};

    use super::*;

    #[test]
    fn found_wherever_they_are() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        for path in [
            "p/.git/x/.git",
            "p/a/.hidden/b/.GIT",
            "p/c",
            "p/real",
            "out/.git",
        ] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        fs::write(root.join("p/c/.git"), "gitdir: elsewhere\n").unwrap();
        for (to, from) in [
            ("../out", "p/out"),
            ("real", "p/d.git"),
            ("../real", "p/c/linked"),
        ] {
            std::os::unix::fs::symlink(to, root.join(from)).unwrap();
        }
        fs::create_dir(root.join("p/e")).unwrap();
        std::os::unix::fs::symlink("../real", root.join("p/e/.git")).unwrap();
        let expected =
            ["p/.git", "p/a/.hidden/b/.GIT", "p/c/.git", "p/real"].map(|it| root.join(it));
        assert_eq!(below(&[root.join("p")]).unwrap(), expected);
        assert_eq!(
            below(&[root.join("p/.git")]).unwrap(),
            [""; 0].map(PathBuf::from)
        );
        // What was not looked at is not taken for nothing.
        for (most, found) in [(5, 512), (1000, 2)] {
            assert!(within(&[root.join("p")], most, found).is_err());
        }
    }

    #[test]
    fn what_cannot_be_looked_at_is_no_nothing() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        let at = |kind: ErrorKind| unlisted(root.clone(), &kind.into());
        assert_eq!(at(ErrorKind::NotFound).unwrap(), None);
        assert_eq!(at(ErrorKind::PermissionDenied).unwrap(), Some(root.clone()));
        assert!(at(ErrorKind::Other).is_err());
        // So deep that its path is too long to be opened.
        let name = "x".repeat(200);
        let mut deep = rustix::fs::open(&root, OFlags::DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..25 {
            rustix::fs::mkdirat(&deep, &name, Mode::RWXU).unwrap();
            deep = rustix::fs::openat(&deep, &name, OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        assert!(below(&[root]).is_err());
    }
}
