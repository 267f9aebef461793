//! Rules of the config that speak of nothing the project has.

use std::collections::BTreeMap;

use glee_core::model::ToolSpec;
use glee_core::name::nearest;
use glee_core::rule::custom::CustomRule;
use serde_json::Value;

use crate::builtin;
use crate::dialect::problem::Problem;
use crate::dialect::yaml::Node;

/// What is known of the project's tools, by their names: of a manifest that cannot be read, the name alone.
pub(super) type Known<'a> = BTreeMap<&'a str, Option<&'a ToolSpec>>;

/// `all_known` is false where there are tools that only a running glee knows.
pub(super) fn idle(
    at: usize,
    rule: &CustomRule,
    known: &Known<'_>,
    all_known: bool,
    node: &Node,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    if all_known {
        problems.extend(names_nothing(at, rule, known, node));
    }
    problems.extend(looks_at_nothing(at, rule, known, node));
    problems
}

/// Tools come and go, so this is worth a look, and no error. A pattern is for those that will come.
fn names_nothing(at: usize, rule: &CustomRule, known: &Known<'_>, node: &Node) -> Vec<Problem> {
    let names = || {
        known
            .keys()
            .copied()
            .chain(builtin::TABLE.iter().map(|it| it.name))
    };
    let mut problems = Vec::new();
    for (nth, pattern) in rule.tools().iter().enumerate() {
        if pattern.contains(['*', '?', '[']) || names().any(|it| it == pattern) {
            continue;
        }
        let place = node.place_of(&format!("/rules/{at}/tools/{nth}"));
        let message =
            format!("the project has no tool `{pattern}`, so the rule says nothing of it");
        let problem = Problem::warning("idle-rule", place, message);
        problems.push(match nearest(pattern, names()) {
            Some(near) => problem.fix(format!("did you mean `{near}`?")),
            None => problem,
        });
    }
    problems
}

/// An argument that none of the tools takes is in no call that gets as far as the rules.
fn looks_at_nothing(at: usize, rule: &CustomRule, known: &Known<'_>, node: &Node) -> Vec<Problem> {
    let tools = rule.tools().iter();
    let specs: Option<Vec<&ToolSpec>> = tools
        .map(|it| known.get(it.as_str()).copied().flatten())
        .collect();
    let Some(specs) = specs.filter(|it| !it.is_empty() && it.iter().all(|it| is_closed(it))) else {
        return Vec::new();
    };
    let taken = || {
        specs
            .iter()
            .flat_map(|it| it.inputs.properties().map(|it| it.0.as_str()))
    };
    let mut problems = Vec::new();
    for name in rule.needed_arguments() {
        let outer = name.split('.').next().unwrap_or(name);
        if taken().any(|it| it == name || it == outer) {
            continue;
        }
        let key = name.replace('~', "~0").replace('/', "~1");
        let place = node.key_place_of(&format!("/rules/{at}/when/arguments/{key}"));
        let message = format!(
            "the rule can never match: {} no argument `{name}`",
            match specs.as_slice() {
                [one] => format!("`{}` takes", one.name),
                _ => "its tools take".to_owned(),
            }
        );
        let problem = Problem::error("rule", place, message);
        problems.push(match nearest(name, taken()) {
            Some(near) => problem.fix(format!("did you mean `{near}`?")),
            None => problem,
        });
    }
    problems
}

fn is_closed(spec: &ToolSpec) -> bool {
    let source = spec.inputs.source();
    source.get("additionalProperties") == Some(&Value::Bool(false))
        && source.get("patternProperties").is_none()
}
