//! YAML as a tree in which every key and value knows its place.
//!
//! Stricter than YAML has to be, because manifests are read by people and run by machines: no tags,
//! no duplicate keys, only YAML 1.2's booleans, aliases only within a budget.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::{Map, Number, Value};

use super::problem::Problem;

/// Deepest nesting of a document.
const MAX_DEPTH: usize = 64;
/// Most nodes and most bytes of scalars, with aliases counted as often as they are used.
const MAX_NODES: usize = 100_000;
const MAX_BYTES: usize = 4 << 20;
/// Most problems of one document; what has more is not a manifest with mistakes.
const MOST_PROBLEMS: usize = 1000;

#[derive(Clone, Debug)]
pub struct Node {
    pub kind: Kind,
    pub place: Range<usize>,
}

#[derive(Clone, Debug)]
pub enum Kind {
    Scalar(Value),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub key: String,
    pub key_place: Range<usize>,
    pub value: Node,
}

/// Reads one document. A tree comes back whenever the text is YAML at all, so that later checks can
/// go on past the problems found here.
pub fn parse(text: &str) -> (Option<Node>, Vec<Problem>) {
    let mut reader = Reader::new(text);
    let root = reader.read(text);
    (root, reader.problems)
}

impl Node {
    pub fn to_value(&self) -> Value {
        match &self.kind {
            Kind::Scalar(value) => value.clone(),
            Kind::List(items) => items.iter().map(Node::to_value).collect(),
            Kind::Map(entries) => Value::Object(
                entries
                    .iter()
                    .map(|it| (it.key.clone(), it.value.to_value()))
                    .collect::<Map<_, _>>(),
            ),
        }
    }

    /// The place of what a JSON pointer names: of the value, or of the key when the pointer's last
    /// step is a map's key and the value is a whole block.
    pub fn place_of(&self, pointer: &str) -> Range<usize> {
        let mut node = self;
        let mut place = self.start();
        for token in pointer.split('/').skip(1) {
            let token = token.replace("~1", "/").replace("~0", "~");
            let next = match &node.kind {
                Kind::Map(entries) => entries.iter().find(|it| it.key == token).map(|it| {
                    let block =
                        !matches!(it.value.kind, Kind::Scalar(_)) || it.value.place.is_empty();
                    (
                        &it.value,
                        if block {
                            it.key_place.clone()
                        } else {
                            it.value.place.clone()
                        },
                    )
                }),
                Kind::List(items) => token
                    .parse::<usize>()
                    .ok()
                    .and_then(|at| items.get(at))
                    .map(|it| (it, it.start())),
                Kind::Scalar(_) => None,
            };
            match next {
                Some((child, at)) => (node, place) = (child, at),
                None => break,
            }
        }
        place
    }

    /// The place of the key a pointer ends in.
    pub fn key_place_of(&self, pointer: &str) -> Range<usize> {
        let (parent, key) = pointer.rsplit_once('/').unwrap_or(("", pointer));
        let key = key.replace("~1", "/").replace("~0", "~");
        match self.get(parent).map(|it| &it.kind) {
            Some(Kind::Map(entries)) => entries
                .iter()
                .find(|it| it.key == key)
                .map_or_else(|| self.place_of(parent), |it| it.key_place.clone()),
            _ => self.place_of(pointer),
        }
    }

    /// The JSON pointer of what stands at a place; nothing when it is outside.
    pub fn pointer_at(&self, place: &Range<usize>) -> Option<String> {
        let holds = |it: &Range<usize>| it.start <= place.start && place.end <= it.end;
        // The place of a block is not all of it, so what is inside is looked at first.
        let inside = match &self.kind {
            Kind::Scalar(_) => None,
            Kind::List(items) => items
                .iter()
                .enumerate()
                .find_map(|(at, it)| Some(format!("/{at}{}", it.pointer_at(place)?))),
            Kind::Map(entries) => entries.iter().find_map(|it| {
                let rest = match holds(&it.key_place) {
                    true => String::new(),
                    false => it.value.pointer_at(place)?,
                };
                Some(format!("/{}{rest}", glee_core::schema::escape(&it.key)))
            }),
        };
        inside.or_else(|| holds(&self.place).then(String::new))
    }

    pub fn get(&self, pointer: &str) -> Option<&Node> {
        pointer.split('/').skip(1).try_fold(self, |node, token| {
            let token = token.replace("~1", "/").replace("~0", "~");
            match &node.kind {
                Kind::Map(entries) => entries
                    .iter()
                    .find(|it| it.key == token)
                    .map(|it| &it.value),
                Kind::List(items) => items.get(token.parse::<usize>().ok()?),
                Kind::Scalar(_) => None,
            }
        })
    }

