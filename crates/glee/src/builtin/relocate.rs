//! Moving files and directories of the project: `move_file`.

use std::os::fd::AsFd;
use std::path::Path;

use glee_core::outcome::{Failure, FailureKind};
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::workspace::{DEEPEST, Ground, Workspace, failure, invalid, shown};
use super::write::{appeared, rename, replaceable, replaces, unchangeable};
use super::{Puts, Stop, blocking};
use crate::native::{About, Context, NativeTool};

pub(super) struct MoveFile(pub(super) Ground);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    /// The file or directory, from the project's root
    from: String,
    /// Its new path, from the project's root
    to: String,
    /// Whether a file that is there is replaced
    #[serde(default)]
    overwrite: bool,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Output {
    from: String,
    to: String,
}

impl NativeTool for MoveFile {
    type Input = Input;
    type Output = Output;

    fn about(&self) -> About {
        About::new(
            "move_file",
            "Move or rename a file or a directory of the project; a person is asked before a file is replaced.",
        )
        .reads(&["."])
        .writes(&["."])
        .tags(&["files"])
    }

    fn refuses(&self, input: &Input, workspace: &Path) -> Result<(), Failure> {
        unchangeable(&self.0, workspace, &input.from)?;
        unchangeable(&self.0, workspace, &input.to)
    }

    fn asks(&self, input: &Input, workspace: &Path) -> Option<String> {
        match input.overwrite {
            true => replaces(&self.0, workspace, &input.to),
            false => None,
        }
    }

    async fn run(&self, input: Input, context: Context<'_>) -> Result<Output, Failure> {
        let (root, ground) = (context.workspace().to_owned(), self.0.clone());
        let puts = match input.overwrite {
            true => Puts::of(&context),
            false => Puts::OnlyNew,
        };
        blocking(move |stop| relocate(&Workspace::open(&root, &ground)?, &input, puts, stop)).await
    }
}

pub(super) fn relocate(
    workspace: &Workspace,
    input: &Input,
    puts: Puts,
    stop: &Stop,
) -> Result<Output, Failure> {
    let from = workspace.changeable(&input.from)?;
    let to = workspace.changeable(&input.to)?;
    if to.starts_with(&from) {
        return Err(invalid(&to, "is what shall be moved, or lies in it"));
    }
    if to.components().count() > DEEPEST {
        return Err(invalid(&to, "lies too deep to be moved to"));
    }
    let (source, name) = workspace.place(&from)?;
    let (target, new) = workspace.place(&to)?;
    let there = replaceable(&to, target.as_fd(), &new);
    match (&there, puts) {
        (Ok(None), _) | (Ok(Some(_)), Puts::AlsoInstead) => {}
        (_, Puts::OnlyNew) if input.overwrite => return Err(appeared(&to)),
        (_, Puts::OnlyNew) => return Err(occupied(&to)),
        (Err(_), Puts::AlsoInstead) => drop(there?),
    }
    stop.check()?;
    rename((source.as_fd(), &name), (target.as_fd(), &new), puts).map_err(|err| match err {
        Errno::EXIST => appeared(&to),
        Errno::XDEV => Failure::new(
            FailureKind::ExecutionError,
            format!("`{}` is on another file system", shown(&to)),
        ),
        Errno::NOTDIR | Errno::ISDIR => invalid(&to, "is of another kind than what is moved"),
        err => failure(&from, err),
    })?;
    for directory in [&source, &target] {
        rustix::fs::fsync(directory).map_err(|err| failure(&to, err))?;
    }
    Ok(Output {
        from: shown(&from),
        to: shown(&to),
    })
}

fn occupied(path: &Path) -> Failure {
    Failure::new(
        FailureKind::Conflict,
        format!("`{}` is there already", shown(path)),
    )
    .hint("set overwrite to replace it, which asks a person")
}
