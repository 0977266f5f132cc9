//! Durations as Go writes them.

use std::time::Duration;

/// Go's longest: it counts nanoseconds in 64 bits.
const LONGEST: Duration = Duration::from_nanos(i64::MAX.unsigned_abs());

/// A Go duration such as `5s`, `10m`, `1h30m`, `250ms` or `0`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    match text {
        "" => return Err(format!("invalid duration {text:?}")),
        "0" => return Ok(Duration::ZERO),
        _ => {}
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(|| format!("missing unit in {text:?}"))?;
        let number: f64 = rest[..digits].parse().map_err(|_| format!("invalid duration {text:?}"))?;
        let unit_end = rest[digits..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |i| digits + i);
        let seconds = match &rest[digits..unit_end] {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            unit => return Err(format!("unknown unit {unit:?} in duration {text:?}")),
        };
        let part = Duration::try_from_secs_f64(number * seconds).map_err(|e| e.to_string())?;
        let sum = total.checked_add(part).filter(|sum| *sum <= LONGEST);
        total = sum.ok_or_else(|| format!("{text:?} is longer than any duration"))?;
        rest = &rest[unit_end..];
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations_are_read() {
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("20us"), Ok(Duration::from_micros(20)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert!(duration("").is_err());
        assert!(duration("5").is_err());
        assert!(duration("5 parsecs").is_err());
    }

    #[test]
    fn what_go_cannot_count_is_refused() {
        assert!(duration("2562047h").is_ok());
        for long in ["2562048h", "2562047h1h", "18446744073709551615s18446744073709551615s", "1e30h"] {
            assert!(duration(long).is_err(), "{long}");
        }
    }
}
