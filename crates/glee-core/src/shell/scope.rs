//! What holds for the commands that follow: variables, arguments, functions, the directory.

use std::collections::HashMap;
use std::sync::Arc;

use super::expand::Value;
use super::grammar::Shell;
use super::{Simple, Unreadable, Word};

/// What a script or a function was called with.
pub(super) const ARGUMENTS: [&str; 11] = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "@", "*"];

/// Most directories that a command is thought to run in.
const MAX_PLACES: usize = 4;
/// Most functions that call each other and are followed.
const MAX_CALLS: usize = 4;

#[derive(Default)]
pub(super) struct Scope {
    variables: HashMap<String, Value>,
    /// What variables held before, newest last.
    undo: Vec<(String, Option<Value>)>,
    arguments: Arc<[Word]>,
    places: Places,
    /// How many choices there are around the current command.
    choices: usize,
    /// Texts of functions and aliases by name, and which of them are being followed.
    bodies: HashMap<String, Arc<Word>>,
    followed: Vec<String>,
}

/// Directories: where a command runs, and where it may run instead.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) here: Option<Arc<str>>,
    pub(super) or: Vec<Option<Arc<str>>>,
}

impl Scope {
    pub(super) fn at(cwd: Option<&str>) -> Scope {
        let mut scope = Scope::default();
        scope.places.here = cwd.map(Arc::from);
        scope
    }
}

impl Places {
    /// After `cd`; `None` is a directory that nobody knows.
    fn go(&mut self, to: Option<&str>) {
        for cwd in self.or.iter_mut().chain([&mut self.here]) {
            *cwd = match (&cwd, to) {
                (_, Some(to)) if to.starts_with('/') => Some(Arc::from(to)),
                (Some(cwd), Some(to)) => Some(Arc::from(format!("{cwd}/{to}"))),
                (None, _) | (_, None) => None,
            };
        }
        self.or.retain(|it| *it != self.here);
        self.or.dedup();
    }

    fn or_else(&mut self, other: Places) {
        for place in std::iter::once(other.here).chain(other.or) {
            if place != self.here && !self.or.contains(&place) && self.or.len() < MAX_PLACES {
                self.or.push(place);
            }
        }
    }
}

impl Shell {
    /// What a variable holds: as it was set, or as every shell sets it.
    pub(super) fn variable(&self, name: &str) -> Option<Value> {
        let set = self.scope.variables.get(name).cloned();
        set.or_else(|| match name {
            "IFS" => Some(Value::literal(" \t\n")),
            "HOME" => self.home.as_deref().map(Value::literal),
            "PWD" => self.scope.places.here.as_deref().map(Value::literal),
            "SHELL" | "BASH" => Some(Value::literal("/bin/sh").guessed()),
            // A line has no arguments of its own; `"$@"` is then no word at all.
            "@" => Some(Value::any_of(Vec::new())),
            _ if ARGUMENTS.contains(&name) => Some(Value::literal("")),
            _ => None,
        })
    }

    /// Sets a variable; where it may not come to this, both values stand.
    pub(super) fn set(&mut self, name: &str, value: Value) -> Result<(), Unreadable> {
        let mut value = value.bounded();
        if self.scope.choices > 0
            && let Some(mut both) = self.scope.variables.get(name).cloned()
        {
            self.spend(both.size())?;
            both.or(value);
            value = both;
        }
        self.assign(name, Some(value));
        Ok(())
    }

    /// Sets a variable, or forgets it.
    pub(super) fn assign(&mut self, name: &str, value: Option<Value>) {
        let before = match value {
            Some(value) => self.scope.variables.insert(name.to_owned(), value),
            None => self.scope.variables.remove(name),
        };
        self.scope.undo.push((name.to_owned(), before));
    }

    /// What is set in here holds only in here.
    pub(super) fn apart<T>(
        &mut self,
        read: impl FnOnce(&mut Shell) -> Result<T, Unreadable>,
    ) -> Result<T, Unreadable> {
        let before = self.moment();
        let result = self.deeper(read);
        self.back_to(before);
        result
    }

