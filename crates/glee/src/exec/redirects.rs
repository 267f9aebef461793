//! Files by which git takes its configuration and its hooks from elsewhere, and so past those that are protected.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Names the directory with the configuration and the hooks. Whatever stands there is read, or nothing works: where
/// there is none nothing can hold its place.
const COMMON: &str = "commondir";
/// Configuration on top of the repository's own, which says whether it is read.
const OWN_CONFIG: &str = "config.worktree";

#[derive(Default)]
pub(super) struct Redirects {
    pub(super) protect: Vec<PathBuf>,
    pub(super) absent: Vec<PathBuf>,
}

/// Those of a repository and of its worktrees that could be written, as they are now.
pub(super) fn of(git: &Path, writable: &[PathBuf]) -> Redirects {
    let mut found = Redirects::default();
    let could_be_written = |it: &Path| writable.iter().any(|grant| it.starts_with(grant));
    let reads_own_config = reads_own_config(git);
    for directory in directories(git) {
        let (common, own_config) = (directory.join(COMMON), directory.join(OWN_CONFIG));
        if could_be_written(&common) {
            match is_there(&common) {
                true => found.protect.push(common),
                false => found.absent.push(common),
            }
        }
        if could_be_written(&own_config) {
            if reads_own_config {
                // An empty one says nothing. Where it cannot be made, a tool cannot make one either.
                let _ = File::create_new(&own_config);
            }
            if is_there(&own_config) {
                found.protect.push(own_config);
            }
        }
    }
    found
}

/// The repository's own, and one for each of its other worktrees.
fn directories(git: &Path) -> Vec<PathBuf> {
    let is_directory = |it: &Path| fs::symlink_metadata(it).is_ok_and(|it| it.is_dir());
    if !is_directory(git) || glee_sandbox::is_placeholder(git) {
        return Vec::new();
    }
    let worktrees = fs::read_dir(git.join("worktrees")).into_iter().flatten();
    let worktrees = worktrees.flatten().map(|it| it.path());
    let mut directories: Vec<PathBuf> = worktrees.filter(|it| is_directory(it)).collect();
    // Equal profiles share launchers, in whatever order a disk lists.
    directories.sort();
    directories.insert(0, git.to_owned());
    directories
}

/// Names are compared without case, and what is said of one is not looked at: a file too many is harmless.
fn reads_own_config(git: &Path) -> bool {
    let config = fs::read(git.join("config")).unwrap_or_default();
    let config = String::from_utf8_lossy(&config).to_lowercase();
    config.contains("worktreeconfig")
}

fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
