//! Whether the store's progress reports can be believed. Upstream: `FeatureSupportChecker`.

use std::time::Duration;

use etcd::client::Client;
use futures::future::join_all;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// A server that does not tell its version so soon is passed over.
const ANSWER: Duration = Duration::from_millis(500);
/// Members may be exchanged for others of another version while this server runs.
const KNOWN_FOR: Duration = Duration::from_secs(60);
/// The same, while some of them did not tell.
const GUESSED_FOR: Duration = Duration::from_secs(10);

/// What the servers' versions said last.
#[derive(Default)]
pub(super) struct Support(Mutex<Option<Known>>);

#[derive(Clone, Copy)]
struct Known {
    yes: bool,
    until: Instant,
}

impl Support {
    /// Whether every server of this client reports progress that keeps behind the events. Unknown is no.
    pub(super) async fn of(&self, client: &Client) -> bool {
        let mut known = self.0.lock().await;
        if let Some(known) = known.filter(|known| Instant::now() < known.until) {
            return known.yes;
        }
        let servers = client.servers();
        let answers = join_all(servers.iter().map(|url| timeout(ANSWER, client.status_of(url)))).await;
        let versions: Vec<_> = answers.into_iter().filter_map(|answer| Some(answer.ok()?.ok()?.version)).collect();
        *known = judge(&versions, servers.len()).map(|(yes, period)| Known { yes, until: Instant::now() + period });
        known.is_some_and(|known| known.yes)
    }
}

/// What the versions of so many servers mean, and for how long; `None` when nobody answered.
fn judge(versions: &[String], servers: usize) -> Option<(bool, Duration)> {
    let period = if versions.len() == servers { KNOWN_FOR } else { GUESSED_FOR };
    (!versions.is_empty()).then(|| (versions.iter().all(|version| reports_progress(version)), period))
}

/// Versions whose progress reports keep behind the events: 3.4.31, 3.5.13 and later (etcd-io/etcd#15220).
fn reports_progress(version: &str) -> bool {
    let mut parts = version.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    let version = [parts.next(), parts.next(), parts.next()].map(|part| part.unwrap_or(0));
    match version {
        [3, 4, patch] => patch >= 31,
        [3, 5, patch] => patch >= 13,
        [major, minor, _] => (major, minor) >= (3, 6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_etcds_are_not_believed_about_progress() {
        for (version, believed) in
            [("3.5.1", false), ("3.5.13", true), ("3.4.31", true), ("3.3.9", false), ("3.6.4", true), ("4.0.0-rc.1", true)]
        {
            assert_eq!(reports_progress(version), believed, "{version}");
        }
    }

    #[test]
    fn one_old_member_is_enough_to_believe_none_and_what_is_not_known_is_asked_again_sooner() {
        let judge = |versions: &[&str]| judge(&versions.iter().map(ToString::to_string).collect::<Vec<_>>(), 3);
        assert_eq!(judge(&["3.6.4", "3.6.4", "3.6.4"]), Some((true, KNOWN_FOR)));
        assert_eq!(judge(&["3.6.4", "3.5.1", "3.6.4"]), Some((false, KNOWN_FOR)));
        assert_eq!(judge(&["3.6.4"]), Some((true, GUESSED_FOR)));
        assert_eq!(judge(&[]), None);
    }
}
