//! One entry of a JSON file, written, replaced or taken out; every other byte stays.

use std::ops::Range;

use anyhow::{Context, bail};
use serde::de::IgnoredAny;
use serde_json::{Deserializer, Map, Value, json};

use super::NAME;
use super::client::Entry;

/// A member of an object, and where it stands.
struct Member {
    key: String,
    place: Range<usize>,
    value: Range<usize>,
}

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
    // Only what is on the way to the entry is read: such a file may hold a client's whole history, and in other places
    // whatever that client understands.
    let root = start_of(text, 0);
    let end = end_of(text, root).context("it is not plain JSON (comments, perhaps)")?;
    if start_of(text, end) != text.len() {
        bail!("it is not plain JSON: something follows on it");
    }
    let all = members(text, root)?;
    let Some(servers) = one(&all, key)? else {
        return match value {
            Some(value) => insert(text, root, key, &json!({NAME: value}), 1),
            None => Ok(text.to_owned()),
        };
    };
    let open = servers.value.start;
    let listed = members(text, open)?;
    match (value, one(&listed, NAME)?) {
        (Some(ours), Some(there)) => {
            let written: Value = serde_json::from_str(&text[there.value.clone()])?;
            let both = merged(&written, ours);
            Ok(match both == written {
                true => text.to_owned(),
                false => splice(text, there.value.clone(), &pretty(&both, 2)),
            })
        }
        (Some(ours), None) => insert(text, open, NAME, &ours, 2),
        (None, Some(_)) => remove(text, servers, &listed),
        (None, None) => Ok(text.to_owned()),
    }
}

/// What else the person has set for this server is theirs.
fn merged(written: &Value, ours: Value) -> Value {
    match (written, ours) {
        (Value::Object(there), Value::Object(ours)) => {
            let mut both: Map<String, Value> = there.clone();
            both.extend(ours);
            Value::Object(both)
        }
        (_, ours) => ours,
    }
}

/// The member of this name. Of two, nobody knows which one the client reads.
fn one<'a>(members: &'a [Member], key: &str) -> anyhow::Result<Option<&'a Member>> {
    let mut named = members.iter().filter(|it| it.key == key);
    let first = named.next();
    match named.next() {
        None => Ok(first),
        Some(_) => bail!("it holds `{key}` twice"),
    }
}

/// What the object that begins here holds.
fn members(text: &str, open: usize) -> anyhow::Result<Vec<Member>> {
    if !text[open..].starts_with('{') {
        bail!("it does not hold an object where the servers belong");
    }
    let mut members = Vec::new();
    let mut at = start_of(text, open + 1);
    while !text[at..].starts_with('}') {
        let end = end_of(text, at)?;
        let colon = start_of(text, end);
        let start = start_of(text, colon + 1);
        let value = start..end_of(text, start)?;
        members.push(Member {
            key: serde_json::from_str(&text[at..end])?,
            place: at..value.end,
            value: value.clone(),
        });
        at = start_of(text, value.end);
        if text[at..].starts_with(',') {
            at = start_of(text, at + 1);
        }
    }
    Ok(members)
}

fn insert(
    text: &str,
    open: usize,
    key: &str,
    value: &Value,
    depth: usize,
) -> anyhow::Result<String> {
    let is_empty = members(text, open)?.is_empty();
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
    Ok(splice(text, open + 1..end, &rest))
}

/// Takes our entry out, with the comma that parted it from its neighbour.
fn remove(text: &str, servers: &Member, listed: &[Member]) -> anyhow::Result<String> {
    let at = listed
        .iter()
        .position(|it| it.key == NAME)
        .context("it is not there")?;
    let ours = &listed[at].place;
    let place = match (at.checked_sub(1), listed.get(at + 1)) {
        (_, Some(next)) => ours.start..next.place.start,
        (Some(before), None) => listed[before].place.end..ours.end,
        (None, None) => servers.value.start + 1..servers.value.end - 1,
    };
    Ok(splice(text, place, ""))
}

/// Where the next thing stands that is no blank.
fn start_of(text: &str, from: usize) -> usize {
    let blank = [' ', '\t', '\r', '\n'];
    text.len() - text[from..].trim_start_matches(blank).len()
}

/// Where the JSON value that begins here ends.
fn end_of(text: &str, start: usize) -> anyhow::Result<usize> {
    let mut values = Deserializer::from_str(&text[start..]).into_iter::<IgnoredAny>();
    values.next().context("nothing is there")??;
    Ok(start + values.byte_offset())
}

fn splice(text: &str, place: Range<usize>, by: &str) -> String {
    format!("{}{by}{}", &text[..place.start], &text[place.end..])
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

    /// A client keeps more than servers in such a file, and in its own way.
    #[test]
    fn what_else_is_there_may_be_anything_that_is_json() {
        let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
        for value in [
            deep,
            format!("[{}1]", "1,".repeat(120_000)),
            format!("\"{}\"", "x".repeat(5 << 20)),
            r#""\ud83d\ude00 \/ \ud83d \u0000""#.to_owned(),
            "{\"b\": 1, \"b\": 123456789012345678901234567890e999}".to_owned(),
        ] {
            for text in [
                format!("{{\"a\": {value}}}"),
                format!("{{\"mcpServers\": {{\"x\": {value}}}, \"a\": {value}}}"),
            ] {
                let added = with(&text);
                assert!(added.len() > text.len() && added.contains(&value));
                assert_eq!(with(&added), added);
                assert!(without(&added).contains(&value) && !without(&added).contains("glee"));
            }
        }
    }

    #[test]
    fn what_is_not_understood_is_not_touched() {
        for text in [
            "{// comment\n}",
            "{\"a\": 1,}",
            "{\"a\": 1} {}",
            "{\"a\": 1",
            "[]",
            "{\"mcpServers\": []}",
            "{\"mcpServers\": null}",
            "{\"mcpServers\": {}, \"mcpServers\": {}}",
            "{\"mcpServers\": {\"glee\": {}, \"gl\\u0065e\": {}}}",
            "{\"a\": }",
        ] {
            assert!(
                edit(text, "mcpServers", false, Some(&entry())).is_err(),
                "{text}"
            );
        }
    }
}
