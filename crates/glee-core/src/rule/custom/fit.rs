//! Whether a call is what a rule speaks of.

use std::path::PathBuf;

use serde_json::{Map, Value};
use url::Url;

use crate::host::HostPattern;
use crate::model::{Exec, ToolSpec};
use crate::port::Files;
use crate::rule::download::downloads;
use crate::rule::place::{absolute, fits_so_far};
use crate::rule::reach::Reach;
use crate::rule::sensitive::candidates;
use crate::secret::SecretValues;
use crate::shell::{Flow, GAP, SHELLS, Simple, Word, could_be, read_words_of, shell_call};
use crate::template::Scope;

/// A text that must not stand in a command; at its ends words end, where it has letters.
#[derive(Debug)]
pub(super) struct Pattern(pub(super) String);

/// What a rule is held against.
pub(super) struct Seen<'a> {
    pub(super) args: &'a Map<String, Value>,
    pub(super) reach: &'a Reach,
    /// Of an http tool.
    pub(super) address: Option<Url>,
    pub(super) root: &'a str,
    pub(super) files: &'a dyn Files,
}

impl Pattern {
    pub(super) fn stands_in(&self, text: &str) -> bool {
        let is_of_a_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let inner_start = self.0.starts_with(is_of_a_word);
        let inner_end = self.0.ends_with(is_of_a_word);
        text.match_indices(&self.0).any(|(at, found)| {
            let before = text[..at].chars().next_back();
            let after = text[at + found.len()..].chars().next();
            let goes_on = inner_start && before.is_some_and(is_of_a_word)
                || inner_end && after.is_some_and(is_of_a_word);
            !goes_on
        })
    }
}

