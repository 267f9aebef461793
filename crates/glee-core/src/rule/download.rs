//! Code that comes from elsewhere, or that nobody can read.

use super::danger::{Sight, ask, deny};
use super::overview::Origin;
use crate::policy::Decision;
use crate::shell::{Flow, INPUT, SHELLS, Simple, Word, shell_call};

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
    "telnet",
    "ftp",
    "scp",
];

/// Programs that run what they are given, and the letters of options with code; a version may follow
/// the name.
const INTERPRETERS: &[(&str, &str)] = &[
    ("python", "cm"),
    ("perl", "eE"),
    ("ruby", "e"),
    ("node", "ep"),
    ("nodejs", "ep"),
    ("deno", ""),
    ("bun", "ep"),
    ("php", "r"),
    ("lua", "e"),
    ("pwsh", "ec"),
    ("osascript", "e"),
    ("Rscript", "e"),
    ("tclsh", ""),
];

pub(super) fn downloads(command: &Simple) -> bool {
    let connects = |word: &Word| word.text.starts_with("/dev/tcp/");
    let mut inputs = command.redirects.iter().filter(|it| it.flow == Flow::In);
    command.runs_any(DOWNLOADERS) || inputs.any(|it| connects(&it.target))
}

pub(super) fn is_interpreter(command: &Simple) -> bool {
    letters_of_code(command).is_some()
}

fn letters_of_code(command: &Simple) -> Option<&'static str> {
    let program = command.program()?;
    let name = program
        .text
        .trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS
        .iter()
        .find(|it| it.0 == name)
        .map(|(_, letters)| *letters)
}

/// The words whose text is run, and whether what comes in is.
fn code(command: &Simple) -> (Vec<Word>, bool) {
    let mut code: Vec<Word> = command.words.first().cloned().into_iter().collect();
    let mut from_input = false;
    let is_input = |it: &Word| INPUT.contains(&it.text.as_str());
    if command.runs_any(SHELLS) {
        let call = shell_call(&command.words);
        from_input = call.text.is_none() && call.file.is_none();
        code.extend(call.text.map(|it| it.0));
        code.extend(call.file.cloned());
    } else if let Some(letters) = letters_of_code(command) {
        let with_code = |it: &Word| {
            it.text.starts_with('-')
                && !it.text.starts_with("--")
                && it.text.contains(|c| letters.contains(c))
                || matches!(it.text.as_str(), "eval" | "--eval" | "--print")
        };
        let at = command.args().iter().position(with_code);
        let operand = command
            .args()
            .iter()
            .find(|it| !it.text.starts_with('-') || is_input(it));
        match at {
            Some(at) => code.extend(command.args().get(at + 1).cloned()),
            None => code.extend(operand.cloned()),
        }
        from_input = at.is_none() && operand.is_none_or(is_input);
    } else if command.runs_any(&["eval", "source", "."]) {
        code.extend(command.args().iter().cloned());
        from_input = command.args().iter().any(is_input);
    }
    (code, from_input)
}

/// Whether it is a shell that is told by others what to run.
pub(super) fn runs_what_comes_in(command: &Simple) -> bool {
    command.runs_any(SHELLS) && code(command).1
}

/// Whether the command runs something of this origin.
fn runs(sight: &Sight<'_>, origin: &Origin) -> bool {
    let (code, from_input) = code(sight.command);
    // A bare name is looked up among programs, not here.
    let is_file = |at: usize, word: &Word| {
        word.known
            && (at > 0 || word.text.contains('/'))
            && origin.is_saved(&word.text, sight.index)
    };
    from_input && origin.feeds(sight.command, sight.index)
        || code
            .iter()
            .enumerate()
            .any(|(at, word)| origin.makes(word) || is_file(at, word))
}

pub(super) fn downloaded_code(sight: &Sight<'_>) -> Option<Decision> {
    match runs(sight, sight.overview.downloaded()) {
        true => deny("it runs what it downloads"),
        false => None,
    }
}

