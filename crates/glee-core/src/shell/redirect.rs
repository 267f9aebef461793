//! Redirections and here-documents.

use super::cursor::Cursor;
use super::expand::Piece;
use super::grammar::{Shell, unreadable};
use super::{Flow, Redirect, Unreadable, Word};

impl Shell {
    pub(super) fn redirect(
        &mut self,
        cursor: &mut Cursor<'_>,
    ) -> Result<Option<Redirect>, Unreadable> {
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
        let pieces = self.pieces(cursor)?;
        if pieces.is_empty() {
            return unreadable(format!("nothing follows `{operator}`"));
        }
        self.spend(cursor.at() - began)?;
        let flow = match kind {
            Kind::File(flow) => *flow,
            Kind::Duplicate => {
                let target = self.joined_word(pieces)?;
                let is_open_file =
                    target.text == "-" || target.text.trim_end_matches('-').parse::<u32>().is_ok();
                let flow = match (is_open_file, *operator) {
                    (true, _) => Flow::Same,
                    (false, ">&") => Flow::Out,
                    (false, _) => Flow::In,
                };
                return Ok(Some(Redirect {
                    flow,
                    target: target.into(),
                }));
            }
            Kind::Here => {
                let target = self.here_document(cursor, pieces, *operator == "<<-")?;
                return Ok(Some(Redirect {
                    flow: Flow::Text,
                    target: target.into(),
                }));
            }
        };
        Ok(Some(Redirect {
            flow,
            target: self.joined_word(pieces)?.into(),
        }))
    }

    fn here_document(
        &mut self,
        cursor: &mut Cursor<'_>,
        end: Vec<Piece>,
        indented: bool,
    ) -> Result<Word, Unreadable> {
        let literal = end.iter().any(Piece::is_quoted);
        let end = self.joined_word(end)?.text;
        let body = cursor.here_document(&end, indented);
        self.spend(body.len())?;
        if literal {
            return Ok(Word::literal(body));
        }
        let mut inside = Cursor::new(&body);
        inside.gaps = cursor.gaps;
        let pieces = self.deeper(|shell| shell.quoted_text(&mut inside, None))?;
        self.joined_word(pieces)
    }
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