    /// Where a node begins: a whole block is too long to point at.
    fn start(&self) -> Range<usize> {
        match &self.kind {
            Kind::Scalar(_) => self.place.clone(),
            Kind::List(items) => items.first().map_or(self.place.clone(), Node::start),
            Kind::Map(entries) => entries
                .first()
                .map_or(self.place.clone(), |it| it.key_place.clone()),
        }
    }
}

struct Reader {
    problems: Vec<Problem>,
    /// Byte offset of every character, when the text is not ASCII.
    offsets: Option<Vec<usize>>,
    length: usize,
    anchors: HashMap<usize, (Node, Weight)>,
    spent: Weight,
}

#[derive(Clone, Copy, Default)]
struct Weight {
    nodes: usize,
    bytes: usize,
}

enum Open {
    List {
        items: Vec<Node>,
        place: Range<usize>,
        anchor: usize,
        before: Weight,
    },
    Map {
        entries: Vec<Entry>,
        keys: HashSet<String>,
        key: Option<(String, Range<usize>)>,
        place: Range<usize>,
        anchor: usize,
        before: Weight,
    },
}

impl Reader {
    fn new(text: &str) -> Reader {
        let offsets = (!text.is_ascii()).then(|| text.char_indices().map(|(at, _)| at).collect());
        Reader {
            problems: Vec::new(),
            offsets,
            length: text.len(),
            anchors: HashMap::new(),
            spent: Weight::default(),
        }
    }

    fn read(&mut self, text: &str) -> Option<Node> {
        let mut stack: Vec<Open> = Vec::new();
        let mut root = None;
        let mut documents = 0;
        for event in Parser::new_from_str(text) {
            let (event, span) = match event {
                Ok(it) => it,
                Err(err) => {
                    let at = self.offset(err.marker().index());
                    self.problems.push(Problem::error(
                        "yaml",
                        at..at,
                        format!("not YAML: {}", err.info()),
                    ));
                    return None;
                }
            };
            let place = self.range(span);
            if self.problems.len() >= MOST_PROBLEMS {
                self.error("yaml", place, "too many problems; the rest is not read");
                return None;
            }
            let done = match event {
                Event::DocumentStart(_) => {
                    documents += 1;
                    if documents > 1 {
                        self.error(
                            "yaml",
                            place,
                            "a second document begins here; one file holds one document",
                        );
                        return root;
                    }
                    continue;
                }
                Event::Scalar(text, style, anchor, tag) => {
                    self.refuse_tag(tag.is_some(), &place);
                    self.spend(1, text.len(), &place)?;
                    let value = self.scalar(&text, style, &place);
                    let node = Node {
                        kind: Kind::Scalar(value),
                        place,
                    };
                    self.remember(
                        anchor,
                        &node,
                        Weight {
                            nodes: 1,
                            bytes: text.len(),
                        },
                    );
                    node
                }
                Event::Alias(anchor) => {
                    let Some((mut node, weight)) = self.anchors.get(&anchor).cloned() else {
                        self.error("yaml", place, "this alias refers to itself or to nothing");
                        return None;
                    };
                    self.spend(weight.nodes, weight.bytes, &place)?;
                    node.place = place;
                    node
                }
                Event::SequenceStart(anchor, tag) => {
                    self.refuse_tag(tag.is_some(), &place);
                    self.open(
                        &mut stack,
                        Open::List {
                            items: Vec::new(),
                            place,
                            anchor,
                            before: self.spent,
                        },
                    )?;
                    continue;
                }
                Event::MappingStart(anchor, tag) => {
                    self.refuse_tag(tag.is_some(), &place);
                    self.open(
                        &mut stack,
                        Open::Map {
                            entries: Vec::new(),
                            keys: HashSet::new(),
                            key: None,
                            place,
                            anchor,
                            before: self.spent,
                        },
                    )?;
                    continue;
                }
                Event::SequenceEnd | Event::MappingEnd => {
                    let (kind, place, anchor, before) = match stack.pop()? {
                        Open::List {
                            items,
                            place,
                            anchor,
                            before,
                        } => (Kind::List(items), place, anchor, before),
                        Open::Map {
                            entries,
                            place,
                            anchor,
                            before,
                            ..
                        } => (Kind::Map(entries), place, anchor, before),
                    };
                    let node = Node { kind, place };
                    let weight = Weight {
                        nodes: 1 + self.spent.nodes - before.nodes,
                        bytes: self.spent.bytes - before.bytes,
                    };
                    self.remember(anchor, &node, weight);
                    node
                }
                Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {
                    continue;
                }
            };
            match stack.last_mut() {
                None => root = Some(done),
                Some(Open::List { items, .. }) => items.push(done),
                Some(Open::Map {
                    entries, keys, key, ..
                }) => match key.take() {
                    Some((key, key_place)) => entries.push(Entry {
                        key,
                        key_place,
                        value: done,
                    }),
                    None => {
                        let (name, place) = key_of(done, &mut self.problems)?;
                        if !keys.insert(name.clone()) {
                            self.problems.push(
                                Problem::error(
                                    "duplicate-key",
                                    place.clone(),
                                    format!("the key `{name}` stands twice"),
                                )
                                .fix("keep one of the two"),
                            );
                        }
                        *key = Some((name, place));
                    }
                },
            }
        }
        root
    }

