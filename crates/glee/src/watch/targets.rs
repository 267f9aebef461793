//! What is watched: the documents of a project, and the files its tools run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{Event, RecursiveMode};

use crate::app::App;
use crate::exec;

#[derive(PartialEq, Eq)]
pub(super) struct Targets {
    /// Directories of which everything counts, down to the bottom.
    trees: BTreeSet<PathBuf>,
    files: BTreeSet<PathBuf>,
    /// The directories on the way there: one of them may be renamed, or not be there yet.
    above: BTreeSet<PathBuf>,
}

impl Targets {
    pub(super) fn of(app: &App) -> Targets {
        let project = app.project();
        let mut targets = Targets {
            trees: BTreeSet::new(),
            files: BTreeSet::new(),
            above: BTreeSet::new(),
        };
        let trees = [
            project.tools(),
            project.prompts(),
            project.resources(),
            project.reviews(),
            project.bundles(),
        ];
        for tree in trees {
            targets.add(tree, project.root());
        }
        targets.add(project.standing_rules(), project.root());
        targets.add(project.config(), project.root());
        for tool in app.tools().tools() {
            let own = tool.directory().map(Path::to_owned);
            let entries = exec::entries(tool, project.root());
            for path in own.into_iter().chain(entries) {
                // A link is followed here, and only here: one inside a tool may lead anywhere.
                targets.add_real(&path, project.root());
                targets.add(path, project.root());
            }
        }
        targets
    }

    fn add_real(&mut self, path: &Path, root: &Path) {
        if let Ok(real) = path.canonicalize() {
            self.add(real, root);
        }
    }

    fn add(&mut self, path: PathBuf, root: &Path) {
        if self.trees.iter().any(|it| path.starts_with(it)) {
            return;
        }
        let parents = path.ancestors().skip(1);
        match path.starts_with(root) {
            true => self.above.extend(
                parents
                    .take_while(|it| it.starts_with(root))
                    .map(Path::to_owned),
            ),
            false => self.above.extend(parents.take(1).map(Path::to_owned)),
        }
        // The documents' own directories may come later; what is run is a file unless it is seen to
        // be a package.
        match path.starts_with(root.join(".glee")) || path.is_dir() {
            true => self.trees.insert(path),
            false => self.files.insert(path),
        };
    }

    /// The directories to watch that are there now.
    pub(super) fn places(&self) -> Vec<(&Path, RecursiveMode)> {
        let above = self
            .above
            .iter()
            .map(|it| (it, RecursiveMode::NonRecursive));
        let trees = self.trees.iter().map(|it| (it, RecursiveMode::Recursive));
        above
            .chain(trees)
            .filter(|(path, _)| path.is_dir())
            .map(|(path, mode)| (path.as_path(), mode))
            .collect()
    }

    pub(super) fn concern(&self, event: &Event) -> bool {
        event.paths.iter().any(|path| {
            self.files.contains(path)
                || self.above.contains(path)
                || self.trees.iter().any(|it| path.starts_with(it))
        })
    }
}

/// Reading changes nothing, and looking at a change is reading.
pub(super) fn is_change(event: &Event) -> bool {
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        _ => true,
    }
}
