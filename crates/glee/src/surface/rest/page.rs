//! Pages of long lists. Where a page ends is carried by the client, sealed: it can neither be read nor made
//! by anybody else, and goes on only with the list it was given for.

use data_encoding::BASE64URL_NOPAD;
use glee_core::outcome::{Failure, FailureKind};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;
use uuid::Uuid;

/// Rows on a page unless somebody says otherwise, and at most.
pub(super) const USUAL: usize = 25;
pub(super) const MOST: usize = 256;
const SEAL: usize = 16;

/// The seal is another one in every process; a list is begun anew after a restart.
pub(super) struct Pages {
    key: Vec<u8>,
}

impl Pages {
    pub(super) fn new() -> Pages {
        Pages {
            key: (0..2).flat_map(|_| Uuid::new_v4().into_bytes()).collect(),
        }
    }

    /// `list` says which list it is, and by what it was filtered.
    pub(super) fn seal(&self, list: &Value, last: &Value) -> String {
        let text = last.to_string();
        let mut token = self.sign(list, text.as_bytes())[..SEAL].to_vec();
        token.extend(text.bytes());
        BASE64URL_NOPAD.encode(&token)
    }

    pub(super) fn open(&self, list: &Value, token: &str) -> Result<Value, Failure> {
        let bytes = BASE64URL_NOPAD
            .decode(token.as_bytes())
            .map_err(|_| foreign())?;
        let (seal, text) = bytes.split_at_checked(SEAL).ok_or_else(foreign)?;
        let mut mac = self.mac(list);
        mac.update(text);
        mac.verify_truncated_left(seal).map_err(|_| foreign())?;
        serde_json::from_slice(text).map_err(|_| foreign())
    }

    fn mac(&self, list: &Value) -> Hmac<Sha256> {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.key) else {
            unreachable!("every key will do");
        };
        let list = list.to_string();
        mac.update(&(list.len() as u64).to_le_bytes());
        mac.update(list.as_bytes());
        mac
    }

    fn sign(&self, list: &Value, text: &[u8]) -> Vec<u8> {
        let mut mac = self.mac(list);
        mac.update(text);
        mac.finalize().into_bytes().to_vec()
    }
}

/// Why a token is of no use.
pub(super) fn foreign() -> Failure {
    Failure::new(
        FailureKind::InvalidInput,
        "pageToken is not one that was given for this list",
    )
    .with(
        "violations",
        serde_json::json!([{"pointer": "/pageToken", "message": "it is not one of this list"}]),
    )
    .hint("begin again without it, with the same query")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn au_07_a_token_serves_one_list() {
        let pages = Pages::new();
        let token = pages.seal(&json!(["a", 1]), &json!("last"));
        assert_eq!(pages.open(&json!(["a", 1]), &token), Ok(json!("last")));
        assert!(pages.open(&json!(["a", 2]), &token).is_err());
        assert!(Pages::new().open(&json!(["a", 1]), &token).is_err());
        for at in 0..token.len() {
            let mut other = token.clone().into_bytes();
            other[at] = if other[at] == b'A' { b'B' } else { b'A' };
            let other = String::from_utf8(other).unwrap();
            assert!(pages.open(&json!(["a", 1]), &other).is_err(), "{at}");
        }
        for other in ["", "A", "=", "ü", &token[..20], &"A".repeat(1 << 20)] {
            assert!(pages.open(&json!(["a", 1]), other).is_err());
        }
    }
}
