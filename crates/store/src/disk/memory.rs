//! A simulated disk: writes are visible at once and survive a crash only as far as they were synced.
//!
//! After a [`Memory::crash`] the synced state is there, plus as many of the later batches as the caller decides
//! the disk got around to, each whole or not at all.

use super::{Batch, Column, Cursor, Database, Read, Result, Write};
use bytes::Bytes;
use parking_lot::RwLock;
use std::{collections::BTreeMap, ops::Bound, sync::Arc};

type Rows = BTreeMap<Bytes, Bytes>;

/// A state of all columns; columns are copied only when a snapshot still holds them.
#[derive(Clone, Default)]
struct Columns(BTreeMap<Column, Arc<Rows>>);

impl Columns {
    fn apply(&mut self, batch: &Batch) {
        for write in &batch.writes {
            match write {
                Write::Put(column, key, value) => {
                    self.rows_mut(*column).insert(key.clone(), value.clone());
                }
                Write::Delete(column, key) => {
                    self.rows_mut(*column).remove(key);
                }
                Write::DeleteRange(column, start, end) => {
                    self.rows_mut(*column).retain(|key, _| key < start || key >= end);
                }
            }
        }
    }

    fn rows_mut(&mut self, column: Column) -> &mut Rows {
        Arc::make_mut(self.0.entry(column).or_default())
    }

    fn rows(&self, column: Column) -> Arc<Rows> {
        self.0.get(&column).cloned().unwrap_or_default()
    }
}

#[derive(Default)]
struct State {
    live: Columns,
    synced: Columns,
    unsynced: Vec<Batch>,
}

/// A database in memory.
#[derive(Default)]
pub struct Memory(RwLock<State>);

impl Memory {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// Batches a crash may take away.
    pub fn unsynced(&self) -> usize {
        self.0.read().unsynced.len()
    }

    /// Loses power: what was synced stays, and of what came after only the first `kept` batches.
    pub fn crash(&self, kept: usize) {
        let mut state = self.0.write();
        let survived = std::mem::take(&mut state.unsynced);
        let mut columns = state.synced.clone();
        survived.iter().take(kept).for_each(|batch| columns.apply(batch));
        state.live = columns.clone();
        state.synced = columns;
    }
}

impl Read for Memory {
    fn get(&self, column: Column, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(self.0.read().live.0.get(&column).and_then(|rows| rows.get(key).cloned()))
    }

    fn scan<'a>(&'a self, column: Column, start: &[u8], end: Option<&[u8]>) -> Result<Box<dyn Cursor + 'a>> {
        Ok(Box::new(Walk::new(self.0.read().live.rows(column), start, end)))
    }
}

impl Database for Memory {
    fn snapshot<'a>(&'a self) -> Box<dyn Read + 'a> {
        Box::new(self.0.read().live.clone())
    }

    fn write(&self, batch: Batch) -> Result<()> {
        let mut state = self.0.write();
        state.live.apply(&batch);
        state.unsynced.push(batch);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        let mut state = self.0.write();
        state.synced = state.live.clone();
        state.unsynced.clear();
        Ok(())
    }

    fn size(&self) -> Result<u64> {
        let state = self.0.read();
        let rows = state.live.0.values().flat_map(|rows| rows.iter());
        Ok(rows.map(|(key, value)| (key.len() + value.len()) as u64).sum())
    }

    fn size_in_use(&self) -> Result<u64> {
        self.size()
    }

    fn rewrite(&self) -> Result<()> {
        Ok(())
    }
}

impl Read for Columns {
    fn get(&self, column: Column, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(self.0.get(&column).and_then(|rows| rows.get(key).cloned()))
    }

    fn scan<'a>(&'a self, column: Column, start: &[u8], end: Option<&[u8]>) -> Result<Box<dyn Cursor + 'a>> {
        Ok(Box::new(Walk::new(self.rows(column), start, end)))
    }
}

struct Walk {
    rows: Arc<Rows>,
    end: Option<Bytes>,
    row: Option<(Bytes, Bytes)>,
}

impl Walk {
    fn new(rows: Arc<Rows>, start: &[u8], end: Option<&[u8]>) -> Self {
        let mut walk = Walk { rows, end: end.map(Bytes::copy_from_slice), row: None };
        walk.enter(Bound::Included(start));
        walk
    }

    fn enter(&mut self, from: Bound<&[u8]>) {
        let next = self.rows.range::<[u8], _>((from, Bound::Unbounded)).next();
        self.row = next.filter(|(key, _)| self.end.as_ref().is_none_or(|end| *key < end)).map(|(key, value)| (key.clone(), value.clone()));
    }
}

impl Cursor for Walk {
    fn row(&self) -> Option<(&[u8], &[u8])> {
        self.row.as_ref().map(|(key, value)| (&key[..], &value[..]))
    }

    fn advance(&mut self) -> Result<()> {
        if let Some((key, _)) = self.row.take() {
            self.enter(Bound::Excluded(&key[..]));
        }
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        if self.row.as_ref().is_some_and(|(at, _)| at < key) {
            self.enter(Bound::Included(key));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(memory: &Memory, key: &'static str) {
        let mut batch = Batch::default();
        batch.put(Column::Meta, key, "v");
        memory.write(batch).unwrap();
    }

    fn keys(read: &dyn Read, start: &str, end: Option<&str>) -> Vec<String> {
        let mut cursor = read.scan(Column::Meta, start.as_bytes(), end.map(str::as_bytes)).unwrap();
        let mut keys = Vec::new();
        while let Some((key, _)) = cursor.row() {
            keys.push(String::from_utf8(key.to_vec()).unwrap());
            cursor.advance().unwrap();
        }
        keys
    }

    #[test]
    fn a_crash_keeps_what_was_synced_and_a_prefix_of_the_rest() {
        let memory = Memory::new();
        put(&memory, "a");
        memory.sync().unwrap();
        ["b", "c", "d"].into_iter().for_each(|key| put(&memory, key));
        assert_eq!(memory.unsynced(), 3);
        memory.crash(1);
        assert_eq!(keys(&memory, "", None), ["a", "b"]);
    }

    #[test]
    fn snapshots_and_cursors_do_not_see_later_writes() {
        let memory = Memory::new();
        put(&memory, "a");
        let snapshot = memory.snapshot();
        let cursor = memory.scan(Column::Meta, b"b", None).unwrap();
        put(&memory, "b");
        assert_eq!(keys(&*snapshot, "", None), ["a"]);
        assert!(cursor.row().is_none());
    }

    #[test]
    fn scans_stay_in_bounds() {
        let memory = Memory::new();
        ["a", "b", "c", "d"].into_iter().for_each(|key| put(&memory, key));
        assert_eq!(keys(&memory, "b", Some("d")), ["b", "c"]);
        let mut cursor = memory.scan(Column::Meta, b"a", Some(b"d")).unwrap();
        cursor.seek(b"c").unwrap();
        assert_eq!(cursor.row().map(|(key, _)| key), Some(&b"c"[..]));
        cursor.seek(b"d").unwrap();
        assert!(cursor.row().is_none());
    }
}
