//! What is generated from the code is checked in, and current. `UPDATE=1 cargo test` rewrites it.

use std::fs;

use serde_json::Value;

use crate::support::{repository, updating};

fn current(path: &str, value: &Value) {
    current_text(path, serde_json::to_string_pretty(value).unwrap() + "\n");
}

fn current_text(path: &str, text: String) {
    let path = repository().join(path);
    if updating() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &text).unwrap();
    }
    let stored = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == text,
        "{} is not current; run `UPDATE=1 cargo test`",
        path.display()
    );
}

#[test]
fn tool_schema_is_current() {
    current(
        "schemas/tool.schema.json",
        &glee::dialect::manifest::schema(),
    );
}

#[test]
fn config_schema_is_current() {
    current("schemas/config.schema.json", &glee::config::schema());
}

#[test]
fn rules_schema_is_current() {
    current(
        "schemas/rules.schema.json",
        &glee::config::standing::schema(),
    );
}

#[test]
fn prompt_schema_is_current() {
    current(
        "schemas/prompt.schema.json",
        &glee::dialect::prompt::schema(),
    );
}

#[test]
fn resource_schema_is_current() {
    current(
        "schemas/resource.schema.json",
        &glee::dialect::resource::schema(),
    );
}

#[test]
fn the_page_of_the_builtins_is_current() {
    let page = glee::builtin::reference::page(&crate::builtins::means()).unwrap();
    current_text("docs/reference/builtins.md", page);
}

#[test]
fn the_schemas_are_schemas() {
    for schema in [
        glee::dialect::manifest::schema(),
        glee::dialect::prompt::schema(),
        glee::dialect::resource::schema(),
        glee::config::schema(),
        glee::config::standing::schema(),
    ] {
        assert!(jsonschema::meta::is_valid(&schema));
    }
}

#[test]
fn openapi_is_current() {
    let nobody = glee_core::port::Answer::Nobody {
        hint: String::new(),
    };
    let wiring = crate::support::wiring(Default::default(), nobody);
    let app = glee::app::App::open(crate::support::Scene::new().project(), wiring).unwrap();
    let document = glee::surface::rest::document(&std::sync::Arc::new(app));
    current("schemas/openapi.json", &document);
}
