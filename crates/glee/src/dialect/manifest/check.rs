//! What a manifest can get wrong although every word of it is allowed.

use std::ops::Range;

use glee_core::example::Expected;
use glee_core::model::{Format, ToolSpec};
use glee_core::name::is_invisible;
use glee_core::schema::{Schema, escape, sentence};
use serde_json::Value;

use super::super::problem::Problem;
use super::super::yaml::{Kind, Node};
use super::credential;

/// Every such problem, for `glee lint`. They do not stop a tool from running.
pub fn check(spec: &ToolSpec, node: &Node) -> Vec<Problem> {
    let mut problems = Vec::new();
    inputs(spec, node, &mut problems);
    examples(spec, node, &mut problems);
    credential::literal(node, &mut problems);
    for (pointer, shown) in [
        ("/title", node.get("/title")),
        ("/description", node.get("/description")),
        ("/tags", node.get("/tags")),
        ("/inputs/schema", node.get("/inputs/schema")),
        ("/outputs/schema", node.get("/outputs/schema")),
    ] {
        if let Some(shown) = shown {
            invisible(shown, pointer, &mut problems);
        }
    }
    problems
}

/// What models read and people cannot see is a way to tell models what people would not allow.
fn invisible(node: &Node, pointer: &str, problems: &mut Vec<Problem>) {
    let mut look = |text: &str, place: Range<usize>| {
        let hidden = text
            .chars()
            .find(|&c| is_invisible(c) && c != '\n' && c != '\t');
        if let Some(c) = hidden {
            let message = format!(
                "{} holds the invisible character U+{:04X}",
                pointer[1..].replace('/', "."),
                c as u32
            );
            problems.push(
                Problem::error("invisible", place, message)
                    .fix("take it out; models read what people cannot see"),
            );
        }
    };
    match &node.kind {
        Kind::Scalar(Value::String(text)) => look(text, node.place.clone()),
        Kind::Scalar(_) => {}
        Kind::List(items) => {
            for (at, item) in items.iter().enumerate() {
                invisible(item, &format!("{pointer}/{at}"), problems);
            }
        }
        Kind::Map(entries) => {
            for entry in entries {
                look(&entry.key, entry.key_place.clone());
            }
            for entry in entries {
                invisible(&entry.value, &format!("{pointer}/{}", entry.key), problems);
            }
        }
    }
}

/// Whether the schemas compile, which reading leaves for the first use.
pub fn schemas(spec: &ToolSpec, node: &Node) -> Vec<Problem> {
    let place = |pointer: &str, schema: &Schema| {
        let err = schema.compile().err()?;
        Some(Problem::error(
            "invalid-schema",
            node.place_of(&format!("{pointer}{}", err.pointer)),
            err.reason,
        ))
    };
    let outputs = spec
        .outputs
        .schema
        .as_ref()
        .and_then(|it| place("/outputs/schema", it));
    place("/inputs/schema", &spec.inputs)
        .into_iter()
        .chain(outputs)
        .collect()
}

/// Agents choose arguments by type and description.
fn inputs(spec: &ToolSpec, node: &Node, problems: &mut Vec<Problem>) {
    for (name, property) in spec.inputs.properties() {
        let place = node.key_place_of(&format!("/inputs/schema/properties/{}", escape(name)));
        let says = |keys: &[&str]| keys.iter().any(|key| property.get(key).is_some());
        if !says(&["type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf"]) {
            problems.push(
                Problem::warning(
                    "property-type",
                    place.clone(),
                    format!("the input `{name}` has no type"),
                )
                .fix("add `type: string`, or whichever it is"),
            );
        }
        if !says(&["description", "$ref"]) {
            problems.push(
                Problem::warning(
                    "property-description",
                    place,
                    format!("the input `{name}` has no description"),
                )
                .fix("say in a few words what it means; agents read it"),
            );
        }
    }
}

/// An example that breaks the tool's own schemas teaches agents to fail.
fn examples(spec: &ToolSpec, node: &Node, problems: &mut Vec<Problem>) {
    for (at, example) in spec.examples.iter().enumerate() {
        let mut params = example.params.clone();
        if let Err(err) = spec.inputs.fill(&mut params) {
            let place = node.place_of(&format!("/examples/{at}/params"));
            problems.push(Problem::error(
                "example-params",
                place,
                format!("the example cannot be called: {err}"),
            ));
            continue;
        }
        let violations = spec.inputs.violations(&Value::Object(params));
        if !violations.is_empty() {
            let pointer = format!("/examples/{at}/params{}", violations[0].pointer);
            problems.push(Problem::error(
                "example-params",
                node.place_of(&pointer),
                format!(
                    "the example breaks inputs.schema: {}",
                    sentence(&violations)
                ),
            ));
        }
        let (Some(expected), Format::Json | Format::Content) =
            (&example.expected, spec.outputs.format)
        else {
            continue;
        };
        let pointer = format!("/examples/{at}/expected_output");
        match Expected::parse(expected) {
            Err(err) => problems.push(Problem::error(
                "example-output",
                node.key_place_of(&pointer),
                format!("expected_output is {err}"),
            )),
            Ok(expected) => {
                let violations = match &spec.outputs.schema {
                    Some(schema) => schema.violations(&expected.sample()),
                    None => Vec::new(),
                };
                // What was left open with `...` cannot be held against a schema.
                if !violations.is_empty() && expected.is_exact() {
                    let place = node.key_place_of(&pointer);
                    problems.push(Problem::error(
                        "example-output",
                        place,
                        format!(
                            "expected_output breaks outputs.schema: {}",
                            sentence(&violations)
                        ),
                    ));
                }
            }
        }
    }
}
