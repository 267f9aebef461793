//! The directory of a tool that an agent brings: written beside its place, and there all at once.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use tempfile::TempDir;

/// Complete and on disk, and not yet seen by anybody.
pub struct Staged {
    directory: TempDir,
    tools: PathBuf,
}

impl Staged {
    /// Files by their names inside the tool's directory, which were checked before.
    pub fn write(tools: &Path, files: &BTreeMap<String, String>) -> io::Result<Staged> {
        fs::create_dir_all(tools)?;
        // What is hidden is nobody's tool.
        let directory = tempfile::Builder::new().prefix(".new-").tempdir_in(tools)?;
        for (name, text) in files {
            let path = directory.path().join(name);
            let parent = path.parent().unwrap_or(directory.path());
            fs::create_dir_all(parent)?;
            let mode = if text.starts_with("#!") { 0o755 } else { 0o644 };
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(mode)
                .open(&path)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            for above in parent.ancestors() {
                File::open(above)?.sync_all()?;
                if above == directory.path() {
                    break;
                }
            }
        }
        Ok(Staged {
            directory,
            tools: tools.to_owned(),
        })
    }

    /// Gives it its name; `AlreadyExists` when something has it. When this returns, it is on disk.
    pub fn place(self, name: &str) -> io::Result<()> {
        let place = self.tools.join(name);
        renameat_with(
            CWD,
            self.directory.path(),
            CWD,
            &place,
            RenameFlags::NOREPLACE,
        )?;
        // It is no longer there to be removed.
        let _ = self.directory.keep();
        File::open(&self.tools)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_tool_appears_whole_or_not_at_all() {
        let place = tempfile::tempdir().unwrap();
        let tools = place.path().join("tools");
        let files = BTreeMap::from([
            ("tool.yml".to_owned(), "name: a".to_owned()),
            ("lib/run.sh".to_owned(), "#!/bin/sh\n".to_owned()),
        ]);
        let staged = Staged::write(&tools, &files).unwrap();
        assert!(!tools.join("a").exists());
        staged.place("a").unwrap();
        let mode = fs::metadata(tools.join("a/lib/run.sh"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o111, 0o111);
        fs::write(tools.join("a/tool.yml"), "name: mine").unwrap();
        let again = Staged::write(&tools, &files).unwrap().place("a");
        assert_eq!(again.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        let kept = fs::read_to_string(tools.join("a/tool.yml")).unwrap();
        assert_eq!(kept, "name: mine");
        assert_eq!(fs::read_dir(&tools).unwrap().count(), 1);
    }
}
