//! Letters that are not UTF-8: those of western Europe, and those of two bytes. Others are rare, and read as UTF-8.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Charset {
    /// What is called Latin-1 is read so, by everybody.
    Windows1252,
    Utf16 {
        big_endian: bool,
    },
}

/// What the first bytes say counts most, then what the server says, then what the page says of itself.
pub(super) fn of(said: Option<&str>, bytes: &[u8]) -> Option<Charset> {
    match bytes {
        [0xff, 0xfe, ..] => return Some(Charset::Utf16 { big_endian: false }),
        [0xfe, 0xff, ..] => return Some(Charset::Utf16 { big_endian: true }),
        [0xef, 0xbb, 0xbf, ..] => return None,
        _ => {}
    }
    match said {
        Some(said) => named(said),
        // A page that could be read so far is not written in letters of two bytes.
        None => named(&of_page(bytes)?).filter(|it| *it == Charset::Windows1252),
    }
}

fn named(name: &str) -> Option<Charset> {
    match name.trim().to_ascii_lowercase().as_str() {
        "iso-8859-1" | "iso8859-1" | "latin1" | "latin-1" | "windows-1252" | "cp1252"
        | "us-ascii" => Some(Charset::Windows1252),
        "utf-16" | "utf-16le" => Some(Charset::Utf16 { big_endian: false }),
        "utf-16be" => Some(Charset::Utf16 { big_endian: true }),
        _ => None,
    }
}

/// `<meta charset="…">` and `<meta … content="text/html; charset=…">`, where browsers look for it.
fn of_page(bytes: &[u8]) -> Option<String> {
    let start = &bytes[..bytes.len().min(1024)];
    let start = String::from_utf8_lossy(start).to_ascii_lowercase();
    let tags = start
        .split("<meta")
        .skip(1)
        .filter_map(|it| it.split('>').next());
    let mut named = tags.filter_map(|it| it.split_once("charset="));
    let (_, rest) = named.next()?;
    let rest = rest.trim_start_matches(['"', '\'']);
    let name = rest.split(['"', '\'', ' ', ';', '/']).next()?;
    Some(name.to_owned())
}

impl Charset {
    pub(super) fn text(self, bytes: &[u8]) -> String {
        match self {
            Charset::Windows1252 => bytes.iter().map(|&it| letter(it)).collect(),
            Charset::Utf16 { big_endian } => {
                let pairs = bytes.chunks_exact(2).map(|it| match big_endian {
                    true => u16::from_be_bytes([it[0], it[1]]),
                    false => u16::from_le_bytes([it[0], it[1]]),
                });
                let letters = char::decode_utf16(pairs);
                let letters = letters.map(|it| it.unwrap_or(char::REPLACEMENT_CHARACTER));
                letters.skip_while(|it| *it == '\u{feff}').collect()
            }
        }
    }
}

fn letter(byte: u8) -> char {
    const SPECIAL: &str = "€\u{81}‚ƒ„…†‡ˆ‰Š‹Œ\u{8d}Ž\u{8f}\u{90}‘’“”•–—˜™š›œ\u{9d}žŸ";
    match byte {
        0x80..=0x9f => SPECIAL
            .chars()
            .nth(usize::from(byte - 0x80))
            .unwrap_or(char::REPLACEMENT_CHARACTER),
        byte => char::from(byte),
    }
}
