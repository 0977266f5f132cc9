//! Removing from disk what compaction gave up, a bounded step at a time.
//!
//! Compacting itself is replicated and only moves [`Revisions::compacted`]; each member then removes at its own pace.

use super::{Revisions, history, history::Change};
use crate::disk::{Batch, Column, Database, Read, Result, columns, columns::meta};
use bytes::Bytes;

/// Up to here superseded versions are gone from disk.
pub fn scrubbed(read: &dyn Read) -> Result<i64> {
    match read.get(Column::Meta, meta::SCRUBBED)? {
        Some(bytes) => columns::read_revision(Column::Meta, &bytes),
        None => Ok(0),
    }
}

/// Removes the versions ended by about `rows` changes, whole revisions. True once nothing is left to remove.
pub fn step(database: &dyn Database, rows: usize) -> Result<bool> {
    let (done, compacted) = (scrubbed(database)?, Revisions::read(database)?.compacted);
    if done >= compacted {
        return Ok(true);
    }
    let mut batch = Batch::default();
    let reached = collect(database, done + 1, compacted, rows, &mut batch)?;
    // The changes of the compacted revision itself stay: a watch may start there.
    let keep_from = compacted.min(reached + 1);
    batch.delete_range(Column::History, key(done), key(keep_from));
    batch.put(Column::Meta, meta::SCRUBBED, key(reached));
    database.write(batch)?;
    Ok(reached >= compacted)
}

fn key(revision: i64) -> Bytes {
    Bytes::copy_from_slice(&columns::revision_key(revision.max(0)))
}

/// Adds the removals of the revisions from `from` on; the last one that is complete.
fn collect(read: &dyn Read, from: i64, to: i64, rows: usize, batch: &mut Batch) -> Result<i64> {
    let mut cursor = history::walk(read, from, to)?;
    let (mut seen, mut at) = (0, from);
    while let Some((key, row)) = cursor.row() {
        let revision = columns::read_history_key(key)?;
        if revision != at && seen >= rows {
            return Ok(at);
        }
        (at, seen) = (revision, seen + 1);
        let (_, ended, key) = Change::decode(row)?;
        if ended > 0 {
            batch.delete(Column::Past, columns::past_key(key, ended, revision));
        }
        cursor.advance()?;
    }
    Ok(to)
}
