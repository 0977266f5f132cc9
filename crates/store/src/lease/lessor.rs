//! Counts the time of leases on the leader. Time comes in as an argument: any monotonic one.
//!
//! Only a leader counts. A new one gives every lease its full time again (or what the last checkpoint left), so
//! that a change of leaders, however long, never ends a lease early.

use crate::apply::{LeaseChange, lease::Lease};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Monotonic time since some beginning.
pub type Time = Duration;

#[derive(Clone, Copy, Debug)]
struct Entry {
    ttl: Duration,
    /// From the last checkpoint; what a new leader begins with.
    left: Duration,
    /// When it ends, on a leader; once it has ended, when to report it again.
    deadline: Option<Time>,
    /// It has ended and is being revoked: too late to renew it.
    ended: bool,
}

/// A lease's granted and remaining time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remaining {
    /// As granted.
    pub granted: Duration,
    /// Until it ends; zero when it should have already.
    pub left: Duration,
}

/// The leases and, on a leader, their deadlines.
#[derive(Debug, Default)]
pub struct Lessor {
    leases: BTreeMap<i64, Entry>,
    deadlines: BTreeSet<(Time, i64)>,
    /// The term this member leads in, if it does.
    term: Option<u64>,
}

impl Lessor {
    /// Starts from the leases on disk, not leading.
    pub fn new(leases: impl IntoIterator<Item = (i64, Lease)>) -> Self {
        let mut lessor = Lessor::default();
        for (id, lease) in leases {
            let ttl = seconds(lease.ttl);
            let left = if lease.remaining > 0 { seconds(lease.remaining) } else { ttl };
            lessor.leases.insert(id, Entry { ttl, left, deadline: None, ended: false });
        }
        lessor
    }

    /// Takes note of what was applied.
    pub fn changed(&mut self, change: LeaseChange, now: Time) {
        match change {
            LeaseChange::Granted { id, ttl } => {
                let ttl = seconds(ttl);
                self.leases.insert(id, Entry { ttl, left: ttl, deadline: None, ended: false });
                if self.leading() {
                    self.set_deadline(id, now + ttl);
                }
            }
            LeaseChange::Revoked { id } => {
                if let Some(Entry { deadline: Some(deadline), .. }) = self.leases.remove(&id) {
                    self.deadlines.remove(&(deadline, id));
                }
            }
            LeaseChange::Checkpointed { id, remaining } => {
                if let Some(entry) = self.leases.get_mut(&id) {
                    entry.left = if remaining > 0 { seconds(remaining) } else { entry.ttl };
                }
            }
        }
    }

    /// Begins to count in a term that this member leads: every lease has its time from now on, and `grace` (an election's length) on top.
    pub fn promote(&mut self, term: u64, now: Time, grace: Duration) {
        self.demote();
        self.term = Some(term);
        let ends: Vec<_> = self.leases.iter().map(|(id, entry)| (*id, now + entry.left + grace)).collect();
        ends.into_iter().for_each(|(id, deadline)| self.set_deadline(id, deadline));
    }

    /// Stops counting.
    pub fn demote(&mut self) {
        self.term = None;
        self.deadlines.clear();
        self.leases.values_mut().for_each(|entry| (entry.deadline, entry.ended) = (None, false));
    }

    /// It counts.
    pub fn leading(&self) -> bool {
        self.term.is_some()
    }

    /// The term it counts in.
    pub fn term(&self) -> Option<u64> {
        self.term
    }

    /// Starts a lease afresh; its granted time, or none when there is no such lease or it has ended. What a checkpoint
    /// left stays until [`LeaseChange::Checkpointed`] is applied: a proposal to that end may fail.
    pub fn renew(&mut self, id: i64, now: Time) -> Option<Duration> {
        let entry = self.leases.get_mut(&id)?;
        if entry.ended || entry.deadline.is_some_and(|deadline| deadline <= now) {
            return None;
        }
        let ttl = entry.ttl;
        self.set_deadline(id, now + ttl);
        Some(ttl)
    }

    /// A lease was checkpointed with less than its full time, so renewing it must be checkpointed too.
    pub fn checkpointed(&self, id: i64) -> bool {
        self.leases.get(&id).is_some_and(|entry| entry.left < entry.ttl)
    }

    /// The time of a lease.
    pub fn remaining(&self, id: i64, now: Time) -> Option<Remaining> {
        let entry = self.leases.get(&id)?;
        let left = match entry.deadline {
            _ if entry.ended => Duration::ZERO,
            Some(deadline) => deadline.saturating_sub(now),
            None => entry.left,
        };
        Some(Remaining { granted: entry.ttl, left })
    }

    /// Leases that have ended, the longest overdue first, at most `limit`.
    pub fn expired(&self, now: Time, limit: usize) -> Vec<i64> {
        self.deadlines.iter().take_while(|(deadline, _)| *deadline <= now).take(limit).map(|(_, id)| *id).collect()
    }

