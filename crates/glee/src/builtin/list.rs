//! Listing a directory of the project: `list_directory`, `list_files`, `tool_ls`.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use data_encoding::BASE64URL_NOPAD;
use glee_core::outcome::{Failure, FailureKind};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::workspace::{DEEPEST, Ground, Workspace, failure, invalid};
use super::{blocking, time};
use crate::native::{About, Context, NativeTool};

/// Entries of one answer.
const MOST: usize = 1000;
/// Names of one directory, which are read before any is shown.
const MOST_NAMES: usize = 1_000_000;

pub(super) struct ListDirectory(pub(super) Ground);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Input {
    /// The directory, from the project's root
    path: String,
    /// Whether directories below are listed too
    #[serde(default)]
    recursive: bool,
    /// Whether names that begin with a dot are listed too
    #[serde(default)]
    include_hidden: bool,
    /// What the answer before said, to get what comes after it
    #[serde(default)]
    cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Output {
    entries: Vec<Entry>,
    /// For the next call, when there is more
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Entry {
    /// Its name; its path from the listed directory, when those below are listed too
    name: String,
    /// A pipe, a socket or a device counts as a file
    r#type: Kind,
    /// In bytes
    size: u64,
    /// When it was last written
    #[serde(skip_serializing_if = "String::is_empty")]
    modified: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Kind {
    File,
    Directory,
    Symlink,
}

impl NativeTool for ListDirectory {
    type Input = Input;
    type Output = Output;

    fn about(&self) -> About {
        about(
            "list_directory",
            "List files and directories of the project, 1 000 at once.",
        )
    }

    async fn run(&self, input: Input, context: Context<'_>) -> Result<Output, Failure> {
        let (root, ground) = (context.workspace().to_owned(), self.0.clone());
        blocking(move |_| list(&Workspace::open(&root, &ground)?, &input)).await
    }
}

/// `list_files` and `tool_ls`: the names, types and sizes of one directory.
pub(super) struct Plain {
    pub(super) name: &'static str,
    pub(super) ground: Ground,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Directory {
    /// The directory, from the project's root
    path: String,
    /// What the answer before said, to get what comes after it
    #[serde(default)]
    cursor: Option<String>,
}

impl NativeTool for Plain {
    type Input = Directory;
    type Output = Output;

    fn about(&self) -> About {
        about(
            self.name,
            "List the names, types and sizes of what is in a directory of the project.",
        )
    }

    async fn run(&self, input: Directory, context: Context<'_>) -> Result<Output, Failure> {
        let (root, ground) = (context.workspace().to_owned(), self.ground.clone());
        let input = Input {
            path: input.path,
            recursive: false,
            include_hidden: true,
            cursor: input.cursor,
        };
        let mut listed = blocking(move |_| list(&Workspace::open(&root, &ground)?, &input)).await?;
        for entry in &mut listed.entries {
            entry.modified.clear();
        }
        Ok(listed)
    }
}

fn about(name: &str, description: &str) -> About {
    About::new(name, description)
        .reads(&["."])
        .tags(&["files"])
        .read_only()
}

pub(super) fn list(workspace: &Workspace, input: &Input) -> Result<Output, Failure> {
    let path = workspace.inside(&input.path)?;
    let directory = workspace.directory(&path)?;
    let mut walk = Walk {
        workspace,
        below: &path,
        hidden: input.include_hidden,
        recursive: input.recursive,
        entries: Vec::new(),
        last: PathBuf::new(),
    };
    let after = input.cursor.as_deref().map(after).transpose()?;
    let after: Vec<&OsStr> = after.iter().flat_map(|it| it.iter()).collect();
    let more = walk
        .directory(directory, Path::new(""), &after)
        .map_err(|err| match err {
            Errno::TOOBIG => invalid(&path, "holds too many names"),
            err => failure(&path, err),
        })?;
    let cursor = more.then(|| BASE64URL_NOPAD.encode(walk.last.as_os_str().as_encoded_bytes()));
    Ok(Output {
        entries: walk.entries,
        cursor,
    })
}

/// The path that a cursor stands for. Its bytes, because a name need not be text.
fn after(cursor: &str) -> Result<PathBuf, Failure> {
    let bytes = BASE64URL_NOPAD.decode(cursor.as_bytes()).map_err(|_| {
        Failure::new(FailureKind::InvalidInput, "this is no cursor")
            .hint("give what the answer before said, or nothing to begin anew")
    })?;
    Ok(PathBuf::from(OsString::from_vec(bytes)))
}

/// Goes through directories in the order of their names, what is in a directory right after it.
struct Walk<'a> {
    workspace: &'a Workspace,
    /// What is listed, from the project's root.
    below: &'a Path,
    hidden: bool,
    recursive: bool,
    entries: Vec<Entry>,
    /// The path of the last of them.
    last: PathBuf,
}

impl Walk<'_> {
    /// Lists what comes after the names of the cursor. Whether there is more than fits.
    fn directory(
        &mut self,
        directory: OwnedFd,
        prefix: &Path,
        after: &[&OsStr],
    ) -> Result<bool, Errno> {
        let (past, deeper) = match after.split_first() {
            Some((first, rest)) => (Some(*first), rest),
            None => (None, after),
        };
        let mut names = unordered(directory.as_fd())?;
        names.retain(|it| {
            (self.hidden || !it.as_encoded_bytes().starts_with(b"."))
                && past.is_none_or(|past| it.as_os_str() >= past)
        });
        // Of a large directory only those that fit are put in order, and the one that goes on.
        let fitting = MOST - self.entries.len() + 2;
        let goes_on = names.len() > fitting;
        if goes_on {
            names.select_nth_unstable(fitting);
            names.truncate(fitting);
        }
        names.sort_unstable();
        for name in names {
            let was_listed = past == Some(name.as_os_str());
            let path = prefix.join(&name);
            let found = match rustix::fs::statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) => found,
                // It is gone since.
                Err(Errno::NOENT) => {
                    self.last = path;
                    continue;
                }
                Err(err) => return Err(err),
            };
            let kind = match FileType::from_raw_mode(found.st_mode) {
                FileType::Directory => Kind::Directory,
                FileType::Symlink => Kind::Symlink,
                _ => Kind::File,
            };
            let enter =
                self.recursive && kind == Kind::Directory && path.components().count() < DEEPEST;
            if !was_listed {
                if self.entries.len() == MOST {
                    return Ok(true);
                }
                self.entries.push(Entry {
                    name: path.to_string_lossy().into_owned(),
                    r#type: kind,
                    size: found.st_size as u64,
                    modified: time(&found),
                });
                self.last.clone_from(&path);
            }
            // What may not be read, or was replaced by a link meanwhile, is listed and not entered.
            if enter && let Ok(below) = self.enter(directory.as_fd(), &name, &path) {
                let after = if was_listed { deeper } else { &[] };
                if self.directory(below, &path, after)? {
                    return Ok(true);
                }
            }
        }
        Ok(goes_on)
    }

    fn enter(&self, at: BorrowedFd<'_>, name: &OsStr, path: &Path) -> Result<OwnedFd, Failure> {
        let path = self.below.join(path);
        let entered = below(at, name).map_err(|err| failure(&path, err))?;
        self.workspace.check_place(&path, entered.as_fd())?;
        Ok(entered)
    }
}

/// A directory in a directory, and no link to one.
pub(super) fn below(directory: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::empty())
}

/// The names in a directory, in order.
pub(super) fn names(directory: BorrowedFd<'_>) -> Result<Vec<OsString>, Errno> {
    let mut names = unordered(directory)?;
    names.sort_unstable();
    Ok(names)
}

fn unordered(directory: BorrowedFd<'_>) -> Result<Vec<OsString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name == b"." || name == b".." {
            continue;
        }
        if names.len() == MOST_NAMES {
            return Err(Errno::TOOBIG);
        }
        names.push(OsString::from_vec(name));
    }
    Ok(names)
}
