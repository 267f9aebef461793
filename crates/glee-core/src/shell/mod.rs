//! A command line, read as a shell would read it: every simple command that would run, however deep
//! it stands in quotes, lists, substitutions and wrappers.
//!
//! Nothing is run and nothing is looked up. What only the run could tell (the output of a program, a
//! variable nobody set here) is a gap in a word, and the word says so. Where a shell would choose,
//! both ways are taken. Every step is counted, and there are so many for each letter of the text and
//! no more: what is nested or multiplied beyond that is [`Unreadable`], as is what no shell would
//! accept.

mod builtin;
mod compound;
mod cursor;
mod escape;
mod expand;
mod find;
mod grammar;
mod output;
mod redirect;
mod scope;
mod simple;
mod start;
mod word;
mod wrapper;
mod xargs;

use std::ops::Range;
use std::sync::Arc;

use thiserror::Error;

use grammar::Shell;
pub(crate) use wrapper::{INPUT, SHELLS, own_words, read_words_of, shell_call};

/// Stands in a word's text where something is that only the run could tell.
pub const GAP: char = '\u{FFFC}';

/// What would run.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Nested commands come before the one they are part of, what a wrapper starts comes after it.
    pub commands: Vec<Simple>,
    pub functions: Vec<Function>,
}

/// A program and its words.
#[derive(Clone, Debug, Default)]
pub struct Simple {
    /// None when there are only redirections.
    pub words: Vec<Word>,
    pub redirects: Vec<Redirect>,
    /// Commands whose output comes in at its standard input.
    pub fed_by: Vec<Range<usize>>,
    /// Whether the next command starts before this one is over.
    pub background: bool,
    /// The directory it runs in, where that is known.
    pub cwd: Option<Arc<str>>,
    /// Whether variables are set for it alone.
    pub settings: bool,
    /// The command among whose words it stands, as after `sudo`.
    pub started_by: Option<usize>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    pub text: String,
    /// Whether all of the text is known; where it is not, there is a [`GAP`], or a guess.
    pub known: bool,
    /// Whether a `*`, `?` or `[` in it stands for other names.
    pub glob: bool,
    /// Commands whose output is part of it.
    pub made_by: Vec<Range<usize>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    pub flow: Flow,
    /// Shared, because a long text may come in at many commands.
    pub target: Arc<Word>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// `<`
    In,
    /// `>`, `>>`, `&>`, `<>`: a file is made or changed.
    Out,
    /// `<<` and `<<<`: the target is the text itself.
    Text,
    /// `2>&1`: another name for an open file.
    Same,
}

/// `name() { … }`, whose commands are taken to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    pub body: Range<usize>,
}

/// Where a command line runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Surroundings<'a> {
    pub cwd: Option<&'a str>,
    pub home: Option<&'a str>,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the command cannot be read as a shell would read it: {0}")]
pub struct Unreadable(pub String);

/// Longest text that is read, in bytes.
pub const MAX_BYTES: usize = 1 << 20;

/// Reads a command line, or a whole script.
pub fn read(text: &str, at: Surroundings<'_>) -> Result<Script, Unreadable> {
    let mut shell = Shell::new(at, text.len());
    shell.text(text, &[])?;
    Ok(shell.finish())
}

/// Reads an argument vector, as it is handed to a program; a wrapper in it is looked through, and a
/// shell in it reads what it is given.
pub fn read_words(
    words: Vec<String>,
    stdin: Option<String>,
    at: Surroundings<'_>,
) -> Result<Script, Unreadable> {
    let bytes =
        words.iter().map(String::len).sum::<usize>() + stdin.as_ref().map_or(0, String::len);
    let mut shell = Shell::new(at, bytes);
    let redirects = stdin.map(|text| Redirect {
        flow: Flow::Text,
        target: Word::maybe_with_gaps(text).into(),
    });
    shell.push(Simple {
        words: words.into_iter().map(Word::maybe_with_gaps).collect(),
        redirects: redirects.into_iter().collect(),
        cwd: shell.cwd(),
        ..Simple::default()
    })?;
    Ok(shell.finish())
}

impl Word {
    pub fn literal(text: impl Into<String>) -> Word {
        Word {
            text: text.into(),
            known: true,
            ..Word::default()
        }
    }

    /// A text in which what is not known was left out as a [`GAP`].
    fn maybe_with_gaps(text: String) -> Word {
        Word {
            known: !text.contains(GAP),
            text,
            ..Word::default()
        }
    }

    /// A word of which nothing is known.
    pub fn gap() -> Word {
        Word {
            text: GAP.to_string(),
            ..Word::default()
        }
    }
}

impl Simple {
    /// What the program is called, wherever it stands.
    pub fn program(&self) -> Option<Word> {
        let word = self.words.first()?;
        let name = word.text.rsplit('/').next().unwrap_or_default();
        Some(Word {
            text: name.to_owned(),
            ..word.clone()
        })
    }

    /// The same, when all of it is known.
    pub fn name(&self) -> Option<&str> {
        let word = self.words.first().filter(|it| it.known && !it.glob)?;
        word.text.rsplit('/').next()
    }

    /// Whether the program may be called this. One of which nothing at all is known may be called
    /// anything, and is not taken to be this.
    pub fn runs(&self, name: &str) -> bool {
        self.words.first().is_some_and(|word| {
            let program = word.text.rsplit('/').next().unwrap_or_default();
            matches(program, name, word)
        })
    }

    /// Whether it may be called one of these.
    pub fn runs_any(&self, names: &[&str]) -> bool {
        match self.name() {
            Some(name) => names.contains(&name),
            None => names.iter().any(|it| self.runs(it)),
        }
    }

    /// The words after the program's name.
    pub fn args(&self) -> &[Word] {
        self.words.get(1..).unwrap_or_default()
    }
}

/// Whether a word may be this text; one of which nothing is known is not taken to be it.
pub(crate) fn could_be(word: &Word, text: &str) -> bool {
    matches(&word.text, text, word)
}

/// A gap and a glob stand for any text; at least one letter must be there to tell by.
fn matches(text: &str, name: &str, word: &Word) -> bool {
    if word.known && !word.glob {
        return text == name;
    }
    let open = |c: char| c == GAP && !word.known || word.glob && "*?[]".contains(c);
    if text.chars().all(open) {
        return false;
    }
    let pattern: String = text
        .chars()
        .map(|c| if c == GAP && !word.known { '*' } else { c })
        .collect();
    crate::glob::matches(&pattern, name)
}

#[cfg(test)]
mod tests;
