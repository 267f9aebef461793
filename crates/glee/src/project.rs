//! Where a project is: the nearest directory, upwards, that holds `.glee/`.

use std::io;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug)]
pub struct Project {
    root: PathBuf,
}

impl Project {
    /// The project of a directory, or of one of its parents.
    pub fn find(from: &Path) -> io::Result<Option<Project>> {
        let from = from.canonicalize()?;
        let root = from.ancestors().find(|it| it.join(".glee").is_dir());
        Ok(root.map(|it| Project {
            root: it.to_owned(),
        }))
    }

    /// The project whose root is exactly this directory.
    pub fn at(root: &Path) -> io::Result<Option<Project>> {
        let root = root.canonicalize()?;
        Ok(root.join(".glee").is_dir().then_some(Project { root }))
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn tools(&self) -> PathBuf {
        self.root.join(".glee/tools")
    }

    pub fn prompts(&self) -> PathBuf {
        self.root.join(".glee/prompts")
    }

    pub fn resources(&self) -> PathBuf {
        self.root.join(".glee/resources")
    }

    /// Bundles of tools that came in through the API.
    pub fn bundles(&self) -> PathBuf {
        self.root.join(".glee/bundles")
    }

    /// What people decided about the tools that agents made.
    pub fn reviews(&self) -> PathBuf {
        self.root.join(".glee/reviews")
    }

    pub fn config(&self) -> PathBuf {
        self.root.join(".glee/config.yml")
    }

    /// What need not ask any more.
    pub fn standing_rules(&self) -> PathBuf {
        self.root.join(".glee/rules.yml")
    }

    /// What people are asked, and what they answered.
    pub fn approvals(&self) -> PathBuf {
        self.root.join(".glee/approvals")
    }

    pub fn audit(&self) -> PathBuf {
        self.root.join(".glee/audit")
    }

    pub fn audit_log(&self) -> PathBuf {
        self.root.join(".glee/audit/tools.log")
    }
}
