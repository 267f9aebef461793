//! The files of a tool, as a person sees them who must decide about it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::store::digest::{Found, LONGEST_SHOWN, Piece};

/// One file of a tool, besides its manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Inside the tool's directory, or from the project's root for what it runs elsewhere.
    pub name: String,
    pub body: Body,
    /// The SHA-256, in hex.
    pub hash: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Text(String),
    /// Something that is no text, or too much of it.
    Bytes(u64),
    /// Where it leads.
    Link(PathBuf),
    Unreadable,
}

/// The very things that the digest was made of, in its order.
pub(super) fn shown(pieces: Vec<Piece>) -> Vec<Part> {
    pieces.into_iter().map(part).collect()
}

/// The hash of each file, by name.
pub(super) fn hashes(parts: &[Part]) -> BTreeMap<String, String> {
    let named = parts.iter().map(|it| (it.name.clone(), it.hash.clone()));
    named.collect()
}

fn part(piece: Piece) -> Part {
    let (body, hash) = match piece.found {
        Found::File {
            hash,
            length,
            start,
        } => (text(start, length), HEXLOWER.encode(&hash)),
        Found::Link(leads) => {
            let hash = Sha256::digest(leads.as_os_str().as_encoded_bytes());
            (Body::Link(leads), HEXLOWER.encode(&hash))
        }
        Found::Unreadable => (Body::Unreadable, String::new()),
    };
    Part {
        name: piece.name.display().to_string(),
        body,
        hash,
    }
}

fn text(start: Vec<u8>, length: u64) -> Body {
    if length > LONGEST_SHOWN as u64 {
        return Body::Bytes(length);
    }
    String::from_utf8(start).map_or(Body::Bytes(length), Body::Text)
}