pub(super) fn hidden_code(sight: &Sight<'_>) -> Option<Decision> {
    match runs(sight, sight.overview.decoded()) {
        true => ask("it runs what it decodes, which nobody can read here"),
        false => None,
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// The names of the files that what a command gives goes to.
pub(super) fn saved_as(command: &Simple) -> Vec<String> {
    let outputs = command.redirects.iter().filter(|it| it.flow == Flow::Out);
    let mut saved: Vec<&str> = outputs.map(|it| it.target.text.as_str()).collect();
    let operands = || command.args().iter().filter(|it| !it.text.starts_with('-'));
    let downloaded = downloaded_to(command);
    saved.extend(downloaded.iter().map(String::as_str));
    if command.runs("tee") {
        saved.extend(operands().map(|it| it.text.as_str()));
    } else if command.runs_any(&["mv", "cp", "ln", "install"]) {
        saved.extend(operands().next_back().map(|it| it.text.as_str()));
    }
    saved
        .into_iter()
        .filter(|it| !it.starts_with("/dev/") && !file_name(it).is_empty())
        .map(|it| file_name(it).to_owned())
        .collect()
}

/// `-o x`, `-ox`, `-qO x`, `--output=x`; without them as the address says, where the program does so.
pub(super) fn downloaded_to(command: &Simple) -> Vec<String> {
    let mut saved: Vec<&str> = Vec::new();
    if !command.runs_any(DOWNLOADERS) {
        return Vec::new();
    }
    let args = command.args();
    let is_curl = command.runs("curl");
    let named_by = if command.runs_any(&["wget", "wget2"]) {
        'O'
    } else {
        'o'
    };
    let (mut named, mut as_address) = (false, !is_curl);
    for (at, word) in args.iter().enumerate() {
        let text = word.text.as_str();
        let next = || args.get(at + 1).map(|it| it.text.as_str());
        let file = if let Some(long) = text.strip_prefix("--") {
            as_address |= long.starts_with("remote-name");
            match long.split_once('=') {
                Some(("output" | "output-document" | "out", file)) => Some(file),
                None if matches!(long, "output" | "output-document" | "out") => next(),
                _ => None,
            }
        } else if let Some(letters) = text.strip_prefix('-') {
            as_address |= is_curl && letters.contains('O');
            match letters.split_once(named_by) {
                Some((_, "")) => next(),
                Some((_, file)) => Some(file),
                None => None,
            }
        } else {
            None
        };
        named |= file.is_some();
        saved.extend(file);
    }
    if !named && as_address {
        let addresses = args.iter().filter(|it| !it.text.starts_with('-'));
        let files = addresses.filter_map(|it| it.text.split(['?', '#']).next());
        saved.extend(files.map(file_name));
    }
    saved.into_iter().map(str::to_owned).collect()
}

/// Programs that turn what they read into something else.
const CHANGES: &[&str] = &[
    "uudecode", "rev", "tr", "sed", "gsed", "awk", "gawk", "zcat", "gunzip", "bunzip2", "unxz",
    "bzcat", "xzcat", "zstdcat",
];

/// Whether what a command prints is not what stands in a line or in a file.
pub(super) fn decodes(command: &Simple) -> bool {
    let options = || command.args().iter().filter(|it| it.text.starts_with('-'));
    let flag = |wanted: &[&str]| options().any(|it| wanted.contains(&it.text.as_str()));
    let letter = |c: char| options().any(|it| !it.text.starts_with("--") && it.text.contains(c));
    command.runs_any(&["base64", "base32"]) && flag(&["-d", "-D", "--decode", "-di", "-id"])
        || command.runs("xxd") && letter('r')
        || command.runs("openssl") && flag(&["-d", "-a"])
        || command.runs_any(&["gzip", "bzip2", "xz", "zstd"])
            && (letter('d') || flag(&["--decompress"]))
        || command.runs_any(CHANGES)
        || is_interpreter(command) && code(command).0.len() > 1
}
