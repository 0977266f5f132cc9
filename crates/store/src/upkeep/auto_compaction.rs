//! Automatic compaction: when it is time to give up history, and how much of it. Only the leader does it.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::{
    command::{Command, Compact},
    config::duration,
    node::Node,
    refusal::Refusal,
};

const HOUR: Duration = Duration::from_secs(3600);
/// A period is looked at so many times.
const LOOKS: u32 = 10;
/// Between two looks where revisions are counted.
const REVISION_INTERVAL: Duration = Duration::from_secs(300);

/// How much history to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// So long.
    Periodic(Duration),
    /// So many revisions.
    Revision(i64),
}

/// A retention that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--auto-compaction-retention: error parsing CompactionRetention: {0}")]
pub struct Unreadable(String);

impl Policy {
    /// Reads etcd's two flags; a bare number is hours, or revisions. None when it is switched off, by `0`.
    ///
    /// # Errors
    /// The retention is neither a number nor, in mode `periodic`, a duration.
    pub fn parse(mode: &str, retention: &str) -> Result<Option<Self>, Unreadable> {
        let number = retention.parse::<u32>().ok();
        let policy = match (mode, number) {
            (_, Some(0)) => return Ok(None),
            ("revision", Some(revisions)) => Policy::Revision(revisions.into()),
            ("revision", None) => return Err(Unreadable(format!("{retention:?} is no number of revisions"))),
            (_, Some(hours)) => Policy::Periodic(hours * HOUR),
            (_, None) => Policy::Periodic(duration(retention).map_err(Unreadable)?),
        };
        Ok((policy != Policy::Periodic(Duration::ZERO)).then_some(policy))
    }
}

/// etcd's schedule. Time comes in as an argument: any monotonic one.
#[derive(Clone, Debug)]
pub struct Schedule {
    policy: Policy,
    /// Revisions at the latest looks of one period, the oldest first.
    looks: VecDeque<i64>,
    compacted: i64,
    succeeded: Duration,
    /// From a success to the next attempt: the period first, so that it has passed once.
    pause: Duration,
}

impl Schedule {
    /// Begins at a time.
    pub fn new(policy: Policy, now: Duration) -> Self {
        let pause = match policy {
            Policy::Periodic(period) => period,
            Policy::Revision(_) => Duration::ZERO,
        };
        Schedule { policy, looks: VecDeque::new(), compacted: 0, succeeded: now, pause }
    }

    /// From one look to the next.
    pub fn interval(&self) -> Duration {
        match self.policy {
            Policy::Periodic(period) => (period.min(HOUR) / LOOKS).max(Duration::from_millis(1)),
            Policy::Revision(_) => REVISION_INTERVAL,
        }
    }

    /// Notes the newest revision, once per interval, whoever leads.
    pub fn look(&mut self, revision: i64) {
        let kept = match self.policy {
            Policy::Periodic(period) => (period.as_nanos() / self.interval().as_nanos()) as usize + 1,
            Policy::Revision(_) => 1,
        };
        self.looks.push_back(revision);
        while self.looks.len() > kept {
            self.looks.pop_front();
        }
    }

    /// The revision to compact at an interval after the latest look, if it is time.
    pub fn due(&mut self, now: Duration, newest: i64) -> Option<i64> {
        match self.policy {
            Policy::Periodic(period) => {
                let revision = *self.looks.front()?;
                if now.saturating_sub(self.succeeded) < self.pause || revision == self.compacted {
                    return None;
                }
                self.pause = period.min(HOUR);
                Some(revision)
            }
            Policy::Revision(kept) => Some(newest - kept).filter(|revision| *revision > 0 && *revision != self.compacted),
        }
    }

    /// A revision is compacted.
    pub fn done(&mut self, revision: i64, now: Duration) {
        (self.compacted, self.succeeded) = (revision, now);
    }
}

