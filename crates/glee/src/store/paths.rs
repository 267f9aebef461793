//! Where paths lead on this machine.

use std::path::{Path, PathBuf};

use glee_core::port::Files;

pub struct Paths {
    home: Option<PathBuf>,
}

impl Paths {
    pub fn of_this_machine() -> Paths {
        Paths {
            home: std::env::home_dir().filter(|it| it.is_absolute()),
        }
    }
}

impl Files for Paths {
    fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    fn resolve(&self, path: &Path) -> PathBuf {
        // What does not exist yet lies where its directory leads.
        for existing in path.ancestors() {
            if let Ok(real) = existing.canonicalize() {
                let rest = path.strip_prefix(existing).unwrap_or(Path::new(""));
                return real.join(rest).components().collect();
            }
        }
        path.to_owned()
    }
}
