//! Which of the bundles and tools that are not kept here are switched off: of those that come with glee, and
//! of the project's own. It is kept apart, so that it stays when those change.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use glee_core::bundle::Key;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::file;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Switches {
    #[serde(default)]
    disabled_bundles: BTreeSet<String>,
    /// `<bundleID>/<slug>/<version>`
    #[serde(default)]
    disabled_tools: BTreeSet<String>,
}

impl Switches {
    pub fn has_bundle(&self, id: Uuid) -> bool {
        !self.disabled_bundles.contains(&id.to_string())
    }

    pub fn has_tool(&self, key: &Key) -> bool {
        !self.disabled_tools.contains(&path(key))
    }

    pub fn set_bundle(&mut self, id: Uuid, enabled: bool) {
        set(&mut self.disabled_bundles, id.to_string(), enabled);
    }

    pub fn set_tool(&mut self, key: &Key, enabled: bool) {
        set(&mut self.disabled_tools, path(key), enabled);
    }
}

fn set(disabled: &mut BTreeSet<String>, what: String, enabled: bool) {
    match enabled {
        true => disabled.remove(&what),
        false => disabled.insert(what),
    };
}

fn path(key: &Key) -> String {
    format!("{}/{}/{}", key.bundle, key.slug, key.version)
}

/// One that is there and cannot be read is an error: what somebody switched off must not come back by that.
pub(super) fn read(path: &Path) -> io::Result<Switches> {
    match file::read(path) {
        Ok((text, _)) => serde_json::from_str(&text)
            .map_err(|err| io::Error::other(format!("{}: {err}", path.display()))),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(Switches::default()),
        Err(err) => Err(io::Error::new(
            err.kind(),
            format!("{}: {err}", path.display()),
        )),
    }
}
