//! The disk that is one: RocksDB, in two tempers. `raft/` logs every write ahead and is durable at each sync of
//! that log; `kv/` writes no log of its own (the raft log is it) and is durable when its tables are flushed.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use rocksdb::{
    BlockBasedOptions, BottommostLevelCompaction, Cache, ColumnFamily, ColumnFamilyDescriptor, CompactOptions, DB, DBCompressionType,
    DBPinnableSlice, DBRawIterator, DBRecoveryMode, FlushOptions, LogLevel, Options, ReadOptions, SnapshotWithThreadMode, WriteBatch,
    WriteOptions, checkpoint::Checkpoint, properties,
};

use super::{Batch, Column, Cursor, Database, Error, Read, Result, Write};

/// Blocks of both databases, in bytes; the part of the data that is read over and over is small.
const BLOCK_CACHE: usize = 16 << 20;
/// A table in memory is flushed at this size.
const WRITE_BUFFER: usize = 4 << 20;
/// A table in memory grows by this; each column has one, most of them nearly empty.
const ARENA_BLOCK: usize = 256 << 10;
/// All tables in memory of one database together.
const WRITE_BUFFERS: usize = 12 << 20;
/// Write-ahead log kept at most before the oldest table is flushed.
const MAX_WAL: u64 = 64 << 20;

/// One RocksDB database.
pub struct Rocks {
    db: DB,
    columns: &'static [Column],
    /// Writes go to a write-ahead log; otherwise a sync flushes tables.
    logged: bool,
    /// Dropped after the database is closed.
    files: Leftover,
}

/// Files that are removed on drop when nobody needs them any more.
struct Leftover {
    path: PathBuf,
    unneeded: AtomicBool,
}

impl Drop for Leftover {
    fn drop(&mut self) {
        if self.unneeded.load(Ordering::Relaxed) {
            // What stays behind is removed at the next start.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Memory shared by the databases of one process.
pub struct Shared {
    cache: Cache,
}

impl Default for Shared {
    fn default() -> Self {
        Self { cache: Cache::new_lru_cache(BLOCK_CACHE) }
    }
}

impl Rocks {
    /// Opens, or makes, the database of the raft log.
    pub fn open_raft(path: &Path, shared: &Shared) -> Result<Self> {
        let mut options = options();
        // A half-written record at the very end is a crash; damage before it is damage, and opening fails.
        options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
        options.set_max_total_wal_size(MAX_WAL);
        Self::open(path, &Column::RAFT, options, shared, true)
    }

    /// Opens, or makes, a database of state.
    pub fn open_kv(path: &Path, shared: &Shared) -> Result<Self> {
        let mut options = options();
        // All columns reach the disk together, or a crash would split a batch.
        options.set_atomic_flush(true);
        Self::open(path, &Column::KV, options, shared, false)
    }

    fn open(path: &Path, columns: &'static [Column], options: Options, shared: &Shared, logged: bool) -> Result<Self> {
        let db = DB::open_cf_descriptors(&options, path, families(columns, shared)).map_err(failed("open database"))?;
        Ok(Self { db, columns, logged, files: Leftover { path: path.into(), unneeded: AtomicBool::new(false) } })
    }

    /// Opens a checkpoint for reading only, without changing it.
    pub fn open_copy(path: &Path, shared: &Shared) -> Result<Self> {
        let families = families(&Column::KV, shared);
        let db = DB::open_cf_descriptors_read_only(&options(), path, families, false).map_err(failed("open copy"))?;
        let files = Leftover { path: path.into(), unneeded: AtomicBool::new(false) };
        Ok(Self { db, columns: &Column::KV, logged: false, files })
    }

    /// Deletes the files once the last user is gone.
    pub fn remove_when_closed(&self) {
        self.files.unneeded.store(true, Ordering::Relaxed);
    }

    /// Makes a durable copy of the present state in a directory that must not exist, by links where possible.
    pub fn checkpoint(&self, directory: &Path) -> Result<()> {
        self.sync()?;
        let checkpoint = Checkpoint::new(&self.db).map_err(failed("prepare checkpoint"))?;
        checkpoint.create_checkpoint(directory).map_err(failed("create checkpoint"))
    }

    fn family(&self, column: Column) -> Result<&ColumnFamily> {
        self.db.cf_handle(column.name()).ok_or(Error::Corrupt { column, what: "it exists" })
    }

    /// Some of RocksDB's numbers, summed over all columns.
    fn measure(&self, parts: &[&properties::PropName]) -> Result<u64> {
        let mut size = 0;
        for column in self.columns {
            let family = self.family(*column)?;
            for property in parts {
                size += self.db.property_int_value_cf(family, *property).map_err(failed("measure"))?.unwrap_or_default();
            }
        }
        Ok(size)
    }

    fn translate(&self, batch: &Batch) -> Result<WriteBatch> {
        let mut out = WriteBatch::default();
        // Families are found by name; writes to one mostly follow each other.
        let mut last = None;
        for write in &batch.writes {
            let (Write::Put(column, ..) | Write::Delete(column, ..) | Write::DeleteRange(column, ..)) = write;
            let family = match last {
                Some((known, family)) if known == *column => family,
                _ => self.family(*column)?,
            };
            last = Some((*column, family));
            match write {
                Write::Put(_, key, value) => out.put_cf(family, key, value),
                Write::Delete(_, key) => out.delete_cf(family, key),
                Write::DeleteRange(_, start, end) => out.delete_range_cf(family, start, end),
            }
        }
        Ok(out)
    }
}

fn options() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_db_write_buffer_size(WRITE_BUFFERS);
    options.set_max_background_jobs(2);
    options.set_max_open_files(256);
    options.set_max_file_opening_threads(2);
    options.set_log_level(LogLevel::Warn);
    options.set_keep_log_file_num(2);
    options.set_max_log_file_size(1 << 20);
    options.set_stats_dump_period_sec(0);
    options
}

fn families(columns: &[Column], shared: &Shared) -> Vec<ColumnFamilyDescriptor> {
    let names = columns.iter().map(|column| column.name()).chain(["default"]);
    names.map(|name| ColumnFamilyDescriptor::new(name, family(shared))).collect()
}

fn family(shared: &Shared) -> Options {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(&shared.cache);
    blocks.set_cache_index_and_filter_blocks(true);
    blocks.set_bloom_filter(10.0, false);
    let mut options = Options::default();
    options.set_block_based_table_factory(&blocks);
    options.set_write_buffer_size(WRITE_BUFFER);
    options.set_arena_block_size(ARENA_BLOCK);
    options.set_compression_type(DBCompressionType::Lz4);
    options
}

fn failed(operation: &'static str) -> impl Fn(rocksdb::Error) -> Error {
    move |source| Error::Io { operation, source: Box::new(source) }
}

fn owned(value: Option<DBPinnableSlice<'_>>) -> Option<Bytes> {
    value.map(|value| Bytes::copy_from_slice(&value))
}

fn bounds(end: Option<&[u8]>) -> ReadOptions {
    let mut options = ReadOptions::default();
    if let Some(end) = end {
        options.set_iterate_upper_bound(end);
    }
    options
}

impl Read for Rocks {
    fn get(&self, column: Column, key: &[u8]) -> Result<Option<Bytes>> {
        self.db.get_pinned_cf(self.family(column)?, key).map(owned).map_err(failed("read"))
    }

    fn scan<'a>(&'a self, column: Column, start: &[u8], end: Option<&[u8]>) -> Result<Box<dyn Cursor + 'a>> {
        Walk::start(self.db.raw_iterator_cf_opt(self.family(column)?, bounds(end)), start)
    }
}