    fn open(&mut self, stack: &mut Vec<Open>, open: Open) -> Option<()> {
        let place = match &open {
            Open::List { place, .. } | Open::Map { place, .. } => place.clone(),
        };
        if stack.len() >= MAX_DEPTH {
            self.error(
                "yaml",
                place,
                format!("nests deeper than {MAX_DEPTH} levels"),
            );
            return None;
        }
        self.spend(1, 0, &place)?;
        stack.push(open);
        Some(())
    }

    fn remember(&mut self, anchor: usize, node: &Node, weight: Weight) {
        if anchor > 0 {
            self.anchors.insert(anchor, (node.clone(), weight));
        }
    }

    fn spend(&mut self, nodes: usize, bytes: usize, place: &Range<usize>) -> Option<()> {
        self.spent.nodes += nodes;
        self.spent.bytes += bytes;
        if self.spent.nodes > MAX_NODES || self.spent.bytes > MAX_BYTES {
            self.error(
                "yaml",
                place.clone(),
                "the document grows too large here; does an alias repeat another?",
            );
            return None;
        }
        Some(())
    }

    fn refuse_tag(&mut self, tagged: bool, place: &Range<usize>) {
        if tagged {
            self.problems.push(
                Problem::error(
                    "yaml-tag",
                    place.clone(),
                    "tags (`!…`) are not understood here",
                )
                .fix("remove the tag"),
            );
        }
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, place: &Range<usize>) -> Value {
        if style != ScalarStyle::Plain {
            return Value::String(text.to_owned());
        }
        match plain(text) {
            Some(value) => value,
            None => {
                self.error(
                    "yaml",
                    place.clone(),
                    format!("`{text}` is a number that JSON cannot hold"),
                );
                Value::Null
            }
        }
    }

    fn error(&mut self, rule: &'static str, place: Range<usize>, message: impl Into<String>) {
        self.problems.push(Problem::error(rule, place, message));
    }

    fn range(&self, span: Span) -> Range<usize> {
        let start = self.offset(span.start.index());
        start..self.offset(span.end.index()).max(start)
    }

    fn offset(&self, character: usize) -> usize {
        match &self.offsets {
            Some(offsets) => offsets.get(character).copied().unwrap_or(self.length),
            None => character.min(self.length),
        }
    }
}

fn key_of(node: Node, problems: &mut Vec<Problem>) -> Option<(String, Range<usize>)> {
    match node.kind {
        Kind::Scalar(Value::String(key)) => Some((key, node.place)),
        Kind::Scalar(value @ (Value::Bool(_) | Value::Number(_))) => {
            Some((value.to_string(), node.place))
        }
        _ => {
            problems.push(Problem::error("yaml", node.place, "a key must be a word"));
            None
        }
    }
}

