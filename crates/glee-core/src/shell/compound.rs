//! Commands that hold commands: loops, choices, tests, functions.

use std::ops::Range;

use super::cursor::Cursor;
use super::expand::Value;
use super::grammar::{Shell, Until, skip_lines, unreadable};
use super::scope::ARGUMENTS;
use super::simple::is_end_of_line;
use super::{Function, Simple, Unreadable, Word};

impl Shell {
    /// `for x in a b; do …; done` and `for ((…))`.
    pub(super) fn each(
        &mut self,
        cursor: &mut Cursor<'_>,
        feed: &[Range<usize>],
    ) -> Result<(), Unreadable> {
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
            self.set(name, value)?;
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
        self.branch(|shell| shell.block(cursor, feed, end))?;
        Ok(())
    }

    pub(super) fn case(
        &mut self,
        cursor: &mut Cursor<'_>,
        feed: &[Range<usize>],
    ) -> Result<(), Unreadable> {
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
            self.branch(|shell| shell.deeper(|shell| shell.list(cursor, feed, Until::Case)))?;
            let _ = cursor.eat(";;&") || cursor.eat(";;") || cursor.eat(";&");
        }
    }

    /// `[[ … ]]`, in which `<`, `(` and `&&` are words like others. To a shell that does not know
    /// it, `[[` is a program and what follows `&&` is a command; both is looked at.
    pub(super) fn test(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Unreadable> {
        let mut words = Vec::new();
        let mut ends = Vec::new();
        loop {
            cursor.skip_blanks();
            if cursor.eat("]]") {
                break;
            }
            if cursor.is_over() {
                return unreadable("a `[[` without `]]`");
            }
            if cursor.eat_newline() {
                ends.push(words.len());
                continue;
            }
            let began = cursor.at();
            let pieces = self.pieces(cursor)?;
            if pieces.is_empty() {
                if matches!(cursor.next(), Some(';' | '&' | '|')) {
                    ends.push(words.len());
                }
            } else {
                self.spend(cursor.at() - began)?;
                words.extend(self.fields(pieces)?);
            }
        }
        ends.push(words.len());
        ends.dedup();
        let cwd = self.cwd();
        for pair in ends.windows(2) {
            self.push(Simple {
                words: words[pair[0]..pair[1]].to_vec(),
                cwd: cwd.clone(),
                ..Simple::default()
            })?;
        }
        self.push(Simple {
            words,
            cwd,
            ..Simple::default()
        })?;
        Ok(())
    }

    /// Some shells compute here, some run commands in two subshells; both is looked at.
    pub(super) fn double_parenthesis(
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

    pub(super) fn function(
        &mut self,
        cursor: &mut Cursor<'_>,
        name: &str,
        feed: &[Range<usize>],
    ) -> Result<(), Unreadable> {
        skip_lines(cursor);
        let start = self.script.commands.len();
        let began = cursor.at();
        // What it sets and where it goes counts where it is called.
        self.apart(|shell| {
            for name in ARGUMENTS {
                shell.assign(name, Some(Value::gap()));
            }
            shell.command(cursor, feed)
        })?;
        let mut body = Word::literal(cursor.since(began));
        body.known = !cursor.gaps;
        self.spend(body.text.len())?;
        self.define(name, body);
        self.script.functions.push(Function {
            name: name.to_owned(),
            body: start..self.script.commands.len(),
        });
        Ok(())
    }
}
