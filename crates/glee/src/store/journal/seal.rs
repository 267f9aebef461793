//! What makes a line, and the end of the chain, impossible to change unseen: a key that tools cannot
//! reach.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac as _};
use sha2::Sha256;
use uuid::Uuid;

use crate::store::durable;

/// Of a line; of nothing, for the first one, it is all zeros.
pub(super) type Mac = [u8; 32];

/// What a line begins with that was written together with the one before.
const JOINED: &str = "\"joined\":true,";
const BEFORE_MAC: &[u8] = b",\"mac\":\"";
const AFTER_MAC: &[u8] = b"\"}";
const OF_HEAD: &[u8] = b"the head of the journal ";

#[derive(Clone)]
pub(super) struct Key(Hmac<Sha256>);

impl Key {
    /// `None` when there is none yet.
    pub(super) fn load(path: &Path) -> io::Result<Option<Key>> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(err) => return Err(at(path, err)),
        };
        match HEXLOWER.decode(text.trim().as_bytes()) {
            Ok(bytes) if bytes.len() == 32 => Ok(Some(Key::of(&bytes)?)),
            _ => Err(io::Error::other(format!(
                "{} holds no key; move it away, and a new journal is begun",
                path.display()
            ))),
        }
    }

    pub(super) fn make(path: &Path) -> io::Result<Key> {
        let bytes = [Uuid::new_v4().into_bytes(), Uuid::new_v4().into_bytes()].concat();
        durable::create(path, format!("{}\n", HEXLOWER.encode(&bytes)).as_bytes())
            .map_err(|err| at(path, err))?;
        Key::of(&bytes)
    }

    fn of(bytes: &[u8]) -> io::Result<Key> {
        let hmac = Hmac::new_from_slice(bytes).map_err(io::Error::other)?;
        Ok(Key(hmac))
    }

    pub(super) fn mac(&self, previous: &Mac, body: &[u8]) -> Mac {
        let mut hmac = self.0.clone();
        hmac.update(previous);
        hmac.update(body);
        hmac.finalize().into_bytes().into()
    }

    /// Adds the whole line of an entry, with its end. Its MAC.
    pub(super) fn line(
        &self,
        lines: &mut Vec<u8>,
        seq: u64,
        previous: &Mac,
        is_joined: bool,
        entry: &str,
    ) -> Mac {
        let start = lines.len();
        let joined = if is_joined { JOINED } else { "" };
        // Nothing goes wrong in memory.
        let _ = write!(lines, "{{\"seq\":{seq},{joined}");
        lines.extend_from_slice(entry.as_bytes());
        let mac = self.mac(previous, &lines[start..]);
        lines.extend_from_slice(BEFORE_MAC);
        let mut hex = [0; 64];
        HEXLOWER.encode_mut(&mac, &mut hex);
        lines.extend_from_slice(&hex);
        lines.extend_from_slice(AFTER_MAC);
        lines.push(b'\n');
        mac
    }

    pub(super) fn seal(&self, head: &Head) -> String {
        let said = head.said();
        format!("{said} {}\n", HEXLOWER.encode(&self.seal_of(&said)))
    }

    /// The head that a text seals; `None` when it does not.
    pub(super) fn unseal(&self, text: &str) -> Option<Head> {
        let (said, seal) = text.strip_suffix('\n')?.rsplit_once(' ')?;
        if HEXLOWER.encode(&self.seal_of(said)) != seal {
            return None;
        }
        let mut words = said.split(' ');
        let mut number = || words.next()?.parse::<u64>().ok();
        let (seq, files, length) = (number()?, number()?, number()?);
        let mac = HEXLOWER.decode(words.next()?.as_bytes()).ok()?;
        Some(Head {
            seq,
            files,
            length,
            mac: mac.try_into().ok()?,
        })
    }

    fn seal_of(&self, said: &str) -> Mac {
        let mut hmac = self.0.clone();
        hmac.update(OF_HEAD);
        hmac.update(said.as_bytes());
        hmac.finalize().into_bytes().into()
    }
}

/// Where the chain ends.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Head {
    /// The number of the last line; the first one has 1.
    pub(super) seq: u64,
    /// How many files are full and have a number.
    pub(super) files: u64,
    /// Of the file that is not full yet, in bytes.
    pub(super) length: u64,
    pub(super) mac: Mac,
}

impl Head {
    /// Always of the same length, so that one in the place of another leaves nothing of it.
    fn said(&self) -> String {
        format!(
            "{:020} {:020} {:020} {}",
            self.seq,
            self.files,
            self.length,
            HEXLOWER.encode(&self.mac)
        )
    }
}

/// What a line says of itself; nothing of it is known to be true yet.
pub(super) struct Stated<'a> {
    pub(super) seq: u64,
    /// Whether it was written together with the one before.
    pub(super) is_joined: bool,
    /// What the MAC is over.
    pub(super) body: &'a [u8],
    pub(super) mac: Mac,
}

/// A line without its end; `None` for what has not the form of one.
pub(super) fn stated(line: &[u8]) -> Option<Stated<'_>> {
    let line = line.strip_suffix(AFTER_MAC)?;
    let (line, hex) = line.split_at_checked(line.len().checked_sub(64)?)?;
    let body = line.strip_suffix(BEFORE_MAC)?;
    let mut mac = [0; 32];
    // In one form only: in another, the line would be changed and its MAC would not.
    match HEXLOWER.decode_mut(hex, &mut mac) {
        Ok(32) => {}
        _ => return None,
    }
    let digits = body.strip_prefix(b"{\"seq\":")?;
    let end = digits.iter().position(|it| *it == b',')?;
    let seq = std::str::from_utf8(&digits[..end]).ok()?.parse().ok()?;
    let is_joined = digits[end + 1..].starts_with(JOINED.as_bytes());
    Some(Stated {
        seq,
        is_joined,
        body,
        mac,
    })
}

pub(super) fn at(path: &Path, err: io::Error) -> io::Error {
    io::Error::new(err.kind(), format!("{}: {err}", path.display()))
}
