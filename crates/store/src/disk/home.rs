//! Where the `kv/` database lies, and how another one takes its place at once.
//!
//! On a real disk a database is a directory `kv-<generation>`, the highest generation is the one in use, and a rename
//! brings in the next.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::RwLock;

use super::{
    Database, Error, Result,
    rocksdb::{Rocks, Shared},
};

const PREFIX: &str = "kv-";

/// The place of a `kv/` database.
pub trait Home: Send + Sync + 'static {
    /// The database in use. One that was replaced stays readable as long as someone holds it.
    fn current(&self) -> Arc<dyn Database>;

    /// Makes a durable copy of the present state in a directory that must not exist.
    fn checkpoint(&self, into: &Path) -> Result<()>;

    /// Opens a copy made by [`Home::checkpoint`] for reading.
    fn read_copy(&self, from: &Path) -> Result<Arc<dyn Database>>;

    /// Puts a copy, already durable, in the place of the database in use; it survives a crash from then on.
    fn replace(&self, from: &Path) -> Result<()>;
}

/// The directory that holds the generations of a `kv/` database on RocksDB.
pub struct RocksHome {
    directory: PathBuf,
    shared: Arc<Shared>,
    current: RwLock<Current>,
}

struct Current {
    generation: u64,
    database: Arc<Rocks>,
}

impl RocksHome {
    /// Opens the newest generation, or makes the first, and removes older ones.
    pub fn open(directory: PathBuf, shared: Arc<Shared>) -> Result<Self> {
        let mut generations = generations(&directory).map_err(failed("list databases"))?;
        let newest = generations.pop();
        for old in generations {
            fs::remove_dir_all(path(&directory, old)).map_err(failed("remove old database"))?;
        }
        let generation = newest.unwrap_or(1);
        let database = Arc::new(Rocks::open_kv(&path(&directory, generation), &shared)?);
        sync_directory(&directory).map_err(failed("sync directory"))?;
        Ok(Self { directory, shared, current: RwLock::new(Current { generation, database }) })
    }
}

impl Home for RocksHome {
    fn current(&self) -> Arc<dyn Database> {
        self.current.read().database.clone()
    }

    fn checkpoint(&self, into: &Path) -> Result<()> {
        let database = self.current.read().database.clone();
        database.checkpoint(into)
    }

    fn read_copy(&self, from: &Path) -> Result<Arc<dyn Database>> {
        Ok(Arc::new(Rocks::open_copy(from, &self.shared)?))
    }

    fn replace(&self, from: &Path) -> Result<()> {
        let mut current = self.current.write();
        let generation = current.generation + 1;
        let to = path(&self.directory, generation);
        fs::rename(from, &to).map_err(failed("move database into place"))?;
        sync_directory(&self.directory).map_err(failed("sync directory"))?;
        let database = Arc::new(Rocks::open_kv(&to, &self.shared)?);
        let old = std::mem::replace(&mut *current, Current { generation, database });
        old.database.remove_when_closed();
        Ok(())
    }
}

fn path(directory: &Path, generation: u64) -> PathBuf {
    directory.join(format!("{PREFIX}{generation}"))
}

/// Generations in a directory, in ascending order.
fn generations(directory: &Path) -> io::Result<Vec<u64>> {
    let mut generations = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let number: Option<u64> = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|n| n.parse().ok());
        generations.extend(number);
    }
    generations.sort_unstable();
    Ok(generations)
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    fs::File::open(directory)?.sync_all()
}

fn failed(operation: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Io { operation, source: Box::new(source) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Batch, Column};

    fn put(database: &dyn Database, value: &'static str) {
        let mut batch = Batch::default();
        batch.put(Column::Meta, "key", value);
        database.write(batch).unwrap();
    }

    #[test]
    fn a_copy_takes_the_place_of_the_database_and_survives_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let open = || RocksHome::open(directory.path().into(), Arc::default()).unwrap();
        let home = open();
        put(&*home.current(), "first");
        let copy = directory.path().join("copy");
        home.checkpoint(&copy).unwrap();
        put(&*home.current(), "second");
        let old = home.current();
        home.replace(&copy).unwrap();
        let value = |database: Arc<dyn Database>| database.get(Column::Meta, b"key").unwrap().unwrap();
        assert_eq!(value(old), "second");
        assert_eq!(value(home.current()), "first");
        assert!(!directory.path().join("kv-1").exists());
        drop(home);
        assert_eq!(value(open().current()), "first");
    }
}
