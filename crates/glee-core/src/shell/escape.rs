//! Texts with escapes: `$'…'`, and what `printf` and `echo -e` print.

use super::Unreadable;
use super::cursor::Cursor;
use super::grammar::unreadable;

/// What stands between `$'` and `'`.
pub(super) fn ansi(cursor: &mut Cursor<'_>) -> Result<String, Unreadable> {
    let rest = cursor.rest();
    let mut chars = rest.char_indices();
    let mut escaped = false;
    let end = loop {
        match chars.next() {
            None => return unreadable("a `$'` is not closed"),
            Some((at, '\'')) => break at,
            Some((_, '\\')) => escaped |= chars.next().is_some_and(|it| it.1 == '\''),
            Some(_) => {}
        }
    };
    cursor.take(end + 1);
    // A shell that does not know `$'` ends it at `\'`, and reads all that follows otherwise.
    if escaped && cursor.is_first_difference() {
        let after = &rest[rest.find("\\'").map_or(0, |at| at + 2)..];
        let closes = after.contains('#') || after.matches('\'').count().is_multiple_of(2);
        if closes && after.contains([';', '&', '|', '\n', '`', '(']) {
            return unreadable("shells differ in where this `$'` ends");
        }
    }
    Ok(unescaped(&rest[..end]))
}

/// The text without its escapes.
pub(super) fn unescaped(text: &str) -> String {
    let cursor = &mut Cursor::new(text);
    // Escapes are of bytes, which may make a character only together.
    let mut out: Vec<u8> = Vec::new();
    let mut letter = [0; 4];
    while let Some(c) = cursor.next() {
        match c {
            '\\' => {
                let Some(c) = cursor.next() else { continue };
                match c {
                    'a' => out.push(7),
                    'b' => out.push(8),
                    'e' | 'E' => out.push(27),
                    'f' => out.push(12),
                    'n' => out.push(b'\n'),
                    'r' => out.push(b'\r'),
                    't' => out.push(b'\t'),
                    'v' => out.push(11),
                    'x' => out.push(number(cursor, 16, 2) as u8),
                    'u' | 'U' => {
                        let code = number(cursor, 16, if c == 'u' { 4 } else { 8 });
                        let c = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                        out.extend_from_slice(c.encode_utf8(&mut letter).as_bytes());
                    }
                    'c' => {
                        let control = cursor.next().map_or(0, |c| (c as u32 & 0x1f) as u8);
                        out.push(control);
                    }
                    '0'..='7' => {
                        let first = c.to_digit(8).unwrap_or_default();
                        let rest = cursor.rest();
                        let more =
                            rest.chars().take(2).take_while(|c| c.is_digit(8)).count() as u32;
                        let value = first * 8u32.pow(more) + number(cursor, 8, 2);
                        out.push(value as u8);
                    }
                    '\\' | '\'' | '"' | '?' => out.push(c as u8),
                    other => {
                        out.push(b'\\');
                        out.extend_from_slice(other.encode_utf8(&mut letter).as_bytes());
                    }
                }
            }
            c => out.extend_from_slice(c.encode_utf8(&mut letter).as_bytes()),
        }
    }
    // The shell ends such a text at a NUL.
    let end = out.iter().position(|b| *b == 0).unwrap_or(out.len());
    String::from_utf8_lossy(&out[..end]).into_owned()
}

/// At most `most` digits.
fn number(cursor: &mut Cursor<'_>, radix: u32, most: usize) -> u32 {
    let mut value = 0u32;
    for _ in 0..most {
        let Some(digit) = cursor.peek().and_then(|c| c.to_digit(radix)) else {
            break;
        };
        value = value.wrapping_mul(radix).wrapping_add(digit);
        cursor.next();
    }
    value
}
