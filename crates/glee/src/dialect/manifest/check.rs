//! What a manifest can get wrong although every word of it is allowed.

use glee_core::example::Expected;
use glee_core::model::{Format, ToolSpec};
use glee_core::schema::{Schema, escape, sentence};
use serde_json::Value;

use super::super::problem::Problem;
use super::super::yaml::{Kind, Node};

/// Every such problem, for `glee lint`. They do not stop a tool from running.
pub fn check(spec: &ToolSpec, node: &Node) -> Vec<Problem> {
    let mut problems = Vec::new();
    inputs(spec, node, &mut problems);
    examples(spec, node, &mut problems);
    literal_secrets(node, &mut problems);
    problems
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
        if let Err(err) = spec.inputs.fill_defaults(&mut params) {
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

/// How well-known credentials begin.
const CREDENTIALS: &[&str] = &[
    "sk-",
    "sk_live_",
    "ghp_",
    "gho_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "AIza",
    "-----BEGIN",
];

/// A credential belongs in the environment, not in a file that people share.
fn literal_secrets(root: &Node, problems: &mut Vec<Problem>) {
    fn scalars<'a>(node: &'a Node, found: &mut Vec<&'a Node>) {
        match &node.kind {
            Kind::Scalar(_) => found.push(node),
            Kind::List(items) => items.iter().for_each(|it| scalars(it, found)),
            Kind::Map(entries) => entries.iter().for_each(|it| scalars(&it.value, found)),
        }
    }
    let mut found = Vec::new();
    if let Some(exec) = root.get("/exec") {
        scalars(exec, &mut found);
    }
    let looks_secret = |word: &str| {
        CREDENTIALS.iter().any(|it| {
            word.strip_prefix(it)
                .is_some_and(|rest| rest.len() >= 12 && !rest.contains("${"))
        })
    };
    for node in found {
        let Kind::Scalar(Value::String(text)) = &node.kind else {
            continue;
        };
        if text.split([' ', ':', '=']).any(looks_secret) || text.starts_with("-----BEGIN") {
            problems.push(
                Problem::warning(
                    "literal-secret",
                    node.place.clone(),
                    "this looks like a credential",
                )
                .fix("declare it in permissions.secrets and write `${NAME}` here"),
            );
        }
    }
}
