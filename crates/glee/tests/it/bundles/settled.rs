//! What is answered is on disk, and what depends on something else gets there after it: seen in the calls that a
//! server makes. A journaling disk forces more than it is asked to, so pulling its plug does not tell.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use uuid::Uuid;

use super::faults::strace;
use super::{House, absent, tool, zip};
use crate::mcp::server::{Served, eventually, in_project};
use crate::support::{GLEE, Scene};

const CALLS: &str = "?open,openat,write,pwrite64,writev,ftruncate,sendto,fsync,fdatasync,?mkdir,mkdirat,?rename,?renameat,\
                     renameat2,?link,linkat,?unlink,unlinkat,?rmdir";

/// What a disk could still lose, of what lies below one directory.
struct Disk {
    below: PathBuf,
    /// Files that were written.
    contents: BTreeSet<PathBuf>,
    /// Names that came or went, and where what has them came from.
    names: BTreeMap<PathBuf, Option<PathBuf>>,
    wrong: Vec<String>,
}

impl Disk {
    fn is_ours(&self, path: &Path) -> bool {
        // Whoever comes first makes the lock anew.
        path.starts_with(&self.below) && !path.ends_with(".lock")
    }

    fn comes(&mut self, path: PathBuf) {
        if self.is_ours(&path) {
            self.names.insert(path, None);
        }
    }

    fn goes(&mut self, path: &Path) {
        self.contents.remove(path);
        // What never was on disk need not be taken off it.
        if self.is_ours(path) && self.names.remove(path).is_none() {
            self.names.insert(path.to_owned(), None);
        }
    }

    fn moves(&mut self, from: &Path, to: PathBuf) {
        if !self.is_ours(&to) {
            return;
        }
        let inside = |it: &&PathBuf| it.starts_with(from) && *it != from;
        let around = |it: &&PathBuf| [from, &to].iter().any(|of| of.starts_with(it) && it != of);
        let written = self.contents.iter().filter(|it| it.starts_with(from));
        let named = self.names.keys().filter(|it| inside(it) || around(it));
        let lost: BTreeSet<_> = written.chain(named).collect();
        if !lost.is_empty() {
            let what = format!("{} moves before {lost:?}", from.display());
            self.wrong.push(what);
        }
        self.goes(from);
        self.names.insert(to, Some(from.to_owned()));
    }

    fn directory_goes(&mut self, path: &Path) {
        let left = |from: &Option<PathBuf>| from.as_deref().and_then(Path::parent) == Some(path);
        let lost: Vec<_> = self.names.iter().filter(|it| left(it.1)).collect();
        if !lost.is_empty() {
            let what = format!("{} goes before {lost:?}", path.display());
            self.wrong.push(what);
        }
        self.names
            .retain(|it, _| it == path || !it.starts_with(path));
        self.goes(path);
    }

    fn is_forced(&mut self, path: &Path) {
        self.contents.remove(path);
        self.names.retain(|it, _| it.parent() != Some(path));
    }

    fn answers(&mut self) {
        if !self.contents.is_empty() || !self.names.is_empty() {
            let what = format!(
                "answered before {:?} {:?}",
                self.contents,
                self.names.keys()
            );
            self.wrong.push(what);
            self.contents.clear();
            self.names.clear();
        }
    }

    /// One call that succeeded, as strace tells it with the paths of descriptors.
    fn sees(&mut self, call: &str, root: &Path) {
        let Some((name, said)) = call.split_once('(') else {
            return;
        };
        let Some((said, result)) = said.rsplit_once(" = ") else {
            return;
        };
        if result.starts_with('-') {
            return;
        }
        let opened = between(said, '<', '>').map(PathBuf::from);
        // Each path stands behind the directory that it is looked up in, or alone.
        let texts: Vec<&str> = said.split('"').collect();
        let path = |nth: usize| {
            let before = texts.get(2 * nth)?;
            let within = match name.contains("at") {
                true => between(before, '<', '>').map(PathBuf::from)?,
                false => root.to_owned(),
            };
            Some(within.join(texts.get(2 * nth + 1)?))
        };
        let is_said = |to: &str| said.contains(to);
        match (name, path(0), path(1)) {
            ("write" | "writev" | "sendto", ..) if is_said("<socket:") => self.answers(),
            ("write" | "pwrite64" | "writev" | "ftruncate", ..) => {
                let ours = opened.filter(|it| self.is_ours(it));
                self.contents.extend(ours);
            }
            ("fsync" | "fdatasync", ..) => opened.iter().for_each(|it| self.is_forced(it)),
            ("open" | "openat", Some(it), _) if is_said("O_EXCL") => self.comes(it),
            ("mkdir" | "mkdirat", Some(it), _) | ("link" | "linkat", _, Some(it)) => self.comes(it),
            ("rename" | "renameat" | "renameat2", Some(from), Some(to)) => self.moves(&from, to),
            ("rmdir", Some(it), _) => self.directory_goes(&it),
            ("unlinkat", Some(it), _) if is_said("AT_REMOVEDIR") => self.directory_goes(&it),
            ("unlink" | "unlinkat", Some(it), _) => self.goes(&it),
            _ => {}
        }
    }
}

