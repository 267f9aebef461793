//! `.glee/rules.yml`: calls that need not ask any more, because a person said so. Each rule turns a
//! question into a yes, never a no into one, and only for the tool as it was.

use std::io;
use std::path::Path;
use std::sync::LazyLock;

use glee_core::json;
use glee_core::name::{is_invisible, spelled_out};
use glee_core::rule::condition::Condition;
use glee_core::schema::Schema;
use glee_sandbox::is_placeholder;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::dialect::condition::{self, WireTests};
use crate::dialect::document;
use crate::dialect::problem::Problem;

/// Calls that need not ask.
#[derive(Clone, Debug)]
pub struct Standing {
    pub name: String,
    pub tool: String,
    /// Of the tool and all its files, as the person saw them.
    pub digest: String,
    pub caller: String,
    /// Arguments that must be exactly so.
    pub arguments: Map<String, Value>,
    /// What others must be.
    pub when: Condition,
}

impl Standing {
    /// Whether it is about such a call. Every argument must be accounted for.
    pub fn covers(
        &self,
        tool: &str,
        digest: &str,
        caller: &str,
        args: &Map<String, Value>,
    ) -> bool {
        let is_tested = |name: &str| self.when.names().any(|it| it == name);
        self.tool == tool
            && self.digest == digest
            && self.caller == caller
            && self
                .arguments
                .iter()
                .all(|(name, it)| args.get(name) == Some(it))
            && args
                .keys()
                .all(|it| self.arguments.contains_key(it) || is_tested(it))
            && self.when.holds_wholly(args) == Ok(true)
            && !args.iter().any(|(name, it)| is_tested(name) && goes_up(it))
    }

    /// What it is about, in one line.
    pub fn about(&self) -> String {
        let mut with = vec![json::canonical(&Value::Object(self.arguments.clone()))];
        with.extend(self.when.names().map(|it| format!("`{it}` as it says")));
        format!(
            "need not ask: `{}` called by {} with {}, while the tool is {}",
            self.tool,
            self.caller,
            with.join(" and "),
            &self.digest[..12.min(self.digest.len())]
        )
    }
}

/// Whether a text leads elsewhere than its beginning says: `notes/../../secrets`.
fn goes_up(value: &Value) -> bool {
    match value {
        Value::String(text) => text.split(['/', '\\']).any(|it| it == ".."),
        Value::Array(items) => items.iter().any(goes_up),
        Value::Object(map) => map.values().any(goes_up),
        _ => false,
    }
}

/// Rules that were read, with what is wrong with them.
pub struct Read {
    /// None at all when one is wrong.
    pub rules: Option<Vec<Standing>>,
    pub text: String,
    pub problems: Vec<Problem>,
}

/// The published JSON Schema of `.glee/rules.yml`.
pub fn schema() -> Value {
    schemars::schema_for!(Wire).to_value()
}

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| match Schema::new(schema()) {
    Ok(schema) => schema,
    Err(err) => unreachable!("the schema is generated, and bounded: {err:?}"),
});

/// A project without such a file has no such rules.
pub fn load(path: &Path) -> io::Result<Read> {
    match document::load(path) {
        Ok(text) => Ok(read(text)),
        Err(err) if err.kind() == io::ErrorKind::NotFound || is_placeholder(path) => {
            Ok(read(String::new()))
        }
        Err(err) => Err(err),
    }
}

pub fn read(text: String) -> Read {
    if text
        .lines()
        .all(|it| it.trim_start().is_empty() || it.trim_start().starts_with('#'))
    {
        return Read {
            rules: Some(Vec::new()),
            text,
            problems: Vec::new(),
        };
    }
    let (wire, node, mut problems) = document::read::<Wire>(&text, &SCHEMA, &[]);
    let (Some(wire), Some(node)) = (wire, node) else {
        return Read {
            rules: None,
            text,
            problems,
        };
    };
    let mut rules: Vec<Standing> = Vec::new();
    for (at, it) in wire.always.into_iter().enumerate() {
        let mut wrong = |pointer: &str, message: String| {
            let place = node.place_of(&format!("/always/{at}{pointer}"));
            problems.push(Problem::error("rule", place, message));
        };
        if rules.iter().any(|other| other.name == it.name) {
            wrong("/name", format!("there is a rule `{}` already", it.name));
        }
        if it.digest.len() != 64 || !it.digest.bytes().all(|it| it.is_ascii_hexdigit()) {
            wrong("/digest", "a digest has 64 hexadecimal digits".to_owned());
        }
        for name in it
            .when
            .keys()
            .filter(|name| it.arguments.contains_key(*name))
        {
            wrong(
                "/when",
                format!("`{name}` is said to be something exactly already"),
            );
        }
        let when = Condition::new(condition::tests(it.when)).unwrap_or_else(|flaws| {
            for flaw in flaws {
                wrong(&format!("/when{}", flaw.pointer), flaw.message);
            }
            Condition::default()
        });
        rules.push(Standing {
            name: it.name,
            tool: it.tool,
            digest: it.digest,
            caller: it.caller,
            arguments: it.arguments,
            when,
        });
    }
    Read {
        rules: problems.is_empty().then_some(rules),
        text,
        problems,
    }
}

