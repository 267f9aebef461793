//! From the pieces of one word to the words a program is given: braces, values, splitting.

use std::ops::Range;

use super::grammar::{MAX_WORDS, Shell, unreadable};
use super::word::Quoted;
use super::{GAP, Unreadable, Word};

#[derive(Clone, Debug)]
pub(super) enum Piece {
    Text(String, Quoted),
    /// From a variable or a substitution; splits where it is not quoted.
    Value(Value, Quoted),
    /// `>( … )`
    Fed(Range<usize>),
    /// `{`, `,` and `}` outside of quotes.
    Open,
    Comma,
    Close,
}

impl Piece {
    /// `$@` when there are no arguments.
    pub(super) fn is_no_word(&self) -> bool {
        matches!(self, Piece::Value(value, _) if value.texts.is_empty())
    }

    pub(super) fn text(text: impl Into<String>) -> Piece {
        Piece::Text(text.into(), Quoted::No)
    }

    pub(super) fn quoted(text: impl Into<String>) -> Piece {
        Piece::Text(text.into(), Quoted::Yes)
    }
}

/// What a variable may hold: one of these texts.
#[derive(Clone, Debug)]
pub(super) struct Value {
    texts: Vec<String>,
    known: bool,
    made_by: Vec<Range<usize>>,
}

/// Most texts that one variable is thought to hold; with more, only their gap is known.
const MAX_TEXTS: usize = 64;
/// Longest text that is followed through variables; doubling one often would make any memory small.
const MAX_TEXT: usize = 64 << 10;

/// Most ranges of commands that one word is said to be made by.
const MAX_MAKERS: usize = 16;

/// Many ranges become one that spans them all: rather too many commands than one too few.
fn add_makers(all: &mut Vec<Range<usize>>, more: &[Range<usize>]) {
    for range in more {
        if !all.contains(range) {
            all.push(range.clone());
        }
    }
    if all.len() > MAX_MAKERS {
        let start = all.iter().map(|it| it.start).min().unwrap_or_default();
        let end = all.iter().map(|it| it.end).max().unwrap_or_default();
        all.clear();
        all.push(start..end);
    }
}

impl Value {
    pub(super) fn literal(text: impl Into<String>) -> Value {
        Value {
            texts: vec![text.into()],
            known: true,
            made_by: Vec::new(),
        }
    }

    pub(super) fn gap() -> Value {
        Value::with_gaps(&GAP.to_string())
    }

    pub(super) fn with_gaps(text: &str) -> Value {
        Value {
            known: false,
            ..Value::literal(text)
        }
    }

    /// Any of these words.
    pub(super) fn any_of(words: Vec<Word>) -> Value {
        let known = words.iter().all(|it| it.known);
        let mut made_by = Vec::new();
        for word in &words {
            add_makers(&mut made_by, &word.made_by);
        }
        let texts = words.into_iter().map(|it| it.text).collect();
        Value {
            texts,
            known,
            made_by,
        }
        .bounded()
    }

    pub(super) fn made(mut self, by: &[Range<usize>]) -> Value {
        add_makers(&mut self.made_by, by);
        self
    }

    pub(super) fn made_as(mut self, other: &Value) -> Value {
        add_makers(&mut self.made_by, &other.made_by);
        self
    }

    /// The same, but something else may be there.
    pub(super) fn guessed(self) -> Value {
        Value {
            known: false,
            ..self
        }
    }

    /// The text, when there is one and it is known.
    pub(super) fn only(&self) -> Option<String> {
        match self.texts.as_slice() {
            [only] if self.known => Some(only.clone()),
            _ => None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.texts.iter().all(String::is_empty)
    }

    pub(super) fn or(&mut self, other: Value) {
        self.known &= other.known;
        add_makers(&mut self.made_by, &other.made_by);
        self.texts.extend(other.texts);
        *self = std::mem::replace(self, Value::gap()).bounded();
    }

    pub(super) fn push(&mut self, text: &str) {
        self.texts.iter_mut().for_each(|it| it.push_str(text));
    }

    pub(super) fn then(mut self, other: Value) -> Value {
        self.known &= other.known;
        add_makers(&mut self.made_by, &other.made_by);
        match other.texts.as_slice() {
            [] => {}
            [only] => self.push(only),
            several => {
                let pairs = self
                    .texts
                    .iter()
                    .flat_map(|before| several.iter().map(move |after| format!("{before}{after}")));
                self.texts = pairs.take(MAX_TEXTS + 1).collect();
                return self.bounded();
            }
        }
        self
    }

    /// What a copy of it costs.
    pub(super) fn size(&self) -> usize {
        self.made_by.len() + self.texts.iter().map(String::len).sum::<usize>()
    }

    pub(super) fn bounded(self) -> Value {
        if self.texts.len() > MAX_TEXTS || self.size() > MAX_TEXT {
            return Value {
                texts: vec![GAP.to_string()],
                known: false,
                ..self
            };
        }
        self
    }
}

impl Shell {
    /// The words that these pieces become.
    pub(super) fn fields(&mut self, pieces: Vec<Piece>) -> Result<Vec<Word>, Unreadable> {
        let plain = !pieces.iter().any(|it| {
            matches!(it, Piece::Open)
                || matches!(it, Piece::Value(value, _) if value.texts.len() != 1)
        });
        if plain {
            return self.split(pieces);
        }
        let mut words = Vec::new();
        let mut left = 4 * MAX_WORDS;
        for pieces in alternatives(pieces, &mut left, 0)? {
            self.spend(pieces.len())?;
            words.extend(self.split(pieces)?);
        }
        Ok(words)
    }

