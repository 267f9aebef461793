//! One command: its words, what is set for it, where its output goes.

use std::ops::Range;

use super::cursor::{Cursor, is_meta};
use super::expand::{Piece, Value};
use super::grammar::{Shell, unreadable};
use super::{Flow, Simple, Unreadable, Word};

impl Shell {
    pub(super) fn simple(
        &mut self,
        cursor: &mut Cursor<'_>,
        feed: &[Range<usize>],
    ) -> Result<(), Unreadable> {
        // What is substituted in its words reads what comes in here.
        let outer = std::mem::replace(&mut self.feed, feed.to_vec());
        let result = self.simple_fed(cursor, feed);
        self.feed = outer;
        result
    }

    fn simple_fed(
        &mut self,
        cursor: &mut Cursor<'_>,
        feed: &[Range<usize>],
    ) -> Result<(), Unreadable> {
        let mut command = Simple {
            fed_by: feed.to_vec(),
            ..Simple::default()
        };
        let mut assigned: Vec<(String, Value)> = Vec::new();
        // Commands in `>( … )` are fed by this one.
        let mut feeds: Vec<Range<usize>> = Vec::new();
        // What the program may be called, when that is one of several.
        let mut programs: Vec<Vec<Word>> = Vec::new();
        // Where `&>` stands, some shells see `&` and then `>`.
        let mut split = None;
        loop {
            cursor.skip_blanks();
            let ends_here = cursor.starts("&>");
            if let Some(redirects) = self.redirect(cursor)? {
                split = split.or(ends_here.then_some(command.words.len()));
                command.redirects.extend(redirects);
                continue;
            }
            if command.words.is_empty()
                && let Some(assignment) = self.assignment(cursor)?
            {
                assigned.push(assignment);
                continue;
            }
            let began = cursor.at();
            let pieces = self.pieces(cursor)?;
            if pieces.is_empty() {
                if cursor.peek() != Some('(') {
                    break;
                }
                if let Some(name) = list_to_declare(&command.words) {
                    let value = self.list_value(cursor)?;
                    self.set(&name, value)?;
                    continue;
                }
                let is_name = command.words.len() == 1 && command.words[0].known;
                cursor.eat("(");
                cursor.skip_blanks();
                if !is_name || !cursor.eat(")") {
                    return unreadable("a `(` stands where none can");
                }
                let name = std::mem::take(&mut command.words[0].text);
                return self.function(cursor, &name, feed);
            }
            self.spend(cursor.at() - began)?;
            for piece in &pieces {
                if let Piece::Fed(range) = piece {
                    feeds.push(range.clone());
                }
            }
            if command.words.is_empty() {
                programs = self.programs(&pieces)?;
            }
            command.words.extend(self.fields(pieces)?);
        }
        if command.words.is_empty() {
            for (name, value) in assigned.drain(..) {
                self.set(&name, value)?;
            }
            if command.redirects.is_empty() {
                return Ok(());
            }
        }
        command.cwd = self.cwd();
        command.settings = !assigned.is_empty();
        for redirect in &command.redirects {
            let made_by = redirect.target.made_by.iter().cloned();
            match redirect.flow {
                // `> >(sh)`
                Flow::Out => feeds.extend(made_by),
                // `< <(curl …)`
                Flow::In => command.fed_by.extend(made_by),
                Flow::Text | Flow::Same => {}
            }
        }
        // What is set for one command holds while it is looked through.
        let names: Vec<String> = assigned.iter().map(|it| it.0.clone()).collect();
        let before: Vec<_> = names.iter().map(|it| self.variable(it)).collect();
        for (name, value) in assigned {
            self.spend(value.size())?;
            self.assign(&name, Some(value));
        }
        let start = self.script.commands.len();
        let others = self.alternatives_of(&command, programs, split);
        self.push(command)?;
        for other in others {
            self.spend(other.words.len())?;
            self.push(other)?;
        }
        for (name, value) in names.iter().zip(before) {
            self.assign(name, value);
        }
        for at in feeds.into_iter().flatten() {
            if let Some(command) = self.script.commands.get_mut(at) {
                command.fed_by.push(start..start + 1);
            }
        }
        Ok(())
    }

