//! Settles which paths appear inside and how, from the grants of a profile alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

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
        // Of grants inside each other only the outermost is sure to be a mount point.
        let Some(grant) = write
            .iter()
            .filter(|root| path.starts_with(root))
            .min_by_key(|it| it.as_os_str().len())
        else {
            continue;
        };
        let between = path.ancestors().skip(1).take_while(|it| it != grant);
        for parent in between {
            let access = settled
                .entry(parent.to_path_buf())
                .or_insert(Access::Pinned);
            if *access == Access::Write {
                *access = Access::Pinned;
            }
        }
        settled.insert(path.clone(), Access::Protected);
    }
    without_repetition(settled)
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
        })
        .map(|(path, access)| (path.clone(), *access))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::Access::{Pinned, Protected, Read, Write};
    use super::*;
    use crate::{Confinement, Limits, Network};

    #[track_caller]
    fn check(read: &[&str], write: &[&str], protect: &[&str], expected: &[(&str, Access)]) {
        let paths = |from: &[&str]| from.iter().map(PathBuf::from).collect();
        let profile = Profile {
            confinement: Confinement::Required,
            network: Network::None,
            read: paths(read),
            write: paths(write),
            protect: paths(protect),
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
