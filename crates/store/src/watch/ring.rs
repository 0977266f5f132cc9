//! The latest changes, shared by all watchers, bounded in bytes.

use crate::mvcc::Event;
use std::{collections::VecDeque, sync::Arc};

/// The newest revision may be so many times larger than the limit. Each watcher it is of interest to would have all of it
/// in memory for itself, were it left to history.
const OVERSIZE: usize = 4;

/// All changes of one revision.
#[derive(Debug, PartialEq)]
pub struct Revision {
    /// Its number.
    pub revision: i64,
    /// Its changes, in order; at least one.
    pub events: Vec<Event>,
}

/// The latest revisions without a gap.
#[derive(Debug)]
pub struct Ring {
    revisions: VecDeque<Arc<Revision>>,
    sizes: VecDeque<usize>,
    bytes: usize,
    limit: usize,
    /// Every change after this revision is here.
    complete_after: i64,
}

impl Ring {
    /// Empty, for a state at `revision`.
    pub fn new(revision: i64, limit: usize) -> Self {
        Ring { revisions: VecDeque::new(), sizes: VecDeque::new(), bytes: 0, limit, complete_after: revision }
    }

    /// Adds the next revision and forgets the oldest ones beyond the limit; even itself, if it is very large.
    pub fn push(&mut self, revision: Arc<Revision>) {
        let size = revision.events.iter().map(Event::size).sum::<usize>();
        self.revisions.push_back(revision);
        self.sizes.push_back(size);
        self.bytes += size;
        while self.bytes > self.limit && (self.revisions.len() > 1 || self.bytes > self.limit.saturating_mul(OVERSIZE)) {
            let (dropped, size) = (self.revisions.pop_front(), self.sizes.pop_front());
            let (Some(dropped), Some(size)) = (dropped, size) else { break };
            self.bytes -= size;
            self.complete_after = dropped.revision;
        }
    }

    /// Every change after this revision is here; what came before may be forgotten.
    pub fn complete_after(&self) -> i64 {
        self.complete_after
    }

    /// Revisions from `from` on, at most `limit`; none when some of them may be forgotten already.
    pub fn read(&self, from: i64, limit: usize) -> Option<Vec<Arc<Revision>>> {
        if from <= self.complete_after {
            return None;
        }
        let at = self.revisions.partition_point(|revision| revision.revision < from);
        Some(self.revisions.range(at..).take(limit).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mvcc::{EventKind, KeyValue};

    fn revision(number: i64, size: usize) -> Arc<Revision> {
        let kv = KeyValue { key: "k".into(), value: vec![0; size].into(), ..Default::default() };
        Arc::new(Revision { revision: number, events: vec![Event::new(EventKind::Put, kv, None)] })
    }

    fn numbers(read: Option<Vec<Arc<Revision>>>) -> Option<Vec<i64>> {
        read.map(|revisions| revisions.iter().map(|revision| revision.revision).collect())
    }

    #[test]
    fn reads_what_it_has_and_says_so_when_it_may_not_have_all() {
        let mut ring = Ring::new(1, 2500);
        (2..=4).for_each(|number| ring.push(revision(number, 1000)));
        assert_eq!(numbers(ring.read(2, 9)), None);
        assert_eq!(numbers(ring.read(3, 9)), Some(vec![3, 4]));
        assert_eq!(numbers(ring.read(3, 1)), Some(vec![3]));
        assert_eq!(numbers(ring.read(5, 9)), Some(vec![]));
    }

    #[test]
    fn a_large_revision_is_kept_until_the_next_one() {
        let mut ring = Ring::new(1, 500);
        ring.push(revision(2, 1000));
        assert_eq!(numbers(ring.read(2, 9)), Some(vec![2]));
        ring.push(revision(3, 10));
        assert_eq!(numbers(ring.read(2, 9)), None);
        assert_eq!(numbers(ring.read(3, 9)), Some(vec![3]));
    }

    #[test]
    fn a_very_large_revision_is_left_to_history() {
        let mut ring = Ring::new(1, 10);
        ring.push(revision(2, 1000));
        assert_eq!(numbers(ring.read(2, 9)), None);
        assert_eq!(ring.complete_after(), 2);
        assert_eq!(numbers(ring.read(3, 9)), Some(vec![]));
    }
}
