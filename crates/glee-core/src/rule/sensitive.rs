//! The rule about files that give access to something else.

use std::path::Path;

use super::place::absolute;
use super::secrets::{is_harmless, sensitive};
use crate::policy::{Case, Decision, Rule};
use crate::port::Files;
use crate::shell::{Flow, GAP, Simple, Word, own_words};

pub struct SensitiveFiles;

impl Rule for SensitiveFiles {
    fn name(&self) -> &str {
        "sensitive-files"
    }

    fn about(&self) -> &str {
        "never touches passwords, keys, `.env` files or credentials of clouds, by whatever path"
    }

    fn remedy(&self) -> &str {
        "another file; this rule comes with glee and holds for every call"
    }

    fn judge(&self, case: &Case<'_>) -> Result<Decision, String> {
        let reach = case.reach();
        let root = case.root.to_string_lossy();
        for path in &reach.paths {
            let word = Word::literal(path.as_str());
            if let Some(what) = touched(&word, Some(&root), case.files) {
                return Ok(deny(path, what));
            }
        }
        let (mut asked, mut uses) = (Decision::Allow, 0);
        for command in reach.scripts.iter().flat_map(|it| &it.commands) {
            let files = command
                .redirects
                .iter()
                .filter(|it| matches!(it.flow, Flow::In | Flow::Out));
            let words = files.map(|it| &*it.target).chain(operands(command));
            for word in words {
                let found = touched(word, command.cwd.as_deref(), case.files);
                let Some(what) = found.or_else(|| touched_by_tar(word, command, case.files)) else {
                    continue;
                };
                uses += 1;
                if uses > MAX_USES || !only_uses(command, word) {
                    return Ok(deny(&word.text, what));
                }
                let reason = format!("it uses `{}`, which holds {what}", shown(&word.text));
                asked = asked.or_stricter(Decision::Ask { reason });
            }
        }
        Ok(asked)
    }
}

/// Whether a file holds something that gives access to something else, by its path.
pub fn holds_secrets(path: &Path) -> bool {
    sensitive(path, false).is_some()
}

/// Most sensitive files that a call may ask to use.
const MAX_USES: usize = 16;

/// Whether a file is only named for a program that is made to use it, or only made: `ssh -i key`,
/// `--env-file .env`, `touch .env`, `cp .env.example .env`.
fn only_uses(command: &Simple, word: &Word) -> bool {
    let args = command.args();
    let at = args.iter().position(|it| std::ptr::eq(it, word));
    let before = at.and_then(|at| args.get(at.checked_sub(1)?));
    let before = before.map_or("", |it| it.text.as_str());
    let is_last = at == args.len().checked_sub(1);
    let is_example = |it: &Word| !it.text.starts_with('-') && is_harmless(&it.text);
    before == "--env-file"
        || word.text.starts_with("--env-file=")
        || before == "-i" && command.runs_any(&["ssh", "scp", "sftp", "ssh-copy-id"])
        || command.runs("touch")
        || command.runs("cp") && is_last && args.len() == 2 && is_example(&args[0])
}

/// `tar -C /etc -c shadow` names a file elsewhere.
fn touched_by_tar(word: &Word, command: &Simple, files: &dyn Files) -> Option<&'static str> {
    if !command.runs_any(&["tar", "gtar", "bsdtar"]) {
        return None;
    }
    let args = command.args();
    let at = args
        .iter()
        .position(|it| matches!(it.text.as_str(), "-C" | "--directory" | "--cd"))?;
    let place = args.get(at + 1).filter(|it| it.known)?;
    let place = absolute(&place.text, command.cwd.as_deref())?;
    touched(word, Some(&place.to_string_lossy()), files)
}

fn shown(path: &str) -> String {
    path.replace(GAP, "…")
}

fn deny(path: &str, what: &str) -> Decision {
    Decision::Deny {
        reason: format!("`{}` holds {what}", shown(path)),
    }
}

/// Programs that are given names and leave what bears them alone.
const NAMES_ONLY: &[&str] = &[
    "echo", "printf", "ls", "stat", "test", "[", "[[", "basename", "dirname", "realpath",
    "readlink", "which", "type", "cd", "pushd", "mkdir", "find", "gfind", "fd", "fdfind", "export",
    "declare", "local", "readonly", "typeset", "tree", "exit", "return", "set", "alias", "trap",
];

/// Programs whose first word is a pattern or a program, and their options with values.
const PATTERN_FIRST: &[(&[&str], &[&str])] = &[
    (
        &["grep", "egrep", "fgrep", "zgrep", "rg", "ag"],
        &[
            "-A", "-B", "-C", "-m", "-t", "-T", "-g", "-d", "-D", "--type", "--glob",
        ],
    ),
    (&["sed", "gsed", "awk", "gawk"], &["-F", "-v", "-l"]),
    (&["jq", "yq"], &["--indent", "--tab"]),
];

/// Options whose value is a pattern for names.
const FOR_NAMES: &[&str] = &[
    "--exclude",
    "--include",
    "--exclude-dir",
    "--ignore",
    "--glob",
    "--iglob",
];

