//! Who may know whom. Each arrow that is not listed here is an arrow that does not exist.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::repository;

/// A module of the `glee` crate, and the others it may name.
const ARROWS: &[(&str, &[&str])] = &[
    (
        "app",
        &[
            "approve", "builtin", "config", "dialect", "exec", "native", "observe", "project",
            "store",
        ],
    ),
    ("approve", &["config", "dialect", "exec", "store"]),
    ("behind", &[]),
    ("builtin", &["exec", "native"]),
    ("config", &["builtin", "dialect"]),
    ("dialect", &[]),
    ("exec", &[]),
    (
        "lint",
        &["builtin", "config", "dialect", "exec", "project", "store"],
    ),
    ("native", &[]),
    ("observe", &["behind", "exec", "store"]),
    ("project", &[]),
    ("review", &["app", "config", "dialect", "exec", "store"]),
    ("store", &["dialect"]),
    (
        "surface",
        &[
            "app", "approve", "behind", "config", "dialect", "exec", "lint", "project", "review",
            "store", "watch",
        ],
    ),
    ("watch", &["app", "exec", "project"]),
];

/// Words that a crate may not hold, because of what they would bring in.
const FORBIDDEN: &[(&str, &[&str])] = &[
    (
        "glee-core",
        &[
            "tokio",
            "reqwest",
            "clap",
            "axum",
            "std::fs",
            "std::net::Tcp",
            "std::process",
            "std::env",
            "glee_sandbox",
            "derive(Serialize",
            "derive(Deserialize",
        ],
    ),
    ("glee-sandbox", &["glee_core", "tokio", "serde", "async fn"]),
];

fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
    found
}

/// The code of a file, without comments.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .filter(|it| !it.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn modules_know_only_whom_they_may() {
    let src = repository().join("crates/glee/src");
    let mut broken = Vec::new();
    for path in sources(&src) {
        let inside = path
            .strip_prefix(&src)
            .unwrap()
            .to_string_lossy()
            .into_owned();
        let module = inside.split(['/', '.']).next().unwrap().to_owned();
        if ["lib", "main"].contains(&module.as_str()) {
            continue;
        }
        let (_, allowed) = ARROWS
            .iter()
            .find(|(name, _)| *name == module)
            .unwrap_or_else(|| panic!("{module} is not in ARROWS"));
        for used in code(&path).split("crate::").skip(1) {
            let other: String = used
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            if other != module && !allowed.contains(&other.as_str()) {
                broken.push(format!("{inside} knows {other}"));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn no_dialect_knows_another() {
    let dialects = repository().join("crates/glee/src/dialect");
    let own = [
        "bundle", "function", "manifest", "native", "openapi", "prompt", "resource",
    ];
    let shared = [
        "condition",
        "document",
        "elicit",
        "network",
        "problem",
        "reader",
        "strict",
        "yaml",
    ];
    let files = |name: &str| match dialects.join(name).is_dir() {
        true => sources(&dialects.join(name)),
        false => vec![dialects.join(format!("{name}.rs"))],
    };
    for name in own.iter().chain(&shared) {
        for path in files(name) {
            for other in own.iter().filter(|it| *it != name) {
                assert!(
                    !code(&path).contains(&format!("super::{other}")),
                    "{} knows {other}",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn crates_hold_only_what_they_may() {
    for (name, words) in FORBIDDEN {
        for path in sources(&repository().join("crates").join(name).join("src")) {
            let text = code(&path);
            for word in *words {
                assert!(!text.contains(word), "{} says {word}", path.display());
            }
        }
    }
}

#[test]
fn unsafe_stands_only_in_the_sandbox() {
    for name in ["glee", "glee-core"] {
        for path in sources(&repository().join("crates").join(name).join("src")) {
            assert!(!code(&path).contains("unsafe "), "{}", path.display());
        }
    }
}

/// The names of the modules in a directory: files and folders alike.
fn modules(directory: &Path) -> Vec<String> {
    let mut found: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|it| it.unwrap().path())
        .filter(|it| it.is_dir() || it.extension().is_some_and(|it| it == "rs"))
        .map(|it| it.file_stem().unwrap().to_string_lossy().into_owned())
        .filter(|it| !["lib", "mod", "bin", "tests", "testdata"].contains(&it.as_str()))
        .collect();
    found.sort();
    found
}

#[test]
fn the_architecture_page_is_true() {
    let page = fs::read_to_string(repository().join("ARCHITECTURE.md")).unwrap();
    assert!(page.lines().count() <= 150);
    let words: Vec<&str> = page
        .split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-')
        .collect();
    let glee = repository().join("crates/glee/src");
    let mut places = vec![
        repository().join("crates/glee-core/src"),
        repository().join("crates/glee-sandbox/src"),
        glee.clone(),
    ];
    places.extend(
        ["dialect", "exec", "store", "approve", "observe", "surface"].map(|it| glee.join(it)),
    );
    let unnamed: Vec<String> = places
        .iter()
        .flat_map(|it| modules(it))
        .filter(|it| !words.contains(&it.as_str()))
        .collect();
    assert!(
        unnamed.is_empty(),
        "ARCHITECTURE.md does not name {unnamed:?}"
    );
    let manifest = fs::read_to_string(repository().join("Cargo.toml")).unwrap();
    let dependencies = manifest
        .split("[workspace.dependencies]")
        .nth(1)
        .unwrap()
        .split("\n[")
        .next()
        .unwrap();
    for line in dependencies.lines() {
        if let Some((name, _)) = line.split_once(" = ") {
            assert!(
                words.contains(&name),
                "ARCHITECTURE.md does not say why {name} is there"
            );
        }
    }
}
