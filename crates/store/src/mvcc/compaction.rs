//! Removing from disk what compaction gave up, a bounded step at a time.
//!
//! Compacting itself is replicated and only moves [`Revisions::compacted`]; each member then removes at its own pace.

use super::{Revisions, history::Change};
use crate::disk::{Batch, Column, Database, Error, Read, Result, columns, columns::meta};
use bytes::{BufMut, Bytes, BytesMut};

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Nothing is left to remove.
    pub done: bool,
    /// Versions removed.
    pub removed: u64,
}

/// How far superseded versions are gone from disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Scrubbed {
    /// Up to this revision.
    revision: i64,
    /// And the changes before this one of the next revision.
    next: u32,
}

impl Scrubbed {
    fn read(read: &dyn Read) -> Result<Self> {
        let Some(row) = read.get(Column::Meta, meta::SCRUBBED)? else { return Ok(Self::default()) };
        let (revision, next) = row.split_at_checked(8).unwrap_or((&row[..], &[]));
        let revision = columns::read_revision(Column::Meta, revision)?;
        match next {
            // A whole revision, all that earlier versions noted.
            [] => Ok(Scrubbed { revision, next: 0 }),
            _ => {
                let corrupt = |_| Error::Corrupt { column: Column::Meta, what: "the place in a revision is 4 bytes" };
                Ok(Scrubbed { revision, next: u32::from_be_bytes(next.try_into().map_err(corrupt)?) })
            }
        }
    }

    fn encode(self) -> Bytes {
        let mut row = BytesMut::from(&columns::revision_key(self.revision)[..]);
        if self.next > 0 {
            row.put_u32(self.next);
        }
        row.freeze()
    }
}

/// Up to here superseded versions are gone from disk.
pub fn scrubbed(read: &dyn Read) -> Result<i64> {
    Ok(Scrubbed::read(read)?.revision)
}

/// Removes the versions ended by at most `rows` changes.
pub fn step(database: &dyn Database, rows: usize) -> Result<Step> {
    let (from, compacted) = (Scrubbed::read(database)?, Revisions::read(database)?.compacted);
    if from.revision >= compacted {
        return Ok(Step { done: true, removed: 0 });
    }
    let mut batch = Batch::default();
    let reached = collect(database, from, compacted, rows.max(1), &mut batch)?;
    let removed = batch.writes.len() as u64;
    // The changes of the compacted revision itself stay: a watch may start there.
    let keep_from = match reached.revision + 1 {
        next if next < compacted => Bytes::copy_from_slice(&columns::history_key(next, reached.next)),
        _ => Bytes::copy_from_slice(&columns::revision_key(compacted)),
    };
    let first = Bytes::copy_from_slice(&columns::revision_key(from.revision.max(0)));
    batch.delete_range(Column::History, first, keep_from);
    batch.put(Column::Meta, meta::SCRUBBED, reached.encode());
    database.write(batch)?;
    Ok(Step { done: reached.revision >= compacted, removed })
}

/// Adds the removals of the changes after `from`, up to the revision `to`; how far that went.
fn collect(read: &dyn Read, from: Scrubbed, to: i64, rows: usize, batch: &mut Batch) -> Result<Scrubbed> {
    let (start, end) = (columns::history_key(from.revision + 1, from.next), columns::revision_key(to + 1));
    let mut cursor = read.scan(Column::History, &start, Some(&end))?;
    let mut seen = 0;
    while let Some((key, row)) = cursor.row() {
        let (revision, place) = columns::read_history_place(key)?;
        if seen >= rows {
            return Ok(Scrubbed { revision: revision - 1, next: place });
        }
        seen += 1;
        let (_, ended, key) = Change::decode(row)?;
        if ended > 0 {
            batch.delete(Column::Past, columns::past_key(key, ended, revision));
        }
        cursor.advance()?;
    }
    Ok(Scrubbed { revision: to, next: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        apply::{View, apply},
        command::{Command, Compact, DeleteRange, Put},
        disk::memory::Memory,
    };

    fn run(disk: &Memory, command: Command) {
        let mut view = View::new(disk).unwrap();
        apply(&mut view, &command).unwrap().outcome.result.unwrap();
        disk.write(view.into_batch()).unwrap();
    }

    fn rows(disk: &Memory, column: Column) -> usize {
        let mut cursor = disk.scan(column, b"", None).unwrap();
        std::iter::from_fn(|| {
            cursor.row()?;
            cursor.advance().unwrap();
            Some(())
        })
        .count()
    }

    #[test]
    fn a_revision_of_many_changes_is_removed_in_steps_and_each_goes_on_where_the_last_ended() {
        for compacted in [102, 103] {
            let disk = Memory::new();
            (0..100).for_each(|number| run(&disk, Command::Put(Put { key: format!("{number:02}").into(), ..Default::default() })));
            // Revision 102: a hundred changes.
            run(&disk, Command::DeleteRange(DeleteRange { key: "0".into(), range_end: "a".into(), prev_kv: false }));
            run(&disk, Command::Put(Put { key: "x".into(), ..Default::default() }));
            run(&disk, Command::Compact(Compact { revision: compacted }));
            let (mut steps, mut removed) = (0, 0);
            loop {
                let step = step(&disk, 30).unwrap();
                (steps, removed) = (steps + 1, removed + step.removed);
                assert!(step.removed <= 30);
                if step.done {
                    break;
                }
                let left = 100 - removed as usize;
                assert_eq!(rows(&disk, Column::Past), left);
            }
            assert_eq!((steps, removed, rows(&disk, Column::Past)), (7, 100, 0), "compacted at {compacted}");
            let kept = if compacted == 102 { 101 } else { 1 };
            assert_eq!(rows(&disk, Column::History), kept, "compacted at {compacted}");
            assert_eq!(scrubbed(&disk).unwrap(), compacted);
        }
    }
}
