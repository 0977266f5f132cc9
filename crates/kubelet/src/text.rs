//! Texts in the form Go prints them, which users and tools search for.

use jiff::SignedDuration;

/// A duration as Go's `time.Duration` prints it: `10s`, `2m40s`, `5m0s`, `1.5s`, `250ms`.
pub(crate) fn duration(value: SignedDuration) -> String {
    let nanoseconds = value.as_nanos();
    if nanoseconds == 0 {
        return "0s".into();
    }
    if nanoseconds < 1_000_000_000 {
        let (unit, scale) = match nanoseconds {
            1_000_000.. => ("ms", 1e6),
            1_000.. => ("µs", 1e3),
            _ => ("ns", 1.0),
        };
        return format!("{}{unit}", trim(nanoseconds as f64 / scale, 6));
    }
    let whole = value.as_secs();
    let (hours, minutes) = (whole / 3600, whole / 60 % 60);
    let seconds = trim((whole % 60) as f64 + f64::from(value.subsec_nanos()) / 1e9, 9);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{seconds}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

fn trim(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A string as Go's `%q` prints it.
pub(crate) fn quote(value: &str) -> String {
    serde_json::Value::from(value).to_string()
}

/// What the API server said, or why it could not be asked; without the library's wrapping.
pub(crate) fn api_error(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_durations_as_go_does() {
        let cases = [(10_000, "10s"), (160_000, "2m40s"), (300_000, "5m0s"), (1_500, "1.5s"), (250, "250ms"), (0, "0s")];
        for (milliseconds, text) in cases {
            assert_eq!(duration(SignedDuration::from_millis(milliseconds)), text);
        }
    }
}
