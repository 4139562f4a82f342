//! Values of the command lines: durations and sizes.

use std::time::Duration;

pub(super) fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text) {
        Ok(wait) if wait.is_zero() => Err("it must be above zero".to_owned()),
        other => other,
    }
}

#[cfg(feature = "etcd")]
pub(super) fn whole_seconds(text: &str) -> Result<Duration, String> {
    match duration(text) {
        Ok(wait) if wait.is_zero() || wait.subsec_nanos() > 0 => {
            Err("whole seconds, at least one".to_owned())
        }
        other => other,
    }
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "write a duration such as 200ms, 1.5s or 2m".to_owned();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(split.ok_or_else(wrong)?);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let factor = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        _ => return Err(wrong()),
    };
    match Duration::try_from_secs_f64(number * factor) {
        Ok(wait) if wait <= Duration::from_secs(24 * 3600) => Ok(wait),
        _ => Err("a day at the most".to_owned()),
    }
}

pub(super) fn positive_bytes(text: &str) -> Result<u64, String> {
    let wrong = || "write a number of bytes above zero, such as 65536, 64k or 1M".to_owned();
    let (number, factor) = match text.as_bytes() {
        [.., b'k' | b'K'] => (&text[..text.len() - 1], 1 << 10),
        [.., b'm' | b'M'] => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    let bytes = number
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(factor));
    bytes.filter(|&bytes| bytes > 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_are_read() {
        assert_eq!(duration("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(positive_bytes("64k"), Ok(65536));
        assert_eq!(positive_bytes("7"), Ok(7));
    }

    #[test]
    fn wrong_values_are_refused() {
        for text in [
            "", "1", "s", "1h", "-1s", "1e9s", "999999m", "..s", "1.2.3s", "NaNs",
        ] {
            assert!(duration(text).is_err(), "{text:?}");
        }
        for text in ["0", "", "k", "-1", "99999999999999M", "1.5k"] {
            assert!(positive_bytes(text).is_err(), "{text:?}");
        }
        assert!(positive_duration("0s").is_err());
    }
}
