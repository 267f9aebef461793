//! Writing a file of the project: `write_file`, `tool_file_write`.
//!
//! A person is asked before a file is replaced. What was judged is what happens: where nobody had to
//! agree, because there was no file, a file is only made, and one that came meanwhile stays.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use data_encoding::BASE64;
use glee_core::outcome::{Failure, FailureKind};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::read::Encoding;
use super::workspace::{Ground, Workspace, errno, failure, invalid, shown};
use super::{Puts, Stop, blocking};
use crate::native::{About, Context, NativeTool};

pub(super) struct WriteFile(pub(super) Ground);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Input {
    /// The file, from the project's root
    path: String,
    /// What it shall hold
    content: String,
    /// How the content is given
    #[serde(default)]
    encoding: Encoding,
    /// Whether directories that are missing on the way are made
    #[serde(default)]
    create_dirs: bool,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Output {
    /// From the project's root
    path: String,
    /// In bytes
    size: u64,
}

impl NativeTool for WriteFile {
    type Input = Input;
    type Output = Output;

    fn about(&self) -> About {
        about(
            "write_file",
            "Make a file of the project, or replace one; a person is asked before one is replaced.",
        )
    }

    fn refuses(&self, input: &Input, workspace: &Path) -> Result<(), Failure> {
        unchangeable(&self.0, workspace, &input.path)
    }

    fn asks(&self, input: &Input, workspace: &Path) -> Option<String> {
        replaces(&self.0, workspace, &input.path)
    }

    async fn run(&self, input: Input, context: Context<'_>) -> Result<Output, Failure> {
        let (root, ground) = (context.workspace().to_owned(), self.0.clone());
        let puts = Puts::of(&context);
        blocking(move |stop| write(&Workspace::open(&root, &ground)?, &input, puts, stop)).await
    }
}

pub(super) struct ToolFileWrite(pub(super) Ground);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Text {
    /// The file, from the project's root
    path: String,
    /// The text it shall hold
    content: String,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Written {
    /// How many bytes
    written: u64,
}

impl NativeTool for ToolFileWrite {
    type Input = Text;
    type Output = Written;

    fn about(&self) -> About {
        about(
            "tool_file_write",
            "Write a text to a file of the project; a person is asked before one is replaced.",
        )
        .needs_exactly(&["fs:write"])
    }

    fn refuses(&self, input: &Text, workspace: &Path) -> Result<(), Failure> {
        unchangeable(&self.0, workspace, &input.path)
    }

    fn asks(&self, input: &Text, workspace: &Path) -> Option<String> {
        replaces(&self.0, workspace, &input.path)
    }

    async fn run(&self, input: Text, context: Context<'_>) -> Result<Written, Failure> {
        let (root, ground) = (context.workspace().to_owned(), self.0.clone());
        let puts = Puts::of(&context);
        let input = Input {
            path: input.path,
            content: input.content,
            encoding: Encoding::Utf8,
            create_dirs: false,
        };
        let done =
            blocking(move |stop| write(&Workspace::open(&root, &ground)?, &input, puts, stop))
                .await?;
        Ok(Written { written: done.size })
    }
}

fn about(name: &str, description: &str) -> About {
    About::new(name, description)
        .reads(&["."])
        .writes(&["."])
        .tags(&["files"])
}

/// Why nothing may be put there at all.
pub(super) fn unchangeable(ground: &Ground, root: &Path, path: &str) -> Result<(), Failure> {
    let workspace = Workspace::open(root, ground)?;
    workspace.changeable(path).map(|_| ())
}

/// Why a person must agree: there is something already. Who cannot be told need not be asked: the write
/// itself refuses.
pub(super) fn replaces(ground: &Ground, root: &Path, path: &str) -> Option<String> {
    let workspace = Workspace::open(root, ground).ok()?;
    let path = workspace.changeable(path).ok()?;
    let (directory, name) = workspace.place(&path).ok()?;
    rustix::fs::statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(format!("it replaces `{}`", shown(&path)))
}

pub(super) fn write(
    workspace: &Workspace,
    input: &Input,
    puts: Puts,
    stop: &Stop,
) -> Result<Output, Failure> {
    let path = workspace.changeable(&input.path)?;
    let bytes = match input.encoding {
        Encoding::Utf8 => input.content.as_bytes().to_vec(),
        Encoding::Base64 => BASE64.decode(input.content.as_bytes()).map_err(|err| {
            Failure::new(
                FailureKind::InvalidInput,
                format!("the content is not base64: {err}"),
            )
        })?,
    };
    stop.check()?;
    let (directory, name) = match input.create_dirs {
        true => workspace.place_made(&path)?,
        false => workspace
            .place(&path)
            .map_err(|failure| match failure.kind {
                FailureKind::FileNotFound => {
                    failure.hint("`write_file` makes what is missing with createDirs")
                }
                _ => failure,
            })?,
    };
    let mode = replaceable(&path, directory.as_fd(), &name)?;
    if mode.is_some() && puts == Puts::OnlyNew {
        return Err(appeared(&path));
    }
    let temporary =
        Temporary::write(directory, mode, &bytes).map_err(|err| failure(&path, errno(&err)))?;
    stop.check()?;
    temporary.put(&name, puts).map_err(|err| match err {
        Errno::EXIST => appeared(&path),
        err => failure(&path, err),
    })?;
    Ok(Output {
        path: shown(&path),
        size: bytes.len() as u64,
    })
}

/// The mode of the file that would be replaced, if there is one. What is no regular file stays.
pub(super) fn replaceable(
    path: &Path,
    directory: BorrowedFd<'_>,
    name: &std::ffi::OsStr,
) -> Result<Option<Mode>, Failure> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(None),
        Err(err) => Err(failure(path, err)),
        Ok(found) => match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => Ok(Some(Mode::from_raw_mode(found.st_mode & 0o7777))),
            FileType::Directory => Err(invalid(path, "is a directory")),
            FileType::Symlink => Err(invalid(path, "is a link").hint("name the file it leads to")),
            _ => Err(invalid(path, "is not a regular file")),
        },
    }
}

