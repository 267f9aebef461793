//! Where glee keeps what belongs to a project and must be out of its tools' reach: tokens, and the key
//! of the audit.

use std::io;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use glee_core::permission::absolute;
use sha2::{Digest, Sha256};

/// The directory of the project with this root, which need not be there yet.
pub fn directory(root: &Path) -> io::Result<PathBuf> {
    let project = HEXLOWER.encode(&Sha256::digest(root.as_os_str().as_encoded_bytes())[..8]);
    let directory = absolute(root, &everything()?.join(project).to_string_lossy());
    // What is there already may be a link into the project.
    let real = directory.ancestors().find_map(|it| it.canonicalize().ok());
    if real.is_some_and(|it| it.starts_with(root)) || directory.starts_with(root) {
        return Err(io::Error::other(format!(
            "{} is inside of the project, where its tools may read it; set XDG_STATE_HOME to another place",
            directory.display()
        )));
    }
    Ok(directory)
}

/// What all projects have in common: everything in it is out of every tool's reach.
pub fn everything() -> io::Result<PathBuf> {
    let of = |name: &str| {
        let path = PathBuf::from(std::env::var_os(name)?);
        // What is not absolute is to be taken for absent.
        path.is_absolute().then_some(path)
    };
    // Who has no HOME may have one in the list of users.
    let home = of("HOME").or_else(|| std::env::home_dir().filter(|it| it.is_absolute()));
    let base = match (of("XDG_STATE_HOME"), home) {
        (Some(state), _) => state,
        (None, Some(home)) => home.join(".local/state"),
        (None, None) => {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "neither XDG_STATE_HOME nor HOME is set, so there is no place outside of the project",
            ));
        }
    };
    Ok(base.join("glee"))
}
