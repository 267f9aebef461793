//! The audit: nothing happens without a record, and no record can be changed unseen.

mod chain;
mod client;
mod crash;
mod disk;
mod rotation;
mod told;
mod turns;

use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use glee::observe::audit::{Audit, Fsync, Settings};
use glee::store::journal::{self, Place, Report};
use glee_core::event::{Event, What};
use glee_core::port::Observer;
use serde_json::Value;
use uuid::Uuid;

use crate::support::Scene;

const TOUCH: &str = "name: touch\ndescription: Leaves a file\nkind: command\nversion: 1
inputs: {schema: {type: object, properties: {note: {type: string, description: n}}}}
outputs: {format: text}
exec: {command: {entrypoint: touch, args: [ran]}}
permissions: {fs: {read: ['.'], write: ['.']}}
approval: {required: false}\n";

fn scene() -> Scene {
    let scene = Scene::new();
    scene.write(".glee/tools/touch/tool.yml", TOUCH);
    scene.write(".glee/config.yml", "# all as it is\n");
    scene
}

/// A journal without a project around it.
struct Books {
    place: Place,
    _directory: tempfile::TempDir,
}

impl Books {
    fn new() -> Books {
        let directory = tempfile::tempdir().unwrap();
        let place = Place {
            directory: directory.path().join("audit"),
            state: directory.path().join("state"),
        };
        Books {
            place,
            _directory: directory,
        }
    }

    fn audit(&self) -> Audit {
        self.audit_with(64 << 20, Fsync::Soon)
    }

    fn audit_with(&self, rotate_bytes: u64, fsync: Fsync) -> Audit {
        Audit::new(Settings {
            root: self.place.directory.clone(),
            directory: self.place.directory.clone(),
            state: Some(self.place.state.clone()),
            rotate_bytes,
            fsync,
        })
    }

    fn record(&self, audit: &Audit, count: usize) {
        for n in 0..count {
            audit.observe(&event(&format!("tool_{n}"))).unwrap();
        }
    }

    fn with(count: usize) -> Books {
        let books = Books::new();
        books.record(&books.audit(), count);
        books
    }

    fn journal(&self) -> PathBuf {
        self.place.directory.join("journal.jsonl")
    }

    fn head(&self) -> PathBuf {
        self.place.state.join("audit.head")
    }

    fn verify(&self) -> Report {
        journal::verify(&self.place).unwrap()
    }

    #[track_caller]
    fn is_whole(&self, events: u64) -> Report {
        let report = self.verify();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        assert_eq!(report.events, events);
        report
    }

    fn lines(&self) -> Vec<String> {
        let lines = journal::lines(&self.place.directory).unwrap();
        lines.map(Result::unwrap).collect()
    }
}

fn event(tool: &str) -> Event {
    Event {
        id: Uuid::now_v7(),
        at: SystemTime::now(),
        tool: tool.to_owned(),
        document: Some([7; 32]),
        actor: "user".to_owned(),
        args: Default::default(),
        held: None,
        trail: Vec::new(),
        what: What::Started,
    }
}

/// The journal of a project.
fn records(scene: &Scene) -> Vec<Value> {
    let text = fs::read_to_string(scene.root.join(".glee/audit/journal.jsonl")).unwrap_or_default();
    text.lines()
        .map(|it| serde_json::from_str(it).unwrap())
        .collect()
}

fn ran(scene: &Scene) -> bool {
    scene.root.join("ran").exists()
}
