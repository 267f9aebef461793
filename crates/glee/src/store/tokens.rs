//! The tokens of those who may use a server. Only their hashes are kept, but for the first one, which
//! glee makes itself and which people must be able to read.
//!
//! They stand outside of the project: a tool that may read the project must not become a client.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use glee_core::permission::absolute;
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// The principal of the token that is made at the first start.
pub const OWNER: &str = "owner";

pub struct Tokens {
    directory: PathBuf,
}

impl Tokens {
    /// The tokens of the project with this root.
    pub fn of(root: &Path) -> io::Result<Tokens> {
        let project = HEXLOWER.encode(&Sha256::digest(root.as_os_str().as_encoded_bytes())[..8]);
        let directory = absolute(root, &state()?.join(project).to_string_lossy());
        // What is there already may be a link into the project.
        let real = directory.ancestors().find_map(|it| it.canonicalize().ok());
        if real.is_some_and(|it| it.starts_with(root)) || directory.starts_with(root) {
            return Err(io::Error::other(format!(
                "{} is inside of the project, where its tools may read it; set XDG_STATE_HOME to another place",
                directory.display()
            )));
        }
        Ok(Tokens { directory })
    }

    /// Where the first token can be read.
    pub fn owner_file(&self) -> PathBuf {
        self.directory.join("token")
    }

    /// Makes the first token, unless it is there and good.
    pub fn ensure_owner(&self) -> io::Result<()> {
        let _alone = self.alone()?;
        let written = fs::read_to_string(self.owner_file()).unwrap_or_default();
        let known = self.list()?;
        let is_good = known
            .iter()
            .any(|(name, kept)| name == OWNER && *kept == hash(written.trim()));
        match is_good {
            true => Ok(()),
            false => self.make(OWNER).map(|_| ()),
        }
    }

    /// Makes a token for a principal, in place of the one it had.
    pub fn create(&self, name: &str) -> io::Result<String> {
        let _alone = self.alone()?;
        self.make(name)
    }

    fn make(&self, name: &str) -> io::Result<String> {
        let random = [Uuid::new_v4().into_bytes(), Uuid::new_v4().into_bytes()].concat();
        let token = format!("glee_{}", BASE64URL_NOPAD.encode(&random));
        let mut all = self.list()?;
        all.retain(|it| it.0 != name);
        all.push((name.to_owned(), hash(&token)));
        if name == OWNER {
            self.write("token", &format!("{token}\n"))?;
        }
        self.save(&all)?;
        Ok(token)
    }

    /// Whether there was such a principal.
    pub fn revoke(&self, name: &str) -> io::Result<bool> {
        let _alone = self.alone()?;
        let mut all = self.list()?;
        let before = all.len();
        all.retain(|it| it.0 != name);
        self.save(&all)?;
        Ok(all.len() < before)
    }

    /// Principals and the hashes of their tokens.
    pub fn list(&self) -> io::Result<Vec<(String, String)>> {
        let mut text = String::new();
        match File::open(self.file()) {
            Ok(file) => file.take(1 << 20).read_to_string(&mut text)?,
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(err) => return Err(err),
        };
        Ok(text
            .lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(hash, name)| (name.to_owned(), hash.to_owned()))
            .collect())
    }

    fn file(&self) -> PathBuf {
        self.directory.join("tokens")
    }

    fn save(&self, all: &[(String, String)]) -> io::Result<()> {
        let lines = all.iter().map(|(name, hash)| format!("{hash} {name}\n"));
        self.write("tokens", &lines.collect::<String>())
    }

    /// One process at a time changes anything, until the file is closed.
    fn alone(&self) -> io::Result<File> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)?;
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.directory.join("lock"))?;
        lock.lock()?;
        Ok(lock)
    }

    /// Whole or not at all, and for the owner's eyes only.
    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.directory)?;
        file.write_all(text.as_bytes())?;
        file.as_file()
            .set_permissions(Permissions::from_mode(0o600))?;
        file.as_file().sync_all()?;
        file.persist(self.directory.join(name))?;
        File::open(&self.directory)?.sync_all()
    }
}

/// What is kept of a token. Hashes are compared, so how long that takes tells nothing of the token.
pub fn hash(token: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(token))
}

/// Where programs keep what is neither config nor cache.
fn state() -> io::Result<PathBuf> {
    let of = |name: &str| {
        let path = PathBuf::from(std::env::var_os(name)?);
        // What is not absolute is to be taken for absent.
        path.is_absolute().then_some(path)
    };
    let base = match (of("XDG_STATE_HOME"), of("HOME")) {
        (Some(state), _) => state,
        (None, Some(home)) => home.join(".local/state"),
        (None, None) => {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "neither XDG_STATE_HOME nor HOME is set, so there is no place for tokens",
            ));
        }
    };
    Ok(base.join("glee"))
}
