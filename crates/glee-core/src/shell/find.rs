//! What `find` starts, and what it deletes.

use std::ops::Range;

use super::grammar::Shell;
use super::xargs::{found_below, replaced};
use super::{GAP, Simple, Unreadable, Word};

impl Shell {
    /// `find … -exec …` and `find … -delete`.
    pub(super) fn run_find(&mut self, index: usize, command: &Simple) -> Result<(), Unreadable> {
        let args = command.args();
        let (found, all) = found(command);
        let mut at = 0;
        while at < args.len() {
            match args[at].text.as_str() {
                "-delete" => {
                    let mut words: Vec<Word> = ["rm", "-f"].map(Word::literal).to_vec();
                    if all {
                        found_below(&mut words);
                    }
                    words.extend(found.iter().cloned());
                    self.start(index, command, words)?;
                }
                "-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "-X" | "--exec"
                | "--exec-batch" => {
                    let rest = &args[at + 1..];
                    let end = rest
                        .iter()
                        .position(|it| matches!(it.text.as_str(), ";" | "+"))
                        .unwrap_or(rest.len());
                    let mut words = rest[..end].to_vec();
                    if all {
                        found_below(&mut words);
                    }
                    let is_fd = command.runs_any(FD);
                    if is_fd && !words.iter().any(|it| it.text.contains("{}")) {
                        words.push(Word::literal("{}"));
                    }
                    for found in &found {
                        self.start(index, command, replaced(&words, "{}", found))?;
                    }
                    at += end;
                }
                _ => {}
            }
            at += 1;
        }
        Ok(())
    }

    /// What these commands print, when it is one that finds files, and whether that is everything.
    pub(super) fn found_by(&self, ranges: &[Range<usize>]) -> Option<(Vec<Word>, bool)> {
        let [range] = ranges else {
            return None;
        };
        match self.script.commands.get(range.clone())? {
            [command] if command.runs_any(FIND) || command.runs_any(FD) => Some(found(command)),
            _ => None,
        }
    }
}

const FIND: &[&str] = &["find", "gfind"];
const FD: &[&str] = &["fd", "fdfind"];

/// What is found is the pattern it is searched by, below where the search begins; without a pattern
/// it is everything there.
fn found(command: &Simple) -> (Vec<Word>, bool) {
    let args = command.args();
    let (places, pattern, narrowed) = match command.runs_any(FD) {
        true => searched_by_fd(args),
        false => searched_by_find(args),
    };
    let found = places.iter().map(|place| match &pattern {
        Some(pattern) => Word {
            text: format!("{}/{GAP}/{}", place.text.trim_end_matches('/'), pattern),
            known: false,
            glob: true,
            made_by: place.made_by.clone(),
        },
        None if narrowed => Word {
            text: format!("{}/{GAP}", place.text.trim_end_matches('/')),
            known: false,
            ..place.clone()
        },
        None => place.clone(),
    });
    (found.collect(), !narrowed)
}

/// Where is searched, by what names, and whether something is left alone.
type Search = (Vec<Word>, Option<String>, bool);

fn searched_by_find(args: &[Word]) -> Search {
    let is_expression = |it: &&Word| {
        it.text.starts_with('-') && it.text.len() > 1 || matches!(it.text.as_str(), "(" | "!")
    };
    // `-L`, `-H` and `-P` come before the places.
    let skip = args
        .iter()
        .take_while(|it| matches!(it.text.as_str(), "-L" | "-H" | "-P"))
        .count();
    let places = args[skip..].iter().take_while(|it| !is_expression(it));
    // What is turned around or one of several leaves nothing alone for sure.
    let turned = |it: &Word| matches!(it.text.as_str(), "!" | "-not" | "-o" | "-or" | ",");
    let sure = !args.iter().any(turned);
    let mut pattern = None;
    let mut narrowed = false;
    for (at, word) in args.iter().enumerate().filter(|_| sure) {
        let value = args.get(at + 1).map_or("", |it| it.text.as_str());
        let has_letters = value.contains(|c: char| c.is_alphanumeric());
        match word.text.as_str() {
            "-name" | "-iname" | "-path" | "-wholename" | "-regex" if has_letters => {
                pattern = pattern.or(Some(value.to_owned()));
            }
            "-size" if !value.starts_with("+0") => narrowed = true,
            test if NARROWING.contains(&test) => narrowed = true,
            _ => {}
        }
    }
    let narrowed = narrowed || pattern.is_some();
    (or_here(places.cloned().collect()), pattern, narrowed)
}

/// `fd pattern places…`
fn searched_by_fd(args: &[Word]) -> Search {
    let own = args
        .iter()
        .take_while(|it| !matches!(it.text.as_str(), "-x" | "-X" | "--exec" | "--exec-batch"));
    let (options, operands): (Vec<&Word>, Vec<&Word>) =
        own.partition(|it| it.text.starts_with('-'));
    let narrowed = !options.is_empty()
        || operands
            .first()
            .is_some_and(|it| it.text.contains(|c: char| c.is_alphanumeric()));
    let places = operands.into_iter().skip(1).cloned().collect();
    (or_here(places), None, narrowed)
}

fn or_here(places: Vec<Word>) -> Vec<Word> {
    match places.is_empty() {
        true => vec![Word::literal(".")],
        false => places,
    }
}

/// Tests of `find` that leave most things alone.
const NARROWING: &[&str] = &[
    "-empty",
    "-newer",
    "-mtime",
    "-mmin",
    "-atime",
    "-amin",
    "-ctime",
    "-cmin",
    "-samefile",
    "-inum",
    "-nouser",
    "-nogroup",
    "-maxdepth",
];