/// What git does without a look into the files it names.
const GIT_NAMES_ONLY: &[&str] = &["check-ignore", "ls-files", "status", "log", "blame-ignore"];

/// The words that may name a file which is read or written.
fn operands(command: &Simple) -> Vec<&Word> {
    let Some(program) = command.program() else {
        return Vec::new();
    };
    let name = program.text.as_str();
    let words = own_words(command).get(1..).unwrap_or_default();
    let has = |wanted: &[&str]| words.iter().any(|it| wanted.contains(&it.text.as_str()));
    if NAMES_ONLY.contains(&name) {
        return Vec::new();
    }
    if name == "git" {
        let shows = has(&["-p", "-u", "--patch", "-L", "--no-index"]);
        if has(&["rm"]) && has(&["--cached"]) || has(GIT_NAMES_ONLY) && !shows {
            return Vec::new();
        }
        if let Some(at) = words.iter().position(|it| it.text == "grep") {
            return without_pattern(&words[at + 1..], PATTERN_FIRST[0].1);
        }
    }
    // Taking access away from others is no way to read.
    if name == "chmod"
        && words
            .first()
            .is_some_and(|it| it.text.trim_start_matches('0').ends_with("00"))
    {
        return Vec::new();
    }
    let known = PATTERN_FIRST.iter().find(|it| it.0.contains(&name));
    if let Some((_, valued)) = known
        && !has(&["-e", "-f", "--regexp", "--file", "--expression"])
    {
        let skip = usize::from(name == "yq" && has(&["e", "eval", "ea", "eval-all"]));
        return without_pattern(words.get(skip..).unwrap_or_default(), valued);
    }
    let end = words.iter().position(|it| name == "zip" && it.text == "-x");
    without_names(&words[..end.unwrap_or(words.len())])
}

/// Without the first word that is neither an option nor the value of one.
fn without_pattern<'a>(words: &'a [Word], valued: &[&str]) -> Vec<&'a Word> {
    let mut left = without_names(words);
    let mut at = 0;
    while let Some(word) = left.get(at) {
        at += match word.text.as_str() {
            // `jq --arg name value`
            "--arg" | "--argjson" => 3,
            text if valued.contains(&text) => 2,
            text if text.starts_with('-') && text.len() > 1 => 1,
            _ => {
                left.remove(at);
                break;
            }
        };
    }
    left
}

/// Without patterns for names, such as those that are left out.
fn without_names(words: &[Word]) -> Vec<&Word> {
    let mut left = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (option, glued) = match word.text.split_once('=') {
            Some((option, _)) => (option, true),
            None => (word.text.as_str(), false),
        };
        match FOR_NAMES.contains(&option) {
            true if glued => {}
            true => drop(words.next()),
            false => left.push(word),
        }
    }
    left
}

/// What the file holds that a word names, directly or by a link.
fn touched(word: &Word, cwd: Option<&str>, files: &dyn Files) -> Option<&'static str> {
    let open = word.glob || !word.known;
    let mut texts = candidates(&word.text);
    if !word.known {
        // A variable that is not set is nothing: `$x/etc/passwd` is `/etc/passwd`.
        let start = word.text.trim_start_matches(GAP);
        texts.extend((start != word.text).then_some(start));
    }
    texts.into_iter().find_map(|text| {
        let text = match (text.strip_prefix('~'), files.home()) {
            (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
                format!("{}{rest}", home.display())
            }
            _ => text.to_owned(),
        };
        // Where the directory is not known, the names still tell.
        let path = absolute(&text, Some(cwd.unwrap_or("/")))?;
        sensitive(&path, open).or_else(|| {
            let real = match open || cwd.is_none() {
                true => return None,
                false => files.resolve(&path),
            };
            (real != path).then(|| sensitive(&real, false)).flatten()
        })
    })
}

/// Longest path that any system takes.
const LONGEST_PATH: usize = 4096;

/// The paths in a word: `x`, `--file=x`, `-fx`, `@x`, `x:/y`.
pub(super) fn candidates(text: &str) -> Vec<&str> {
    if text.is_empty() || text.len() > LONGEST_PATH || text.contains(['\n', '\0']) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut rest = text;
    if let Some(option) = rest.strip_prefix('-') {
        match option.find(['/', '~', '.']) {
            Some(at) if !option.starts_with('-') && !option.contains('=') => rest = &option[at..],
            _ => match option.split_once('=') {
                Some((_, value)) => rest = value,
                None => return found,
            },
        }
    }
    found.push(rest);
    if let Some((_, value)) = rest.split_once('=') {
        found.push(value);
        found.extend(value.strip_prefix('@'));
    }
    found.extend(rest.strip_prefix('@'));
    if !rest.contains("://")
        && let Some((host, path)) = rest.split_once(':')
    {
        found.extend([host, path.split(':').next().unwrap_or_default()]);
    }
    // What an address names lies on another machine.
    let is_here = |it: &&str| match it.split_once("://") {
        Some((scheme, _)) => scheme.eq_ignore_ascii_case("file"),
        None => true,
    };
    found.retain(|it| !it.is_empty() && Path::new(it) != Path::new("/") && is_here(it));
    found
}