/// A command as one text: the program's name, its words and its files, with one blank between. A text that is
/// read as commands is told with these.
pub(super) fn told(command: &Simple) -> String {
    let program = command.program().map(|it| it.text).unwrap_or_default();
    let read = read_words_of(&command.words);
    let mut text = program;
    for (at, word) in command.words.iter().enumerate().skip(1) {
        if !read.contains(&at) {
            text.push(' ');
            text.push_str(&word.text.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    let files = command.redirects.iter();
    for file in files.filter(|it| matches!(it.flow, Flow::In | Flow::Out)) {
        text.push(' ');
        text.push_str(&file.target.text);
    }
    text
}

/// Options of the program itself, with their values, may stand before the words: `git -C x push`.
/// A word that only the run could tell may be any.
pub(super) fn begins(command: &Simple, prefix: &[String]) -> bool {
    let Some((program, words)) = prefix.split_first() else {
        return false;
    };
    let args = command.args();
    let is = |word: &Word, wanted: &String| {
        let is_open = !word.known && word.text.chars().all(|c| c == GAP);
        is_open || could_be(word, wanted)
    };
    let begins_at = |at: usize| {
        args.len() - at >= words.len()
            && args[at..].iter().zip(words).all(|(it, word)| is(it, word))
    };
    let is_of_options = |at: usize| {
        let is_option = |at: usize| args[at].text.starts_with('-');
        is_option(at) || at > 0 && is_option(at - 1)
    };
    command.runs(program)
        && (0..=args.len())
            .take_while(|at| *at == 0 || is_of_options(at - 1))
            .any(begins_at)
}

/// The same where nothing is left open: the program that everybody means, with nothing set for it.
pub(super) fn surely_begins(command: &Simple, prefix: &[String]) -> bool {
    let program = command.words.first().map_or("", |it| it.text.as_str());
    let directory = program.rsplit_once('/').map(|it| it.0);
    let known = |it: &Word| it.known && !it.glob;
    let words = command.args().iter().zip(prefix.iter().skip(1));
    begins(command, prefix)
        && words.into_iter().all(|(word, wanted)| word.text == *wanted)
        && matches!(directory, None | Some("/bin" | "/usr/bin"))
        && command.words.iter().take(prefix.len()).all(known)
        && !command.settings
        && !writes(command)
}

/// Whether its output goes to a file.
fn writes(command: &Simple) -> bool {
    let mut files = command.redirects.iter().filter(|it| it.flow == Flow::Out);
    files.any(|it| it.target.text != "/dev/null")
}

/// The words that are no options.
fn operands(command: &Simple) -> impl Iterator<Item = &Word> {
    command.args().iter().filter(|it| !it.text.starts_with('-'))
}

impl Seen<'_> {
    /// Whether every command of the call is so, and there is one. A shell is what it reads, and what
    /// a command starts goes with it.
    pub(super) fn all(&self, is: impl Fn(&Simple) -> bool) -> bool {
        let mut found = false;
        for script in &self.reach.scripts {
            let mut fit: Vec<bool> = Vec::with_capacity(script.commands.len());
            for command in &script.commands {
                let is_only_read =
                    command.runs_any(SHELLS) && shell_call(&command.words).text.is_some();
                let goes_with = command.started_by.is_some_and(|by| fit[by]);
                let fits = goes_with || is(command);
                if !fits && (!is_only_read || writes(command)) {
                    return false;
                }
                found |= fits;
                fit.push(fits);
            }
        }
        found
    }

    /// Whether the call goes there, by anything that it names.
    pub(super) fn reaches(&self, host: &HostPattern) -> bool {
        let commands = self.reach.scripts.iter().flat_map(|it| &it.commands);
        self.addresses()
            .chain(commands.flat_map(addresses_of))
            .any(|it| is_at(&it, host))
    }

    /// Whether it goes there and nowhere else.
    pub(super) fn only_reaches(&self, host: &HostPattern) -> bool {
        let is = |command: &Simple| {
            let mut words = operands(command).peekable();
            !writes(command)
                && words.peek().is_some()
                && words
                    .all(|it| it.known && address_in(&it.text).is_some_and(|it| is_at(&it, host)))
        };
        let commands = self.reach.scripts.iter().any(|it| !it.commands.is_empty());
        let mut addresses = self.addresses().peekable();
        (commands || addresses.peek().is_some())
            && addresses.all(|it| is_at(&it, host))
            && (!commands || self.all(is))
    }

    /// Where an http tool goes, and what the arguments name.
    fn addresses(&self) -> impl Iterator<Item = Url> {
        let given = self.args.values().filter_map(Value::as_str);
        self.address
            .clone()
            .into_iter()
            .chain(given.filter_map(address_in))
    }

    /// Whether the call names something there, or all of a directory it lies in.
    pub(super) fn names_below(&self, place: &str) -> bool {
        let commands = self.reach.scripts.iter().flat_map(|it| &it.commands);
        let place = Below::new(place, self);
        let holds = |it: &String| place.holds(it, Some(self.root));
        self.reach.paths.iter().any(holds)
            || commands.into_iter().any(|command| {
                let cwd = command.cwd.as_deref();
                let targets = command.redirects.iter().map(|it| &*it.target);
                let goes_deep = command.runs_any(&["tar", "zip", "rsync"])
                    || command.args().iter().any(|it| is_recursive(&it.text));
                let is = |word: &Word| {
                    let is_there = |it: &&str| {
                        place.holds(it, cwd)
                            || word.glob && place.may_hold(it, cwd)
                            || goes_deep && place.is_in(it, cwd)
                    };
                    candidates(&word.text).iter().any(is_there)
                };
                command.args().iter().chain(targets).any(is)
            })
    }

    /// Whether everything that it names is there.
    pub(super) fn names_only_below(&self, place: &str) -> bool {
        let place = Below::new(place, self);
        let is = |command: &Simple| {
            let cwd = command.cwd.as_deref();
            let targets = command.redirects.iter().map(|it| &*it.target);
            let mut words = operands(command).chain(targets).peekable();
            words.peek().is_some()
                && words.all(|it| it.known && !it.glob && place.holds(&it.text, cwd))
        };
        let commands = self.reach.scripts.iter().any(|it| !it.commands.is_empty());
        let paths = &self.reach.paths;
        (commands || !paths.is_empty())
            && paths.iter().all(|it| place.holds(it, Some(self.root)))
            && (!commands || self.all(is))
    }
}

/// The addresses that a command names, also without a scheme where it only takes addresses.
fn addresses_of(command: &Simple) -> Vec<Url> {
    let takes_hosts = command.runs_any(&["ssh", "scp", "sftp", "rsync", "git"]);
    let downloads = downloads(command);
    let found = command.words.iter().skip(1).flat_map(|word| {
        let text = match word.text.split_once('=') {
            Some((option, value)) if option.starts_with('-') => value,
            _ => word.text.as_str(),
        };
        let glued = text.find("http").filter(|_| text.starts_with('-'));
        let text = glued.map_or(text, |at| &text[at..]);
        let host = text.rsplit('@').next().unwrap_or_default();
        let host = host.split(':').next().unwrap_or_default();
        let bare = match downloads {
            true if !text.starts_with('-') => Some(text),
            _ => Some(host).filter(|_| takes_hosts && !text.starts_with('-')),
        };
        let bare = bare.and_then(|it| address_in(&format!("http://{it}")));
        [address_in(text), bare]
    });
    found.flatten().collect()
}

/// `-r`, `-aR`, `--recursive`.
fn is_recursive(option: &str) -> bool {
    option == "--recursive"
        || option.starts_with('-') && !option.starts_with("--") && option.contains(['r', 'R', 'a'])
}

/// The URL that a word is.
fn address_in(text: &str) -> Option<Url> {
    let may_be = text.len() < 4096 && text.contains("://");
    may_be.then(|| Url::parse(text).ok()).flatten()
}

fn is_at(url: &Url, host: &HostPattern) -> bool {
    let port = url.port_or_known_default().unwrap_or(0);
    url.host_str().is_some_and(|it| host.matches(it, port))
}

/// A directory, and what lies in it.
struct Below<'a> {
    place: Option<PathBuf>,
    files: &'a dyn Files,
}

impl<'a> Below<'a> {
    fn new(place: &str, seen: &Seen<'a>) -> Below<'a> {
        let place = match (place.strip_prefix("~/"), seen.files.home()) {
            (Some(rest), Some(home)) => home.join(rest).to_string_lossy().into_owned(),
            _ => place.to_owned(),
        };
        Below {
            place: absolute(&place, Some(seen.root)),
            files: seen.files,
        }
    }

    fn holds(&self, text: &str, cwd: Option<&str>) -> bool {
        let (Some(place), Some(path)) = (&self.place, absolute(text, cwd)) else {
            return false;
        };
        path.starts_with(place) || self.files.resolve(&path).starts_with(place)
    }

    /// Whether a pattern fits something there.
    fn may_hold(&self, pattern: &str, cwd: Option<&str>) -> bool {
        let (Some(place), Some(pattern)) = (&self.place, absolute(pattern, cwd)) else {
            return false;
        };
        pattern.components().count() >= place.components().count() && fits_so_far(&pattern, place)
    }

    /// Whether the place lies in what is named.
    fn is_in(&self, text: &str, cwd: Option<&str>) -> bool {
        let (Some(place), Some(path)) = (&self.place, absolute(text, cwd)) else {
            return false;
        };
        place.starts_with(&path)
    }
}

/// Where an http tool would call, as far as the arguments say.
pub(super) fn address(spec: &ToolSpec, args: &Map<String, Value>) -> Option<Url> {
    let Exec::Http(http) = &spec.exec else {
        return None;
    };
    if let Some(origin) = http.url.fixed_origin() {
        return Some(origin.clone());
    }
    http.url.fill(&Scope::new(args, &SecretValues::new())).ok()
}
