//! The place of a simulated `kv/` database. Copies lie in files, since snapshots are sent as files.

use super::{Columns, Memory};
use crate::disk::{Column, Database, Error, Home, Offload, Result};
use bytes::{Buf, BufMut, Bytes};
use parking_lot::RwLock;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The one file of a copy.
const FILE: &str = "rows";

/// The place of a simulated database. It outlives the member that uses it.
pub struct MemoryHome {
    current: RwLock<Arc<Memory>>,
    offload: Offload,
}

impl MemoryHome {
    /// With an empty database.
    pub fn new(offload: Offload) -> Self {
        Self { current: RwLock::new(Arc::new(Memory::with_offload(offload.clone()))), offload }
    }

    /// The disk in use.
    pub fn disk(&self) -> Arc<Memory> {
        self.current.read().clone()
    }
}

impl Home for MemoryHome {
    fn current(&self) -> Arc<dyn Database> {
        self.disk()
    }

    fn checkpoint(&self, into: &Path) -> Result<()> {
        let disk = self.disk();
        disk.sync()?;
        fs::create_dir(into).map_err(failed("create copy"))?;
        fs::write(file(into), encode(&disk.synced())).map_err(failed("write copy"))
    }

    fn read_copy(&self, from: &Path) -> Result<Arc<dyn Database>> {
        Ok(Arc::new(self.load(from)?))
    }

    fn replace(&self, from: &Path) -> Result<()> {
        let disk = self.load(from)?;
        fs::remove_dir_all(from).map_err(failed("move database into place"))?;
        *self.current.write() = Arc::new(disk);
        Ok(())
    }
}

impl MemoryHome {
    fn load(&self, from: &Path) -> Result<Memory> {
        let rows = fs::read(file(from)).map_err(failed("read copy"))?;
        Ok(Memory::holding(decode(rows.into())?, self.offload.clone()))
    }
}

fn file(directory: &Path) -> PathBuf {
    directory.join(FILE)
}

fn failed(operation: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Io { operation, source: Box::new(source) }
}

/// Column, key and value of each row, with their lengths.
fn encode(columns: &Columns) -> Vec<u8> {
    let mut out = Vec::new();
    for (column, rows) in columns.iter() {
        for (key, value) in rows {
            for part in [column.name().as_bytes(), key, value] {
                out.put_u32(part.len() as u32);
                out.put_slice(part);
            }
        }
    }
    out
}

fn decode(mut bytes: Bytes) -> Result<Columns> {
    let mut columns = Columns::default();
    while !bytes.is_empty() {
        let name = part(&mut bytes)?;
        let column = Column::KV.into_iter().find(|column| column.name().as_bytes() == name).ok_or(CUT)?;
        let (key, value) = (part(&mut bytes)?, part(&mut bytes)?);
        columns.rows_mut(column).insert(key, value);
    }
    Ok(columns)
}

const CUT: Error = Error::Corrupt { column: Column::Meta, what: "a copy holds whole rows" };

fn part(bytes: &mut Bytes) -> Result<Bytes> {
    let length = bytes.try_get_u32().map_err(|_| CUT)? as usize;
    if length > bytes.len() { Err(CUT) } else { Ok(bytes.split_to(length)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Batch;

    fn put(database: &dyn Database, value: &'static str) {
        let mut batch = Batch::default();
        batch.put(Column::Meta, "key", value);
        batch.put(Column::Current, "other", "");
        database.write(batch).unwrap();
    }

    #[test]
    fn a_copy_takes_the_place_of_the_database_and_survives_a_crash() {
        let directory = tempfile::tempdir().unwrap();
        let home = MemoryHome::new(Offload::Threads);
        put(&*home.current(), "first");
        let copy = directory.path().join("copy");
        home.checkpoint(&copy).unwrap();
        put(&*home.current(), "second");
        let old = home.current();
        home.replace(&copy).unwrap();
        home.disk().crash(0);
        let value = |database: Arc<dyn Database>| database.get(Column::Meta, b"key").unwrap().unwrap();
        assert_eq!(value(old), "second");
        assert_eq!(value(home.current()), "first");
        assert_eq!(home.current().get(Column::Current, b"other").unwrap().unwrap(), "");
        assert!(!copy.exists());
    }

    #[test]
    fn a_copy_that_is_cut_short_is_refused() {
        let mut columns = Columns::default();
        columns.rows_mut(Column::Meta).insert("key".into(), "value".into());
        let whole = encode(&columns);
        for length in 1..whole.len() {
            assert!(decode(Bytes::copy_from_slice(&whole[..length])).is_err(), "{length} bytes");
        }
        assert_eq!(decode(whole.into()).unwrap(), columns);
    }
}
