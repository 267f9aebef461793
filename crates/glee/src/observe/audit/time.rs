//! When something happened, as both files write it. Many events happen within a second, and to work out its name takes
//! longer than the rest of their lines, so it is kept for the next.

use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

const LENGTH: usize = "2026-01-09T15:00:10".len();
const LONGEST: usize = "2026-01-09T15:00:10.000000Z".len();

thread_local! {
    /// The last second that was written, by its number and by its name.
    static LAST: Cell<(u64, [u8; LENGTH])> = const { Cell::new((u64::MAX, [0; LENGTH])) };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fraction {
    None,
    Micros,
}

pub(super) fn push(out: &mut String, at: SystemTime, fraction: Fraction) {
    let Ok(since) = at.duration_since(UNIX_EPOCH) else {
        out.push('?');
        return;
    };
    let (mut second, mut name) = LAST.get();
    if second != since.as_secs() {
        second = since.as_secs();
        let Some(named) = named(second) else {
            out.push('?');
            return;
        };
        name = named;
        LAST.set((second, name));
    }
    let mut text = [0; LONGEST];
    text[..LENGTH].copy_from_slice(&name);
    let length = match fraction {
        Fraction::None => LENGTH,
        Fraction::Micros => {
            push_micros(&mut text, since.subsec_micros());
            LONGEST - 1
        }
    };
    text[length] = b'Z';
    // All of it is digits and signs.
    out.push_str(std::str::from_utf8(&text[..=length]).unwrap_or("?"));
}

/// By hand: each event has one, and to format it takes ten times as long.
fn push_micros(text: &mut [u8; LONGEST], micros: u32) {
    text[LENGTH] = b'.';
    let mut left = micros;
    for digit in text[LENGTH + 1..LONGEST - 1].iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
}

fn named(second: u64) -> Option<[u8; LENGTH]> {
    let at = jiff::Timestamp::from_second(second.try_into().ok()?).ok()?;
    at.strftime("%Y-%m-%dT%H:%M:%S")
        .to_string()
        .as_bytes()
        .try_into()
        .ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn pushed(at: SystemTime, fraction: Fraction) -> String {
        let mut out = String::new();
        push(&mut out, at, fraction);
        out
    }

    proptest! {
        #[test]
        fn it_is_written_as_everybody_else_does(micros in prop::collection::vec(0..9_000_000_000_000_000u64, 1..4)) {
            for micros in micros {
                let at = UNIX_EPOCH + Duration::from_micros(micros);
                let expected = jiff::Timestamp::try_from(at).unwrap();
                for _ in 0..2 {
                    prop_assert_eq!(pushed(at, Fraction::Micros), format!("{expected:.6}"));
                    prop_assert_eq!(pushed(at, Fraction::None), format!("{expected:.0}"));
                }
            }
        }
    }

    #[test]
    fn what_has_no_name_is_told_so() {
        assert_eq!(
            pushed(UNIX_EPOCH - Duration::from_secs(1), Fraction::None),
            "?"
        );
        assert_eq!(
            pushed(UNIX_EPOCH + Duration::from_secs(1 << 40), Fraction::None),
            "?"
        );
    }
}