struct View<'a> {
    database: &'a Rocks,
    snapshot: SnapshotWithThreadMode<'a, DB>,
}

impl Read for View<'_> {
    fn get(&self, column: Column, key: &[u8]) -> Result<Option<Bytes>> {
        let family = self.database.family(column)?;
        self.snapshot.get_pinned_cf(family, key).map(owned).map_err(failed("read"))
    }

    fn scan<'a>(&'a self, column: Column, start: &[u8], end: Option<&[u8]>) -> Result<Box<dyn Cursor + 'a>> {
        let family = self.database.family(column)?;
        Walk::start(self.snapshot.raw_iterator_cf_opt(family, bounds(end)), start)
    }
}

struct Walk<'a>(DBRawIterator<'a>);

impl<'a> Walk<'a> {
    fn start(mut iterator: DBRawIterator<'a>, start: &[u8]) -> Result<Box<dyn Cursor + 'a>> {
        iterator.seek(start);
        let walk = Walk(iterator);
        walk.check()?;
        Ok(Box::new(walk))
    }

    /// The end of the rows and an error look alike until the status is asked for.
    fn check(&self) -> Result<()> {
        if self.0.valid() { Ok(()) } else { self.0.status().map_err(failed("scan")) }
    }
}

impl Cursor for Walk<'_> {
    fn row(&self) -> Option<(&[u8], &[u8])> {
        self.0.item()
    }

    fn advance(&mut self) -> Result<()> {
        if self.0.valid() {
            self.0.next();
        }
        self.check()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        if self.0.key().is_some_and(|at| at < key) {
            self.0.seek(key);
        }
        self.check()
    }
}

