//! A value that must not be seen: it can be used, but it cannot print itself.

use std::collections::BTreeMap;
use std::fmt;

/// The text of a secret. `reveal` is the only way to it, and easy to search for.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// The secrets of one call, by name.
pub type SecretValues = BTreeMap<String, Secret>;

impl Secret {
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_hides_the_text() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "<secret>");
    }
}
