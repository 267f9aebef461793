//! Whether a call is what a rule speaks of.

use serde_json::{Map, Value};
use url::Url;

use crate::host::HostPattern;
use crate::model::{Exec, ToolSpec};
use crate::port::Files;
use crate::rule::place::absolute;
use crate::rule::reach::Reach;
use crate::secret::SecretValues;
use crate::shell::Simple;
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

/// A command as one text: the program's name and its words, with one blank between.
pub(super) fn told(command: &Simple) -> String {
    let program = command.program().map(|it| it.text).unwrap_or_default();
    let mut text = program;
    for word in command.args() {
        text.push(' ');
        text.push_str(&word.text.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    text
}

pub(super) fn begins(command: &Simple, prefix: &[String]) -> bool {
    let Some((program, words)) = prefix.split_first() else {
        return false;
    };
    command.runs(program)
        && command.args().len() >= words.len()
        && command
            .args()
            .iter()
            .zip(words)
            .all(|(word, wanted)| word.text == *wanted)
}

impl Seen<'_> {
    pub(super) fn reaches(&self, host: &HostPattern) -> bool {
        let is = |url: &Url| {
            let port = url.port_or_known_default().unwrap_or(0);
            url.host_str().is_some_and(|it| host.matches(it, port))
        };
        let words = self
            .reach
            .scripts
            .iter()
            .flat_map(|it| &it.commands)
            .flat_map(|it| &it.words);
        let given = self
            .args
            .values()
            .filter_map(Value::as_str)
            .filter(|it| it.len() < 4096);
        self.address.as_ref().is_some_and(is)
            || words
                .map(|it| it.text.as_str())
                .chain(given)
                .filter(|it| it.contains("://"))
                .filter_map(|it| Url::parse(it).ok())
                .any(|it| is(&it))
    }

    pub(super) fn names_below(&self, place: &str) -> bool {
        let place = match (place.strip_prefix("~/"), self.files.home()) {
            (Some(rest), Some(home)) => home.join(rest).to_string_lossy().into_owned(),
            _ => place.to_owned(),
        };
        let Some(place) = absolute(&place, Some(self.root)) else {
            return false;
        };
        let below = |text: &str, cwd: Option<&str>| {
            absolute(text, cwd).is_some_and(|it| {
                it.starts_with(&place) || self.files.resolve(&it).starts_with(&place)
            })
        };
        let commands = self.reach.scripts.iter().flat_map(|it| &it.commands);
        self.reach.paths.iter().any(|it| below(it, Some(self.root)))
            || commands.into_iter().any(|command| {
                let targets = command.redirects.iter().map(|it| &it.target);
                let words = command.args().iter().filter(|it| !it.text.starts_with('-'));
                words
                    .chain(targets)
                    .any(|it| below(&it.text, command.cwd.as_deref()))
            })
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