pub(super) fn appeared(path: &Path) -> Failure {
    Failure::new(
        FailureKind::Conflict,
        format!(
            "`{}` is there, and nobody has agreed to replace it",
            shown(path)
        ),
    )
    .hint("call it again: then a person is asked")
}

/// A file beside the one it becomes: whole before anybody sees it under its name.
struct Temporary {
    directory: OwnedFd,
    name: String,
    mode: Option<Mode>,
}

impl Temporary {
    fn write(directory: OwnedFd, mode: Option<Mode>, bytes: &[u8]) -> std::io::Result<Temporary> {
        let (temporary, mut file) = Temporary::make(directory, mode)?;
        temporary.fill(&mut file, bytes)?;
        Ok(temporary)
    }

    fn make(directory: OwnedFd, mode: Option<Mode>) -> std::io::Result<(Temporary, File)> {
        let name = format!(".new-{}", Uuid::new_v4().simple());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let flags = flags | OFlags::CLOEXEC;
        // What it replaces may be nobody else's to read, and until it has the same mode nor is this.
        let first = Mode::from_raw_mode(if mode.is_some() { 0o600 } else { 0o666 });
        let file = rustix::fs::openat(&directory, &name, flags, first)?;
        let temporary = Temporary {
            directory,
            name,
            mode,
        };
        Ok((temporary, File::from(file)))
    }

    fn fill(&self, file: &mut File, bytes: &[u8]) -> std::io::Result<()> {
        file.write_all(bytes)?;
        if let Some(mode) = self.mode {
            rustix::fs::fchmod(&*file, mode)?;
        }
        file.sync_all()
    }

    fn put(&self, name: &std::ffi::OsStr, puts: Puts) -> Result<(), Errno> {
        rename(
            (self.directory.as_fd(), self.name.as_ref()),
            (self.directory.as_fd(), name),
            puts,
        )?;
        rustix::fs::fsync(&self.directory)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // It has another name when all went well.
        let _ = rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::empty());
    }
}

/// Gives something another name; `EXIST` where nothing may be replaced and something is there.
pub(super) fn rename(
    (from, name): (BorrowedFd<'_>, &std::ffi::OsStr),
    (to, new): (BorrowedFd<'_>, &std::ffi::OsStr),
    puts: Puts,
) -> Result<(), Errno> {
    match puts {
        Puts::OnlyNew => rustix::fs::renameat_with(from, name, to, new, RenameFlags::NOREPLACE),
        Puts::AlsoInstead => rustix::fs::renameat(from, name, to, new),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Nobody reads it before it has the mode of what it replaces, and nobody else after.
    #[test]
    fn what_replaces_a_private_file_is_private_from_the_start() {
        let home = tempfile::tempdir().unwrap();
        let modes = |mode: u32| {
            let directory = File::open(home.path()).unwrap().into();
            let made = Temporary::make(directory, Some(Mode::from_raw_mode(mode))).unwrap();
            let (temporary, mut file) = made;
            let path = home.path().join(&temporary.name);
            let now = || path.metadata().unwrap().permissions().mode() & 0o7777;
            let first = now();
            temporary.fill(&mut file, b"x").unwrap();
            (first, now())
        };
        assert_eq!(modes(0o600), (0o600, 0o600));
        assert_eq!(modes(0o644), (0o600, 0o644));
    }
}
