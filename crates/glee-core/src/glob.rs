//! Patterns with `*` and `?`, as shells write them.

/// Whether the whole of `text` fits `pattern`: `*` is any text, `?` any character, `[…]` any one of
/// a set. Takes time in the product of both lengths at most.
pub fn matches(pattern: &str, text: &str) -> bool {
    let pattern: Vec<Piece> = pieces(pattern);
    let text: Vec<char> = text.chars().collect();
    let (mut p, mut t) = (0, 0);
    // Where the last `*` stands, and how much of the text it has taken.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(Piece::Any) => {
                star = Some((p, t));
                p += 1;
            }
            Some(piece) if piece.takes(text[t]) => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    p = at + 1;
                    t = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|it| matches!(it, Piece::Any))
}

/// Whether no text can fit: `[z-a]`.
pub fn fits_nothing(pattern: &str) -> bool {
    let is_empty = |it: &Piece| match it {
        Piece::Set { of, not } => !not && of.iter().all(|(from, to)| from > to),
        _ => false,
    };
    pieces(pattern).iter().any(is_empty)
}

enum Piece {
    Any,
    One,
    Set { of: Vec<(char, char)>, not: bool },
    Just(char),
}

impl Piece {
    fn takes(&self, c: char) -> bool {
        match self {
            Piece::Any => false,
            Piece::One => true,
            Piece::Set { of, not } => {
                of.iter().any(|(from, to)| (*from..=*to).contains(&c)) != *not
            }
            Piece::Just(just) => *just == c,
        }
    }
}

fn pieces(pattern: &str) -> Vec<Piece> {
    let chars: Vec<char> = pattern.chars().collect();
    let mut out = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let piece = match chars[at] {
            '*' => Piece::Any,
            '?' => Piece::One,
            '[' => match set(&chars[at + 1..]) {
                Some((piece, length)) => {
                    at += length;
                    piece
                }
                None => Piece::Just('['),
            },
            c => Piece::Just(c),
        };
        out.push(piece);
        at += 1;
    }
    out
}

/// Longest set; a `[` that is closed later than this is a letter like others.
const MAX_SET: usize = 64;

/// What stands between `[` and `]`, and its length with the `]`.
fn set(rest: &[char]) -> Option<(Piece, usize)> {
    let not = matches!(rest.first(), Some('!' | '^'));
    let start = usize::from(not);
    let within = &rest[start..rest.len().min(start + MAX_SET)];
    // A `]` that comes first is one of the set.
    let end = 1 + within.iter().skip(1).position(|c| *c == ']')?;
    let mut of = Vec::new();
    let mut at = 0;
    while at < end {
        if at + 2 < end && within[at + 1] == '-' {
            of.push((within[at], within[at + 2]));
            at += 3;
        } else {
            of.push((within[at], within[at]));
            at += 1;
        }
    }
    Some((Piece::Set { of, not }, start + end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_texts() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("a*c", "abc", true),
            ("a*c", "abcd", false),
            ("a?c", "ac", false),
            ("r[mn]", "rm", true),
            ("r[!m]", "rm", false),
            ("r[a-z]", "rm", true),
            ("r[m", "r[m", true),
            ("*.env.*", "x.env.y", true),
            ("", "", true),
            ("", "a", false),
            ("**b**", "abba", true),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
    }
}
