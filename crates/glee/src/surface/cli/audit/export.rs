//! Events for other programs: as they are, or as a table.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use serde_json::Value;

use super::super::print::harmless;
use super::Recorded;
use crate::store::journal;

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    Jsonl,
    Csv,
}

const COLUMNS: &[&str] = &[
    "seq",
    "at",
    "event",
    "id",
    "actor",
    "tool",
    "document",
    "args_sha256",
    "args",
    "decision",
    "status",
    "code",
    "message",
    "duration_ms",
    "sandbox",
    "approval",
    "answer",
    "reason",
    "permissions",
];

pub(super) fn export(
    directory: &Path,
    format: Format,
    wanted: impl Fn(&Recorded) -> bool,
) -> anyhow::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    if format == Format::Csv {
        writeln!(out, "{}", COLUMNS.join(","))?;
    }
    let is_terminal = out.get_ref().is_terminal();
    for line in journal::lines(directory)? {
        let line = line?;
        let Some(event) = Recorded::read(&line).filter(&wanted) else {
            continue;
        };
        match format {
            Format::Jsonl => writeln!(out, "{line}")?,
            Format::Csv => {
                let cells = COLUMNS.iter().map(|it| cell(it, &event));
                let row = cells.collect::<Vec<_>>().join(",");
                match is_terminal {
                    true => writeln!(out, "{}", harmless(&row))?,
                    false => writeln!(out, "{row}")?,
                }
            }
        }
    }
    out.flush()?;
    Ok(())
}

fn cell(column: &str, event: &Recorded) -> String {
    let text = match (column, event.get(column)) {
        (_, Value::Null) => return String::new(),
        ("sandbox", held) => held["by"].as_str().unwrap_or_default().to_owned(),
        (_, Value::String(text)) => text.clone(),
        (_, Value::Number(number)) => return number.to_string(),
        (_, other) => other.to_string(),
    };
    // What begins so, a spreadsheet would calculate.
    let guard = match text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        true => "'",
        false => "",
    };
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_one_cell_and_no_formula() {
        let event = |json: &str| Recorded::read(json).unwrap();
        let tool = |json: &str| cell("tool", &event(json));
        assert_eq!(tool(r#"{"tool": "a,\"b\"\n"}"#), "\"a,\"\"b\"\"\n\"");
        assert_eq!(tool(r#"{"tool": "=1+1"}"#), "\"'=1+1\"");
        assert_eq!(tool("{}"), "");
        assert_eq!(cell("seq", &event(r#"{"seq": 7}"#)), "7");
    }
}
