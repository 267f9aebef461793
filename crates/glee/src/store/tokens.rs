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

/// Callers that come without a token. A token of such a name could pass for one of them.
pub const RESERVED: &[&str] = &["user", "mcp", "terminal", "anyone"];

/// What the bearer of a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    ReadRegistry,
    InvokeTool,
    WriteRegistry,
    Approve,
    /// Everything.
    Admin,
}

impl Scope {
    pub const ALL: [Scope; 5] = [
        Scope::ReadRegistry,
        Scope::InvokeTool,
        Scope::WriteRegistry,
        Scope::Approve,
        Scope::Admin,
    ];

    /// What a token is good for when nobody says otherwise: enough for an agent.
    pub const USUAL: [Scope; 2] = [Scope::ReadRegistry, Scope::InvokeTool];

    pub fn name(self) -> &'static str {
        match self {
            Scope::ReadRegistry => "read_registry",
            Scope::InvokeTool => "invoke_tool",
            Scope::WriteRegistry => "write_registry",
            Scope::Approve => "approve",
            Scope::Admin => "admin",
        }
    }

    pub fn named(name: &str) -> Option<Scope> {
        Scope::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// One principal, with what is kept of its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub name: String,
    pub hash: String,
    pub scopes: Vec<Scope>,
}

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
            .any(|it| it.name == OWNER && it.hash == hash(written.trim()));
        match is_good {
            true => Ok(()),
            false => self.make(OWNER, &Scope::ALL).map(|_| ()),
        }
    }

    /// Makes a token for a principal, in place of the one it had.
    pub fn create(&self, name: &str, scopes: &[Scope]) -> io::Result<String> {
        let _alone = self.alone()?;
        self.make(name, scopes)
    }

    fn make(&self, name: &str, scopes: &[Scope]) -> io::Result<String> {
        let random = [Uuid::new_v4().into_bytes(), Uuid::new_v4().into_bytes()].concat();
        let token = format!("glee_{}", BASE64URL_NOPAD.encode(&random));
        let mut all = self.list()?;
        all.retain(|it| it.name != name);
        all.push(Token {
            name: name.to_owned(),
            hash: hash(&token),
            scopes: scopes.to_vec(),
        });
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
        all.retain(|it| it.name != name);
        self.save(&all)?;
        Ok(all.len() < before)
    }

    /// Principals, and what is kept of their tokens.
    pub fn list(&self) -> io::Result<Vec<Token>> {
        let mut text = String::new();
        match File::open(self.file()) {
            Ok(file) => file.take(1 << 20).read_to_string(&mut text)?,
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(err) => return Err(err),
        };
        Ok(text.lines().filter_map(read).collect())
    }

    fn file(&self) -> PathBuf {
        self.directory.join("tokens")
    }

    fn save(&self, all: &[Token]) -> io::Result<()> {
        self.write("tokens", &all.iter().map(written).collect::<String>())
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

/// `<hash>:<scope>,<scope> <name>`
fn written(token: &Token) -> String {
    let scopes: Vec<&str> = token.scopes.iter().map(|it| it.name()).collect();
    format!("{}:{} {}\n", token.hash, scopes.join(","), token.name)
}

/// Before there were scopes a line was `<hash> <name>`: such a token is an agent's, or the owner's. A
/// scope that is not known grants nothing.
fn read(line: &str) -> Option<Token> {
    let (first, name) = line.split_once(' ')?;
    let (hash, scopes) = match first.split_once(':') {
        Some((hash, scopes)) => (hash, scopes.split(',').filter_map(Scope::named).collect()),
        None if name == OWNER => (first, Scope::ALL.to_vec()),
        None => (first, Scope::USUAL.to_vec()),
    };
    Some(Token {
        name: name.to_owned(),
        hash: hash.to_owned(),
        scopes,
    })
}

/// What is kept of a token. Hashes are compared, so how long that takes tells nothing of the token.
pub fn hash(token: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_ages() {
        let scopes = |line: &str| read(line).unwrap_or_else(|| panic!("{line}")).scopes;
        assert_eq!(scopes("ab owner"), Scope::ALL);
        assert_eq!(scopes("ab bob of accounts"), Scope::USUAL);
        assert_eq!(scopes("ab:approve bob"), [Scope::Approve]);
        assert_eq!(scopes("ab:approve,root bob"), [Scope::Approve]);
        assert_eq!(scopes("ab: owner"), []);
        let token = Token {
            name: "bob of accounts".into(),
            hash: "ab".into(),
            scopes: vec![Scope::InvokeTool, Scope::Approve],
        };
        assert_eq!(read(written(&token).trim_end()), Some(token));
    }
}
