//! The small door to the disk: ordered columns, atomic batches, consistent snapshots.
//!
//! Two implementations: RocksDB, and [`memory`], which simulates a disk that may be slow and lose what was not synced.

pub mod batch;
pub mod columns;
pub mod home;
pub mod memory;
pub mod offload;
pub mod rocksdb;

pub use batch::{Batch, Write};
pub use columns::Column;
pub use home::{Home, RocksHome};
pub use offload::Offload;
pub use rocksdb::{Rocks, Shared};

use bytes::Bytes;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// A disk that failed. The member must stop: what is on disk is no longer known.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading, writing or syncing failed.
    #[error("{operation} failed")]
    Io {
        /// For example `write batch`.
        operation: &'static str,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// What was read cannot have been written by this program.
    #[error("corrupt record in column {column:?}: {what}")]
    Corrupt {
        /// Where it lies.
        column: Column,
        /// What is wrong with it.
        what: &'static str,
    },
}

/// A disk result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Reading: a database as it is, or a snapshot of it.
pub trait Read {
    /// The value under a key.
    fn get(&self, column: Column, key: &[u8]) -> Result<Option<Bytes>>;

    /// Walks the rows with `start <= key`, and `key < end` where an end is given, in ascending order.
    ///
    /// The cursor sees the state at its creation, whatever is written afterwards.
    fn scan<'a>(&'a self, column: Column, start: &[u8], end: Option<&[u8]>) -> Result<Box<dyn Cursor + 'a>>;
}

/// A place in an ordered walk. Borrows its rows: skipping costs no copy.
pub trait Cursor {
    /// The row it stands on, key and value; none at the end.
    fn row(&self) -> Option<(&[u8], &[u8])>;

    /// Moves to the next row.
    fn advance(&mut self) -> Result<()>;

    /// Moves forward to the first row at or after `key`; never leaves the bounds of the scan.
    fn seek(&mut self, key: &[u8]) -> Result<()>;
}

/// A whole database.
pub trait Database: Read + Send + Sync + 'static {
    /// A consistent view that later writes do not change.
    fn snapshot<'a>(&'a self) -> Box<dyn Read + 'a>;

    /// Applies all of a batch or, after a crash, none of it. Durable only after [`Database::sync`].
    fn write(&self, batch: Batch) -> Result<()>;

    /// Returns once everything written before is durable.
    fn sync(&self) -> Result<()>;

    /// Bytes on disk and on the way there, of what is live and of what is not removed yet.
    fn size(&self) -> Result<u64>;

    /// Bytes of what is live, about; never above [`Database::size`].
    fn size_in_use(&self) -> Result<u64>;

    /// Writes everything anew without what is not live. Reads and writes go on meanwhile.
    fn rewrite(&self) -> Result<()>;

    /// Where its work is done beside the async tasks.
    fn offload(&self) -> Offload {
        Offload::Threads
    }
}

/// Both databases of a member.
pub struct Disks {
    /// `raft/`: the log.
    pub log: Arc<dyn Database>,
    /// `kv/`: the state.
    pub home: Arc<dyn Home>,
}

/// Opens the databases of a member in its directory, or makes them.
pub type Open = Arc<dyn Fn(&Path) -> Result<Disks> + Send + Sync>;

/// On RocksDB, in one directory.
pub fn open(directory: &Path) -> Result<Disks> {
    open_in(directory.join("raft"))(directory)
}

/// On RocksDB, with the log in a directory of its own.
pub fn open_in(log: PathBuf) -> impl Fn(&Path) -> Result<Disks> {
    move |directory| {
        let shared = Arc::new(Shared::default());
        let failed = |source: std::io::Error| Error::Io { operation: "create directory of the log", source: source.into() };
        std::fs::create_dir_all(&log).map_err(failed)?;
        let log = Arc::new(Rocks::open_raft(&log, &shared)?);
        let home = Arc::new(RocksHome::open(directory.to_owned(), shared)?);
        Ok(Disks { log, home })
    }
}
