//! What a tool prints, told to its caller while it does: as much of it as is kept, and without secrets.

use glee_core::admit::Admitted;
use glee_core::port::Party;
use glee_core::redact::{Pieces, Redactor};

/// For a caller who wants to hear it.
pub(super) struct Aloud<'a> {
    party: &'a dyn Party,
    pieces: Pieces,
    told: u64,
}

impl<'a> Aloud<'a> {
    pub(super) fn to_caller_of(call: &'a Admitted) -> Option<Aloud<'a>> {
        let party = &**call.party();
        party.hears_output().then(|| Aloud {
            party,
            pieces: Pieces::new(Redactor::new(call.secrets())),
            told: 0,
        })
    }

    pub(super) fn say(&mut self, bytes: &[u8]) {
        let text = self.pieces.push(bytes);
        self.tell(text);
    }

    pub(super) fn finish(mut self) {
        let text = self.pieces.finish();
        self.tell(text);
    }

    fn tell(&mut self, text: String) {
        if !text.is_empty() {
            let offset = self.told;
            self.told += text.len() as u64;
            self.party.hear_output(offset, text);
        }
    }
}
