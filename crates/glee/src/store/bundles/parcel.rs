//! Bundles in an archive: the same files as on disk, `<bundleID>/bundle.json` and one for each tool beside it.

use std::collections::BTreeMap;

use glee_core::bundle::Key;
use uuid::Uuid;

use super::{BUNDLE, file};
use crate::dialect::bundle::wire::{PutBundle, PutTool, StoredBundle, StoredTool};
use crate::dialect::bundle::{self, archive};

/// A bundle as an archive tells of it, which is as good as what any client says.
pub struct Parcel {
    pub id: Uuid,
    pub bundle: PutBundle,
    /// The documents stay text: read, many of them would take many times the memory.
    pub tools: Vec<(Key, String)>,
}

/// The same bundles and tools give the same bytes.
pub fn pack(bundles: &[(StoredBundle, Vec<(Key, StoredTool)>)]) -> Result<Vec<u8>, String> {
    let mut files = Vec::new();
    for (bundle, tools) in bundles {
        let path = |name: &str| format!("{}/{name}", bundle.bundle_id);
        files.push((path(BUNDLE), bundle::text(bundle)));
        for (key, tool) in tools {
            files.push((path(&file::file_name(key)), bundle::text(tool)));
        }
    }
    files.sort();
    archive::write(&files)
}

/// What an archive holds; or why nothing of it can be used.
pub fn unpack(bytes: &[u8]) -> Result<Vec<Parcel>, String> {
    let mut bundles = BTreeMap::new();
    let mut tools: BTreeMap<Uuid, Vec<(Key, String)>> = BTreeMap::new();
    for entry in archive::read(bytes)? {
        let told = |why: &str| format!("`{}`: {why}", entry.name);
        let (directory, name) = entry.name.split_once('/').unwrap_or_default();
        let Some(id) = bundle::id(directory) else {
            return Err(told("it is in no directory that is called like a bundle"));
        };
        if name.is_empty() {
            tools.entry(id).or_default();
            continue;
        }
        if entry.length as u64 > file::MOST_BYTES {
            return Err(told("it is larger than 1024 KiB"));
        }
        let text = String::from_utf8(entry.unpack()?).map_err(|_| told("it is not UTF-8"))?;
        if name == BUNDLE {
            let said: PutBundle = bundle::sent(&text).map_err(|why| told(&why))?;
            bundles.insert(id, said);
            continue;
        }
        let key = key(&text, id).map_err(|why| told(&why))?;
        if file::file_name(&key) != name {
            let right = file::file_name(&key);
            return Err(told(&format!(
                "a tool of its slug and version is in {right}"
            )));
        }
        tools.entry(id).or_default().push((key, text));
    }
    let parcels: Vec<Parcel> = bundles
        .into_iter()
        .map(|(id, bundle)| Parcel {
            id,
            bundle,
            tools: tools.remove(&id).unwrap_or_default(),
        })
        .collect();
    match (tools.keys().next(), parcels.is_empty()) {
        (Some(id), _) => Err(format!("there is a directory {id}, and no {BUNDLE} in it")),
        (None, true) => Err("there is no bundle in it".to_owned()),
        (None, false) => Ok(parcels),
    }
}

fn key(text: &str, bundle: Uuid) -> Result<Key, String> {
    let said: PutTool = bundle::sent(text)?;
    if said
        .bundle_id
        .is_some_and(|it| bundle::id(&it) != Some(bundle))
    {
        return Err("its bundleID is another one than its directory's".to_owned());
    }
    let key = Key {
        bundle,
        slug: said.slug.ok_or("it has no slug")?,
        version: said.version.ok_or("it has no version")?,
    };
    key.check().map_err(|it| it.message)?;
    Ok(key)
}