/// YAML 1.2's core schema: `no` and `on` are words. `None` for a number JSON cannot hold.
fn plain(text: &str) -> Option<Value> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Some(Value::Null),
        "true" | "True" | "TRUE" => return Some(Value::Bool(true)),
        "false" | "False" | "FALSE" => return Some(Value::Bool(false)),
        _ => {}
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let all =
        |digits: &str, is_digit: fn(u8) -> bool| !digits.is_empty() && digits.bytes().all(is_digit);
    if all(unsigned, |b| b.is_ascii_digit()) {
        let text = text.strip_prefix('+').unwrap_or(text);
        return match (text.parse::<i64>(), text.parse::<u64>()) {
            (Ok(it), _) => Some(it.into()),
            (_, Ok(it)) => Some(it.into()),
            _ => None,
        };
    }
    if let Some(digits) = text.strip_prefix("0x")
        && all(digits, |b| b.is_ascii_hexdigit())
    {
        return u64::from_str_radix(digits, 16).ok().map(Value::from);
    }
    if let Some(digits) = text.strip_prefix("0o")
        && all(digits, |b| matches!(b, b'0'..=b'7'))
    {
        return u64::from_str_radix(digits, 8).ok().map(Value::from);
    }
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return None;
    }
    let numeric = |b: u8| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-');
    let has_digit = unsigned.bytes().any(|b| b.is_ascii_digit());
    let starts_well = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if starts_well
        && has_digit
        && unsigned.bytes().all(numeric)
        && let Ok(number) = text.parse::<f64>()
    {
        return Number::from_f64(number).map(Value::Number);
    }
    Some(Value::String(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn value(text: &str) -> Value {
        let (node, problems) = parse(text);
        assert!(problems.is_empty(), "{text}: {problems:?}");
        node.unwrap().to_value()
    }

    fn problem(text: &str) -> (String, Range<usize>) {
        let (_, problems) = parse(text);
        let first = problems
            .into_iter()
            .next()
            .unwrap_or_else(|| panic!("no problem in {text}"));
        (first.message, first.place)
    }

    #[test]
    fn scalars_are_those_of_yaml_1_2() {
        assert_eq!(
            value(
                "[yes, no, on, true, False, ~, null, 1, -2, +3, 0x1F, 0o17, 1.5, 1e3, '1', \"true\", 1.2.3, -x, 2025-01-01, 1_000]"
            ),
            json!([
                "yes",
                "no",
                "on",
                true,
                false,
                null,
                null,
                1,
                -2,
                3,
                31,
                15,
                1.5,
                1000.0,
                "1",
                "true",
                "1.2.3",
                "-x",
                "2025-01-01",
                "1_000"
            ])
        );
        assert!(
            problem("a: 12345678901234567890123")
                .0
                .contains("JSON cannot hold")
        );
        assert!(problem("a: .inf").0.contains("JSON cannot hold"));
    }

    #[test]
    fn places_are_exact() {
        let text = "ä: ü\nlist:\n  - x: 1\n    y: [a, b]\n";
        let (node, _) = parse(text);
        let node = node.unwrap();
        assert_eq!(&text[node.place_of("/list/0/x")], "1");
        assert_eq!(&text[node.place_of("/list/0/y/1")], "b");
        assert_eq!(&text[node.place_of("/ä")], "ü");
        assert_eq!(&text[node.key_place_of("/list/0/y")], "y");
        assert_eq!(&text[node.place_of("/list")], "list");
    }

    #[test]
    fn strictness() {
        assert_eq!(
            problem("a: 1\na: 2"),
            ("the key `a` stands twice".into(), 5..6)
        );
        assert!(problem("a: !!python/object x").0.contains("tags"));
        assert!(problem("a: !x {b: 1}").0.contains("tags"));
        assert!(problem("a: 1\n---\nb: 2").0.contains("second document"));
        assert!(problem("a: [1").0.contains("not YAML"));
        assert!(problem("? [a]\n: b").0.contains("key must be a word"));
        assert!(problem(&"[".repeat(100)).0.contains("deeper"));
        // Far deeper, the parser itself gives up first.
        assert!(problem(&"[".repeat(1000)).0.contains("not YAML"));
        assert_eq!(
            value("a: &x {b: 1}\nc: *x"),
            json!({"a": {"b": 1}, "c": {"b": 1}})
        );
    }

    #[test]
    fn many_keys_and_many_problems() {
        // A search through all keys for each key would take minutes here.
        let wide: String = (0..49_000).map(|at| format!("k{at}: 1\n")).collect();
        assert!(parse(&wide).1.is_empty());
        let (_, problems) = parse(&"a: !x 1\n".repeat(10_000));
        assert_eq!(problems.len(), MOST_PROBLEMS + 1);
    }

    #[test]
    fn alias_bombs_are_stopped() {
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let previous = vec![format!("*a{}", level - 1); 9].join(", ");
            bomb.push_str(&format!("a{level}: &a{level} [{previous}]\n"));
        }
        assert!(problem(&bomb).0.contains("too large"));
        let wide = format!(
            "a: &a {}\nb: [{}]\n",
            "x".repeat(100_000),
            vec!["*a"; 20_000].join(", ")
        );
        assert!(problem(&wide).0.contains("too large"));
    }
}
