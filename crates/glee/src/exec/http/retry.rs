//! Whether and when a request is sent again.

use std::time::{Duration, SystemTime};

use glee_core::model::{Annotations, Http};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use uuid::Uuid;

use super::lost::Failed;
use super::{Answer, response};

const LONGEST_PAUSE: Duration = Duration::from_secs(30);

pub(super) struct Plan<'a> {
    http: &'a Http,
    times: u32,
}

impl<'a> Plan<'a> {
    /// What must not happen twice is sent once: POST and PATCH, unless the author vouches for them.
    pub(super) fn new(http: &'a Http, annotations: &Annotations) -> Plan<'a> {
        let repeatable = http.method.is_idempotent() || annotations.idempotent == Some(true);
        Plan {
            http,
            times: if repeatable { http.retry.times } else { 0 },
        }
    }

    /// How long to wait before the next attempt; `None` when this answer is final. A pause that
    /// would outlast the deadline is not begun: the caller is better off with the answer at hand.
    pub(super) fn pause(
        &self,
        attempt: u32,
        left: Duration,
        answer: &Result<Answer, Failed>,
    ) -> Option<Duration> {
        if attempt >= self.times {
            return None;
        }
        let asked = match answer {
            Err(failed) if failed.unconnected => None,
            Err(_) => return None,
            Ok(answer) => {
                let status = answer.response.status();
                let passing = matches!(status.as_u16(), 429 | 502 | 503 | 504);
                if !passing || response::is_success(self.http, status) {
                    return None;
                }
                retry_after(answer.response.headers(), SystemTime::now())
            }
        };
        let pause =
            back_off(self.http.retry.pause, attempt, chance()).max(asked.unwrap_or_default());
        (pause < left).then_some(pause)
    }
}

/// Doubles with every attempt. Up to half of it is left to chance, so that many callers who failed
/// together do not come back together.
fn back_off(first: Duration, attempt: u32, chance: u8) -> Duration {
    let doubled = first
        .saturating_mul(2_u32.saturating_pow(attempt))
        .min(LONGEST_PAUSE);
    doubled - doubled / 2 * u32::from(chance) / u32::from(u8::MAX)
}

fn chance() -> u8 {
    // The last bytes of a version 7 UUID are random.
    Uuid::now_v7().as_bytes()[15]
}

/// `Retry-After` in its two forms, seconds and a date.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date: Timestamp = DateTimeParser::new()
        .relaxed_weekday(true)
        .parse_timestamp(text)
        .ok()?;
    Some(
        SystemTime::from(date)
            .duration_since(now)
            .unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_vary() {
        let first = Duration::from_millis(100);
        for (attempt, chance, millis) in [
            (0, 0, 100),
            (0, 255, 50),
            (1, 0, 200),
            (1, 255, 100),
            (3, 0, 800),
            (40, 0, 30_000),
            (40, 255, 15_000),
        ] {
            assert_eq!(
                back_off(first, attempt, chance),
                Duration::from_millis(millis)
            );
        }
        assert_eq!(back_off(Duration::ZERO, 9, 7), Duration::ZERO);
        assert_eq!(back_off(Duration::MAX, 9, 0), LONGEST_PAUSE);
    }

    #[test]
    fn retry_after_in_both_forms() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let at = |text: &'static str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
            retry_after(&headers, now)
        };
        assert_eq!(at("7"), Some(Duration::from_secs(7)));
        assert_eq!(
            at("18446744073709551615"),
            Some(Duration::from_secs(u64::MAX))
        );
        assert_eq!(
            at("Sun, 06 Nov 1994 08:49:47 GMT"),
            Some(Duration::from_secs(10))
        );
        assert_eq!(at("Sun, 06 Nov 1994 08:00:00 GMT"), Some(Duration::ZERO));
        for nonsense in ["", "-1", "1.5", "soon", "99999999999999999999"] {
            assert_eq!(at(nonsense), None, "{nonsense}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }
}
