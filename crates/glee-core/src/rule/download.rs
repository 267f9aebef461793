//! Code that comes from elsewhere, or that nobody can read.

use std::ops::Range;

use super::danger::{Sight, ask, deny};
use crate::policy::Decision;
use crate::shell::{Flow, SHELLS, Simple, Word, shell_call};

/// Programs that fetch something from elsewhere.
const DOWNLOADERS: &[&str] = &[
    "curl",
    "wget",
    "wget2",
    "aria2c",
    "fetch",
    "http",
    "https",
    "xh",
    "lynx",
    "w3m",
    "lwp-request",
    "lwp-download",
    "nc",
    "ncat",
    "netcat",
    "socat",
    "ftp",
    "scp",
];

/// Programs that run what they are given; a version may follow the name.
const INTERPRETERS: &[&str] = &[
    "python",
    "perl",
    "ruby",
    "node",
    "nodejs",
    "deno",
    "bun",
    "php",
    "lua",
    "pwsh",
    "osascript",
    "Rscript",
    "tclsh",
];

pub(super) fn is_interpreter(command: &Simple) -> bool {
    let Some(program) = command.program() else {
        return false;
    };
    let name = program
        .text
        .trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS.contains(&name)
}

/// The words whose text is run, and whether what comes in is.
fn code(command: &Simple) -> (Vec<&Word>, bool) {
    let texts = command.redirects.iter().filter(|it| it.flow == Flow::Text);
    let texts: Vec<&Word> = texts.map(|it| &it.target).collect();
    let mut code: Vec<&Word> = command.words.first().into_iter().collect();
    let mut from_input = false;
    if SHELLS.iter().any(|it| command.runs(it)) {
        let call = shell_call(&command.words);
        code.extend(call.text.map(|it| it.0));
        code.extend(call.file);
        from_input = call.text.is_none() && call.file.is_none();
    } else if is_interpreter(command) {
        let with_code = |it: &&Word| {
            it.text.starts_with('-')
                && !it.text.starts_with("--")
                && it.text.contains(['c', 'e', 'm', 'r', 'E'])
                || matches!(
                    it.text.as_str(),
                    "eval" | "--eval" | "--print" | "-p" | "-n"
                )
        };
        let at = command.args().iter().position(|it| with_code(&it));
        let operand = command.args().iter().find(|it| !it.text.starts_with('-'));
        match at {
            Some(at) => code.extend(command.args().get(at + 1)),
            None => code.extend(operand),
        }
        from_input = at.is_none() && operand.is_none_or(|it| it.text == "/dev/stdin");
    } else if ["eval", "source", "."].iter().any(|it| command.runs(it)) {
        code.extend(command.args());
        from_input = command.args().iter().any(|it| it.text == "/dev/stdin");
    }
    if from_input {
        code.extend(texts);
    }
    (code, from_input)
}

/// The first command among these that `is` so, when this command runs what it gives.
fn runs_output_of(sight: &Sight<'_>, is: impl Fn(&Simple) -> bool) -> bool {
    let (code, from_input) = code(sight.command);
    let mut sources: Vec<Range<usize>> = code.iter().flat_map(|it| it.made_by.clone()).collect();
    if from_input {
        sources.extend(sight.command.fed_by.iter().cloned());
    }
    if sources.is_empty() {
        return false;
    }
    let reached = sight.script.reached_from(&sources);
    reached
        .iter()
        .any(|at| *at != sight.index && is(&sight.script.commands[*at]))
}

pub(super) fn downloaded_code(sight: &Sight<'_>) -> Option<Decision> {
    let downloads = |command: &Simple| DOWNLOADERS.iter().any(|it| command.runs(it));
    if runs_output_of(sight, downloads) {
        return deny("it runs what it downloads");
    }
    // `curl -o x …; sh x`
    let (code, _) = code(sight.command);
    let earlier = &sight.script.commands[..sight.index];
    for command in earlier.iter().filter(|it| downloads(it)) {
        let saved = saved_as(command);
        let is_saved = |word: &&Word| {
            word.known
                && saved
                    .iter()
                    .any(|it| file_name(it) == file_name(&word.text))
        };
        // A bare name is looked up among programs, not here.
        let program = sight.command.words.first();
        if code
            .iter()
            .any(|it| is_saved(it) && (Some(*it) != program || it.text.contains('/')))
        {
            return deny("it runs what it downloads");
        }
    }
    None
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// The files a download goes to.
fn saved_as(command: &Simple) -> Vec<String> {
    let outputs = command.redirects.iter().filter(|it| it.flow == Flow::Out);
    let mut saved: Vec<String> = outputs.map(|it| it.target.text.clone()).collect();
    let args = command.args();
    for (at, word) in args.iter().enumerate() {
        let text = word.text.as_str();
        let glued = text
            .strip_prefix("--output=")
            .or(text.strip_prefix("--output-document="))
            .or(text.strip_prefix("-O").filter(|it| !it.is_empty()));
        saved.extend(glued.map(str::to_owned));
        let named = text.starts_with('-') && !text.starts_with("--") && text.ends_with(['o', 'O'])
            || matches!(text, "--output" | "--output-document");
        if named && let Some(next) = args.get(at + 1) {
            saved.push(next.text.clone());
        }
        // `curl -O` and `wget` name the file as its address does.
        if text.contains("://") {
            let name = text.split(['?', '#']).next().unwrap_or_default();
            saved.push(file_name(name).to_owned());
        }
    }
    saved.retain(|it| !file_name(it).is_empty());
    saved
}

pub(super) fn hidden_code(sight: &Sight<'_>) -> Option<Decision> {
    let decodes = |command: &Simple| {
        let options = command.args().iter().filter(|it| it.text.starts_with('-'));
        let flag = |wanted: &[&str]| options.clone().any(|it| wanted.contains(&it.text.as_str()));
        ["base64", "base32"].iter().any(|it| command.runs(it))
            && flag(&["-d", "-D", "--decode", "-di", "-id"])
            || command.runs("xxd") && options.clone().any(|it| it.text.contains('r'))
            || command.runs("openssl") && flag(&["-d", "-a"])
            || ["uudecode", "rev"].iter().any(|it| command.runs(it))
    };
    match runs_output_of(sight, decodes) {
        true => ask("it runs what it decodes, which nobody can read here"),
        false => None,
    }
}