    /// Where nothing is split: a redirection's target, a value.
    pub(super) fn joined(&mut self, pieces: Vec<Piece>) -> Result<Value, Unreadable> {
        let mut joined = Value::literal("");
        for piece in pieces {
            match piece {
                Piece::Text(text, _) => joined.push(&text),
                Piece::Open => joined.push("{"),
                Piece::Comma => joined.push(","),
                Piece::Close => joined.push("}"),
                Piece::Fed(range) => joined = joined.then(Value::gap().made(&[range])),
                Piece::Value(value, _) => {
                    // A value may be long, and stand in many places.
                    self.spend(value.size())?;
                    joined = joined.then(value);
                }
            }
        }
        Ok(joined)
    }

    /// The same, as a word for each text it may be.
    pub(super) fn joined_words(&mut self, pieces: Vec<Piece>) -> Result<Vec<Word>, Unreadable> {
        let glob = pieces.iter().any(is_glob);
        let value = self.joined(pieces)?;
        let word = |text: String| Word {
            text,
            known: value.known,
            glob,
            made_by: value.made_by.clone(),
        };
        self.spend(value.made_by.len() * value.texts.len())?;
        Ok(value.texts.iter().cloned().map(word).collect())
    }

    /// What each of several values would make of these pieces; nothing when there is only one.
    pub(super) fn programs(&mut self, pieces: &[Piece]) -> Result<Vec<Vec<Word>>, Unreadable> {
        let several = pieces
            .iter()
            .any(|it| matches!(it, Piece::Value(value, _) if value.texts.len() > 1));
        if !several {
            return Ok(Vec::new());
        }
        let mut left = 4 * MAX_WORDS;
        let mut programs = Vec::new();
        for pieces in alternatives(pieces.to_vec(), &mut left, 0)? {
            self.spend(pieces.len())?;
            programs.push(self.split(pieces)?);
        }
        Ok(programs)
    }

