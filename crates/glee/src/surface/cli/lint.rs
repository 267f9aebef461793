//! `glee lint`: every problem, as text with carets, as JSON, or as annotations for GitHub.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use glee_core::name::spelled_out;
use serde_json::{Value, json};
use std::io::IsTerminal;

use super::status::Status;
use super::{Session, print};
use crate::dialect::problem::{Problem, Severity};
use crate::lint::{self, File, Report};

/// Find every problem of every manifest, prompt, resource and of the config, in one run.
///
/// Each problem comes with its place, the reason and, where there is one, the fix. Exits with 1 when
/// there are errors; warnings alone do not fail.
#[derive(clap::Args)]
pub(super) struct Args {
    /// How to print: for people, for programs, or as workflow commands of GitHub
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
    Github,
}

pub(super) fn run(session: &Session, args: &Args) -> anyhow::Result<Status> {
    let report = lint::lint(&session.project()?)?;
    let format = if session.json {
        Format::Json
    } else {
        args.format
    };
    match format {
        Format::Text => text(&report)?,
        Format::Json => print::json(&as_json(&report))?,
        Format::Github => github(&report)?,
    }
    Ok(if report.count(Severity::Error) > 0 {
        Status::Failed
    } else {
        Status::Ok
    })
}

fn text(report: &Report) -> anyhow::Result<()> {
    let styled = print::wants_colour() && std::io::stdout().is_terminal();
    let renderer = if styled {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    let mut out = String::new();
    for file in &report.files {
        for problem in &file.problems {
            out.push_str(&snippet(&renderer, file, problem));
            out.push_str("\n\n");
        }
    }
    let (errors, warnings) = (
        report.count(Severity::Error),
        report.count(Severity::Warning),
    );
    out.push_str(&format!(
        "{}, {} in {}\n",
        print::plural(errors, "error"),
        print::plural(warnings, "warning"),
        print::plural(report.files.len(), "file"),
    ));
    // The renderer has already escaped what the documents hold; its colours must survive.
    use std::io::Write;
    std::io::stdout().lock().write_all(out.as_bytes())?;
    Ok(())
}

fn snippet(renderer: &Renderer, file: &File, problem: &Problem) -> String {
    let level = match problem.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let path = spelled_out(&file.path.display().to_string());
    let end = problem.place.end.min(file.text.len());
    let start = problem.place.start.min(end);
    let mut group = level
        .primary_title(problem.message.as_str())
        .id(problem.rule)
        .element(
            Snippet::source(file.text.as_str())
                .path(path.as_str())
                .annotation(AnnotationKind::Primary.span(start..end)),
        );
    if let Some(fix) = &problem.fix {
        group = group.element(Level::HELP.message(fix.as_str()));
    }
    renderer.render(&[group]).to_string()
}

fn as_json(report: &Report) -> Value {
    let problems: Vec<Value> = report
        .files
        .iter()
        .flat_map(|file| file.problems.iter().map(move |problem| (file, problem)))
        .map(|(file, problem)| {
            let (line, column) = position(&file.text, problem.place.start);
            let (end_line, end_column) = position(&file.text, problem.place.end);
            json!({
                "file": file.path.display().to_string(),
                "line": line, "column": column, "end_line": end_line, "end_column": end_column,
                "severity": severity(problem), "rule": problem.rule,
                "message": problem.message, "fix": problem.fix,
            })
        })
        .collect();
    json!({
        "errors": report.count(Severity::Error),
        "warnings": report.count(Severity::Warning),
        "files": report.files.len(),
        "problems": problems,
    })
}

fn github(report: &Report) -> anyhow::Result<()> {
    let escape = |text: &str| {
        text.replace('%', "%25")
            .replace('\r', "%0D")
            .replace('\n', "%0A")
    };
    let property = |text: &str| escape(text).replace(':', "%3A").replace(',', "%2C");
    for file in &report.files {
        for problem in &file.problems {
            let (line, column) = position(&file.text, problem.place.start);
            let fix = problem
                .fix
                .as_ref()
                .map_or(String::new(), |it| format!(" ({it})"));
            print::out(&format!(
                "::{} file={},line={line},col={column},title={}::{}",
                severity(problem),
                property(&spelled_out(&file.path.display().to_string())),
                problem.rule,
                escape(&format!("{}{fix}", problem.message)),
            ))?;
        }
    }
    Ok(())
}

fn severity(problem: &Problem) -> &'static str {
    match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

/// Line and column, both from 1, columns in characters.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..(0..=offset.min(text.len()))
        .rev()
        .find(|&at| text.is_char_boundary(at))
        .unwrap_or(0)];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (
        before.matches('\n').count() + 1,
        before[line_start..].chars().count() + 1,
    )
}