/// A rule that is to be written down.
pub struct New<'a> {
    pub name: String,
    pub tool: &'a str,
    pub digest: &'a str,
    pub caller: &'a str,
    pub arguments: Map<String, Value>,
    /// Patterns that the person chose for some arguments, in place of what these are.
    pub patterns: &'a [(String, String)],
    /// Who said so, when and why.
    pub remark: &'a str,
}

/// The file with one rule more, everything else as it was; otherwise why it cannot be added.
pub fn added(text: &str, new: &New<'_>) -> Result<String, String> {
    let mut arguments = new.arguments.clone();
    let mut when = Map::new();
    for (name, glob) in new.patterns {
        if arguments.shift_remove(name).is_none() {
            return Err(format!("the call has no argument `{name}`"));
        }
        when.insert(name.clone(), serde_json::json!({"glob": glob}));
    }
    let mut whole = match text.trim().is_empty() {
        true => HEAD.to_owned(),
        false => format!("{}\n", text.trim_end()),
    };
    whole.push_str(&format!("\n  # {}\n", spelled_out(new.remark)));
    for (at, (key, value)) in [
        ("name", Value::from(new.name.as_str())),
        ("tool", new.tool.into()),
        ("digest", new.digest.into()),
        ("caller", new.caller.into()),
        ("arguments", arguments.into()),
        ("when", when.into()),
    ]
    .into_iter()
    .enumerate()
    {
        let lead = if at == 0 { "  - " } else { "    " };
        // JSON is YAML too, and quotes whatever it holds.
        whole.push_str(&format!("{lead}{key}: {}\n", spelled(&value)));
    }
    let before = read(text.to_owned()).rules.map_or(0, |it| it.len());
    let after = read(whole.clone()).rules.unwrap_or_default();
    let is_there = after.last().is_some_and(|it| {
        it.covers(new.tool, new.digest, new.caller, &new.arguments) && it.name == new.name
    });
    match is_there && after.len() == before + 1 {
        true => Ok(whole),
        false => Err("`.glee/rules.yml` is not written in a way that a rule can be added to; run `glee lint`, or write the rule by hand".to_owned()),
    }
}

const HEAD: &str = "\
# Calls that need not ask any more, because a person said so. A rule is good for the very tool that was
# seen: when one byte of it changes, it asks again. Take a rule out to be asked again.
always:
";

/// What shows nothing, or moves what is shown, is spelled out.
fn spelled(value: &Value) -> String {
    let mut out = String::new();
    for c in value.to_string().chars() {
        match is_invisible(c) {
            true => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            false => out.push(c),
        }
    }
    out
}

/// Calls that need not ask any more: `.glee/rules.yml`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "glee rules")]
struct Wire {
    /// Each turns a question into a yes; what is denied stays denied.
    #[serde(default)]
    always: Vec<WireStanding>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WireStanding {
    /// How the rule is called where it decides.
    name: String,
    /// The tool's name.
    tool: String,
    /// The SHA-256 of the tool and all its files; a tool that changed asks again.
    digest: String,
    /// Whose calls.
    caller: String,
    /// Arguments that must be exactly so.
    #[serde(default)]
    arguments: Map<String, Value>,
    /// What the others must be; one that is named nowhere asks.
    #[serde(default)]
    when: WireTests,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn args(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn a_rule_covers_what_it_says_and_nothing_else() {
        let digest = "ab".repeat(32);
        let hostile = "a\u{202e}\u{2028}\"\n- name: evil # ${x}";
        let call = args(json!({"path": hostile, "force": true, "text": "notes/a.txt"}));
        let new = New {
            name: "r".into(),
            tool: "t",
            digest: &digest,
            caller: "mcp",
            arguments: call.clone(),
            patterns: &[("text".to_owned(), "notes/*".to_owned())],
            remark: "said by\n- name: evil\u{85}- name: evil",
        };
        let first = added("", &new).unwrap_or_else(|why| panic!("{why}"));
        assert!(
            !first.contains('\u{202e}') && !first.contains('\u{2028}'),
            "{first}"
        );
        let second = New {
            name: "s".into(),
            ..new
        };
        let text = added(&first, &second).unwrap_or_else(|why| panic!("{why}"));
        let rules = read(text).rules.unwrap_or_default();
        assert_eq!(rules.len(), 2);
        let covers = |change: Value| {
            let mut call = call.clone();
            call.extend(args(change));
            rules[0].covers("t", &digest, "mcp", &call)
        };
        assert!(covers(json!({})));
        assert!(covers(json!({"text": "notes/b.txt"})));
        assert!(!covers(json!({"text": "other"})));
        assert!(!covers(json!({"force": false})));
        assert!(!covers(json!({"more": 1})));
        assert!(!rules[0].covers("t", &digest, "other", &call));
        assert!(!rules[0].covers("t", &"cd".repeat(32), "mcp", &call));
        assert!(!rules[0].covers("u", &digest, "mcp", &call));
        let mut less = call.clone();
        less.shift_remove("force");
        assert!(!rules[0].covers("t", &digest, "mcp", &less));
    }

    #[test]
    fn what_is_written_otherwise_is_not_added_to() {
        let digest = "ab".repeat(32);
        let new = New {
            name: "r".into(),
            tool: "t",
            digest: &digest,
            caller: "mcp",
            arguments: Map::new(),
            patterns: &[],
            remark: "",
        };
        for text in ["always: []", "rules: []", "always: [", "always:\n- name: x"] {
            assert!(added(text, &new).is_err(), "{text}");
        }
    }
}