    /// One word, or several where a value that is not quoted holds blanks.
    fn split(&mut self, pieces: Vec<Piece>) -> Result<Vec<Word>, Unreadable> {
        let separators = self.variable("IFS").and_then(|it| it.only());
        let separators = separators.as_deref().unwrap_or(" \t\n");
        let mut words = Vec::new();
        let mut word: Option<Word> = None;
        let start = || Word::literal("");
        for piece in pieces {
            let glob = is_glob(&piece);
            match piece {
                Piece::Text(text, _) => {
                    let word = word.get_or_insert_with(start);
                    word.text.push_str(&text);
                    word.glob |= glob;
                }
                Piece::Open => word.get_or_insert_with(start).text.push('{'),
                Piece::Comma => word.get_or_insert_with(start).text.push(','),
                Piece::Close => word.get_or_insert_with(start).text.push('}'),
                Piece::Fed(range) => {
                    let word = word.get_or_insert_with(start);
                    word.text.push(GAP);
                    word.known = false;
                    add_makers(&mut word.made_by, &[range]);
                }
                Piece::Value(value, quoted) => {
                    self.spend(value.size())?;
                    let text = value.texts.first().cloned().unwrap_or_default();
                    let add = |text: &str, word: &mut Option<Word>| {
                        let word = word.get_or_insert_with(start);
                        word.text.push_str(text);
                        word.known &= value.known;
                        word.glob |= quoted == Quoted::No && text.contains(['*', '?', '[']);
                        add_makers(&mut word.made_by, &value.made_by);
                    };
                    if value.texts.is_empty() {
                        continue;
                    }
                    if quoted == Quoted::Yes {
                        add(&text, &mut word);
                        continue;
                    }
                    for (at, part) in text.split(|c| separators.contains(c)).enumerate() {
                        if at > 0 {
                            words.extend(word.take());
                        }
                        if !part.is_empty() {
                            add(part, &mut word);
                        }
                    }
                }
            }
        }
        words.extend(word);
        Ok(words)
    }
}

fn is_glob(piece: &Piece) -> bool {
    matches!(piece, Piece::Text(text, Quoted::No) if text.contains(['*', '?', '[']))
}

/// Deepest braces in braces.
const MAX_BRACES: usize = 16;

/// Every way to read braces, and variables that may hold several texts.
fn alternatives(
    pieces: Vec<Piece>,
    left: &mut usize,
    depth: usize,
) -> Result<Vec<Vec<Piece>>, Unreadable> {
    if depth == MAX_BRACES {
        return unreadable("its braces are nested too deeply");
    }
    let closes = matching(&pieces);
    let mut results: Vec<Vec<Piece>> = vec![Vec::new()];
    let mut at = 0;
    while at < pieces.len() {
        let (choices, next) = match &pieces[at] {
            Piece::Value(value, quoted) if value.texts.len() > 1 => {
                let one = |text: &String| {
                    let value = Value {
                        texts: vec![text.clone()],
                        ..value.clone()
                    };
                    vec![Piece::Value(value, *quoted)]
                };
                (value.texts.iter().map(one).collect(), at + 1)
            }
            Piece::Open if closes[at].is_some() => {
                let close = closes[at].unwrap_or(at);
                match inside(&pieces[at + 1..close], left, depth)? {
                    Some(choices) => (choices, close + 1),
                    None => (vec![vec![Piece::Open]], at + 1),
                }
            }
            piece => (vec![vec![piece.clone()]], at + 1),
        };
        if let [only] = choices.as_slice() {
            if results.len() > 1 {
                spend(left, results.len() * only.len())?;
            }
            for result in &mut results {
                result.extend(only.iter().cloned());
            }
        } else {
            let size = results.iter().map(Vec::len).sum::<usize>() + results.len();
            spend(left, size.saturating_mul(choices.len()))?;
            results = results
                .iter()
                .flat_map(|before| {
                    choices.iter().map(move |choice| {
                        let mut both = before.clone();
                        both.extend(choice.iter().cloned());
                        both
                    })
                })
                .collect();
        }
        at = next;
    }
    Ok(results)
}

fn spend(left: &mut usize, pieces: usize) -> Result<(), Unreadable> {
    match left.checked_sub(pieces) {
        Some(less) => *left = less,
        None => return unreadable("its braces make too many words"),
    }
    Ok(())
}

/// What `{a,b}` or `{1..3}` may be, by what is inside; `None` when these are just braces.
fn inside(
    pieces: &[Piece],
    left: &mut usize,
    depth: usize,
) -> Result<Option<Vec<Vec<Piece>>>, Unreadable> {
    spend(left, pieces.len())?;
    let mut open = 0usize;
    let mut parts: Vec<Vec<Piece>> = vec![Vec::new()];
    for piece in pieces {
        match piece {
            Piece::Open => open += 1,
            Piece::Close => open = open.saturating_sub(1),
            Piece::Comma if open == 0 => {
                parts.push(Vec::new());
                continue;
            }
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(piece.clone());
        }
    }
    if parts.len() == 1 {
        return Ok(range(pieces));
    }
    let mut choices = Vec::new();
    for part in parts {
        choices.extend(alternatives(part, left, depth + 1)?);
    }
    Ok(Some(choices))
}

/// `{1..3}` and `{a..e}`. A long one is a word of which only this is known.
fn range(pieces: &[Piece]) -> Option<Vec<Vec<Piece>>> {
    let [Piece::Text(text, Quoted::No)] = pieces else {
        return None;
    };
    let (from, to) = text.split_once("..")?;
    let word = |text: String| vec![Piece::text(text)];
    if let (Ok(from), Ok(to)) = (from.parse::<i32>(), to.parse::<i32>()) {
        let (low, high) = (from.min(to), from.max(to));
        if high.abs_diff(low) > 256 {
            return Some(vec![vec![Piece::Value(Value::gap(), Quoted::Yes)]]);
        }
        let numbers = (low..=high).map(|it| word(it.to_string()));
        return Some(match from <= to {
            true => numbers.collect(),
            false => numbers.rev().collect(),
        });
    }
    let letter = |text: &str| {
        let mut chars = text.chars();
        chars
            .next()
            .filter(|c| c.is_ascii_alphabetic() && chars.next().is_none())
    };
    let (from, to) = (letter(from)?, letter(to)?);
    Some(
        (from.min(to)..=from.max(to))
            .map(|c| word(c.to_string()))
            .collect(),
    )
}

/// For each `{`, the `}` that closes it.
fn matching(pieces: &[Piece]) -> Vec<Option<usize>> {
    let mut closes = vec![None; pieces.len()];
    let mut open = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        match piece {
            Piece::Open => open.push(at),
            Piece::Close => {
                if let Some(start) = open.pop() {
                    closes[start] = Some(at);
                }
            }
            _ => {}
        }
    }
    closes
}
