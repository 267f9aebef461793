//! How much work a schema can cause, worked out before it is ever used.
//!
//! A few kilobytes of `allOf` over `$ref` double per level and hang any validator, and a validation
//! that has begun cannot be stopped. So the work is counted first: for a value of a given depth,
//! how many subschemas are applied along its longest chain.

use std::collections::HashMap;

use serde_json::Value;

use super::{SchemaError, escape};

/// Deepest nesting of a schema, and of a value checked against one.
pub const MAX_DEPTH: usize = 64;
/// Most subschemas in one schema.
pub const MAX_SUBSCHEMAS: usize = 10_000;
/// Most subschemas applied along one chain of a value.
pub const MAX_WORK: u64 = 100_000;

/// Longest chain of subschemas applied to one value; validators walk it by recursion.
const MAX_CHAIN: usize = 256;

/// Applied to the same value as their parent.
const IN_PLACE: &[(&str, Holds)] = &[
    ("allOf", Holds::List),
    ("anyOf", Holds::List),
    ("oneOf", Holds::List),
    ("not", Holds::One),
    ("if", Holds::One),
    ("then", Holds::One),
    ("else", Holds::One),
    ("dependentSchemas", Holds::Map),
];

/// Applied to a part of the value. Those in one `Map` or `List` see different parts, except
/// `patternProperties`, whose patterns may overlap.
const IN_PARTS: &[(&str, Holds)] = &[
    ("properties", Holds::Map),
    ("patternProperties", Holds::Map),
    ("additionalProperties", Holds::One),
    ("unevaluatedProperties", Holds::One),
    ("propertyNames", Holds::One),
    ("prefixItems", Holds::List),
    ("items", Holds::One),
    ("contains", Holds::One),
    ("unevaluatedItems", Holds::One),
];

/// Only referred to.
const STORED: &[(&str, Holds)] = &[
    ("$defs", Holds::Map),
    ("definitions", Holds::Map),
    ("contentSchema", Holds::One),
];

/// Lists of plain values; a part of the value is compared with each.
const LISTS: &[&str] = &["enum", "required"];

#[derive(Clone, Copy)]
enum Holds {
    One,
    List,
    Map,
}

#[derive(Default)]
struct Node {
    pointer: String,
    in_place: Vec<usize>,
    /// Groups of subschemas of which one part of a value meets at most one.
    in_parts: Vec<Vec<usize>>,
    reference: Option<String>,
    /// What the validator goes through one by one, besides subschemas.
    listed: usize,
    /// Whether it asks what the subschemas beside it have seen.
    unevaluated: bool,
}

/// The work along one chain of a value, by the value's depth, as far as it is within `MAX_WORK` and
/// `MAX_DEPTH`; an error when not even a flat value can be checked, when the schema refers outside
/// itself or to itself without end.
///
/// `width` is the length of the value's longest list or object. Where there are `unevaluated…`
/// keywords, the validator applies what stands beside them again for each of the value's parts.
pub(super) fn work_by_depth(schema: &Value, width: usize) -> Result<Work, Vec<SchemaError>> {
    let mut graph = Graph {
        width: width as u64,
        ..Graph::default()
    };
    graph
        .collect(schema, String::new(), 0)
        .map_err(|err| vec![err])?;
    graph.link();
    if !graph.errors.is_empty() {
        return Err(graph.errors);
    }
    let by_depth = graph.work_by_depth().map_err(|err| vec![err])?;
    Ok(Work {
        by_depth,
        grows_with_width: graph.nodes.iter().any(|it| it.unevaluated),
    })
}

#[derive(Debug)]
pub(super) struct Work {
    pub(super) by_depth: Vec<u64>,
    pub(super) grows_with_width: bool,
}

#[derive(Default)]
struct Graph {
    width: u64,
    nodes: Vec<Node>,
    by_pointer: HashMap<String, usize>,
    by_anchor: HashMap<String, usize>,
    /// What is wrong with single references; the whole schema is read all the same.
    errors: Vec<SchemaError>,
}

impl Graph {
    fn work_by_depth(&self) -> Result<Vec<u64>, SchemaError> {
        let mut by_depth = Vec::new();
        let mut deeper: Vec<u64> = Vec::new();
        for _ in 0..=MAX_DEPTH {
            let work = self.work(&deeper)?;
            if work[0] > MAX_WORK {
                break;
            }
            by_depth.push(work[0]);
            if work == deeper {
                by_depth.resize(MAX_DEPTH + 1, work[0]);
                break;
            }
            deeper = work;
        }
        if by_depth.len() < 2 {
            let reason = "its references expand to more than 100 000 subschemas";
            return Err(error("", reason));
        }
        Ok(by_depth)
    }

