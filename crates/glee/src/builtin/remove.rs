//! Taking away files and directories of the project: `delete_file`.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use glee_core::outcome::{Failure, FailureKind};
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::list::{below, names};
use super::workspace::{DEEPEST, Ground, Workspace, failure, invalid, shown};
use super::{Stop, blocking};
use crate::native::{About, Context, NativeTool};

/// Files and directories that one call takes away.
const MOST: usize = 100_000;

pub(super) struct DeleteFile(pub(super) Ground);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    /// The file or directory, from the project's root
    path: String,
    /// Whether a directory is deleted with everything in it
    #[serde(default)]
    recursive: bool,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Output {
    /// What was deleted, from the project's root
    deleted: Vec<String>,
}

impl NativeTool for DeleteFile {
    type Input = Input;
    type Output = Output;

    fn about(&self) -> About {
        About::new(
            "delete_file",
            "Delete a file or a directory of the project; a person is always asked.",
        )
        .reads(&["."])
        .writes(&["."])
        .tags(&["files"])
        .destructive()
    }

    fn refuses(&self, input: &Input, workspace: &Path) -> Result<(), Failure> {
        let workspace = Workspace::open(workspace, &self.0)?;
        let path = workspace.changeable(&input.path)?;
        let (directory, name) = workspace.place(&path)?;
        let found = rustix::fs::statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW);
        found.map(|_| ()).map_err(|err| failure(&path, err))
    }

    fn asks(&self, input: &Input, _: &Path) -> Option<String> {
        Some(match input.recursive {
            true => format!("it deletes `{}` and everything in it", input.path),
            false => format!("it deletes `{}`", input.path),
        })
    }

    async fn run(&self, input: Input, context: Context<'_>) -> Result<Output, Failure> {
        let (root, ground) = (context.workspace().to_owned(), self.0.clone());
        blocking(move |stop| delete(&Workspace::open(&root, &ground)?, &input, stop)).await
    }
}

pub(super) fn delete(workspace: &Workspace, input: &Input, stop: &Stop) -> Result<Output, Failure> {
    let path = workspace.changeable(&input.path)?;
    let (directory, name) = workspace.place(&path)?;
    let mut deletion = Deletion {
        workspace,
        stop,
        recursive: input.recursive,
        found: 0,
        deleted: Vec::new(),
    };
    // Whether all of it may go is known before the first of it is gone.
    deletion.check(directory.as_fd(), &name, &path)?;
    let gone = deletion.remove(directory.as_fd(), &name, &path);
    // What is gone is gone, and told also when the rest is not.
    gone.map_err(|failure| failure.with("deleted", deletion.deleted.clone()))?;
    Ok(Output {
        deleted: deletion.deleted,
    })
}

/// A directory and everything in it.
pub(super) fn all(workspace: &Workspace, path: &str, stop: &Stop) -> Result<Output, Failure> {
    let input = Input {
        path: path.to_owned(),
        recursive: true,
    };
    delete(workspace, &input, stop)
}

struct Deletion<'a> {
    workspace: &'a Workspace,
    stop: &'a Stop,
    recursive: bool,
    found: usize,
    deleted: Vec<String>,
}

impl Deletion<'_> {
    fn check(&mut self, at: BorrowedFd<'_>, name: &OsStr, path: &Path) -> Result<(), Failure> {
        self.stop.check()?;
        self.found += 1;
        if self.found > MOST {
            let message = format!("it holds more than {MOST} files and directories");
            return Err(Failure::new(FailureKind::InvalidInput, message)
                .hint("delete what is in it part by part"));
        }
        if path.components().count() > DEEPEST {
            return Err(invalid(path, "lies too deep to be deleted"));
        }
        self.workspace.check_changeable(path)?;
        if !is_directory(at, name, path)? {
            return Ok(());
        }
        let inside = below(at, name).map_err(|err| failure(path, err))?;
        let inner = names(inside.as_fd()).map_err(|err| failure(path, err))?;
        if !inner.is_empty() && !self.recursive {
            return Err(
                invalid(path, "is a directory, and not empty").hint("set recursive to delete it")
            );
        }
        for name in inner {
            self.check(inside.as_fd(), &name, &path.join(&name))?;
        }
        Ok(())
    }

    /// What is in a directory goes before the directory. A link goes, and not what it leads to.
    fn remove(&mut self, at: BorrowedFd<'_>, name: &OsStr, path: &Path) -> Result<(), Failure> {
        let failed = |err| failure(path, err);
        let flags = match is_directory(at, name, path)? {
            true => {
                let inside = below(at, name).map_err(failed)?;
                for inner in names(inside.as_fd()).map_err(failed)? {
                    if !self.recursive {
                        break;
                    }
                    let path: PathBuf = path.join(&inner);
                    self.workspace.check_changeable(&path)?;
                    self.remove(inside.as_fd(), &inner, &path)?;
                }
                AtFlags::REMOVEDIR
            }
            false => AtFlags::empty(),
        };
        self.stop.check()?;
        match rustix::fs::unlinkat(at, name, flags) {
            Ok(()) => self.deleted.push(shown(path)),
            // Somebody else was faster.
            Err(Errno::NOENT) => {}
            Err(Errno::NOTEMPTY) => {
                return Err(invalid(
                    path,
                    "is not empty; something was put in it meanwhile",
                ));
            }
            Err(err) => return Err(failed(err)),
        }
        Ok(())
    }
}

fn is_directory(at: BorrowedFd<'_>, name: &OsStr, path: &Path) -> Result<bool, Failure> {
    let found = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|err| failure(path, err))?;
    Ok(FileType::from_raw_mode(found.st_mode) == FileType::Directory)
}
