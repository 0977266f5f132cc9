//! What has to be read before a member can begin.

use std::sync::atomic::AtomicUsize;

use bytes::Bytes;

use super::*;
use crate::{
    command::Put,
    disk::{Column, Cursor, memory::Memory},
};

/// A disk that counts what is read from it.
struct Counting {
    disk: Arc<Memory>,
    rows: AtomicUsize,
}

impl Read for Counting {
    fn get(&self, column: Column, key: &[u8]) -> disk::Result<Option<Bytes>> {
        self.rows.fetch_add(1, Relaxed);
        self.disk.get(column, key)
    }

    fn scan<'a>(&'a self, column: Column, start: &[u8], end: Option<&[u8]>) -> disk::Result<Box<dyn Cursor + 'a>> {
        self.rows.fetch_add(1, Relaxed);
        Ok(Box::new(Walk { cursor: self.disk.scan(column, start, end)?, rows: &self.rows }))
    }
}

struct Walk<'a> {
    cursor: Box<dyn Cursor + 'a>,
    rows: &'a AtomicUsize,
}

impl Cursor for Walk<'_> {
    fn row(&self) -> Option<(&[u8], &[u8])> {
        self.cursor.row()
    }

    fn advance(&mut self) -> disk::Result<()> {
        self.rows.fetch_add(1, Relaxed);
        self.cursor.advance()
    }

    fn seek(&mut self, key: &[u8]) -> disk::Result<()> {
        self.rows.fetch_add(1, Relaxed);
        self.cursor.seek(key)
    }
}

impl Database for Counting {
    fn snapshot<'a>(&'a self) -> Box<dyn Read + 'a> {
        self.disk.snapshot()
    }

    fn write(&self, batch: Batch) -> disk::Result<()> {
        self.disk.write(batch)
    }

    fn sync(&self) -> disk::Result<()> {
        self.disk.sync()
    }

    fn size(&self) -> disk::Result<u64> {
        self.disk.size()
    }

    fn size_in_use(&self) -> disk::Result<u64> {
        self.disk.size_in_use()
    }

    fn rewrite(&self) -> disk::Result<()> {
        self.disk.rewrite()
    }
}

/// Rows read to open a state of so many keys, each written so often.
fn read_to_open(keys: usize, versions: usize) -> usize {
    let disk = Arc::new(Memory::new());
    let clock: Clock = Arc::new(Default::default);
    let state = State::open(disk.clone(), clock.clone()).unwrap();
    let put = |number: usize| Command::Put(Put { key: format!("key-{number:06}").into(), value: "v".into(), ..Default::default() });
    for _ in 0..versions {
        for first in (0..keys).step_by(500) {
            let puts: Vec<_> = (first..keys.min(first + 500)).map(put).collect();
            state.apply(&puts, Batch::default()).unwrap();
        }
    }
    let counting = Arc::new(Counting { disk, rows: AtomicUsize::new(0) });
    let opened = State::open(counting.clone(), clock).unwrap();
    assert_eq!((opened.keys(), opened.revision()), (keys as i64, 1 + (keys * versions) as i64));
    counting.rows.load(Relaxed)
}

#[test]
fn a_start_reads_no_history_and_of_the_keys_only_how_many_there_are() {
    let short = read_to_open(2_000, 1);
    assert_eq!(read_to_open(2_000, 20), short, "with twenty times the history");
    let large = read_to_open(20_000, 1);
    assert!(large < short + 20_000 / 100, "{short} rows for 2,000 keys, {large} for 20,000");
}
