//! Settles which paths appear inside and how, from the grants of a profile alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::root::system_paths;
use crate::Profile;

/// How a path appears inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
    /// Read-only and immovable inside a writable grant, whether it exists or not.
    Protected,
    /// A directory on the way to a protected path: writable, but made a mount point, because a mount point cannot be
    /// renamed and a renamed parent would free the protected name.
    Pinned,
    /// Covered by nothing at all, and immovable.
    Hidden,
}

/// The paths that need a mount of their own, parents before children.
pub(super) fn settle(profile: &Profile) -> Vec<(PathBuf, Access)> {
    let under = |path: &Path, roots: &[PathBuf]| roots.iter().any(|root| path.starts_with(root));
    let (write, demoted): (Vec<&PathBuf>, Vec<&PathBuf>) = profile
        .write
        .iter()
        .partition(|path| !under(path, &profile.protect));

    let mut settled = BTreeMap::new();
    // What may be written may be read, so a read grant inside a write grant adds nothing.
    for path in profile.read.iter().chain(demoted) {
        if !write.iter().any(|root| path.starts_with(root)) {
            settled.insert(path.clone(), Access::Read);
        }
    }
    for path in &write {
        settled.insert((*path).clone(), Access::Write);
    }
    for path in &profile.protect {
        if pin(&mut settled, path, &write) {
            settled.insert(path.clone(), Access::Protected);
        }
    }
    for path in &profile.hide {
        let is_system = || system_paths(&profile.network).any(|it| path.starts_with(it));
        // A grant that lies inside of what is hidden grants nothing.
        settled.retain(|it, _| !it.starts_with(path));
        if under(path, &profile.read) || under(path, &profile.write) || is_system() {
            pin(&mut settled, path, &write);
            settled.insert(path.clone(), Access::Hidden);
        }
    }
    without_repetition(settled)
}

/// Makes all between a path and the grant it can be written by immovable. Whether there is such a grant.
fn pin(settled: &mut BTreeMap<PathBuf, Access>, path: &Path, write: &[&PathBuf]) -> bool {
    // Of grants inside each other only the outermost is sure to be a mount point.
    let Some(grant) = write
        .iter()
        .filter(|root| path.starts_with(root))
        .min_by_key(|it| it.as_os_str().len())
    else {
        return false;
    };
    for parent in path.ancestors().skip(1).take_while(|it| it != grant) {
        let access = settled
            .entry(parent.to_path_buf())
            .or_insert(Access::Pinned);
        if *access == Access::Write {
            *access = Access::Pinned;
        }
    }
    true
}

/// Drops a mount that its nearest settled ancestor already provides.
fn without_repetition(settled: BTreeMap<PathBuf, Access>) -> Vec<(PathBuf, Access)> {
    let nearest = |path: &Path| {
        path.ancestors()
            .skip(1)
            .find_map(|it| settled.get(it).copied())
    };
    settled
        .iter()
        .filter(|(path, access)| match access {
            Access::Read => nearest(path) != Some(Access::Read),
            Access::Write => !matches!(nearest(path), Some(Access::Write | Access::Pinned)),
            Access::Protected => nearest(path) != Some(Access::Protected),
            Access::Pinned => nearest(path) != Some(Access::Protected),
            Access::Hidden => nearest(path) != Some(Access::Hidden),
        })
        .map(|(path, access)| (path.clone(), *access))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::Access::{Hidden, Pinned, Protected, Read, Write};
    use super::*;
    use crate::{Confinement, Limits, Network};

    #[track_caller]
    fn check(read: &[&str], write: &[&str], protect: &[&str], expected: &[(&str, Access)]) {
        check_hiding(&[], read, write, protect, expected);
    }

    #[track_caller]
    fn check_hiding(
        hide: &[&str],
        read: &[&str],
        write: &[&str],
        protect: &[&str],
        expected: &[(&str, Access)],
    ) {
        let paths = |from: &[&str]| from.iter().map(PathBuf::from).collect();
        let profile = Profile {
            confinement: Confinement::Required,
            network: Network::None,
            read: paths(read),
            write: paths(write),
            protect: paths(protect),
            hide: paths(hide),
            limits: Limits::default(),
        };
        let expected: Vec<_> = expected
            .iter()
            .map(|(path, access)| (PathBuf::from(path), *access))
            .collect();
        assert_eq!(settle(&profile), expected);
    }

    #[test]
    fn grants_inside_grants() {
        check(&["/a", "/a/b"], &[], &[], &[("/a", Read)]);
        check(&["/a/b"], &["/a"], &[], &[("/a", Write)]);
        check(&["/a"], &["/a/b"], &[], &[("/a", Read), ("/a/b", Write)]);
        check(&["/a"], &["/a"], &[], &[("/a", Write)]);
        check(&["/a"], &["/ab"], &[], &[("/a", Read), ("/ab", Write)]);
    }

    #[test]
    fn what_is_hidden_is_granted_by_nothing() {
        let hide = &["/h/state/glee"];
        check_hiding(hide, &["/p"], &["/q"], &[], &[("/p", Read), ("/q", Write)]);
        check_hiding(
            hide,
            &["/h"],
            &[],
            &[],
            &[("/h", Read), ("/h/state/glee", Hidden)],
        );
        check_hiding(
            hide,
            &["/h/state/glee"],
            &["/h/state/glee/a"],
            &[],
            &[("/h/state/glee", Hidden)],
        );
        // Whoever may write above it cannot move what it lies in.
        check_hiding(
            hide,
            &[],
            &["/h"],
            &[],
            &[
                ("/h", Write),
                ("/h/state", Pinned),
                ("/h/state/glee", Hidden),
            ],
        );
        check_hiding(
            hide,
            &[],
            &["/h"],
            &["/h/state/glee/a"],
            &[
                ("/h", Write),
                ("/h/state", Pinned),
                ("/h/state/glee", Hidden),
            ],
        );
        check_hiding(&["/usr/h"], &[], &[], &[], &[("/usr/h", Hidden)]);
    }

    #[test]
    fn protection_outranks_grants() {
        check(
            &[],
            &["/p"],
            &["/p/.git/hooks"],
            &[
                ("/p", Write),
                ("/p/.git", Pinned),
                ("/p/.git/hooks", Protected),
            ],
        );
        // Also when the parent has a grant of its own.
        check(
            &[],
            &["/p", "/p/.git"],
            &["/p/.git/hooks"],
            &[
                ("/p", Write),
                ("/p/.git", Pinned),
                ("/p/.git/hooks", Protected),
            ],
        );
        check(&[], &["/p"], &["/p"], &[("/p", Read)]);
        check(
            &[],
            &["/p/.glee/tools"],
            &["/p/.glee"],
            &[("/p/.glee/tools", Read)],
        );
        check(&["/p"], &[], &["/p/.git"], &[("/p", Read)]);
        check(
            &[],
            &["/p"],
            &["/p/a", "/p/a/b"],
            &[("/p", Write), ("/p/a", Protected)],
        );
        check(
            &[],
            &["/p", "/p/a/b"],
            &["/p/a"],
            &[("/p", Write), ("/p/a", Protected)],
        );
    }
}
