//! The grammar of lists, pipelines and commands.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::cursor::Cursor;
use super::scope::Scope;
use super::{Flow, MAX_BYTES, Redirect, Script, Simple, Surroundings, Unreadable, Word};

/// Deepest nesting, of all kinds together.
const MAX_DEPTH: usize = 32;
/// Most words that one reading gives; braces and variables multiply.
pub(super) const MAX_WORDS: usize = 50_000;

/// A shell that only reads.
pub(super) struct Shell {
    pub(super) script: Script,
    /// The same commands where they may run instead.
    elsewhere: Vec<Simple>,
    pub(super) scope: Scope,
    pub(super) home: Option<Arc<str>>,
    /// What files hold that were written in the same text.
    pub(super) files: HashMap<String, Arc<Word>>,
    /// Commands whose output comes in here.
    pub(super) feed: Vec<Range<usize>>,
    depth: usize,
    words_left: usize,
    /// Steps that may still be taken: about one for each byte that is read or copied. A text may be
    /// read more than once, because `eval` and `((` do, but not without end.
    pub(super) steps_left: usize,
    /// Bytes of functions' bodies that may still be read where they are called.
    pub(super) calls_left: usize,
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
    bytes.saturating_mul(32) + 4096
}

pub(super) fn unreadable<T>(why: impl Into<String>) -> Result<T, Unreadable> {
    Err(Unreadable(why.into()))
}

impl Shell {
    pub(super) fn new(at: Surroundings<'_>, bytes: usize) -> Shell {
        Shell {
            script: Script::default(),
            elsewhere: Vec::new(),
            scope: Scope::at(at.cwd),
            home: at.home.map(Arc::from),
            files: HashMap::new(),
            feed: Vec::new(),
            depth: 0,
            words_left: MAX_WORDS,
            steps_left: steps_for(bytes),
            calls_left: bytes.saturating_mul(4),
        }
    }

    /// All that was read.
    pub(super) fn finish(mut self) -> Script {
        self.script.commands.append(&mut self.elsewhere);
        self.script
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
        let size: usize = command.words.iter().map(|it| it.text.len() + 1).sum();
        self.spend(size)?;
        let index = self.script.commands.len();
        for place in self.places().or {
            self.spend(size)?;
            self.elsewhere.push(Simple {
                cwd: place,
                ..command.clone()
            });
        }
        self.script.commands.push(command);
        self.deeper(|shell| shell.look_through(index))?;
        Ok(index)
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
        let before = self.moment();
        self.pipeline(cursor, feed)?;
        let places = self.places();
        loop {
            cursor.skip_blanks();
            if !cursor.eat("&&") && !cursor.eat("||") {
                break;
            }
            skip_lines(cursor);
            // What follows counts on it; what comes after all of it cannot.
            self.choice(|shell| shell.pipeline(cursor, feed))?;
        }
        self.or_in(places);
        if cursor.starts("&") && !cursor.starts("&>") {
            self.back_to(before);
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
                    let back = cursor.mark();
                    cursor.eat("time");
                    cursor.skip_blanks();
                    match cursor.peek_word() {
                        word @ ("-p" | "--") => cursor.eat(word),
                        // With other options it is the program of this name.
                        word if word.starts_with('-') => {
                            cursor.go_back(back);
                            break;
                        }
                        _ => true,
                    }
                }
                _ => break,
            };
        }
        let mut start = self.script.commands.len();
        let before = self.moment();
        self.command(cursor, feed)?;
        cursor.skip_blanks();
        if cursor.starts("||") || !cursor.starts("|") {
            return Ok(());
        }
        // Each part of a pipe runs on its own.
        self.back_to(before);
        loop {
            cursor.skip_blanks();
            if cursor.starts("||") || !(cursor.eat("|&") || cursor.eat("|")) {
                return Ok(());
            }
            skip_lines(cursor);
            let before = start..self.script.commands.len();
            start = before.end;
            self.apart(|shell| shell.command(cursor, &[before]))?;
        }
    }

    pub(super) fn command(
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
                    let end = self.branch(|shell| {
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
                self.branch(|shell| shell.block(cursor, feed, &["done"]))?;
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
                skip_name(cursor);
                return self.apart(|shell| shell.command(cursor, feed));
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
                Some(more) => redirects.extend(more),
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
        self.give(start, &texts)?;
        let cwd = self.cwd();
        self.push(Simple {
            redirects,
            cwd,
            ..Simple::default()
        })?;
        Ok(())
    }

    /// These texts come in at the commands from here on that nothing else comes in at.
    pub(super) fn give(&mut self, start: usize, texts: &[Redirect]) -> Result<(), Unreadable> {
        if texts.is_empty() {
            return Ok(());
        }
        for index in start..self.script.commands.len() {
            let command = &mut self.script.commands[index];
            if command.fed_by.is_empty() {
                command.redirects.extend(texts.iter().cloned());
                self.spend(texts.len())?;
                self.deeper(|shell| shell.look_through(index))?;
            }
        }
        Ok(())
    }

    /// A list up to one of these words; gives the word.
    pub(super) fn block(
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
}

/// The name in `coproc NAME { … }`.
fn skip_name(cursor: &mut Cursor<'_>) {
    cursor.skip_blanks();
    let back = cursor.mark();
    let name = cursor.peek_word();
    cursor.eat(name);
    cursor.skip_blanks();
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let holds_commands = cursor.starts("(")
        || matches!(
            cursor.peek_word(),
            "{" | "if" | "while" | "until" | "for" | "case"
        );
    if name.is_empty() || !is_name || !holds_commands {
        cursor.go_back(back);
    }
}

pub(super) fn skip_lines(cursor: &mut Cursor<'_>) {
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
