//! The grammar of lists, pipelines and commands.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::cursor::{Cursor, is_meta};
use super::expand::{Piece, Value};
use super::{Flow, Function, MAX_BYTES, Redirect, Script, Simple, Surroundings, Unreadable, Word};

/// Deepest nesting, of all kinds together.
const MAX_DEPTH: usize = 24;
/// Most words that one reading gives; braces and variables multiply.
pub(super) const MAX_WORDS: usize = 50_000;

/// What a script or a function was called with.
const ARGUMENTS: [&str; 11] = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "@", "*"];

/// A shell that only reads.
pub(super) struct Shell {
    pub(super) script: Script,
    pub(super) variables: HashMap<String, Value>,
    home: Option<Arc<str>>,
    pub(super) cwd: Option<Arc<str>>,
    depth: usize,
    words_left: usize,
    /// Steps that may still be taken: about one for each byte that is read or copied. A text may be
    /// read more than once, because `eval` and `((` do, but not without end.
    pub(super) steps_left: usize,
    /// How many choices there are around the current command.
    choices: usize,
}

/// What ends a list.
#[derive(Clone, Copy)]
pub(super) enum Until {
    End,
    Parenthesis,
    Words(&'static [&'static str]),
    /// `;;` and its like, or `esac`.
    Case,
}

/// How many steps the reading of a text may take.
pub(super) fn steps_for(bytes: usize) -> usize {
    bytes.saturating_mul(24) + 4096
}

pub(super) fn unreadable<T>(why: impl Into<String>) -> Result<T, Unreadable> {
    Err(Unreadable(why.into()))
}

impl Shell {
    pub(super) fn new(at: Surroundings<'_>, bytes: usize) -> Shell {
        Shell {
            script: Script::default(),
            variables: HashMap::new(),
            home: at.home.map(Arc::from),
            cwd: at.cwd.map(Arc::from),
            depth: 0,
            words_left: MAX_WORDS,
            steps_left: steps_for(bytes),
            choices: 0,
        }
    }

    /// What a variable holds: as it was set, or as every shell sets it.
    pub(super) fn variable(&self, name: &str) -> Option<Value> {
        self.variables.get(name).cloned().or_else(|| match name {
            "IFS" => Some(Value::literal(" \t\n")),
            "HOME" => self.home.as_deref().map(Value::literal),
            "PWD" => self.cwd.as_deref().map(Value::literal),
            // A line has no arguments of its own.
            _ if ARGUMENTS.contains(&name) => Some(Value::literal("")),
            _ => None,
        })
    }

    /// Reads a whole text, whose commands are fed by these.
    pub(super) fn text(&mut self, text: &str, feed: &[Range<usize>]) -> Result<(), Unreadable> {
        self.read_cursor(Cursor::new(text), feed)
    }

    /// The same for a text with gaps.
    pub(super) fn word_text(
        &mut self,
        word: &Word,
        feed: &[Range<usize>],
    ) -> Result<(), Unreadable> {
        let mut cursor = Cursor::new(&word.text);
        cursor.gaps = !word.known;
        self.read_cursor(cursor, feed)
    }

    fn read_cursor(
        &mut self,
        mut cursor: Cursor<'_>,
        feed: &[Range<usize>],
    ) -> Result<(), Unreadable> {
        if cursor.rest().len() > MAX_BYTES {
            return unreadable(format!("it is longer than {} KiB", MAX_BYTES >> 10));
        }
        if cursor.rest().contains('\0') {
            return unreadable("it holds a NUL");
        }
        self.spend(cursor.rest().len())?;
        self.deeper(|shell| shell.list(&mut cursor, feed, Until::End))
    }

