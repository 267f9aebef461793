//! One table of a TOML file, written, replaced or taken out; every other line stays.

use anyhow::bail;
use serde_json::Value;

use super::NAME;
use super::client::Entry;

pub(super) fn edit(text: &str, entry: Option<&Entry>) -> anyhow::Result<String> {
    let header = format!("[mcp_servers.{NAME}]");
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let ours = lines.iter().position(|it| is_header(it, &header));
    // Other spellings of the same table; a second one beside them would be an error.
    let elsewhere = lines.iter().any(|it| {
        let bare: String = it
            .chars()
            .filter(|c| !c.is_whitespace() && *c != '"')
            .collect();
        bare.starts_with("mcp_servers=")
            || bare.starts_with(&format!("mcp_servers.{NAME}."))
            || bare.starts_with(&format!("mcp_servers.{NAME}="))
    });
    if elsewhere {
        bail!("it writes its servers in a form that glee does not edit");
    }
    let table = entry.map(|it| {
        format!(
            "{header}\ncommand = {}\nargs = {}\n",
            Value::from(it.command.as_str()),
            Value::from(it.args.clone())
        )
    });
    let Some(start) = ours else {
        return Ok(match table {
            None => text.to_owned(),
            Some(table) if text.trim().is_empty() => table,
            Some(table) => format!("{}\n\n{table}", text.trim_end_matches('\n')),
        });
    };
    let length = lines[start + 1..]
        .iter()
        .position(|it| it.trim_start().starts_with('['))
        .unwrap_or(lines.len() - start - 1);
    let (before, after) = (
        lines[..start].concat(),
        lines[start + 1 + length..].concat(),
    );
    Ok(match table {
        Some(table) if after.is_empty() => format!("{before}{table}"),
        Some(table) => format!("{before}{table}\n{after}"),
        None if after.is_empty() => format!("{}\n", before.trim_end_matches('\n')),
        None => before + &after,
    })
}

fn is_header(line: &str, header: &str) -> bool {
    let code = line.split('#').next().unwrap_or_default();
    let bare: String = code
        .chars()
        .filter(|c| !c.is_whitespace() && *c != '"')
        .collect();
    bare == header
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

    #[test]
    fn the_rest_stays_as_it_is() {
        let rest = "# mine\nmodel = \"x\"\n\n[mcp_servers.other]\ncommand = \"y\" # [z]\n";
        let added = edit(rest, Some(&entry())).unwrap();
        assert_eq!(
            added,
            format!("{rest}\n[mcp_servers.glee]\ncommand = \"glee\"\nargs = [\"mcp\"]\n")
        );
        assert_eq!(edit(&added, Some(&entry())).unwrap(), added);
        assert_eq!(edit(&added, None).unwrap(), rest);
    }

    #[test]
    fn a_table_in_the_middle_is_replaced() {
        let text = "[mcp_servers.\"glee\"] # old\ncommand = \"old\"\n\n[other]\na = 1\n";
        assert_eq!(
            edit(text, Some(&entry())).unwrap(),
            "[mcp_servers.glee]\ncommand = \"glee\"\nargs = [\"mcp\"]\n\n[other]\na = 1\n"
        );
        assert_eq!(edit(text, None).unwrap(), "[other]\na = 1\n");
    }

    #[test]
    fn other_spellings_are_not_touched() {
        for text in ["mcp_servers = {}\n", "mcp_servers.glee.command = \"x\"\n"] {
            assert!(edit(text, Some(&entry())).is_err(), "{text}");
        }
    }
}
