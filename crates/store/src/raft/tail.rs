//! The latest entries of the log in memory, as they were appended: applying them and sending them to followers read
//! nothing from disk while nobody is far behind.

use std::collections::VecDeque;

use openraft::entry::RaftEntry;

use super::types::Entry;

/// Entries without a gap, up to the log's last one, bounded in bytes.
pub(super) struct Tail {
    entries: VecDeque<(Entry, usize)>,
    bytes: usize,
    limit: usize,
}

impl Tail {
    /// Empty; of entries of about `limit` bytes at most, but always of the last one.
    pub(super) fn new(limit: usize) -> Self {
        Self { entries: VecDeque::new(), bytes: 0, limit }
    }

    /// Adds the log's new last entry, of so many encoded bytes.
    pub(super) fn push(&mut self, entry: Entry, size: usize) {
        if self.entries.back().is_some_and(|(last, _)| last.index() + 1 != entry.index()) {
            self.entries.clear();
            self.bytes = 0;
        }
        self.entries.push_back((entry, size));
        self.bytes += size;
        while self.bytes > self.limit && self.entries.len() > 1 {
            self.pop_front();
        }
    }

    /// Forgets the entries from an index on.
    pub(super) fn truncate(&mut self, from: u64) {
        while self.entries.back().is_some_and(|(last, _)| last.index() >= from) {
            self.bytes -= self.entries.pop_back().map_or(0, |(_, size)| size);
        }
    }

    /// Forgets the entries up to an index.
    pub(super) fn purge(&mut self, upto: u64) {
        while self.entries.front().is_some_and(|(first, _)| first.index() <= upto) {
            self.pop_front();
        }
    }

    /// The entries from `start` on and before `end`, of `limit` bytes at most, but at least one where there is one; none
    /// when the first of them is not here.
    pub(super) fn read(&self, start: u64, end: Option<u64>, limit: usize) -> Option<Vec<Entry>> {
        let (first, _) = self.entries.front()?;
        let skipped = usize::try_from(start.checked_sub(first.index())?).ok()?;
        let (mut found, mut bytes) = (Vec::new(), 0);
        for (entry, size) in self.entries.range(skipped.min(self.entries.len())..) {
            bytes += size;
            if end.is_some_and(|end| entry.index() >= end) || (bytes > limit && !found.is_empty()) {
                break;
            }
            found.push(entry.clone());
        }
        Some(found)
    }

    fn pop_front(&mut self) {
        self.bytes -= self.entries.pop_front().map_or(0, |(_, size)| size);
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::types::{LeaderId, LogId},
        *,
    };

    fn tail(limit: usize, indexes: std::ops::Range<u64>) -> Tail {
        let mut tail = Tail::new(limit);
        indexes.for_each(|index| tail.push(entry(index), 10));
        tail
    }

    fn entry(index: u64) -> Entry {
        Entry::new_blank(LogId { leader_id: LeaderId { term: 1, node_id: 1 }, index })
    }

    fn read(tail: &Tail, start: u64, end: Option<u64>, limit: usize) -> Option<Vec<u64>> {
        tail.read(start, end, limit).map(|entries| entries.iter().map(|entry| entry.index()).collect())
    }

    #[test]
    fn what_is_older_than_its_bytes_is_not_here() {
        let tail = tail(30, 0..10);
        assert_eq!(read(&tail, 6, None, 99), None);
        assert_eq!(read(&tail, 7, None, 99), Some(vec![7, 8, 9]));
        assert_eq!(read(&tail, 8, Some(9), 99), Some(vec![8]));
        assert_eq!(read(&tail, 10, None, 99), Some(vec![]));
        assert_eq!(read(&Tail::new(30), 0, None, 99), None);
    }

    #[test]
    fn a_read_stops_at_its_size_but_is_not_empty() {
        let tail = tail(99, 0..5);
        assert_eq!(read(&tail, 1, None, 25), Some(vec![1, 2]));
        assert_eq!(read(&tail, 1, None, 1), Some(vec![1]));
    }

    #[test]
    fn truncated_and_purged_entries_are_gone_and_make_room() {
        let mut tail = tail(50, 0..5);
        tail.truncate(3);
        tail.purge(0);
        assert_eq!(read(&tail, 1, None, 99), Some(vec![1, 2]));
        (3..6).for_each(|index| tail.push(entry(index), 10));
        assert_eq!(read(&tail, 1, None, 99), Some(vec![1, 2, 3, 4, 5]));
    }

    #[test]
    fn a_gap_begins_anew() {
        let mut tail = tail(99, 0..3);
        tail.push(entry(7), 10);
        assert_eq!(read(&tail, 2, None, 99), None);
        assert_eq!(read(&tail, 7, None, 99), Some(vec![7]));
    }

    #[test]
    fn the_last_entry_stays_however_large() {
        let mut tail = tail(30, 0..3);
        tail.push(entry(3), 1000);
        assert_eq!(read(&tail, 3, None, 99), Some(vec![3]));
    }
}
