//! The timeout that a gRPC request carries, capped by what the guard has left.
//!
//! The header's format is that of the gRPC protocol over HTTP/2: at most 8 digits and a
//! unit.

use std::time::Duration;

use http::{HeaderMap, HeaderValue};

const NAME: &str = "grpc-timeout";
const MAX_DIGITS: usize = 8;
const MAX_VALUE: u128 = 99_999_999;

/// Lowers the timeout of a request to `remaining`, or sets it.
pub(super) fn cap(headers: &mut HeaderMap, remaining: Duration) {
    // One that is given twice is read in one way here and maybe in another there.
    let wanted = match headers.get_all(NAME).iter().count() {
        1 => headers.get(NAME).and_then(|value| parse(value.as_bytes())),
        _ => None,
    };
    if wanted.is_none_or(|wanted| remaining < wanted) {
        headers.insert(NAME, format(remaining));
    }
}

/// A value that no server would read is none: it would be no limit there.
fn parse(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.len() > MAX_DIGITS || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(match unit {
        b'H' => Duration::from_secs(number * 3_600),
        b'M' => Duration::from_secs(number * 60),
        b'S' => Duration::from_secs(number),
        b'm' => Duration::from_millis(number),
        b'u' => Duration::from_micros(number),
        b'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

/// Rounds down: a longer timeout than what is left would be no cap.
fn format(timeout: Duration) -> HeaderValue {
    let (number, unit) = [
        (timeout.as_micros(), 'u'),
        (timeout.as_millis(), 'm'),
        (u128::from(timeout.as_secs()), 'S'),
    ]
    .into_iter()
    .find(|(number, _)| *number <= MAX_VALUE)
    .unwrap_or((MAX_VALUE, 'S'));
    HeaderValue::try_from(format!("{number}{unit}")).expect("digits and a letter")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capped(wanted: Option<&'static str>, remaining: Duration) -> String {
        let mut headers = HeaderMap::new();
        if let Some(wanted) = wanted {
            headers.insert(NAME, HeaderValue::from_static(wanted));
        }
        cap(&mut headers, remaining);
        headers[NAME].to_str().unwrap().to_owned()
    }

    #[test]
    fn the_shorter_of_both_is_sent() {
        let second = Duration::from_secs(1);
        for (wanted, expected) in [
            (None, "1000000u"),
            (Some("2S"), "1000000u"),
            (Some("1M"), "1000000u"),
            (Some("1H"), "1000000u"),
            (Some("1001m"), "1000000u"),
            (Some("999m"), "999m"),
            (Some("500u"), "500u"),
            (Some("7n"), "7n"),
            // No server would take these for a limit.
            (Some(""), "1000000u"),
            (Some("5"), "1000000u"),
            (Some("5x"), "1000000u"),
            (Some("000000001S"), "1000000u"),
            (Some("-1S"), "1000000u"),
        ] {
            assert_eq!(capped(wanted, second), expected, "{wanted:?}");
        }
    }

    #[test]
    fn one_that_is_given_twice_is_replaced() {
        let mut headers = HeaderMap::new();
        for wanted in ["5m", "1H"] {
            headers.append(NAME, HeaderValue::from_static(wanted));
        }
        cap(&mut headers, Duration::from_secs(1));
        let sent: Vec<_> = headers.get_all(NAME).iter().collect();
        assert_eq!(sent, ["1000000u"]);
    }

    #[test]
    fn every_duration_fits_and_none_grows() {
        for (remaining, expected) in [
            (Duration::ZERO, "0u"),
            (Duration::from_nanos(1_999), "1u"),
            (Duration::from_micros(99_999_999), "99999999u"),
            (Duration::from_secs(100), "100000m"),
            (Duration::from_secs(100_000), "100000S"),
            (Duration::MAX, "99999999S"),
        ] {
            assert_eq!(capped(None, remaining), expected);
        }
    }
}
