//! Redirections and here-documents.

use super::cursor::{Cursor, is_meta};
use super::grammar::{Shell, unreadable};
use super::{Flow, Redirect, Unreadable, Word};

impl Shell {
    /// One redirection: one for each text that its target may be.
    pub(super) fn redirect(
        &mut self,
        cursor: &mut Cursor<'_>,
    ) -> Result<Option<Vec<Redirect>>, Unreadable> {
        let (back, began) = (cursor.mark(), cursor.at());
        // `2>` and `{fd}>`
        if cursor.take_while(|c| c.is_ascii_digit()).is_empty() && cursor.eat("{") {
            cursor.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
            cursor.eat("}");
        }
        if cursor.starts("<(") || cursor.starts(">(") {
            cursor.go_back(back);
            return Ok(None);
        }
        let operator = OPERATORS
            .iter()
            .find(|(operator, _)| cursor.starts(operator));
        let Some((operator, kind)) = operator else {
            cursor.go_back(back);
            return Ok(None);
        };
        // `2&>1` is the word `2` and then a redirection.
        if operator.starts_with('&') && cursor.at() != began {
            cursor.go_back(back);
            return Ok(None);
        }
        cursor.eat(operator);
        cursor.skip_blanks();
        let began = cursor.at();
        if matches!(kind, Kind::Here) {
            let target = self.here_document(cursor, *operator == "<<-")?;
            return Ok(Some(vec![Redirect {
                flow: Flow::Text,
                target: target.into(),
            }]));
        }
        let pieces = self.pieces(cursor)?;
        if pieces.is_empty() {
            return unreadable(format!("nothing follows `{operator}`"));
        }
        self.spend(cursor.at() - began)?;
        let targets = self.joined_words(pieces)?.into_iter();
        let redirects = targets.map(|target| {
            let is_open_file =
                target.text == "-" || target.text.trim_end_matches('-').parse::<u32>().is_ok();
            let flow = match kind {
                Kind::File(flow) => *flow,
                Kind::Duplicate if is_open_file => Flow::Same,
                Kind::Duplicate if *operator == ">&" => Flow::Out,
                Kind::Duplicate | Kind::Here => Flow::In,
            };
            Redirect {
                flow,
                target: target.into(),
            }
        });
        Ok(Some(redirects.collect()))
    }

    fn here_document(
        &mut self,
        cursor: &mut Cursor<'_>,
        indented: bool,
    ) -> Result<Word, Unreadable> {
        let Some((end, literal)) = delimiter(cursor) else {
            return unreadable("a here-document has a strange end");
        };
        let body = cursor.here_document(&end, indented, literal);
        self.spend(body.len())?;
        if literal {
            return Ok(Word::literal(body));
        }
        let mut inside = Cursor::new(&body);
        inside.gaps = cursor.gaps;
        let pieces = self.deeper(|shell| shell.quoted_text(&mut inside, None))?;
        let words = self.joined_words(pieces)?;
        Ok(words.into_iter().next().unwrap_or_default())
    }
}

/// The word that ends a here-document, and whether it is quoted. It is never expanded.
fn delimiter(cursor: &mut Cursor<'_>) -> Option<(String, bool)> {
    let (mut end, mut quoted) = (String::new(), false);
    while let Some(c) = cursor.peek().filter(|c| !is_meta(*c)) {
        cursor.next();
        match c {
            '\'' | '"' => {
                quoted = true;
                end.push_str(cursor.take_until(c)?);
            }
            '\\' => {
                quoted = true;
                end.push(cursor.next()?);
            }
            '$' if cursor.peek().is_some_and(|c| "({'\"".contains(c)) => return None,
            '`' => return None,
            c => end.push(c),
        }
    }
    // Shells differ in what they make of more than plain words.
    let strange = end.is_empty() && !quoted || end.contains(['\n', '\\', '`']);
    (!strange).then_some((end, quoted))
}

enum Kind {
    File(Flow),
    Duplicate,
    Here,
}

/// Longer ones first.
const OPERATORS: &[(&str, Kind)] = &[
    ("&>>", Kind::File(Flow::Out)),
    ("&>", Kind::File(Flow::Out)),
    ("<<<", Kind::File(Flow::Text)),
    ("<<-", Kind::Here),
    ("<<", Kind::Here),
    ("<>", Kind::File(Flow::Out)),
    ("<&", Kind::Duplicate),
    (">>", Kind::File(Flow::Out)),
    (">|", Kind::File(Flow::Out)),
    (">&", Kind::Duplicate),
    ("<", Kind::File(Flow::In)),
    (">", Kind::File(Flow::Out)),
];
