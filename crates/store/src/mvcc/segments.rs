//! How many live keys a range has, without walking it: the key space is cut into segments of a few hundred keys, and
//! [`Column::Segment`] holds of each its first key and how many live keys it has.
//!
//! Whoever changes keys has them in memory as well ([`Segments`]); whoever counts reads the column, so that what it
//! counts is of the same moment as what else it reads.

use super::{EventKind, KeyRange, Revisions, history, range};
use crate::disk::{Batch, Column, Database, Error, Read, Result};
use bytes::Bytes;
use std::{
    collections::BTreeMap,
    ops::{Bound, ControlFlow},
};

/// Keys a segment has at most. Half as many at least have two neighbours together.
const FULL: u32 = 512;
/// Rows of history a count of the past walks back at most; a past further away is walked itself.
const RECENT: usize = 100_000;

/// All segments, for those who change keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    /// By first key. The first segment begins with the empty key; without it nothing is counted.
    counts: BTreeMap<Bytes, u32>,
    full: u32,
    total: i64,
}

impl Segments {
    /// The segments of a database; they are made where an earlier version wrote none.
    pub fn open(database: &dyn Database) -> Result<Self> {
        Self::open_with(database, FULL)
    }

    fn open_with(database: &dyn Database, full: u32) -> Result<Self> {
        let mut segments = Segments { full, ..Default::default() };
        let mut cursor = database.scan(Column::Segment, b"", None)?;
        while let Some((first, row)) = cursor.row() {
            segments.set(Bytes::copy_from_slice(first), Some(decode(row)?));
            cursor.advance()?;
        }
        if segments.counts.is_empty() {
            segments.build(database)?;
        }
        Ok(segments)
    }

    fn build(&mut self, database: &dyn Database) -> Result<()> {
        let (mut first, mut count) = (Bytes::new(), 0);
        let mut cursor = database.scan(Column::Current, b"", None)?;
        while let Some((key, _)) = cursor.row() {
            if count >= self.full.div_ceil(2) {
                self.set(std::mem::replace(&mut first, Bytes::copy_from_slice(key)), Some(count));
                count = 0;
            }
            count += 1;
            cursor.advance()?;
        }
        self.set(first, Some(count));
        let mut batch = Batch::default();
        self.counts.iter().for_each(|(first, count)| batch.put(Column::Segment, first.clone(), encode(*count)));
        database.write(batch)
    }

    /// Keys in all of them.
    pub fn total(&self) -> i64 {
        self.total
    }

    /// Keys one has at most.
    pub fn full(&self) -> u32 {
        self.full
    }

    /// The one a key belongs to: its first key, and how many it has. None where nothing is counted.
    pub fn of(&self, key: &[u8]) -> Option<(Bytes, u32)> {
        self.last_in(Bound::Included(key))
    }

    /// The one before the one that begins with `first`.
    pub fn before(&self, first: &[u8]) -> Option<(Bytes, u32)> {
        self.last_in(Bound::Excluded(first))
    }

    fn last_in(&self, upto: Bound<&[u8]>) -> Option<(Bytes, u32)> {
        let last = self.counts.range::<[u8], _>((Bound::Unbounded, upto)).next_back();
        last.map(|(first, count)| (first.clone(), *count))
    }

    /// Sets how many one has, or removes it; what it had.
    pub fn set(&mut self, first: Bytes, count: Option<u32>) -> Option<u32> {
        let old = match count {
            Some(count) => self.counts.insert(first, count),
            None => self.counts.remove(&first),
        };
        self.total += i64::from(count.unwrap_or_default()) - i64::from(old.unwrap_or_default());
        old
    }
}

/// The row of a segment with so many keys.
pub fn encode(count: u32) -> Bytes {
    Bytes::copy_from_slice(&count.to_be_bytes())
}

fn decode(row: &[u8]) -> Result<u32> {
    let corrupt = |_| Error::Corrupt { column: Column::Segment, what: "a count is 4 bytes" };
    row.try_into().map(u32::from_be_bytes).map_err(corrupt)
}

/// Keys of a range that live now or, where a revision is given, lived then.
pub fn count(read: &dyn Read, revisions: Revisions, keys: &KeyRange, past: Option<i64>) -> Result<i64> {
    match past {
        None => present(read, keys),
        Some(at) => match since(read, keys, at, revisions.current)? {
            Some(more) => Ok(present(read, keys)? - more),
            None => walk(read, keys, Some(at)),
        },
    }
}

/// Whole segments are summed up; of those at the two ends the keys are counted.
fn present(read: &dyn Read, keys: &KeyRange) -> Result<i64> {
    if keys.single || keys.is_empty() {
        return walk(read, keys, None);
    }
    let mut cursor = read.scan(Column::Segment, &keys.start, keys.end.as_deref())?;
    let Some((first, row)) = cursor.row() else { return walk(read, keys, None) };
    let mut last = (Bytes::copy_from_slice(first), decode(row)?);
    let mut total = walk(read, &KeyRange { end: Some(last.0.clone()), ..keys.clone() }, None)?;
    cursor.advance()?;
    while let Some((first, row)) = cursor.row() {
        total += i64::from(last.1);
        last = (Bytes::copy_from_slice(first), decode(row)?);
        cursor.advance()?;
    }
    match &keys.end {
        None => Ok(total + i64::from(last.1)),
        Some(_) => Ok(total + walk(read, &KeyRange { start: last.0, ..keys.clone() }, None)?),
    }
}

