//! What a stateless client carries between two calls: sealed, for one caller, for one use, for a while.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use glee_core::json;
use rmcp::ErrorData;
use rmcp::model::{RequestStateCodec, SealOptions};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// How long a client may take to answer.
const LASTS: Duration = Duration::from_secs(10 * 60);
/// Used seals that are remembered. Were one forgotten while it lasts, it could be used again; so when
/// there are more, none is opened until some have run out.
const MOST_USED: usize = 100_000;

pub(super) struct Seals {
    codec: RequestStateCodec,
    used: Mutex<HashMap<String, Instant>>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Carried {
    nonce: String,
    /// What was answered in earlier rounds.
    pub(super) answers: BTreeMap<String, Value>,
    /// The question that the client was asked, by its id.
    pub(super) approval: Option<String>,
}

impl Seals {
    pub(super) fn new() -> Seals {
        let key: Vec<u8> = (0..4).flat_map(|_| Uuid::new_v4().into_bytes()).collect();
        Seals {
            codec: RequestStateCodec::new(key),
            used: Mutex::default(),
        }
    }

    /// `purpose` says who calls what with which arguments; the seal opens only for the same.
    pub(super) fn seal(
        &self,
        purpose: &str,
        answers: BTreeMap<String, Value>,
        approval: Option<String>,
    ) -> Result<String, ErrorData> {
        let carried = Carried {
            nonce: Uuid::new_v4().simple().to_string(),
            answers,
            approval,
        };
        let options = SealOptions::new()
            .associated_data(purpose.as_bytes())
            .ttl(LASTS);
        self.codec
            .seal_json_with(&carried, &options)
            .map_err(|_| ErrorData::internal_error("the state could not be sealed", None))
    }

    pub(super) fn open(&self, purpose: &str, sealed: &str) -> Result<Carried, ErrorData> {
        let refused = |why: &'static str| ErrorData::invalid_params(why, None);
        let carried: Carried = self
            .codec
            .open_json_with(sealed, purpose.as_bytes())
            .map_err(|_| refused("requestState is not one of this call, or too old"))?;
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.len() >= MOST_USED {
            used.retain(|_, since| since.elapsed() < LASTS);
            if used.len() >= MOST_USED {
                return Err(refused(
                    "too many questions were answered lately; try again later",
                ));
            }
        }
        match used.insert(carried.nonce.clone(), Instant::now()) {
            None => Ok(carried),
            Some(_) => Err(refused("requestState was used before")),
        }
    }
}

/// Who calls what, with which arguments.
pub(super) fn purpose(caller: &str, what: &str, args: &Map<String, Value>) -> String {
    let mut hash = Sha256::new();
    for part in [caller, what, &json::canonical_object(args)] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    HEXLOWER.encode(&hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_serves_one_purpose_once() {
        let seals = Seals::new();
        let sealed = seals.seal("a", BTreeMap::new(), None).unwrap();
        assert!(seals.open("b", &sealed).is_err());
        assert!(seals.open("a", &sealed).is_ok());
        assert!(seals.open("a", &sealed).is_err());
        assert!(Seals::new().open("a", &sealed).is_err());
    }
}
