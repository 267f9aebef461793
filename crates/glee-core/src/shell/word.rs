//! One word: its quotes and its expansions, as pieces.

use std::ops::Range;

use super::cursor::{Cursor, is_meta};
use super::escape::ansi;
use super::expand::{Piece, Value};
use super::grammar::{Shell, Until, unreadable};
use super::{GAP, Unreadable};

impl Shell {
    /// The pieces of the word that stands here; none when there is no word.
    pub(super) fn pieces(&mut self, cursor: &mut Cursor<'_>) -> Result<Vec<Piece>, Unreadable> {
        self.word(cursor, Tilde::AtStart)
    }

    /// The same behind `x=`, where a `~` also stands after a colon.
    pub(super) fn value_pieces(
        &mut self,
        cursor: &mut Cursor<'_>,
    ) -> Result<Vec<Piece>, Unreadable> {
        self.word(cursor, Tilde::AfterColons)
    }

    fn word(&mut self, cursor: &mut Cursor<'_>, tilde: Tilde) -> Result<Vec<Piece>, Unreadable> {
        let mut pieces = Vec::new();
        if cursor.peek() == Some('~') {
            pieces.push(self.home(cursor));
        }
        while let Some(c) = cursor.peek() {
            match c {
                '<' | '>' if cursor.starts("<(") || cursor.starts(">(") => {
                    cursor.next();
                    cursor.next();
                    let range = self.commands_in(cursor)?;
                    pieces.push(match c {
                        '<' => Piece::Value(Value::gap().made(&[range]), Quoted::Yes),
                        _ => Piece::Fed(range),
                    });
                }
                '(' if ends_with_extended_glob(&pieces) => {
                    // `!(a|b)` is a pattern; what it stands for only the run could tell.
                    self.deeper(|shell| shell.pattern(cursor))?;
                    pieces.push(Piece::Value(Value::gap(), Quoted::No));
                }
                _ if is_meta(c) || cursor.starts("\r\n") => break,
                '{' => pieces.push(mark(cursor, Piece::Open)),
                ',' => pieces.push(mark(cursor, Piece::Comma)),
                '}' => pieces.push(mark(cursor, Piece::Close)),
                ':' if tilde == Tilde::AfterColons && cursor.starts(":~") => {
                    cursor.next();
                    pieces.push(Piece::text(":"));
                    pieces.push(self.home(cursor));
                }
                _ => self.piece(cursor, &mut pieces)?,
            }
        }
        Ok(pieces)
    }