    /// Other commands that the same words may be.
    fn alternatives_of(
        &self,
        command: &Simple,
        programs: Vec<Vec<Word>>,
        split: Option<usize>,
    ) -> Vec<Simple> {
        let all: usize = programs.iter().map(Vec::len).sum();
        let args = command.words.get(all..).unwrap_or_default();
        let mut others: Vec<Vec<Word>> = programs
            .into_iter()
            .map(|program| [&program, args].concat())
            .collect();
        others.extend(split.map(|at| command.words[at..].to_vec()));
        others
            .into_iter()
            .filter(|words| !words.is_empty())
            .map(|words| Simple {
                words,
                ..command.clone()
            })
            .collect()
    }

    /// What `( a b )` is, behind `x=`.
    fn list_value(&mut self, cursor: &mut Cursor<'_>) -> Result<Value, Unreadable> {
        cursor.eat("(");
        let words = self.words(cursor, |cursor| cursor.peek() == Some(')'))?;
        match cursor.eat(")") {
            true => Ok(Value::any_of(words)),
            false => unreadable("a list without `)`"),
        }
    }

    /// `x=value`, `x+=value`, `x[1]=value`, `x=(a b)`.
    fn assignment(
        &mut self,
        cursor: &mut Cursor<'_>,
    ) -> Result<Option<(String, Value)>, Unreadable> {
        let (back, began) = (cursor.mark(), cursor.at());
        let name = cursor.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        let named = !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit());
        let indexed = named && cursor.eat("[");
        if indexed {
            let mut index = Vec::new();
            while cursor.peek().is_some_and(|c| c != ']' && !is_meta(c)) {
                self.piece(cursor, &mut index)?;
            }
            cursor.eat("]");
        }
        let added = named && cursor.eat("+=");
        if !named || !added && !cursor.eat("=") {
            self.spend(cursor.at() - began)?;
            cursor.go_back(back);
            return Ok(None);
        }
        let value = if cursor.starts("(") {
            self.list_value(cursor)?
        } else {
            let pieces = self.value_pieces(cursor)?;
            self.spend(cursor.at() - began)?;
            self.joined(pieces)?
        };
        let before = self.variable(name);
        Ok(Some((
            name.to_owned(),
            match before {
                Some(before) if added => before.then(value),
                Some(mut both) if indexed => {
                    both.or(value);
                    both
                }
                _ => value,
            },
        )))
    }

    /// Words up to an end, over several lines.
    pub(super) fn words(
        &mut self,
        cursor: &mut Cursor<'_>,
        is_end: impl Fn(&Cursor<'_>) -> bool,
    ) -> Result<Vec<Word>, Unreadable> {
        let mut words = Vec::new();
        loop {
            cursor.skip_blanks();
            if is_end(cursor) || cursor.is_over() {
                return Ok(words);
            }
            if cursor.eat_newline() {
                continue;
            }
            let began = cursor.at();
            let pieces = self.pieces(cursor)?;
            if pieces.is_empty() {
                return unreadable("a list of words holds something else");
            }
            self.spend(cursor.at() - began)?;
            words.extend(self.fields(pieces)?);
        }
    }
}

pub(super) fn is_end_of_line(cursor: &Cursor<'_>) -> bool {
    matches!(cursor.peek(), Some('\n' | ';'))
}

/// The name before a `(` that begins its list, as in `declare -a x=(a b)`.
fn list_to_declare(words: &[Word]) -> Option<String> {
    let [program, .., last] = words else {
        return None;
    };
    let declares = ["declare", "local", "readonly", "typeset", "export"];
    let name = last.text.strip_suffix('=')?.trim_end_matches('+');
    declares
        .contains(&program.text.as_str())
        .then(|| name.to_owned())
}
