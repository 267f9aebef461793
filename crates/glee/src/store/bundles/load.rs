//! Everything there is on disk, read again only where something changed.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use glee_core::bundle::{Bundle, Keeper, Member};
use glee_core::host::HostPattern;

use super::file::{self, Stamp};
use super::{BUNDLE, Bundles, SWITCHES, Switches, import, switches};
use crate::dialect::bundle::wire::StoredTool;
use crate::dialect::bundle::{self, Surroundings};

/// All bundles and tools, and the files that nothing could be made of.
#[derive(Default)]
pub struct Loaded {
    pub bundles: Vec<Bundle>,
    pub members: Vec<Arc<Member>>,
    pub strays: Vec<(String, String)>,
    pub switches: Switches,
}

#[derive(Default)]
pub(super) struct Known {
    tools: HashMap<PathBuf, (Stamp, Arc<Member>)>,
    /// What they found around them.
    hosts: Vec<HostPattern>,
    secrets: BTreeSet<String>,
}

impl Bundles {
    pub fn load(&self, around: &Surroundings) -> io::Result<Loaded> {
        let mut loaded = Loaded {
            switches: switches::read(&self.directory.join(SWITCHES))?,
            ..Loaded::default()
        };
        if import::is_unfinished(&self.directory)
            && let Err(err) = self.alone()
            && import::is_unfinished(&self.directory)
        {
            let why = format!("an import that is not finished: {err}");
            loaded.strays.push((".glee/bundles/.import".into(), why));
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.hosts != around.allowed_hosts || known.secrets != around.secrets {
            *known = Known {
                hosts: around.allowed_hosts.clone(),
                secrets: around.secrets.clone(),
                ..Known::default()
            };
        }
        let mut kept = HashMap::new();
        let mut found = Vec::new();
        for home in homes(&self.directory)? {
            let bundle = match read_bundle(&home) {
                Ok(Some(bundle)) => bundle,
                // It is being made, or somebody who made it died.
                Ok(None) => continue,
                Err(why) => {
                    loaded.strays.push((shown(&home.join(BUNDLE)), why));
                    continue;
                }
            };
            loaded.bundles.push(bundle);
            found.push(home);
        }
        for (home, bundle) in found.iter().zip(&loaded.bundles) {
            let prefix = prefix(bundle, &loaded.bundles);
            for name in names(home)? {
                let path = home.join(&name);
                let before = known.tools.remove(&path);
                match read_tool(&path, &name, bundle, &prefix, before, around) {
                    Ok(Some((stamp, member))) => {
                        loaded.members.push(member.clone());
                        if stamp.is_settled() {
                            kept.insert(path, (stamp, member));
                        }
                    }
                    // It was there a moment ago.
                    Ok(None) => {}
                    Err(why) => loaded.strays.push((shown(&path), why)),
                }
            }
        }
        known.tools = kept;
        Ok(loaded)
    }

    /// The tool of a document that was just written.
    pub fn member(
        &self,
        stored: &StoredTool,
        bundle: &Bundle,
        others: &[Bundle],
        around: &Surroundings,
    ) -> Result<Member, String> {
        let key = bundle::key(stored)?;
        let name = name(&prefix(bundle, others), stored);
        bundle::member(stored, Keeper::Store, name, &self.path(&key), around)
    }
}

/// What the names of a bundle's tools begin with. Of two bundles with one slug the older keeps it.
fn prefix(bundle: &Bundle, others: &[Bundle]) -> String {
    let is_taken = others.iter().any(|it| {
        (it.created_at, it.id) < (bundle.created_at, bundle.id) && it.slug == bundle.slug
    });
    match is_taken {
        false => bundle.slug.clone(),
        true => {
            let id = bundle.id.simple().to_string();
            format!("{}~{}", bundle.slug, &id[id.len() - 8..])
        }
    }
}

fn name(prefix: &str, stored: &StoredTool) -> String {
    format!("{prefix}.{}.{}", stored.slug, stored.version)
}

pub(super) fn read_bundle(home: &Path) -> Result<Option<Bundle>, String> {
    let text = match file::read(&home.join(BUNDLE)) {
        Ok((text, _)) => text,
        Err(err) if err.kind() == io::ErrorKind::NotFound => {
            let is_empty = names(home).is_ok_and(|it| it.is_empty());
            return match is_empty {
                true => Ok(None),
                false => Err("it is missing, so nothing in its directory is used".to_owned()),
            };
        }
        Err(err) => return Err(err.to_string()),
    };
    let (_, bundle) = bundle::read_bundle(&text)?;
    match home
        .file_name()
        .is_some_and(|it| *it == *bundle.id.to_string())
    {
        true => Ok(Some(bundle)),
        false => Err("its bundleID is another one than its directory's".to_owned()),
    }
}

fn read_tool(
    path: &Path,
    file: &str,
    bundle: &Bundle,
    prefix: &str,
    before: Option<(Stamp, Arc<Member>)>,
    around: &Surroundings,
) -> Result<Option<(Stamp, Arc<Member>)>, String> {
    if let Some((stamp, member)) = before
        && fs::symlink_metadata(path).is_ok_and(|it| Stamp::of(&it) == stamp)
        && member.name.starts_with(prefix)
        && member.name[prefix.len()..].starts_with('.')
    {
        return Ok(Some((stamp, member)));
    }
    let (text, stamp) = match file::read(path) {
        Ok(read) => read,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(err) => return Err(err.to_string()),
    };
    let (stored, keeper) = bundle::read_tool(&text)?;
    let key = bundle::key(&stored)?;
    if key.bundle != bundle.id {
        return Err("its bundleID is another one than its directory's".to_owned());
    }
    if file::file_name(&key) != file {
        return Err(format!(
            "a tool of its slug and version would be in {}",
            file::file_name(&key)
        ));
    }
    let member = bundle::member(&stored, keeper, name(prefix, &stored), path, around)?;
    Ok(Some((stamp, Arc::new(member))))
}

/// The directories of bundles, in the order of their ids.
pub(super) fn homes(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(err) => return Err(err),
    };
    let mut homes = Vec::new();
    for entry in entries {
        let entry = entry?;
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        if !is_hidden && entry.file_type()?.is_dir() {
            homes.push(entry.path());
        }
    }
    homes.sort();
    Ok(homes)
}

/// The files of tools in a bundle's directory. Hidden ones are what writers and editors leave behind.
pub(super) fn names(home: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(home) {
        Ok(entries) => entries,
        // A bundle that was removed meanwhile.
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(err) => return Err(err),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != BUNDLE && !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// From the project's root.
fn shown(path: &Path) -> String {
    let parts: Vec<_> = path.components().rev().take(2).collect();
    let inside: PathBuf = parts.into_iter().rev().collect();
    format!(".glee/bundles/{}", inside.display())
}