    /// When the next lease ends.
    pub fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Puts an expired lease off, to be reported again at `until`: its revocation is under way.
    pub fn defer(&mut self, id: i64, until: Time) {
        if let Some(entry) = self.leases.get_mut(&id) {
            entry.ended = true;
            self.set_deadline(id, until);
        }
    }

    /// What leases longer than `interval` have left, in whole seconds, for a checkpoint; at most `limit`.
    pub fn checkpoints(&self, now: Time, interval: Duration, limit: usize) -> Vec<(i64, i64)> {
        let long = self.leases.iter().filter(|(_, entry)| entry.ttl > interval);
        let left = long.filter_map(|(id, entry)| Some((*id, entry.deadline?.checked_sub(now)?.as_secs() as i64)));
        left.filter(|(id, left)| *left > 0 && seconds(*left) + interval <= self.leases[id].left).take(limit).collect()
    }

    /// Number of leases.
    pub fn len(&self) -> usize {
        self.leases.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    fn set_deadline(&mut self, id: i64, deadline: Time) {
        if let Some(entry) = self.leases.get_mut(&id) {
            if let Some(old) = entry.deadline.replace(deadline) {
                self.deadlines.remove(&(old, id));
            }
            self.deadlines.insert((deadline, id));
        }
    }
}

fn seconds(number: i64) -> Duration {
    Duration::from_secs(number.max(0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn leading(ttl: i64) -> Lessor {
        let mut lessor = Lessor::default();
        lessor.promote(1, Duration::ZERO, Duration::ZERO);
        lessor.changed(LeaseChange::Granted { id: 1, ttl }, Duration::ZERO);
        lessor
    }

    #[test]
    fn a_lease_ends_when_its_time_is_up_unless_renewed() {
        let mut lessor = leading(10);
        assert_eq!(lessor.renew(1, 9 * SECOND), Some(10 * SECOND));
        assert!(lessor.expired(18 * SECOND, 9).is_empty());
        assert_eq!(lessor.expired(19 * SECOND, 9), [1]);
        assert_eq!(lessor.renew(1, 19 * SECOND), None);
    }

    #[test]
    fn a_new_leader_gives_every_lease_its_full_time() {
        let mut lessor = Lessor::new([(1, Lease { ttl: 10, remaining: 0 }), (2, Lease { ttl: 10, remaining: 4 })]);
        assert!(lessor.expired(1000 * SECOND, 9).is_empty());
        lessor.promote(1, 100 * SECOND, SECOND);
        assert_eq!(lessor.expired(105 * SECOND, 9), [2]);
        assert_eq!(lessor.expired(111 * SECOND, 9), [2, 1]);
        lessor.demote();
        assert!(lessor.expired(1000 * SECOND, 9).is_empty());
    }

    #[test]
    fn a_revoked_lease_is_forgotten() {
        let mut lessor = leading(10);
        lessor.changed(LeaseChange::Revoked { id: 1 }, SECOND);
        assert_eq!(lessor.remaining(1, SECOND), None);
        assert!(lessor.expired(99 * SECOND, 9).is_empty());
    }

    #[test]
    fn a_deferred_lease_is_reported_again() {
        let mut lessor = leading(10);
        lessor.defer(1, 15 * SECOND);
        assert!(lessor.expired(12 * SECOND, 9).is_empty());
        assert_eq!(lessor.expired(15 * SECOND, 9), [1]);
        assert_eq!(lessor.renew(1, 12 * SECOND), None, "its revocation may be in the log already");
    }

    #[test]
    fn long_leases_are_checkpointed_once_per_interval() {
        let mut lessor = leading(1000);
        let interval = 300 * SECOND;
        assert!(lessor.checkpoints(10 * SECOND, interval, 9).is_empty());
        assert_eq!(lessor.checkpoints(310 * SECOND, interval, 9), [(1, 690)]);
        lessor.changed(LeaseChange::Checkpointed { id: 1, remaining: 690 }, 310 * SECOND);
        assert!(lessor.checkpoints(320 * SECOND, interval, 9).is_empty());
        assert!(lessor.checkpointed(1));
    }

    #[test]
    fn a_renewed_lease_stays_checkpointed_until_the_reset_is_applied() {
        let mut lessor = leading(1000);
        lessor.changed(LeaseChange::Checkpointed { id: 1, remaining: 600 }, 400 * SECOND);
        assert_eq!(lessor.renew(1, 400 * SECOND), Some(1000 * SECOND));
        assert!(lessor.checkpointed(1), "a new leader would begin with 600 s");
        assert!(lessor.checkpoints(410 * SECOND, 300 * SECOND, 9).is_empty());
        lessor.changed(LeaseChange::Checkpointed { id: 1, remaining: 0 }, 420 * SECOND);
        assert!(!lessor.checkpointed(1));
        assert_eq!(lessor.remaining(1, 420 * SECOND).unwrap().left, 980 * SECOND);
    }
}
