//! Text forms of instants and durations, as `metav1.Time`, `metav1.MicroTime` and kubectl's AGE column write them.

use jiff::Timestamp;

/// An instant to the second, in UTC: `2024-01-02T03:04:05Z` (`metav1.Time`). Fractions are cut off, not rounded.
pub fn format_rfc3339_seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// An instant to the microsecond, in UTC: `2024-01-02T03:04:05.678901Z` (`metav1.MicroTime`).
pub fn format_rfc3339_micro(at: Timestamp) -> String {
    let micros = at.as_microsecond().rem_euclid(1_000_000);
    format!("{}.{micros:06}Z", at.strftime("%Y-%m-%dT%H:%M:%S"))
}

/// Parses an RFC 3339 instant with any offset, as `time.Parse(time.RFC3339, …)` would accept it.
pub fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let date_time = bytes.get(10).is_some_and(|c| *c == b'T') && text.len() >= 20;
    if date_time { text.parse().ok() } else { None }
}

/// The time from `since` until `now` as kubectl's AGE column shows it; `<unknown>` without `since`.
pub fn age(since: Option<Timestamp>, now: Timestamp) -> String {
    match since {
        Some(since) => human_duration((now.as_millisecond() - since.as_millisecond()).div_euclid(1000)),
        None => "<unknown>".into(),
    }
}

/// A duration in whole seconds as kubectl shows it: two units at most (`5m30s`, `3d4h`), `<invalid>` if clearly negative.
pub fn human_duration(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    match seconds {
        ..-1 => "<invalid>".into(),
        -1 => "0s".into(),
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two_units(s, MINUTE, "m", 1, "s"),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => two_units(s, HOUR, "h", MINUTE, "m"),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => two_units(s, DAY, "d", HOUR, "h"),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => two_units(s, YEAR, "y", DAY, "d"),
        s => format!("{}y", s / YEAR),
    }
}

fn two_units(seconds: i64, big: i64, big_name: &str, small: i64, small_name: &str) -> String {
    match seconds % big / small {
        0 => format!("{}{big_name}", seconds / big),
        rest => format!("{}{big_name}{rest}{small_name}", seconds / big),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_seconds_and_micros() {
        let at: Timestamp = "2024-01-02T03:04:05.678901234Z".parse().unwrap();
        assert_eq!(format_rfc3339_seconds(at), "2024-01-02T03:04:05Z");
        assert_eq!(format_rfc3339_micro(at), "2024-01-02T03:04:05.678901Z");
    }

    #[test]
    fn ages_read_as_kubectl_prints_them() {
        let day = 86400;
        let cases = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (599, "9m59s"),
            (600, "10m"),
            (10799, "179m"),
            (10800, "3h"),
            (11000, "3h3m"),
            (8 * 3600, "8h"),
            (2 * day, "2d"),
            (2 * day + 3600, "2d1h"),
            (8 * day, "8d"),
            (729 * day, "729d"),
            (730 * day, "2y"),
            (731 * day, "2y1d"),
            (2920 * day, "8y"),
        ];
        for (seconds, text) in cases {
            assert_eq!(human_duration(seconds), text);
        }
    }

    #[test]
    fn dates_without_a_time_are_no_instants() {
        assert!(parse_rfc3339("2024-01-02").is_none());
        assert!(parse_rfc3339("2024-01-02T03:04:05+02:00").is_some());
    }
}
