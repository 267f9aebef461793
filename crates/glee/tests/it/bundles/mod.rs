//! Bundles, as clients of `glee serve` see them, and as they stand on disk.

mod api;
mod bounds;
mod crash;
mod disk;
mod exchange;
mod faults;
mod held;
mod http;
mod names;
mod pages;
mod person;
mod referee;
mod rules;
mod search;
mod settled;
mod store;
mod zip;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use glee::app::App;
use glee_core::port::{Answer, Caller};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::mcp::server::{Reply, Served, eventually, glee};
use crate::support::{Scene, wiring};

fn user() -> Caller {
    Caller {
        name: "user".to_owned(),
    }
}

/// The project as a program that embeds glee has it, with these secrets and nobody to ask.
fn open(scene: &Scene, secrets: BTreeMap<String, String>) -> App {
    let nobody = Answer::Nobody {
        hint: String::new(),
    };
    App::open(scene.project(), wiring(secrets, nobody)).unwrap()
}

/// A server and its owner.
pub(crate) struct House {
    pub(crate) scene: Scene,
    pub(crate) served: Served,
    pub(crate) owner: String,
}

impl House {
    pub(crate) fn new() -> House {
        House::with(Scene::new(), "")
    }

    pub(crate) fn with(scene: Scene, config: &str) -> House {
        scene.write(".glee/config.yml", config);
        let served = Served::guarded(&scene);
        let owner = served.token.clone().unwrap();
        House {
            scene,
            served,
            owner,
        }
    }

    pub(crate) fn ask(&self, line: &str, body: Value) -> Reply {
        self.served.rest(line, &self.owner, &[], &body)
    }

    /// The answer, which must be of this status.
    pub(crate) fn expect(&self, status: u16, line: &str, body: Value) -> Value {
        let reply = self.ask(line, body);
        assert_eq!(reply.status, status, "{line}: {reply:?}");
        said(&reply)
    }

    pub(crate) fn bundle(&self, slug: &str) -> Uuid {
        let id = Uuid::now_v7();
        self.expect(
            201,
            &format!("PUT /tools/bundles/{id}"),
            json!({"slug": slug}),
        );
        id
    }

    /// A token with these scopes only.
    pub(crate) fn token(&self, name: &str, scopes: &[&str]) -> String {
        let mut words = vec!["token", "create", name];
        scopes.iter().for_each(|it| words.extend(["--scope", it]));
        let token = glee(&self.scene, &words);
        eventually("the token is known", || self.served.admits(&token));
        token
    }

    pub(crate) fn directory(&self, bundle: Uuid) -> PathBuf {
        self.scene.root.join(format!(".glee/bundles/{bundle}"))
    }

    /// The names of all files of a bundle.
    pub(crate) fn files(&self, bundle: Uuid) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.directory(bundle))
            .unwrap()
            .map(|it| it.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

pub(crate) fn said(reply: &Reply) -> Value {
    serde_json::from_str(&reply.body).unwrap_or(Value::Null)
}

pub(crate) fn tool(bundle: Uuid, slug: &str, version: &str) -> String {
    let encode = |it: &str| -> String { it.bytes().map(|it| format!("%{it:02X}")).collect() };
    let (slug, version) = (encode(slug), encode(version));
    format!("/tools/bundles/{bundle}/tools/{slug}/version/{version}")
}

/// A tool whose function no program has.
pub(crate) fn absent() -> Value {
    json!({"type": "go", "displayName": "Absent", "description": "Not here",
        "impl": {"goFunc": "example.com/tools.Absent"}})
}