    /// To come back to with [`Shell::back_to`].
    pub(super) fn moment(&self) -> Moment {
        Moment {
            undo: self.scope.undo.len(),
            arguments: self.scope.arguments.clone(),
            places: self.scope.places.clone(),
        }
    }

    pub(super) fn back_to(&mut self, moment: Moment) {
        for (name, before) in self.scope.undo.drain(moment.undo..).rev() {
            match before {
                Some(value) => self.scope.variables.insert(name, value),
                None => self.scope.variables.remove(&name),
            };
        }
        self.scope.arguments = moment.arguments;
        self.scope.places = moment.places;
    }

    /// What may happen or not: variables keep both values.
    pub(super) fn choice<T>(
        &mut self,
        read: impl FnOnce(&mut Shell) -> Result<T, Unreadable>,
    ) -> Result<T, Unreadable> {
        self.scope.choices += 1;
        let result = read(self);
        self.scope.choices -= 1;
        result
    }

    /// The same; afterwards it may be in either directory.
    pub(super) fn branch<T>(
        &mut self,
        read: impl FnOnce(&mut Shell) -> Result<T, Unreadable>,
    ) -> Result<T, Unreadable> {
        let before = self.scope.places.clone();
        let result = self.choice(read);
        self.scope.places.or_else(before);
        result
    }

    pub(super) fn places(&self) -> Places {
        self.scope.places.clone()
    }

    pub(super) fn or_in(&mut self, places: Places) {
        self.scope.places.or_else(places);
    }

    /// After `cd`.
    pub(super) fn go(&mut self, to: Option<&str>) {
        self.scope.places.go(to);
        self.assign("PWD", None);
    }

    pub(super) fn cwd(&self) -> Option<Arc<str>> {
        self.scope.places.here.clone()
    }

    pub(super) fn set_arguments(&mut self, words: &[Word]) -> Result<(), Unreadable> {
        self.spend(words.iter().map(|it| it.text.len() + 1).sum())?;
        for at in 1..=9 {
            let value = match words.get(at - 1) {
                Some(word) => Value::any_of(vec![word.clone()]),
                None => Value::literal(""),
            };
            self.assign(&at.to_string(), Some(value));
        }
        for name in ["@", "*"] {
            self.assign(name, Some(Value::any_of(words.to_vec())));
        }
        self.scope.arguments = words.into();
        Ok(())
    }

    pub(super) fn shift(&mut self, by: usize) -> Result<(), Unreadable> {
        let words = self.scope.arguments.clone();
        self.set_arguments(words.get(by..).unwrap_or_default())
    }

    /// Takes note of what a function or an alias is called and holds.
    pub(super) fn define(&mut self, name: &str, body: Word) {
        self.scope.bodies.insert(name.to_owned(), body.into());
    }

    /// Reads what a function or an alias of this name holds, with these words.
    pub(super) fn follow(&mut self, name: &str, command: &Simple) -> Result<(), Unreadable> {
        let Some(body) = self.scope.bodies.get(name).cloned() else {
            return Ok(());
        };
        let around = self.scope.followed.len();
        let size = body.text.len() + command.words.len();
        // Its commands were read where it was defined; what a call adds is followed only so far.
        if around == MAX_CALLS || self.scope.followed.iter().any(|it| it == name) {
            return Ok(());
        }
        let Some(left) = self.calls_left.checked_sub(size) else {
            return Ok(());
        };
        self.calls_left = left;
        self.scope.followed.push(name.to_owned());
        let outer = self.scope.arguments.clone();
        self.set_arguments(command.args())?;
        let result = self.word_text(&body, &command.fed_by);
        self.set_arguments(&outer)?;
        self.scope.followed.truncate(around);
        result
    }
}

/// What held before something that is only tried, or runs apart.
pub(super) struct Moment {
    undo: usize,
    arguments: Arc<[Word]>,
    places: Places,
}
