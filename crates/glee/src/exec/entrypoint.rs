//! The program of a call: found by fixed rules, opened once, and held open until that very file was started.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use glee_core::permission::absolute;
use glee_sandbox::{Checked, Order};
use rustix::fs::{Mode, OFlags};

use super::place::PATH;

/// A program that was checked.
#[derive(Debug)]
pub struct Entrypoint {
    pub path: PathBuf,
    /// What the path led to then. The sandbox starts this file, as it was, or none.
    checked: Checked,
}

impl Entrypoint {
    pub(super) fn open(path: PathBuf) -> io::Result<Entrypoint> {
        Ok(Entrypoint::look(path)?.0)
    }

    fn look(path: PathBuf) -> io::Result<(Entrypoint, Metadata)> {
        // As a place, because a program need not be readable.
        let opened = rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let opened = File::from(opened);
        let found = opened.metadata()?;
        let checked = Checked::now(opened.into())?;
        Ok((Entrypoint { path, checked }, found))
    }

    /// Somebody has approved it: it stays what it is also for its interpreter, if it is a script.
    pub(super) fn kept(self) -> Entrypoint {
        Entrypoint {
            checked: self.checked.kept(),
            ..self
        }
    }

    /// The order to start this file.
    pub(super) fn order(
        self,
        args: Vec<OsString>,
        env: Vec<(OsString, OsString)>,
        cwd: PathBuf,
        fds: Vec<OwnedFd>,
    ) -> Order {
        Order {
            program: self.path,
            checked: Some(self.checked),
            args,
            env,
            cwd,
            fds,
        }
    }
}

/// With a `/` it is a path from the project's root or an absolute one; otherwise a program of the
/// system. The caller's PATH has no say.
pub fn find_entrypoint(root: &Path, entrypoint: &str) -> Result<Entrypoint, String> {
    find_in(PATH, root, entrypoint)
}

/// The same, for programs of these directories.
pub(super) fn find_in(path: &str, root: &Path, entrypoint: &str) -> Result<Entrypoint, String> {
    let runnable = |it: &Metadata| it.is_file() && it.permissions().mode() & 0o111 != 0;
    let open = |path| Entrypoint::look(path).ok();
    if entrypoint.contains('/') {
        return match open(absolute(root, entrypoint)) {
            None => Err(format!("the entrypoint `{entrypoint}` does not exist")),
            Some((_, found)) if !found.is_file() => {
                Err(format!("the entrypoint `{entrypoint}` is not a file"))
            }
            Some((_, found)) if !runnable(&found) => Err(format!(
                "the entrypoint `{entrypoint}` is not executable; run `chmod +x {entrypoint}`"
            )),
            Some((opened, _)) => Ok(opened),
        };
    }
    let found = path
        .split(':')
        .filter_map(|it| open(Path::new(it).join(entrypoint)))
        .find(|(_, found)| runnable(found));
    found
        .map(|it| it.0)
        .ok_or_else(|| match root.join(entrypoint).is_file() {
            true => format!(
                "there is no program `{entrypoint}`; for the file in the project write `./{entrypoint}`"
            ),
            false => format!("there is no program `{entrypoint}` in {path}"),
        })
}
