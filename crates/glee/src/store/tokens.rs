//! The tokens of those who may use a server. Only their hashes are kept, but for the first one, which
//! glee makes itself and which people must be able to read.
//!
//! They stand outside of the project: a tool that may read the project must not become a client.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::durable::{self, Lock};
use super::state;

/// The principal of the token that is made at the first start.
pub const OWNER: &str = "owner";

pub struct Tokens {
    directory: PathBuf,
}

impl Tokens {
    /// The tokens of the project with this root.
    pub fn of(root: &Path) -> io::Result<Tokens> {
        let directory = state::directory(root)?;
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

    /// One process at a time changes anything, until this is dropped.
    fn alone(&self) -> io::Result<Lock> {
        durable::directory(&self.directory)?;
        durable::lock(&self.directory.join("lock"))
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        durable::replace(&self.directory.join(name), text.as_bytes())
    }
}

/// What is kept of a token. Hashes are compared, so how long that takes tells nothing of the token.
pub fn hash(token: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(token))
}