fn walk(read: &dyn Read, keys: &KeyRange, past: Option<i64>) -> Result<i64> {
    let mut count = 0;
    range::visit(read, keys, past, &mut |_, _, _| {
        count += 1;
        ControlFlow::Continue(())
    })?;
    Ok(count)
}

/// How many more keys of a range live at `to` than did at `from`; none when too much has happened to look through.
fn since(read: &dyn Read, keys: &KeyRange, from: i64, to: i64) -> Result<Option<i64>> {
    let mut cursor = history::walk(read, from + 1, to)?;
    let (mut more, mut rows) = (0, 0);
    while let Some((_, row)) = cursor.row() {
        let (kind, ended, key) = history::Change::decode(row)?;
        if keys.contains(key) {
            match kind {
                EventKind::Put if ended == 0 => more += 1,
                EventKind::Put => {}
                EventKind::Delete => more -= 1,
            }
        }
        rows += 1;
        if rows > RECENT {
            return Ok(None);
        }
        cursor.advance()?;
    }
    Ok(Some(more))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        apply::{View, apply},
        command::{Command, DeleteRange, Put},
        disk::memory::Memory,
    };

    /// Applies commands one by one on segments of at most `full` keys.
    struct Store {
        disk: Memory,
        segments: Segments,
    }

    impl Store {
        fn new(full: u32) -> Self {
            let disk = Memory::new();
            let segments = Segments::open_with(&disk, full).unwrap();
            Store { disk, segments }
        }

        fn apply(&mut self, command: Command) {
            let mut view = View::counting(&self.disk, std::mem::take(&mut self.segments)).unwrap();
            apply(&mut view, &command).unwrap();
            let (batch, segments) = view.into_parts();
            self.disk.write(batch).unwrap();
            self.segments = segments;
        }

        fn put(&mut self, number: u32) {
            self.apply(Command::Put(Put { key: key(number), ..Default::default() }));
        }

        fn delete(&mut self, from: u32, to: u32) {
            self.apply(Command::DeleteRange(DeleteRange { key: key(from), range_end: key(to), prev_kv: false }));
        }

        fn check(&self) {
            let revisions = Revisions::read(&self.disk).unwrap();
            let ends = [Bytes::from_static(&[0]), key(3), key(40), key(41), key(99), key(500)];
            for start in [key(0), key(3), key(17), key(40), key(60)] {
                for end in &ends {
                    let keys = KeyRange::new(&start, end);
                    for past in (1..revisions.current).step_by(7).map(Some).chain([None]) {
                        let counted = count(&self.disk, revisions, &keys, past).unwrap();
                        assert_eq!(counted, walk(&self.disk, &keys, past).unwrap(), "{keys:?} at {past:?}");
                    }
                }
            }
            let all = KeyRange::new(&Bytes::from_static(b"\0"), &Bytes::from_static(b"\0"));
            assert_eq!(self.segments.total(), walk(&self.disk, &all, None).unwrap());
            assert_eq!(Segments::open_with(&self.disk, self.segments.full).unwrap(), self.segments, "on disk as in memory");
        }
    }

    fn key(number: u32) -> Bytes {
        format!("{number:04}").into()
    }

    #[test]
    fn a_range_is_counted_right_while_keys_come_and_go() {
        let mut store = Store::new(4);
        store.check();
        (0..100).for_each(|number| store.put(number * 37 % 101));
        store.check();
        (0..100).step_by(3).for_each(|number| store.put(number));
        store.delete(20, 55);
        store.check();
        store.delete(0, 40);
        (30..70).for_each(|number| store.put(number));
        store.check();
        store.delete(0, 1000);
        store.check();
    }

    #[test]
    fn segments_are_cut_when_full_and_joined_when_few_are_left() {
        let mut store = Store::new(8);
        (0..200).for_each(|number| store.put(number));
        assert!(store.segments.counts.values().all(|count| *count <= 8));
        assert!(store.segments.counts.len() <= 52, "{} segments", store.segments.counts.len());
        store.delete(3, 200);
        assert!(store.segments.counts.len() <= 2, "{:?}", store.segments.counts);
    }

    #[test]
    fn a_database_without_segments_gets_them() {
        let disk = Memory::new();
        let mut view = View::new(&disk).unwrap();
        for number in 0..50 {
            apply(&mut view, &Command::Put(Put { key: key(number), ..Default::default() })).unwrap();
        }
        disk.write(view.into_batch()).unwrap();
        assert!(disk.scan(Column::Segment, b"", None).unwrap().row().is_none());
        let segments = Segments::open_with(&disk, 8).unwrap();
        assert_eq!((segments.total(), segments.counts.len()), (50, 13));
        Store { disk, segments }.check();
    }

    #[test]
    fn a_refused_transaction_counts_for_nothing() {
        use crate::command::{Op, Request, Txn};
        let mut store = Store::new(2);
        let put = |number, lease| Op { request: Some(Request::Put(Put { key: key(number), lease, ..Default::default() })) };
        let success = vec![put(1, 0), put(2, 0), put(3, 0), put(4, 99)];
        store.apply(Command::Txn(Txn { success, ..Default::default() }));
        assert_eq!(store.segments.total(), 0);
        store.check();
    }
}
