//! One table of a TOML file, written, changed or taken out; the rest stays as it is written.

use anyhow::{Context, bail};
use toml_edit::{Array, DocumentMut, Item, Table, value};

use super::NAME;
use super::client::Entry;

const SERVERS: &str = "mcp_servers";
/// Some editors begin a file with it.
const MARK: &str = "\u{feff}";

pub(super) fn edit(text: &str, entry: Option<&Entry>) -> anyhow::Result<String> {
    let (mark, lines) = match text.strip_prefix(MARK) {
        Some(rest) => (MARK, rest),
        None => ("", text),
    };
    // What is not to be changed is not even written anew.
    let Some(edited) = edit_lines(lines, entry)? else {
        return Ok(text.to_owned());
    };
    let breaks = lines.matches('\n').count();
    let edited = match lines.matches("\r\n").count() {
        0 => edited,
        all if all == breaks => edited.replace('\n', "\r\n"),
        _ => bail!("its lines end in different ways"),
    };
    Ok(format!("{mark}{edited}"))
}

/// What is written anew has line feeds, whatever there were. Nothing, when all is there as it is wanted.
fn edit_lines(text: &str, entry: Option<&Entry>) -> anyhow::Result<Option<String>> {
    let mut document: DocumentMut = text.parse().context("it is not TOML")?;
    let Some(entry) = entry else {
        let servers = document.get_mut(SERVERS).and_then(Item::as_table_like_mut);
        let removed = servers.and_then(|it| it.remove(NAME));
        return Ok(removed.map(|_| document.to_string()));
    };
    let servers = document.entry(SERVERS).or_insert_with(|| {
        let mut servers = Table::new();
        // Its own header would say nothing.
        servers.set_implicit(true);
        Item::Table(servers)
    });
    let Some(servers) = servers.as_table_like_mut() else {
        bail!("`{SERVERS}` is not a table");
    };
    let ours = servers
        .entry(NAME)
        .or_insert_with(|| Item::Table(Table::new()));
    let Some(ours) = ours.as_table_like_mut() else {
        bail!("`{SERVERS}.{NAME}` is not a table");
    };
    let args: Array = entry.args.iter().map(String::as_str).collect();
    // What else the person has set for this server is theirs.
    let has_command = ours.get("command").and_then(Item::as_str) == Some(entry.command.as_str());
    if !has_command {
        ours.insert("command", value(entry.command.as_str()));
    }
    let has_args = ours.get("args").is_some_and(|it| {
        let written = it.as_array().into_iter().flatten();
        written
            .map(|it| it.as_str())
            .eq(entry.args.iter().map(|it| Some(it.as_str())))
    });
    if !has_args {
        ours.insert("args", value(args));
    }
    Ok((!has_command || !has_args).then(|| document.to_string()))
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

    const TABLE: &str = "[mcp_servers.glee]\ncommand = \"glee\"\nargs = [\"mcp\"]\n";

    #[test]
    fn the_rest_stays_as_it_is() {
        assert_eq!(edit("", Some(&entry())).unwrap(), TABLE);
        let rest = "# mine\nmodel = \"x\"\n\n[mcp_servers.other]\ncommand = \"y\" # [z]\n";
        let added = edit(rest, Some(&entry())).unwrap();
        assert_eq!(added, format!("{rest}\n{TABLE}"));
        assert_eq!(edit(&added, Some(&entry())).unwrap(), added);
        assert_eq!(edit(&added, None).unwrap(), rest);
    }

    #[test]
    fn lines_end_as_they_did() {
        let rest = "\u{feff}# mine\r\nmodel = \"x\"\r\n";
        let added = edit(rest, Some(&entry())).unwrap();
        assert_eq!(added, format!("{rest}\r\n{}", TABLE.replace('\n', "\r\n")));
        assert_eq!(edit(&added, Some(&entry())).unwrap(), added);
        assert_eq!(edit(&added, None).unwrap(), rest);
        let mixed = "a = 1\r\nb = 2\n";
        assert!(edit(mixed, Some(&entry())).is_err());
        assert_eq!(edit(mixed, None).unwrap(), mixed);
        assert_eq!(edit("a = 1", None).unwrap(), "a = 1");
    }

    #[test]
    fn every_spelling_is_understood() {
        for text in [
            "[mcp_servers]\nglee = { command = \"x\" }\n",
            "[mcp_servers]\nglee.command = \"x\"\n",
            "mcp_servers.glee.command = \"x\"\n",
            "[mcp_servers.'glee']\ncommand = \"x\"\n",
            "[mcp_servers.\"gl\\u0065e\"]\ncommand = \"x\"\n",
            "[mcp_servers.glee]\nargs = [\n[\"a\"],\n]\n[other]\na = 1\n",
            "a = \"\"\"\n[mcp_servers.glee]\n\"\"\"\n",
        ] {
            let added: DocumentMut = edit(text, Some(&entry())).unwrap().parse().unwrap();
            assert_eq!(
                added["mcp_servers"]["glee"]["command"].as_str(),
                Some("glee")
            );
            let removed: DocumentMut = edit(text, None).unwrap().parse().unwrap();
            let servers = removed.get("mcp_servers").and_then(Item::as_table_like);
            assert!(servers.is_none_or(|it| !it.contains_key("glee")), "{text}");
        }
    }

    #[test]
    fn what_the_person_has_set_stays() {
        let text = "[mcp_servers.glee]\ncommand = \"old\"\nstartup_timeout_sec = 5\n\n[mcp_servers.glee.env]\nA = \"1\"\n";
        let added: DocumentMut = edit(text, Some(&entry())).unwrap().parse().unwrap();
        let ours = &added["mcp_servers"]["glee"];
        assert_eq!(ours["command"].as_str(), Some("glee"));
        assert_eq!(ours["startup_timeout_sec"].as_integer(), Some(5));
        assert_eq!(ours["env"]["A"].as_str(), Some("1"));
        let removed = edit(text, None).unwrap();
        assert!(!removed.contains("glee"), "{removed}");
    }

    #[test]
    fn what_is_not_understood_is_not_touched() {
        for text in ["a = \n", "mcp_servers = 1\n", "[[mcp_servers.glee]]\n"] {
            assert!(edit(text, Some(&entry())).is_err(), "{text}");
        }
    }
}
