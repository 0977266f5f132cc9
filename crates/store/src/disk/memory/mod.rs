//! A simulated disk: writes are visible at once and survive a crash only as far as they were synced.
//!
//! After a [`Memory::crash`] the synced state is there, plus as many of the later batches as the caller decides
//! the disk got around to, each whole or not at all: RocksDB's log of writes loses a torn record at its end, and its
//! tables reach the disk together. How long work takes is decided by an [`Offload`].

mod columns;
mod home;

pub use home::MemoryHome;

use super::{Batch, Column, Cursor, Database, Offload, Read, Result};
use bytes::Bytes;
use columns::Columns;
use parking_lot::RwLock;

#[derive(Default)]
struct State {
    live: Columns,
    synced: Columns,
    unsynced: Vec<Batch>,
}

/// A database in memory.
#[derive(Default)]
pub struct Memory {
    state: RwLock<State>,
    offload: Offload,
}

impl Memory {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty disk that does its work so.
    pub fn with_offload(offload: Offload) -> Self {
        Self { offload, ..Self::default() }
    }

    /// A disk on which this is durable.
    fn holding(columns: Columns, offload: Offload) -> Self {
        let state = State { live: columns.clone(), synced: columns, unsynced: Vec::new() };
        Self { state: RwLock::new(state), offload }
    }

    /// Batches a crash may take away.
    pub fn unsynced(&self) -> usize {
        self.state.read().unsynced.len()
    }

    /// Loses power: what was synced stays, and of what came after only the first `kept` batches.
    pub fn crash(&self, kept: usize) {
        let mut state = self.state.write();
        let survived = std::mem::take(&mut state.unsynced);
        let mut columns = state.synced.clone();
        survived.iter().take(kept).for_each(|batch| columns.apply(batch));
        state.live = columns.clone();
        state.synced = columns;
    }

    fn synced(&self) -> Columns {
        self.state.read().synced.clone()
    }
}

impl Read for Memory {
    fn get(&self, column: Column, key: &[u8]) -> Result<Option<Bytes>> {
        self.state.read().live.get(column, key)
    }

    fn scan<'a>(&'a self, column: Column, start: &[u8], end: Option<&[u8]>) -> Result<Box<dyn Cursor + 'a>> {
        Ok(Box::new(self.state.read().live.walk(column, start, end)))
    }
}

impl Database for Memory {
    fn snapshot<'a>(&'a self) -> Box<dyn Read + 'a> {
        Box::new(self.state.read().live.clone())
    }

    fn write(&self, batch: Batch) -> Result<()> {
        let mut state = self.state.write();
        state.live.apply(&batch);
        state.unsynced.push(batch);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        let state = &mut *self.state.write();
        state.unsynced.drain(..).for_each(|batch| state.synced.apply(&batch));
        Ok(())
    }

    fn size(&self) -> Result<u64> {
        let state = self.state.read();
        let rows = state.live.iter().flat_map(|(_, rows)| rows);
        Ok(rows.map(|(key, value)| (key.len() + value.len()) as u64).sum())
    }

    fn size_in_use(&self) -> Result<u64> {
        self.size()
    }

    fn rewrite(&self) -> Result<()> {
        Ok(())
    }

    fn offload(&self) -> Offload {
        self.offload.clone()
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
