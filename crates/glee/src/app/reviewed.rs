//! What people decided about agents' tools, held against the tools as they are at each moment.

use std::path::PathBuf;

use glee_core::model::{Origin, Standing, ToolSpec};
use glee_core::port;

use crate::dialect::document;
use crate::exec;
use crate::store::reviews::Reviews;
use crate::store::{digest, manifests};

/// A digest, and the bytes that it was made of.
pub struct Seen {
    pub digest: String,
    pub manifest: String,
    pub pieces: Vec<digest::Piece>,
}

pub(super) struct Reviewed {
    pub(super) root: PathBuf,
    pub(super) records: Reviews,
}

impl Reviewed {
    /// The digest of a tool whose manifest and files are read anew; nothing when the manifest on disk
    /// is another one than the one that was read, or there is too much of it.
    fn digest(&self, spec: &ToolSpec) -> Option<String> {
        self.manifest(spec)?;
        let entries = exec::entries(spec, &self.root);
        let mut programs = digest::Programs::default();
        digest::digest(spec, &entries, &self.root, &mut programs)
    }

    /// The same, with what the digest was made of.
    pub(super) fn seen(&self, spec: &ToolSpec) -> Option<Seen> {
        let manifest = self.manifest(spec)?;
        let entries = exec::entries(spec, &self.root);
        let (digest, pieces) = digest::seen(spec, &entries, &self.root)?;
        Some(Seen {
            digest,
            manifest,
            pieces,
        })
    }

    fn manifest(&self, spec: &ToolSpec) -> Option<String> {
        let text = document::load(&spec.source).ok()?;
        (manifests::hash(&text) == spec.document).then_some(text)
    }
}

impl port::Reviews for Reviewed {
    fn origin(&self, spec: &ToolSpec) -> Origin {
        let record = self.records.get(&spec.name);
        let creator = match (&record, &spec.origin) {
            (Ok(Some(record)), _) => record.creator.clone(),
            (_, Origin::Agent { creator, .. }) => creator.clone(),
            (Ok(None), other) => return other.clone(),
            (Err(_), _) => "unknown".to_owned(),
        };
        let standing = match record {
            Ok(Some(record)) => record.standing(self.digest(spec).as_deref()),
            Ok(None) | Err(_) => Standing::Pending,
        };
        Origin::Agent { creator, standing }
    }
}