/// Runs until shutdown; compacts while this member `leads`.
pub(crate) async fn run(node: Arc<dyn Node>, policy: Policy, leads: impl Fn() -> bool, stop: CancellationToken) {
    let start = tokio::time::Instant::now();
    let mut schedule = Schedule::new(policy, Duration::ZERO);
    loop {
        schedule.look(node.state().revision());
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(schedule.interval()) => {}
        }
        let due = Some(()).filter(|()| leads()).and_then(|()| schedule.due(start.elapsed(), node.state().revision()));
        let Some(revision) = due else { continue };
        tracing::info!(revision, ?policy, "starting auto compaction");
        match compact(&*node, revision).await {
            Ok(()) => {
                tracing::info!(revision, ?policy, "completed auto compaction");
                schedule.done(revision, start.elapsed());
            }
            Err(refusal) => tracing::warn!(revision, ?policy, %refusal, "failed auto compaction; will try again"),
        }
    }
}

/// One that was compacted already, by hand, is as good.
async fn compact(node: &dyn Node, revision: i64) -> Result<(), Refusal> {
    match node.propose(Command::Compact(Compact { revision })).await?.result {
        Ok(_) | Err(Refusal::Compacted) => Ok(()),
        Err(refusal) => Err(refusal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    /// What is compacted when, if there is one revision a minute and each compaction succeeds; minute and revision.
    fn compacted(policy: Policy, minutes: u32) -> Vec<(u32, i64)> {
        let mut schedule = Schedule::new(policy, Duration::ZERO);
        let mut done = Vec::new();
        let mut now = Duration::ZERO;
        while now < minutes * MINUTE {
            let revision = |now: Duration| 1 + (now.as_secs() / 60) as i64;
            schedule.look(revision(now));
            now += schedule.interval();
            if let Some(due) = schedule.due(now, revision(now)) {
                schedule.done(due, now);
                done.push(((now.as_secs() / 60) as u32, due));
            }
        }
        done
    }

    #[test]
    fn a_period_below_an_hour_is_compacted_once_a_period() {
        assert_eq!(compacted(Policy::Periodic(10 * MINUTE), 40), [(10, 1), (20, 10), (30, 20), (40, 30)]);
    }

    #[test]
    fn a_longer_period_is_compacted_every_hour_once_it_has_passed() {
        let expected = [(180, 1), (240, 55), (300, 115)];
        assert_eq!(compacted(Policy::Periodic(3 * HOUR), 300), expected);
    }

    #[test]
    fn revisions_are_counted_every_five_minutes() {
        assert_eq!(compacted(Policy::Revision(8), 20), [(10, 3), (15, 8), (20, 13)]);
    }

    #[test]
    fn what_failed_is_tried_again_at_the_next_look_and_nothing_new_is_nothing_to_do() {
        let mut schedule = Schedule::new(Policy::Periodic(10 * MINUTE), Duration::ZERO);
        (0..10).for_each(|_| schedule.look(5));
        assert_eq!(schedule.due(10 * MINUTE, 5), Some(5));
        assert_eq!(schedule.due(11 * MINUTE, 5), Some(5));
        schedule.done(5, 11 * MINUTE);
        assert_eq!(schedule.due(30 * MINUTE, 5), None);
    }

    #[test]
    fn retentions_are_read_as_etcd_reads_them() {
        let read = |mode, retention| Policy::parse(mode, retention).unwrap();
        assert_eq!(read("periodic", "0"), None);
        assert_eq!(read("revision", "0"), None);
        assert_eq!(read("periodic", "0s"), None);
        assert_eq!(read("periodic", "5"), Some(Policy::Periodic(5 * HOUR)));
        assert_eq!(read("periodic", "1h30m"), Some(Policy::Periodic(90 * MINUTE)));
        assert_eq!(read("revision", "1000"), Some(Policy::Revision(1000)));
        for (mode, retention) in [("periodic", "-1"), ("periodic", "soon"), ("revision", "5m"), ("revision", "")] {
            let error = Policy::parse(mode, retention).unwrap_err().to_string();
            assert!(error.starts_with("--auto-compaction-retention: "), "{error}");
        }
    }
}