impl Database for Rocks {
    fn snapshot<'a>(&'a self) -> Box<dyn Read + 'a> {
        Box::new(View { database: self, snapshot: self.db.snapshot() })
    }

    fn write(&self, batch: Batch) -> Result<()> {
        let mut options = WriteOptions::default();
        options.disable_wal(!self.logged);
        self.db.write_opt(self.translate(&batch)?, &options).map_err(failed("write batch"))
    }

    fn sync(&self) -> Result<()> {
        if self.logged {
            return self.db.flush_wal(true).map_err(failed("sync write-ahead log"));
        }
        let families = self.columns.iter().map(|column| self.family(*column)).collect::<Result<Vec<_>>>()?;
        let families: Vec<_> = families.iter().collect();
        self.db.flush_cfs_opt(&families, &FlushOptions::default()).map_err(failed("flush tables"))
    }

    fn size(&self) -> Result<u64> {
        self.measure(&[properties::TOTAL_SST_FILES_SIZE, properties::CUR_SIZE_ALL_MEM_TABLES])
    }

    fn size_in_use(&self) -> Result<u64> {
        let live = self.measure(&[properties::ESTIMATE_LIVE_DATA_SIZE, properties::CUR_SIZE_ACTIVE_MEM_TABLE])?;
        Ok(live.min(self.size()?))
    }

    fn rewrite(&self) -> Result<()> {
        self.sync()?;
        let mut options = CompactOptions::default();
        // Waits for nobody and keeps nobody waiting: compactions that go on by themselves are let go on.
        options.set_exclusive_manual_compaction(false);
        options.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
        for column in self.columns {
            self.db.compact_range_cf_opt(self.family(*column)?, None::<&[u8]>, None::<&[u8]>, &options);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(database: &Rocks, column: Column, key: &'static str) {
        let mut batch = Batch::default();
        batch.put(column, key, "v");
        database.write(batch).unwrap();
    }

    fn keys(read: &dyn Read, column: Column, start: &str, end: Option<&str>) -> Vec<String> {
        let mut cursor = read.scan(column, start.as_bytes(), end.map(str::as_bytes)).unwrap();
        let mut keys = Vec::new();
        while let Some((key, _)) = cursor.row() {
            keys.push(String::from_utf8(key.to_vec()).unwrap());
            cursor.advance().unwrap();
        }
        keys
    }

    #[test]
    fn scans_stay_in_bounds_and_snapshots_stand_still() {
        let directory = tempfile::tempdir().unwrap();
        let database = Rocks::open_kv(directory.path(), &Shared::default()).unwrap();
        ["a", "b", "c", "d"].into_iter().for_each(|key| put(&database, Column::Meta, key));
        assert_eq!(keys(&database, Column::Meta, "b", Some("d")), ["b", "c"]);
        let snapshot = database.snapshot();
        put(&database, Column::Meta, "e");
        assert_eq!(keys(&*snapshot, Column::Meta, "d", None), ["d"]);
        assert_eq!(keys(&database, Column::Meta, "d", None), ["d", "e"]);
    }

    #[test]
    fn the_log_database_keeps_every_synced_write() {
        let directory = tempfile::tempdir().unwrap();
        let shared = Shared::default();
        let database = Rocks::open_raft(directory.path(), &shared).unwrap();
        put(&database, Column::RaftLog, "a");
        database.sync().unwrap();
        drop(database);
        let database = Rocks::open_raft(directory.path(), &shared).unwrap();
        assert_eq!(keys(&database, Column::RaftLog, "", None), ["a"]);
    }

    #[test]
    fn a_checkpoint_is_a_database_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let shared = Shared::default();
        let database = Rocks::open_kv(&directory.path().join("kv"), &shared).unwrap();
        put(&database, Column::Current, "a");
        let copy = directory.path().join("copy");
        database.checkpoint(&copy).unwrap();
        put(&database, Column::Current, "b");
        let copy = Rocks::open_kv(&copy, &shared).unwrap();
        assert_eq!(keys(&copy, Column::Current, "", None), ["a"]);
    }

    #[test]
    fn a_rewritten_database_is_smaller_and_holds_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let database = Rocks::open_kv(directory.path(), &Shared::default()).unwrap();
        let value = |i: u64| Bytes::from((0..2000).map(|j| (i * 31 + j * j) as u8 ^ (j >> 3) as u8).collect::<Vec<_>>());
        for i in 0..2000u64 {
            let mut batch = Batch::default();
            batch.put(Column::Current, i.to_be_bytes().to_vec(), value(i));
            database.write(batch).unwrap();
        }
        database.sync().unwrap();
        let full = database.size().unwrap();
        let mut batch = Batch::default();
        batch.delete_range(Column::Current, 10u64.to_be_bytes().to_vec(), 3000u64.to_be_bytes().to_vec());
        database.write(batch).unwrap();
        database.rewrite().unwrap();
        let (size, in_use) = (database.size().unwrap(), database.size_in_use().unwrap());
        assert!(size < full / 10, "{full} bytes became {size}");
        assert!(in_use <= size, "{in_use} of {size}");
        assert_eq!(database.get(Column::Current, &9u64.to_be_bytes()).unwrap(), Some(value(9)));
        assert_eq!(database.get(Column::Current, &10u64.to_be_bytes()).unwrap(), None);
    }

    #[test]
    fn what_is_no_database_is_refused_with_the_cause() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("CURRENT"), "rubbish").unwrap();
        let error = Rocks::open_raft(directory.path(), &Shared::default()).err().unwrap();
        assert!(error.to_string().contains("open database"));
    }
}
