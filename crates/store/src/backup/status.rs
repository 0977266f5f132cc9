//! What is in a snapshot file.

use std::path::PathBuf;

use bytes::Bytes;
use prost::Message;

use super::{
    bolt::read::{self, Bolt, Source},
    buckets::{KEY, meta},
    crc32c::Crc32c,
    sort::Sorter,
    versions::RevisionKey,
};
use crate::mvcc::KeyValue;

/// What is told of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Sum of all buckets and rows.
    pub hash: u32,
    /// The newest revision.
    pub revision: i64,
    /// Keys that live at it.
    pub total_keys: u64,
    /// Bytes of the database.
    pub total_size: u64,
    /// Version of its layout; empty before 3.6.
    pub version: String,
}

/// Why nothing can be told.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is no intact database.
    #[error("snapshot file integrity check failed")]
    File(#[from] read::Error),
    /// A row of the bucket `key` is not as etcd writes it.
    #[error("cannot read a row of the bucket \"key\": {0}")]
    Row(&'static str),
    /// What was to be sorted found no place.
    #[error("write a temporary file")]
    Scratch(#[from] std::io::Error),
}

/// Reads a file whole.
pub fn status<S: Source + ?Sized>(bolt: &Bolt<'_, S>, scratch: PathBuf) -> Result<Status, Error> {
    let mut status = Status { total_size: bolt.size(), ..Default::default() };
    let mut hash = Crc32c::default();
    let mut keys = Sorter::new(scratch);
    for bucket in bolt.buckets()? {
        hash.update(&bucket.name);
        bolt.rows(&bucket, &mut |key, value| {
            hash.update(key);
            hash.update(value);
            match &bucket.name[..] {
                b"meta" if key == meta::STORAGE_VERSION => status.version = String::from_utf8_lossy(value).into_owned(),
                name if name == KEY.as_bytes() => status.revision = version(&mut keys, key, value)?,
                _ => {}
            }
            Ok::<_, Error>(())
        })?;
    }
    status.hash = hash.value();
    status.total_keys = living(keys)?;
    Ok(status)
}

/// Notes a version under its key; its revision.
fn version(keys: &mut Sorter, key: &[u8], value: &[u8]) -> Result<i64, Error> {
    let at = RevisionKey::decode(key).ok_or(Error::Row("its key is no revision"))?;
    let kv = KeyValue::decode(Bytes::copy_from_slice(value)).map_err(|_| Error::Row("its value is no version of a key"))?;
    keys.push(&kv.key, key)?;
    Ok(at.main)
}

/// Keys of which the newest version is no deletion.
fn living(keys: Sorter) -> Result<u64, Error> {
    let sorted = keys.finish();
    let mut merge = sorted.read()?;
    let (mut living, mut last): (u64, Option<(Vec<u8>, bool)>) = (0, None);
    let row = |key: &[u8], at: &[u8]| (key.to_vec(), RevisionKey::decode(at).is_some_and(|at| !at.deletion));
    while let Some((key, lives)) = merge.next(row)? {
        match &mut last {
            Some((last, lived)) if *last == key => *lived = lives,
            _ => living += u64::from(last.replace((key, lives)).is_some_and(|(_, lived)| lived)),
        }
    }
    Ok(living + u64::from(last.is_some_and(|(_, lived)| lived)))
}