    pub(super) fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Shell) -> Result<T, Unreadable>,
    ) -> Result<T, Unreadable> {
        if self.depth == MAX_DEPTH {
            return unreadable("it is nested too deeply");
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// What is set in here holds only in here.
    pub(super) fn apart<T>(
        &mut self,
        read: impl FnOnce(&mut Shell) -> Result<T, Unreadable>,
    ) -> Result<T, Unreadable> {
        let cwd = self.cwd.clone();
        let result = self.deeper(read);
        self.cwd = cwd;
        result
    }

    pub(super) fn spend(&mut self, steps: usize) -> Result<(), Unreadable> {
        match self.steps_left.checked_sub(steps.max(1)) {
            Some(left) => self.steps_left = left,
            None => return unreadable("it is too much to read"),
        }
        Ok(())
    }

    /// Takes note of a command, and of what it starts in turn.
    pub(super) fn push(&mut self, command: Simple) -> Result<usize, Unreadable> {
        match self.words_left.checked_sub(command.words.len() + 1) {
            Some(left) => self.words_left = left,
            None => return unreadable("it has too many words"),
        }
        let index = self.script.commands.len();
        self.script.commands.push(command);
        self.deeper(|shell| shell.look_through(index))?;
        Ok(index)
    }

    pub(super) fn set(&mut self, name: &str, value: Value) {
        let value = value.bounded();
        match self.variables.get_mut(name) {
            // It may not come to this, so both values stand.
            Some(known) if self.choices > 0 => known.or(value),
            _ => {
                self.variables.insert(name.to_owned(), value);
            }
        }
    }

    fn choice<T>(
        &mut self,
        read: impl FnOnce(&mut Shell) -> Result<T, Unreadable>,
    ) -> Result<T, Unreadable> {
        self.choices += 1;
        let result = read(self);
        self.choices -= 1;
        result
    }

    /// Commands one after the other. What ends the list is left to the caller.
    pub(super) fn list(
        &mut self,
        cursor: &mut Cursor<'_>,
        feed: &[Range<usize>],
        until: Until,
    ) -> Result<(), Unreadable> {
        loop {
            cursor.skip_blanks();
            if cursor.went_astray() {
                return unreadable("quotes go over the end of a line with a here-document");
            }
            if ends(cursor, until) {
                return Ok(());
            }
            if cursor.is_over() {
                return unreadable("it ends where more must come");
            }
            if cursor.eat_newline() || cursor.eat(";") || !cursor.starts("&>") && cursor.eat("&") {
                continue;
            }
            if cursor.peek() == Some(')') {
                return unreadable("a `)` closes nothing");
            }
            self.and_or(cursor, feed)?;
        }
    }

    fn and_or(&mut self, cursor: &mut Cursor<'_>, feed: &[Range<usize>]) -> Result<(), Unreadable> {
        let start = self.script.commands.len();
        self.pipeline(cursor, feed)?;
        loop {
            cursor.skip_blanks();
            if !cursor.eat("&&") && !cursor.eat("||") {
                break;
            }
            skip_lines(cursor);
            // `a || cd /` may not happen, `cd x && y` is meant to; a variable keeps both values.
            self.choice(|shell| shell.pipeline(cursor, feed))?;
        }
        if cursor.starts("&") && !cursor.starts("&>") {
            for command in &mut self.script.commands[start..] {
                command.background = true;
            }
        }
        Ok(())
    }

    fn pipeline(
        &mut self,
        cursor: &mut Cursor<'_>,
        feed: &[Range<usize>],
    ) -> Result<(), Unreadable> {
        loop {
            cursor.skip_blanks();
            match cursor.peek_word() {
                "!" => cursor.eat("!"),
                "time" => {
                    cursor.eat("time");
                    cursor.skip_blanks();
                    cursor.peek_word() == "-p" && cursor.eat("-p")
                }
                _ => break,
            };
        }
        let mut start = self.script.commands.len();
        self.command(cursor, feed)?;
        loop {
            cursor.skip_blanks();
            if cursor.starts("||") || !(cursor.eat("|&") || cursor.eat("|")) {
                return Ok(());
            }
            skip_lines(cursor);
            let before = start..self.script.commands.len();
            start = before.end;
            self.command(cursor, &[before])?;
        }
    }

    fn command(
        &mut self,
        cursor: &mut Cursor<'_>,
        feed: &[Range<usize>],
    ) -> Result<(), Unreadable> {
        self.spend(1)?;
        cursor.skip_blanks();
        let start = self.script.commands.len();
        let word = cursor.peek_word();
        match word {
            "" if cursor.starts("((") => self.double_parenthesis(cursor, feed)?,
            "" if cursor.starts("(") => {
                cursor.eat("(");
                self.apart(|shell| shell.list(cursor, feed, Until::Parenthesis))?;
                cursor.eat(")");
            }
            "{" => {
                cursor.eat("{");
                self.block(cursor, feed, &["}"])?;
            }
            "if" => {
                cursor.eat("if");
                self.block(cursor, feed, &["then"])?;
                loop {
                    let end = self.choice(|shell| {
                        shell.block(cursor, feed, &["elif", "else", "fi", "then"])
                    })?;
                    if end == "fi" {
                        break;
                    }
                }
            }
            "while" | "until" => {
                cursor.eat(word);
                self.block(cursor, feed, &["do"])?;
                self.choice(|shell| shell.block(cursor, feed, &["done"]))?;
            }
            "for" | "select" => {
                cursor.eat(word);
                self.each(cursor, feed)?;
            }
            "case" => {
                cursor.eat("case");
                self.case(cursor, feed)?;
            }
            "function" => {
                cursor.eat("function");
                cursor.skip_blanks();
                let name = cursor.peek_word();
                cursor.eat(name);
                cursor.skip_blanks();
                if cursor.eat("(") {
                    cursor.skip_blanks();
                    cursor.eat(")");
                }
                return self.function(cursor, name, feed);
            }
            "[[" => self.test(cursor)?,
            "coproc" => {
                cursor.eat("coproc");
                return self.deeper(|shell| shell.command(cursor, feed));
            }
            _ => return self.simple(cursor, feed),
        }
        self.around(cursor, start)
    }

    /// Redirections behind a compound command hold for all of it.
    fn around(&mut self, cursor: &mut Cursor<'_>, start: usize) -> Result<(), Unreadable> {
        let mut redirects = Vec::new();
        loop {
            cursor.skip_blanks();
            match self.redirect(cursor)? {
                Some(redirect) => redirects.push(redirect),
                None => break,
            }
        }
        if redirects.is_empty() {
            return Ok(());
        }
        let texts: Vec<Redirect> = redirects
            .iter()
            .filter(|it| it.flow == Flow::Text)
            .cloned()
            .collect();
        for index in start..self.script.commands.len() {
            let command = &mut self.script.commands[index];
            if !texts.is_empty() && command.fed_by.is_empty() {
                command.redirects.extend(texts.iter().cloned());
                self.spend(texts.len())?;
                self.deeper(|shell| shell.look_through(index))?;
            }
        }
        let cwd = self.cwd.clone();
        self.push(Simple {
            redirects,
            cwd,
            ..Simple::default()
        })?;
        Ok(())
    }

    /// A list up to one of these words; gives the word.
    fn block(
        &mut self,
        cursor: &mut Cursor<'_>,
        feed: &[Range<usize>],
        ends: &'static [&'static str],
    ) -> Result<&'static str, Unreadable> {
        self.deeper(|shell| shell.list(cursor, feed, Until::Words(ends)))?;
        let word = cursor.peek_word();
        cursor.eat(word);
        ends.iter()
            .find(|it| **it == word)
            .copied()
            .map_or_else(|| unreadable("it ends where more must come"), Ok)
    }

    /// `for x in a b; do …; done` and `for ((…))`.
    fn each(&mut self, cursor: &mut Cursor<'_>, feed: &[Range<usize>]) -> Result<(), Unreadable> {
        cursor.skip_blanks();
        if cursor.eat("((") {
            self.arithmetic(cursor)?;
        } else {
            let name = cursor.peek_word();
            cursor.eat(name);
            skip_lines(cursor);
            let value = if cursor.peek_word() == "in" {
                cursor.eat("in");
                Value::any_of(self.words(cursor, is_end_of_line)?)
            } else {
                Value::gap()
            };
            self.variables.insert(name.to_owned(), value);
        }
        loop {
            cursor.skip_blanks();
            if !cursor.eat_newline() && !cursor.eat(";") {
                break;
            }
        }
        let end: &'static [&'static str] = match cursor.peek_word() {
            "do" => &["done"],
            "{" => &["}"],
            _ => return unreadable("a `for` without `do`"),
        };
        let word = cursor.peek_word();
        cursor.eat(word);
        self.choice(|shell| shell.block(cursor, feed, end))?;
        Ok(())
    }

    fn case(&mut self, cursor: &mut Cursor<'_>, feed: &[Range<usize>]) -> Result<(), Unreadable> {
        cursor.skip_blanks();
        self.pieces(cursor)?;
        skip_lines(cursor);
        if cursor.peek_word() != "in" {
            return unreadable("a `case` without `in`");
        }
        cursor.eat("in");
        loop {
            skip_lines(cursor);
            if cursor.peek_word() == "esac" {
                cursor.eat("esac");
                return Ok(());
            }
            cursor.eat("(");
            loop {
                cursor.skip_blanks();
                if cursor.eat(")") {
                    break;
                }
                if !cursor.eat("|") && self.pieces(cursor)?.is_empty() {
                    return unreadable("a `case` with a strange pattern");
                }
            }
            self.choice(|shell| shell.deeper(|shell| shell.list(cursor, feed, Until::Case)))?;
            let _ = cursor.eat(";;&") || cursor.eat(";;") || cursor.eat(";&");
        }
    }

    /// `[[ … ]]`, in which `<`, `(` and `&&` are words like others.
    fn test(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Unreadable> {
        let mut words = Vec::new();
        loop {
            cursor.skip_blanks();
            if cursor.eat("]]") {
                break;
            }
            if cursor.is_over() {
                return unreadable("a `[[` without `]]`");
            }
            if cursor.eat_newline() {
                continue;
            }
            let pieces = self.pieces(cursor)?;
            if pieces.is_empty() {
                cursor.next();
            } else {
                words.extend(self.fields(pieces)?);
            }
        }
        let cwd = self.cwd.clone();
        self.push(Simple {
            words,
            cwd,
            ..Simple::default()
        })?;
        Ok(())
    }

    /// Some shells compute here, some run commands in two subshells; both is looked at.
    fn double_parenthesis(
        &mut self,
        cursor: &mut Cursor<'_>,
        feed: &[Range<usize>],
    ) -> Result<(), Unreadable> {
        let (back, began) = (cursor.mark(), cursor.at());
        let (commands, functions) = (self.script.commands.len(), self.script.functions.len());
        cursor.eat("(");
        let run = self.apart(|shell| shell.list(cursor, feed, Until::Parenthesis));
        // A `<<` here would make a here-document of the lines that follow, and hide them.
        if run.is_ok() && cursor.eat(")") && !cursor.has_jumped(&back) {
            return Ok(());
        }
        self.spend(cursor.at() - began)?;
        self.script.commands.truncate(commands);
        self.script.functions.truncate(functions);
        cursor.go_back(back);
        cursor.eat("((");
        self.arithmetic(cursor)
    }

    fn function(
        &mut self,
        cursor: &mut Cursor<'_>,
        name: &str,
        feed: &[Range<usize>],
    ) -> Result<(), Unreadable> {
        skip_lines(cursor);
        let start = self.script.commands.len();
        let outer = ARGUMENTS.map(|name| (name, self.variables.remove(name)));
        for name in ARGUMENTS {
            self.variables.insert(name.to_owned(), Value::gap());
        }
        self.deeper(|shell| shell.command(cursor, feed))?;
        for (name, value) in outer {
            match value {
                Some(value) => self.variables.insert(name.to_owned(), value),
                None => self.variables.remove(name),
            };
        }
        self.script.functions.push(Function {
            name: name.to_owned(),
            body: start..self.script.commands.len(),
        });
        Ok(())
    }

    fn simple(&mut self, cursor: &mut Cursor<'_>, feed: &[Range<usize>]) -> Result<(), Unreadable> {
        let mut command = Simple {
            fed_by: feed.to_vec(),
            ..Simple::default()
        };
        let mut assigned: Vec<(String, Value)> = Vec::new();
        // Commands in `>( … )` are fed by this one.
        let mut feeds: Vec<Range<usize>> = Vec::new();
        loop {
            cursor.skip_blanks();
            if let Some(redirect) = self.redirect(cursor)? {
                command.redirects.push(redirect);
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
            command.words.extend(self.fields(pieces)?);
        }
        if command.words.is_empty() {
            for (name, value) in assigned {
                self.set(&name, value);
            }
            if command.redirects.is_empty() {
                return Ok(());
            }
        }
        command.cwd = self.cwd.clone();
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
        let index = self.push(command)?;
        for at in feeds.into_iter().flatten() {
            if let Some(command) = self.script.commands.get_mut(at) {
                command.fed_by.push(index..index + 1);
            }
        }
        Ok(())
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
            cursor.take_while(|c| c != ']' && !is_meta(c));
            cursor.eat("]");
        }
        let added = named && cursor.eat("+=");
        if !named || !added && !cursor.eat("=") {
            cursor.go_back(back);
            return Ok(None);
        }
        let value = if cursor.eat("(") {
            let words = self.words(cursor, |cursor| cursor.peek() == Some(')'))?;
            if !cursor.eat(")") {
                return unreadable("a list without `)`");
            }
            Value::any_of(words)
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
    fn words(
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

fn is_end_of_line(cursor: &Cursor<'_>) -> bool {
    matches!(cursor.peek(), Some('\n' | ';'))
}

fn skip_lines(cursor: &mut Cursor<'_>) {
    cursor.skip_blanks();
    while cursor.eat_newline() {
        cursor.skip_blanks();
    }
}

fn ends(cursor: &Cursor<'_>, until: Until) -> bool {
    match until {
        Until::End => cursor.is_over(),
        Until::Parenthesis => cursor.peek() == Some(')'),
        Until::Words(words) => words.contains(&cursor.peek_word()),
        Until::Case => cursor.starts(";;") || cursor.starts(";&") || cursor.peek_word() == "esac",
    }
}
