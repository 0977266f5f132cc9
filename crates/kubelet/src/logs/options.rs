//! Which part of a log is wanted: the query of `/containerLogs`.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

/// The query as it comes in (PodLogOptions).
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Query {
    follow: Option<String>,
    previous: Option<String>,
    tail_lines: Option<String>,
    since_seconds: Option<String>,
    since_time: Option<String>,
    timestamps: Option<String>,
    limit_bytes: Option<String>,
}

/// What is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) follow: bool,
    pub(crate) previous: bool,
    pub(crate) timestamps: bool,
    /// Last lines only.
    pub(crate) tail: Option<u64>,
    pub(crate) since: Option<Timestamp>,
    /// Bytes of output at most.
    pub(crate) limit: Option<u64>,
}

impl Query {
    /// Checks the query; `now` is what `sinceSeconds` counts back from.
    pub(crate) fn options(self, now: Timestamp) -> Result<Options, String> {
        let number = |name: &str, value: Option<String>| {
            let parsed = value.filter(|v| !v.is_empty()).map(|v| v.parse::<u64>().map_err(|_| format!("invalid {name}: {v:?}")));
            parsed.transpose()
        };
        let since_time =
            self.since_time.filter(|v| !v.is_empty()).map(|v| v.parse::<Timestamp>().map_err(|e| format!("invalid sinceTime {v:?}: {e}")));
        let seconds = number("sinceSeconds", self.since_seconds)?;
        let ago =
            seconds.map(|s| now.saturating_sub(SignedDuration::from_secs(i64::try_from(s).unwrap_or(i64::MAX))).unwrap_or(Timestamp::MIN));
        Ok(Options {
            follow: is_true(self.follow.as_deref()),
            previous: is_true(self.previous.as_deref()),
            timestamps: is_true(self.timestamps.as_deref()),
            tail: number("tailLines", self.tail_lines)?,
            since: ago.or(since_time.transpose()?),
            limit: number("limitBytes", self.limit_bytes)?,
        })
    }
}

fn is_true(value: Option<&str>) -> bool {
    value.is_some_and(|v| !matches!(v, "" | "0" | "false"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_query() {
        let now = Timestamp::from_second(100).unwrap();
        let query =
            Query { follow: Some("true".into()), tail_lines: Some("5".into()), since_seconds: Some("40".into()), ..Default::default() };
        let options = query.options(now).unwrap();
        assert!(options.follow && !options.previous);
        assert_eq!((options.tail, options.since), (Some(5), Timestamp::from_second(60).ok()));
        assert!(Query { tail_lines: Some("-1".into()), ..Default::default() }.options(now).is_err());
    }
}