fn between(text: &str, open: char, close: char) -> Option<&str> {
    let (_, rest) = text.split_once(open)?;
    Some(rest.split_once(close)?.0)
}

/// The calls of a log, each whole, in the order in which they ended.
fn calls(log: &str) -> Vec<String> {
    let mut begun: BTreeMap<&str, &str> = BTreeMap::new();
    let mut calls = Vec::new();
    for line in log.lines() {
        let Some((thread, call)) = line.split_once(' ') else {
            continue;
        };
        let call = call.trim_start();
        if let Some(begin) = call.strip_suffix(" <unfinished ...>") {
            begun.insert(thread, begin);
        } else if let Some((_, end)) = call.split_once(" resumed>") {
            let begin = begun.remove(thread).unwrap_or_default();
            calls.push(format!("{begin}{end}"));
        } else {
            calls.push(call.to_owned());
        }
    }
    calls
}

/// A server whose calls are written down.
fn watched(scene: &Scene, log: &Path) -> Served {
    let mut command = strace(log, CALLS);
    command
        .args(["-D", "-y", "-s", "0"])
        .args([GLEE, "serve", "--listen", "127.0.0.1:0"]);
    Served::begin(in_project(&mut command, scene))
}

/// `DU-01`: each step of each change, in the order in which the disk must have them.
#[test]
fn du_01_what_is_answered_is_on_disk() {
    let house = House::new();
    let there = house.bundle("there");
    // One that was deleted long ago is taken away at the start.
    let old = house.bundle("old");
    let delete = format!("DELETE /tools/bundles/{old}");
    house.expect(204, &delete, Value::Null);
    let House {
        scene,
        served,
        owner,
    } = house;
    drop(served);
    let document = scene.root.join(format!(".glee/bundles/{old}/bundle.json"));
    let mut kept: Value = serde_json::from_slice(&fs::read(&document).unwrap()).unwrap();
    kept["softDeletedAt"] = json!("2020-01-01T00:00:00Z");
    kept.as_object_mut().unwrap().remove("softDeletedBoot");
    let bundles = scene.root.join(".glee/bundles");
    let mut wrong = Vec::new();
    let mut answered = 0;
    // Where there is something already, and where there is nothing at all.
    for first in [true, false] {
        match first {
            true => fs::write(&document, kept.to_string()).unwrap(),
            false => fs::remove_dir_all(&bundles).unwrap(),
        }
        let log = scene.root.with_file_name(format!("strace-{first}.log"));
        let served = watched(&scene, &log);
        eventually("what is old is gone", || !document.exists());
        // Whoever changes something comes after that; this one touches no other directory.
        let line = format!("PUT {}", tool(there, "t", "1"));
        let status = if first { 201 } else { 404 };
        assert_eq!(served.rest(&line, &owner, &[], &absent()).status, status);
        let bundle = Uuid::now_v7();
        let (here, at) = (format!("/tools/bundles/{bundle}"), tool(bundle, "t", "1"));
        let off = json!({"isEnabled": false});
        for (line, body) in [
            (format!("PUT {here}"), json!({"slug": "b"})),
            (format!("PUT {at}"), absent()),
            (format!("PATCH {at}"), off.clone()),
            (format!("PATCH {here}"), off),
            (format!("PATCH {here}"), json!({"isEnabled": true})),
            (format!("DELETE {at}"), Value::Null),
            (format!("DELETE {here}"), Value::Null),
        ] {
            let reply = served.rest(&line, &owner, &[], &body);
            assert!(reply.status < 300, "{line}: {reply:?}");
            answered += 1;
        }
        let archive = zip::good(&[(Uuid::now_v7(), "one"), (Uuid::now_v7(), "two")]);
        let reply = served.rest_bytes_of(
            "POST /tools/bundles/import",
            &owner,
            "application/zip",
            &archive,
        );
        assert_eq!(reply.status, 200, "{reply:?}");
        answered += 1;
        drop(served);
        let mut disk = Disk {
            below: bundles.clone(),
            contents: BTreeSet::new(),
            names: BTreeMap::new(),
            wrong: Vec::new(),
        };
        // Each call is written down before it goes on.
        let seen = calls(&fs::read_to_string(&log).unwrap());
        for call in &seen {
            disk.sees(call, &scene.root);
        }
        disk.answers();
        assert!(seen.iter().any(|it| it.starts_with("fsync")), "{seen:?}");
        wrong.extend(disk.wrong.into_iter().map(|it| format!("{first}: {it}")));
    }
    assert!(
        wrong.is_empty(),
        "of {answered} changes:\n{}",
        wrong.join("\n")
    );
}
