//! The page of the docs about the tools that come with glee, made from the table.

use std::fmt::Write;

use glee_core::model::ToolSpec;
use serde_json::Value;

use super::{BUNDLES, Means, TABLE};
use crate::native::Unfit;

const HEAD: &str = "\
# Built-in tools

These tools come with glee. A project has none of them unless its config says so: see [builtins](../config.md#builtins). They are called like any
other tool, by the same rules, and recorded like any other.

Paths are from the project's root, which no path leads out of: `..`, links that leave and everything that is renamed meanwhile end in
[INVALID_PATH](../errors.md#invalid_path). What decides what runs next is never changed: `.glee`, `.git`, `.mcp.json`, the directories of editors and
agents, and what of a home a shell, git or a desktop takes what it runs from. File tools do not read `.glee/approvals`, `.glee/reviews` and
`.glee/audit` either. Programs run in the [sandbox](../sandbox.md), whatever the config says of it.

For programs that holds for every `.git` in the project that is there when the call begins, also those of repositories further down; in a project
with more than a million files, or 512 such repositories, programs are not started at all. A repository that a program makes itself has the hooks it
puts there: before you use git in a directory that an agent has made, look at its `.git`.

Only `git_commit` writes to `.git`, and there only what a commit needs: objects, branches, their history, the index and HEAD. Its hooks
(`pre-commit`, `prepare-commit-msg`, `commit-msg`, `post-commit`) run in the sandbox as well, where they read all of the project and can change
nothing but the message: what a hook stages or formats is not there afterwards. That takes git 2.36 or later. A filter that
the repository's config names (`filter.*.clean`) makes objects, and so runs with what a commit may write. Who commits is what the repository says, or else `user.name` and
`user.email` of the person's own config; nothing else of that config is known to git there, so commits are not signed. In a worktree (`git worktree
add`) the git tools read the repository that it belongs to.

A file with a second name elsewhere (a hard link) is read like any other, and no file tool writes through it: `write_file` puts a new file in its
place, `delete_file` and `move_file` take the one name, and the other keeps what it had.

This page is generated; `UPDATE=1 cargo test` writes it anew.
";

pub fn page(means: &Means) -> Result<String, Unfit> {
    let mut page = HEAD.to_owned();
    for (bundle, about) in BUNDLES {
        let _ = write!(page, "\n## {bundle}\n\nFor {about}.\n");
        for tool in TABLE.iter().filter(|it| it.bundle == *bundle) {
            page.push_str(&section(&(tool.make)(means)?));
        }
    }
    Ok(page)
}

fn section(spec: &ToolSpec) -> String {
    let mut text = format!("\n### {}\n\n{}\n", spec.name, spec.description);
    let inputs = spec.inputs.source();
    let required: Vec<&str> = inputs["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let properties = inputs["properties"].as_object();
    if properties.is_some_and(|it| !it.is_empty()) {
        text.push_str("\n| input | type | default | meaning |\n|---|---|---|---|\n");
    }
    for (name, schema) in properties.into_iter().flatten() {
        let default = match (required.contains(&name.as_str()), schema.get("default")) {
            (true, _) => "required".to_owned(),
            (false, None | Some(Value::Null)) => String::new(),
            (false, Some(default)) => format!("`{default}`"),
        };
        let meaning = schema["description"].as_str().unwrap_or_default();
        let _ = writeln!(
            text,
            "| `{name}` | {} | {default} | {meaning} |",
            kind(schema)
        );
    }
    let output = spec.outputs.schema.as_ref().map(|it| shape(it.source()));
    let _ = write!(text, "\nGives `{}`.\n", output.unwrap_or_default());
    text
}

/// The type of a value, in a word.
fn kind(schema: &Value) -> String {
    let choices = ["enum", "anyOf", "oneOf"]
        .iter()
        .find_map(|it| schema[it].as_array());
    if let Some(choices) = choices {
        // What may be null need not be given, and then it is nothing.
        let choices = choices
            .iter()
            .filter(|it| !it.is_null() && it["type"] != "null");
        let choices = choices.map(|it| match it {
            Value::String(word) => format!("`{word}`"),
            Value::Object(_) => it.get("const").map_or_else(
                || kind(it),
                |it| format!("`{}`", it.as_str().unwrap_or_default()),
            ),
            other => other.to_string(),
        });
        return choices.collect::<Vec<_>>().join(" or ");
    }
    match &schema["type"] {
        Value::String(word) if word == "array" => format!("list of {}", kind(&schema["items"])),
        Value::String(word) => word.clone(),
        Value::Array(words) => {
            let words = words
                .iter()
                .filter_map(Value::as_str)
                .filter(|it| *it != "null");
            let words: Vec<String> = words
                .map(|it| kind(&serde_json::json!({"type": it, "items": schema["items"]})))
                .collect();
            words.join(" or ")
        }
        _ => "anything".to_owned(),
    }
}

/// The keys of an output.
fn shape(schema: &Value) -> String {
    if let Some(properties) = schema["properties"].as_object() {
        let fields = properties.iter().map(|(name, inner)| match shape(inner) {
            it if it.starts_with(['{', '[']) => format!("{name}: {it}"),
            _ => name.clone(),
        });
        return format!("{{{}}}", fields.collect::<Vec<_>>().join(", "));
    }
    match schema["type"].as_str() {
        Some("array") => format!("[{}]", shape(&schema["items"])),
        Some(word) => word.to_owned(),
        None => "…".to_owned(),
    }
}