    /// What stands in `!(a|b)`; what it substitutes is run.
    fn pattern(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Unreadable> {
        let (began, mut open) = (cursor.at(), 0);
        let mut unused = Vec::new();
        loop {
            match cursor.peek() {
                None | Some('\n') => return unreadable("a `(` without `)`"),
                Some('(') => open += 1,
                Some(')') => open -= 1,
                Some(_) => {
                    self.piece(cursor, &mut unused)?;
                    continue;
                }
            }
            cursor.next();
            if open == 0 {
                return self.spend(cursor.at() - began);
            }
        }
    }

    /// One character, or one thing in quotes, outside of double quotes.
    pub(super) fn piece(
        &mut self,
        cursor: &mut Cursor<'_>,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), Unreadable> {
        match cursor.next() {
            Some('\\') => match cursor.next() {
                Some('\n') => {}
                Some(c) => match pieces.last_mut() {
                    Some(Piece::Text(text, Quoted::Yes)) => text.push(c),
                    _ => pieces.push(Piece::quoted(c)),
                },
                None => pieces.push(Piece::quoted('\\')),
            },
            Some('\'') => match cursor.take_until('\'') {
                Some(text) => pieces.push(cursor_text(cursor.gaps, text)),
                None => return unreadable("a `'` is not closed"),
            },
            Some('"') => {
                pieces.extend(self.in_quotes(cursor)?);
            }
            Some('$') if cursor.eat("'") => pieces.push(Piece::quoted(ansi(cursor)?)),
            Some('$') if cursor.eat("\"") => {
                pieces.extend(self.in_quotes(cursor)?);
            }
            Some('$') => self.dollar(cursor, pieces, Quoted::No)?,
            Some('`') => pieces.push(self.backticks(cursor, Quoted::No)?),
            Some(GAP) if cursor.gaps => pieces.push(Piece::Value(Value::gap(), Quoted::No)),
            Some(c) => match pieces.last_mut() {
                Some(Piece::Text(text, Quoted::No)) => text.push(c),
                _ => pieces.push(Piece::text(c)),
            },
            None => {}
        }
        Ok(())
    }

    /// What follows a `"`. Even nothing is a word, but not `"$@"` when there are no arguments.
    fn in_quotes(&mut self, cursor: &mut Cursor<'_>) -> Result<Vec<Piece>, Unreadable> {
        let mut pieces = self.deeper(|shell| shell.quoted_text(cursor, Some('"')))?;
        if pieces.is_empty() || !pieces.iter().all(Piece::is_no_word) {
            pieces.insert(0, Piece::quoted(""));
        }
        Ok(pieces)
    }

    /// Text as in double quotes, up to `end` or to the end of it all.
    pub(super) fn quoted_text(
        &mut self,
        cursor: &mut Cursor<'_>,
        end: Option<char>,
    ) -> Result<Vec<Piece>, Unreadable> {
        let mut pieces: Vec<Piece> = Vec::new();
        loop {
            let Some(c) = cursor.next() else {
                return match end {
                    Some(end) => unreadable(format!("a `{end}` is not closed")),
                    None => Ok(pieces),
                };
            };
            match c {
                _ if Some(c) == end => return Ok(pieces),
                '\\' => match cursor.peek() {
                    Some('\n') => {
                        cursor.next();
                    }
                    Some(next @ ('$' | '`' | '"' | '\\')) if next != '"' || end.is_some() => {
                        cursor.next();
                        pieces.push(Piece::quoted(next));
                    }
                    _ => pieces.push(Piece::quoted('\\')),
                },
                '$' => self.dollar(cursor, &mut pieces, Quoted::Yes)?,
                '`' => pieces.push(self.backticks(cursor, Quoted::Yes)?),
                GAP if cursor.gaps => pieces.push(Piece::Value(Value::gap(), Quoted::Yes)),
                c => match pieces.last_mut() {
                    Some(Piece::Text(text, Quoted::Yes)) => text.push(c),
                    _ => pieces.push(Piece::quoted(c)),
                },
            }
        }
    }

    /// What follows a `$`.
    fn dollar(
        &mut self,
        cursor: &mut Cursor<'_>,
        pieces: &mut Vec<Piece>,
        quoted: Quoted,
    ) -> Result<(), Unreadable> {
        if cursor.starts("((") {
            let (back, began) = (cursor.mark(), cursor.at());
            cursor.eat("((");
            if self.arithmetic(cursor).is_ok() {
                pieces.push(Piece::Value(Value::gap(), quoted));
                return Ok(());
            }
            self.spend(cursor.at() - began)?;
            cursor.go_back(back);
        }
        if cursor.eat("(") {
            let range = self.commands_in(cursor)?;
            let value = self.output_value(range);
            pieces.push(Piece::Value(value, quoted));
        } else if cursor.eat("{") {
            let value = self.parameter(cursor, quoted)?;
            pieces.push(Piece::Value(value, quoted));
        } else if cursor.eat("[") {
            self.old_arithmetic(cursor)?;
            pieces.push(Piece::Value(Value::gap(), quoted));
        } else {
            let name = match cursor.peek() {
                Some(c) if c.is_ascii_alphabetic() || c == '_' => cursor
                    .take_while(|c| c.is_ascii_alphanumeric() || c == '_')
                    .to_owned(),
                Some(c) if c.is_ascii_digit() || "@*#?$!-".contains(c) => {
                    cursor.next();
                    c.to_string()
                }
                _ => {
                    pieces.push(match quoted {
                        Quoted::Yes => Piece::quoted('$'),
                        Quoted::No => Piece::text('$'),
                    });
                    return Ok(());
                }
            };
            pieces.push(Piece::Value(
                self.variable(&name).unwrap_or_else(Value::gap),
                quoted,
            ));
        }
        Ok(())
    }

    /// What follows `$[`. Not every shell computes there; one that does not must see no operator.
    fn old_arithmetic(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Unreadable> {
        let mut unused = Vec::new();
        loop {
            match cursor.peek() {
                Some(']') => {
                    cursor.next();
                    return Ok(());
                }
                Some(c) if !";&|<>\n".contains(c) => self.piece(cursor, &mut unused)?,
                _ => return unreadable("a strange `$[`"),
            }
        }
    }

    /// What follows `${`.
    fn parameter(&mut self, cursor: &mut Cursor<'_>, quoted: Quoted) -> Result<Value, Unreadable> {
        // `${#x}` is a length, `${!x}` the variable that `x` names; `${#}` and `${!}` are neither.
        let indirect =
            !(cursor.starts("#}") || cursor.starts("!}")) && (cursor.eat("#") || cursor.eat("!"));
        let mut name = cursor.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        if name.is_empty() {
            let rest = cursor.rest();
            name = &rest[..rest.chars().next().map_or(0, char::len_utf8)];
            if name.is_empty() || !"@*#?$!-".contains(name) {
                return unreadable("a strange `${`");
            }
            cursor.eat(name);
        }
        if cursor.eat("[") {
            self.deeper(|shell| shell.index(cursor))?;
        }
        let known = self.variable(name);
        let plain = cursor.starts("}");
        let colon = cursor.starts(":-") || cursor.starts(":=") || cursor.starts(":+");
        let other = [":-", ":=", ":+", "-", "=", "+"]
            .into_iter()
            .find(|it| cursor.eat(it));
        let is_told = other.is_some() || cursor.starts(":?") || cursor.starts("?");
        // In double quotes, the text that stands for it is in them too.
        let apostrophes = match quoted == Quoted::Yes && is_told {
            true => Apostrophes::Letters,
            false => Apostrophes::Quotes,
        };
        let pieces = self.deeper(|shell| shell.up_to_brace(cursor, apostrophes))?;
        let value = self.joined(pieces)?;
        Ok(match (other, known) {
            (None, Some(known)) if indirect && plain => {
                let named = known.only().and_then(|it| self.variable(&it));
                named.unwrap_or_else(Value::gap)
            }
            _ if indirect => Value::gap(),
            (None, Some(known)) if plain => known,
            (Some(it), Some(known)) if it.ends_with(['-', '=']) => {
                match colon && known.is_empty() {
                    true => value,
                    false => known,
                }
            }
            (Some(it), None) if it.ends_with('=') => {
                self.set(name, value.clone())?;
                value.guessed()
            }
            // What stands there is what it is unless somebody set it elsewhere.
            (Some(_), _) => value.guessed(),
            (None, known) => {
                let gap = Value::gap().made_as(&value);
                known.map_or(gap.clone(), |known| gap.made_as(&known))
            }
        })
    }

    /// The rest of `${x[…]`, with its `]`.
    fn index(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Unreadable> {
        let mut unused = Vec::new();
        loop {
            match cursor.peek() {
                None => return unreadable("a `[` is not closed"),
                Some(']') => {
                    cursor.next();
                    return Ok(());
                }
                Some(_) => self.piece(cursor, &mut unused)?,
            }
        }
    }

    /// The rest of `${x…}`, with its `}`.
    fn up_to_brace(
        &mut self,
        cursor: &mut Cursor<'_>,
        apostrophes: Apostrophes,
    ) -> Result<Vec<Piece>, Unreadable> {
        let mut pieces = Vec::new();
        loop {
            match cursor.peek() {
                None => return unreadable("a `${` is not closed"),
                Some('}') => {
                    cursor.next();
                    return Ok(pieces);
                }
                Some('\'') if apostrophes == Apostrophes::Letters => {
                    cursor.next();
                    pieces.push(Piece::quoted('\''));
                }
                Some(_) => self.piece(cursor, &mut pieces)?,
            }
        }
    }

    /// What follows `$((` or `((`, up to `))`. It computes, but what it substitutes is run.
    pub(super) fn arithmetic(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Unreadable> {
        self.deeper(|shell| shell.compute(cursor))
    }

    fn compute(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Unreadable> {
        let began = cursor.at();
        let mut open = 0usize;
        let mut unused = Vec::new();
        loop {
            match cursor.peek() {
                None => return unreadable("a `((` is not closed"),
                Some('(') => {
                    open += 1;
                    cursor.next();
                }
                Some(')') if open > 0 => {
                    open -= 1;
                    cursor.next();
                }
                Some(')') => {
                    self.spend(cursor.at() - began)?;
                    return match cursor.eat("))") {
                        true => Ok(()),
                        false => unreadable("a `((` is not closed"),
                    };
                }
                Some(_) => self.piece(cursor, &mut unused)?,
            }
        }
    }

    /// The commands up to the `)` that closes a substitution.
    fn commands_in(&mut self, cursor: &mut Cursor<'_>) -> Result<Range<usize>, Unreadable> {
        let start = self.script.commands.len();
        let (awaited, feed) = (cursor.awaited(), self.feed.clone());
        self.apart(|shell| shell.list(cursor, &feed, Until::Parenthesis))?;
        cursor.eat(")");
        if awaited.is_some_and(|end| cursor.at() > end) {
            return unreadable("a substitution goes over the end of a line with a here-document");
        }
        Ok(start..self.script.commands.len())
    }

    fn backticks(&mut self, cursor: &mut Cursor<'_>, quoted: Quoted) -> Result<Piece, Unreadable> {
        let mut text = String::new();
        loop {
            match cursor.next() {
                None => return unreadable("a '`' is not closed"),
                Some('`') => break,
                Some('\\') => match cursor.next() {
                    Some(c)
                        if matches!(c, '`' | '\\' | '$') || c == '"' && quoted == Quoted::Yes =>
                    {
                        text.push(c);
                    }
                    Some(c) => text.extend(['\\', c]),
                    None => text.push('\\'),
                },
                Some(c) => text.push(c),
            }
        }
        self.spend(text.len())?;
        let start = self.script.commands.len();
        let mut inside = Cursor::new(&text);
        inside.gaps = cursor.gaps;
        let feed = self.feed.clone();
        self.apart(|shell| shell.list(&mut inside, &feed, Until::End))?;
        let value = self.output_value(start..self.script.commands.len());
        Ok(Piece::Value(value, quoted))
    }

    /// `~`, `~/…` and `~somebody/…`.
    fn home(&self, cursor: &mut Cursor<'_>) -> Piece {
        cursor.next();
        let name = cursor.take_while(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
        let value = match name {
            "" => self.variable("HOME").unwrap_or_else(Value::gap),
            "root" => Value::literal("/root"),
            "-" => Value::gap(),
            name => Value::literal(format!("/home/{name}")),
        };
        Piece::Value(value, Quoted::Yes)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tilde {
    AtStart,
    AfterColons,
}

/// What a `'` is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Apostrophes {
    Quotes,
    Letters,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quoted {
    Yes,
    No,
}

fn mark(cursor: &mut Cursor<'_>, piece: Piece) -> Piece {
    cursor.next();
    piece
}

fn cursor_text(gaps: bool, text: &str) -> Piece {
    if gaps && text.contains(GAP) {
        return Piece::Value(Value::with_gaps(text), Quoted::Yes);
    }
    Piece::quoted(text)
}

fn ends_with_extended_glob(pieces: &[Piece]) -> bool {
    matches!(pieces.last(), Some(Piece::Text(text, Quoted::No)) if text.ends_with(['!', '?', '*', '+', '@']))
}
