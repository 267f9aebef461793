//! One entry of a JSON file, written, replaced or taken out; every other byte stays.

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::NAME;
use super::client::Entry;
use crate::dialect::yaml::{self, Kind, Node};

pub(super) fn edit(
    text: &str,
    key: &str,
    typed: bool,
    entry: Option<&Entry>,
) -> anyhow::Result<String> {
    let value = entry.map(|it| {
        let mut value = json!({"command": it.command, "args": it.args});
        if typed {
            value["type"] = "stdio".into();
        }
        value
    });
    if text.trim().is_empty() {
        return Ok(match value {
            Some(value) => pretty(&json!({key: {NAME: value}}), 0) + "\n",
            None => text.to_owned(),
        });
    }
    let parsed: Value =
        serde_json::from_str(text).context("it is not plain JSON (comments, perhaps)")?;
    if !parsed.is_object() || parsed.get(key).is_some_and(|it| !it.is_object()) {
        bail!("it does not hold an object where the servers belong");
    }
    // JSON is YAML too, and the reader of YAML knows where everything stands.
    let node = match yaml::parse(text) {
        (Some(node), problems) if problems.is_empty() => node,
        _ => bail!("it is too large, or not plain JSON"),
    };
    // What else the person has set for this server is theirs.
    let value = value.map(|ours| match &parsed[key][NAME] {
        Value::Object(there) => {
            let mut both = there.clone();
            both.extend(ours.as_object().cloned().unwrap_or_default());
            Value::Object(both)
        }
        _ => ours,
    });
    let servers = node.get(&format!("/{key}"));
    let ours = servers.and_then(|it| it.get(&format!("/{NAME}")));
    match (value, servers, ours) {
        (Some(value), _, Some(_)) if parsed[key][NAME] == value => Ok(text.to_owned()),
        (Some(value), Some(_), Some(ours)) => {
            let (start, end) = (ours.place.start, end_of(text, ours.place.start)?);
            Ok(splice(text, start, end, &pretty(&value, 2)))
        }
        (Some(value), Some(servers), None) => insert(text, servers, NAME, &value, 2),
        (Some(value), None, _) => insert(text, &node, key, &json!({NAME: value}), 1),
        (None, Some(servers), Some(_)) => remove(text, servers),
        (None, _, _) => Ok(text.to_owned()),
    }
}

fn insert(
    text: &str,
    object: &Node,
    key: &str,
    value: &Value,
    depth: usize,
) -> anyhow::Result<String> {
    let open = open_of(text, object)?;
    let is_empty = matches!(&object.kind, Kind::Map(entries) if entries.is_empty());
    let indent = "  ".repeat(depth);
    let entry = format!("\n{indent}{}: {}", json!(key), pretty(value, depth));
    let rest = match is_empty {
        true => format!("{entry}\n{}", "  ".repeat(depth - 1)),
        false => format!("{entry},"),
    };
    // An empty object may hold blanks, which now stand before the brace for nothing.
    let end = match is_empty {
        true => end_of(text, open)? - 1,
        false => open + 1,
    };
    Ok(splice(text, open + 1, end, &rest))
}

/// Takes our entry out, with the comma that parted it from its neighbour.
fn remove(text: &str, servers: &Node) -> anyhow::Result<String> {
    let Kind::Map(entries) = &servers.kind else {
        bail!("it does not hold an object where the servers belong");
    };
    let at = entries
        .iter()
        .position(|it| it.key == NAME)
        .context("it is not there")?;
    let start = entries[at].key_place.start;
    let end = end_of(text, entries[at].value.place.start)?;
    Ok(match (at.checked_sub(1), entries.get(at + 1)) {
        (_, Some(next)) => splice(text, start, next.key_place.start, ""),
        (Some(before), None) => splice(
            text,
            end_of(text, entries[before].value.place.start)?,
            end,
            "",
        ),
        (None, None) => {
            let open = open_of(text, servers)?;
            splice(text, open + 1, end_of(text, open)? - 1, "")
        }
    })
}

fn open_of(text: &str, object: &Node) -> anyhow::Result<usize> {
    let start = object.place.start;
    match text[start..].find('{') {
        Some(0) => Ok(start),
        _ => bail!("it is not plain JSON"),
    }
}

/// Where the JSON value that begins here ends.
fn end_of(text: &str, start: usize) -> anyhow::Result<usize> {
    let mut values =
        serde_json::Deserializer::from_str(&text[start..]).into_iter::<serde::de::IgnoredAny>();
    values.next().context("it is not plain JSON")??;
    Ok(start + values.byte_offset())
}

fn splice(text: &str, start: usize, end: usize, by: &str) -> String {
    format!("{}{by}{}", &text[..start], &text[end..])
}

/// Indented as if it stood at a depth.
fn pretty(value: &Value, depth: usize) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.replace('\n', &format!("\n{}", "  ".repeat(depth)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry {
            command: "glee".into(),
            args: vec!["mcp".into()],
        }
    }

    fn with(text: &str) -> String {
        edit(text, "mcpServers", false, Some(&entry())).unwrap()
    }

    fn without(text: &str) -> String {
        edit(text, "mcpServers", false, None).unwrap()
    }

    #[test]
    fn the_rest_stays_as_it_is() {
        let rests = [
            "{}",
            "{ }\n",
            "{\"a\":1}",
            "{\n\t\"z\" : [1,\r\n2],\n\t\"mcpServers\": {}\n}\n",
            "{\"mcpServers\":{\"x\":{\"command\":\"y\"}},\"b\":null}",
            "{\"mcpServers\": {\"x\": {\"glee\": 1}}, \"glee\": {\"mcpServers\": 2}}",
        ];
        for text in rests {
            let added = with(text);
            let value: Value = serde_json::from_str(&added).unwrap();
            assert_eq!(value["mcpServers"]["glee"]["command"], "glee", "{text}");
            assert_eq!(with(&added), added, "twice: {text}");
            let mut expected: Value = serde_json::from_str(text).unwrap();
            let removed: Value = serde_json::from_str(&without(&added)).unwrap();
            if expected.get("mcpServers").is_none() {
                expected["mcpServers"] = json!({});
            }
            assert_eq!(removed, expected, "{text}");
        }
        assert!(with("{\n\t\"z\" : [1,\r\n2]\n}\n").ends_with("\n\t\"z\" : [1,\r\n2]\n}\n"));
    }

    #[test]
    fn an_entry_of_another_time_is_replaced() {
        let text = "{\"mcpServers\": {\"a\": {}, \"glee\": {\"command\": \"old\", \"args\": []}, \"b\": {}}}";
        let text = text.replace("\"args\": []", "\"args\": [], \"env\": {\"A\": \"1\"}");
        let value: Value = serde_json::from_str(&with(&text)).unwrap();
        assert_eq!(value["mcpServers"]["glee"]["args"], json!(["mcp"]));
        assert_eq!(value["mcpServers"]["glee"]["env"]["A"], "1");
        assert!(value["mcpServers"]["a"].is_object() && value["mcpServers"]["b"].is_object());
    }

    #[test]
    fn what_is_not_understood_is_not_touched() {
        for text in ["{// comment\n}", "[]", "{\"mcpServers\": []}", "{\"a\": }"] {
            assert!(
                edit(text, "mcpServers", false, Some(&entry())).is_err(),
                "{text}"
            );
        }
    }
}