    fn collect(
        &mut self,
        schema: &Value,
        pointer: String,
        depth: usize,
    ) -> Result<usize, SchemaError> {
        if depth > MAX_DEPTH {
            return Err(error(
                &pointer,
                &format!("nests deeper than {MAX_DEPTH} levels"),
            ));
        }
        if self.nodes.len() >= MAX_SUBSCHEMAS {
            return Err(error(
                &pointer,
                &format!("has more than {MAX_SUBSCHEMAS} subschemas"),
            ));
        }
        let at = self.nodes.len();
        self.by_pointer.insert(pointer.clone(), at);
        self.nodes.push(Node {
            pointer: pointer.clone(),
            ..Node::default()
        });
        let Some(map) = schema.as_object() else {
            return Ok(at);
        };
        self.nodes[at].listed = LISTS
            .iter()
            .filter_map(|it| map.get(*it)?.as_array())
            .map(Vec::len)
            .sum();
        self.nodes[at].unevaluated =
            map.contains_key("unevaluatedProperties") || map.contains_key("unevaluatedItems");
        for key in ["$id", "$recursiveRef"] {
            if depth > 0 && map.contains_key(key) {
                return Err(error(
                    &format!("{pointer}/{key}"),
                    &format!("`{key}` is not supported here"),
                ));
            }
        }
        for key in ["$anchor", "$dynamicAnchor"] {
            if let Some(anchor) = map.get(key).and_then(Value::as_str) {
                self.by_anchor.insert(anchor.to_owned(), at);
            }
        }
        for key in ["$ref", "$dynamicRef"] {
            if let Some(target) = map.get(key) {
                match target.as_str().and_then(|it| it.strip_prefix('#')) {
                    Some(local) => self.nodes[at].reference = Some(percent_decoded(local)),
                    None => self.errors.push(error(
                        &format!("{pointer}/{key}"),
                        "refers outside this schema; only `#/…` is allowed, nothing is ever fetched",
                    )),
                }
            }
        }
        for &(keyword, holds) in IN_PLACE {
            let children = self.children(map.get(keyword), keyword, holds, &pointer, depth)?;
            self.nodes[at].in_place.extend(children);
        }
        for &(keyword, holds) in IN_PARTS {
            let children = self.children(map.get(keyword), keyword, holds, &pointer, depth)?;
            if keyword == "patternProperties" {
                self.nodes[at]
                    .in_parts
                    .extend(children.into_iter().map(|it| vec![it]));
            } else if !children.is_empty() {
                self.nodes[at].in_parts.push(children);
            }
        }
        for &(keyword, holds) in STORED {
            self.children(map.get(keyword), keyword, holds, &pointer, depth)?;
        }
        Ok(at)
    }

    fn children(
        &mut self,
        held: Option<&Value>,
        keyword: &str,
        holds: Holds,
        pointer: &str,
        depth: usize,
    ) -> Result<Vec<usize>, SchemaError> {
        let below = format!("{pointer}/{keyword}");
        match (holds, held) {
            (Holds::One, Some(one)) => Ok(vec![self.collect(one, below, depth + 1)?]),
            (Holds::List, Some(Value::Array(items))) => items
                .iter()
                .enumerate()
                .map(|(index, item)| self.collect(item, format!("{below}/{index}"), depth + 1))
                .collect(),
            (Holds::Map, Some(Value::Object(map))) => map
                .iter()
                .map(|(key, item)| {
                    self.collect(item, format!("{below}/{}", escape(key)), depth + 1)
                })
                .collect(),
            _ => Ok(Vec::new()),
        }
    }

    /// Turns references into edges.
    fn link(&mut self) {
        for at in 0..self.nodes.len() {
            let Some(target) = self.nodes[at].reference.take() else {
                continue;
            };
            let found = match target.as_str() {
                "" => Some(0),
                it if it.starts_with('/') => self.by_pointer.get(it).copied(),
                anchor => self.by_anchor.get(anchor).copied(),
            };
            match found {
                Some(found) => self.nodes[at].in_place.push(found),
                None => {
                    let place = format!("{}/$ref", self.nodes[at].pointer);
                    self.errors
                        .push(error(&place, &format!("`#{target}` is not in this schema")));
                }
            }
        }
    }

    /// For each node, the work along one chain of a value one level deeper than `deeper` tells.
    fn work(&self, deeper: &[u64]) -> Result<Vec<u64>, SchemaError> {
        let mut work = vec![None; self.nodes.len()];
        let mut active = vec![false; self.nodes.len()];
        for at in 0..self.nodes.len() {
            self.work_of(at, 0, deeper, &mut work, &mut active)?;
        }
        Ok(work.into_iter().map(Option::unwrap_or_default).collect())
    }

    fn work_of(
        &self,
        at: usize,
        chain: usize,
        deeper: &[u64],
        work: &mut [Option<u64>],
        active: &mut [bool],
    ) -> Result<u64, SchemaError> {
        if let Some(known) = work[at] {
            return Ok(known);
        }
        if active[at] {
            return Err(error(
                &self.nodes[at].pointer,
                "refers to itself without end",
            ));
        }
        if chain > MAX_CHAIN {
            return Err(error(
                &self.nodes[at].pointer,
                "stands behind too many references",
            ));
        }
        active[at] = true;
        let node = &self.nodes[at];
        let mut sum = 1 + node.listed as u64;
        let times = if node.unevaluated { 1 + self.width } else { 1 };
        for &child in &node.in_place {
            let inner = self.work_of(child, chain + 1, deeper, work, active)?;
            sum = sum.saturating_add(inner.saturating_mul(times));
        }
        for group in &node.in_parts {
            let largest = group.iter().filter_map(|&child| deeper.get(child)).max();
            sum = sum.saturating_add(largest.copied().unwrap_or(0));
        }
        active[at] = false;
        work[at] = Some(sum);
        Ok(sum)
    }
}

/// A fragment as written (`#/$defs/a%20b`) turned into the pointer it means.
fn percent_decoded(fragment: &str) -> String {
    let bytes = fragment.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = fragment.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn error(pointer: &str, reason: &str) -> SchemaError {
    SchemaError {
        pointer: pointer.to_owned(),
        reason: reason.to_owned(),
    }
}
