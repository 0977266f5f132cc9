//! The list of changes, revision by revision: what watchers catch up from and compaction walks.

use super::{Event, EventKind, KeyValue, range, record};
use crate::disk::{Column, Cursor, Error, Read, Result, columns};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::encoding::{decode_varint, encode_varint};

/// One change as a row of [`Column::History`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What happened.
    pub kind: EventKind,
    /// Mod revision of the version it ended; 0 for none.
    pub ended: i64,
    /// To which key.
    pub key: Bytes,
}

impl Change {
    /// The form on disk.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(11 + self.key.len());
        out.put_u8(match self.kind {
            EventKind::Put => 0,
            EventKind::Delete => 1,
        });
        encode_varint(self.ended as u64, &mut out);
        out.put_slice(&self.key);
        out.freeze()
    }

    /// Reads [`Change::encode`]; the key borrows from the row.
    pub fn decode(mut row: &[u8]) -> Result<(EventKind, i64, &[u8])> {
        let corrupt = |what| Error::Corrupt { column: Column::History, what };
        let kind = match row.first() {
            Some(0) => EventKind::Put,
            Some(1) => EventKind::Delete,
            _ => return Err(corrupt("unknown kind of change")),
        };
        row.advance(1);
        let ended = decode_varint(&mut row).map_err(|_| corrupt("a change names the revision it ended"))?;
        Ok((kind, ended as i64, row))
    }
}

/// Events read from history, whole revisions only.
#[derive(Debug, Default, PartialEq)]
pub struct Chunk {
    /// Events by revision, ascending; revisions without a wanted event are left out.
    pub revisions: Vec<(i64, Vec<Event>)>,
    /// Everything up to here was looked at.
    pub seen: i64,
}

/// How much of history to read at once.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Rows to look at.
    pub rows: usize,
    /// Bytes of events to collect.
    pub bytes: usize,
}

/// Reads the events of the revisions `from..=to` on keys that are `wanted`.
///
/// Stops after the revision that exhausts the budget, so it always makes progress and never splits a revision.
pub fn read(read: &dyn Read, from: i64, to: i64, budget: Budget, wanted: &mut dyn FnMut(EventKind, &[u8]) -> bool) -> Result<Chunk> {
    let end = columns::revision_key(to + 1);
    let mut cursor = read.scan(Column::History, &columns::revision_key(from), Some(&end))?;
    let mut chunk = Chunk { revisions: Vec::new(), seen: to };
    let (mut rows, mut bytes, mut at) = (0, 0, from);
    while let Some((key, row)) = cursor.row() {
        let revision = columns::read_history_key(key)?;
        if revision != at && (rows >= budget.rows || bytes >= budget.bytes) {
            chunk.seen = at;
            break;
        }
        (at, rows) = (revision, rows + 1);
        let (kind, ended, key) = Change::decode(row)?;
        if wanted(kind, key) {
            let event = event(read, revision, kind, ended, Bytes::copy_from_slice(key))?;
            bytes += event.size();
            match chunk.revisions.last_mut() {
                Some((last, events)) if *last == revision => events.push(event),
                _ => chunk.revisions.push((revision, vec![event])),
            }
        }
        cursor.advance()?;
    }
    Ok(chunk)
}

fn event(read: &dyn Read, revision: i64, kind: EventKind, ended: i64, key: Bytes) -> Result<Event> {
    let kv = match kind {
        EventKind::Delete => KeyValue { key: key.clone(), mod_revision: revision, ..Default::default() },
        EventKind::Put => {
            written(read, &key, revision)?.ok_or(Error::Corrupt { column: Column::History, what: "a change without its version" })?
        }
    };
    let prev_kv = if ended > 0 { superseded(read, key, ended, revision)? } else { None };
    Ok(Event::new(kind, kv, prev_kv))
}

/// The version of a key written at `revision`: live still, or superseded by now.
fn written(read: &dyn Read, key: &Bytes, revision: i64) -> Result<Option<KeyValue>> {
    let newest = range::newest(read, key)?.map(|stored| stored.kv);
    if let Some(kv) = newest.filter(|kv| kv.mod_revision == revision) {
        return Ok(Some(kv));
    }
    let (from, to) = (columns::past_key(key, revision, 0), columns::past_key(key, revision + 1, 0));
    let cursor = read.scan(Column::Past, &from, Some(&to))?;
    let row = cursor.row().map(|(_, row)| Bytes::copy_from_slice(row));
    row.map(|row| record::read(Column::Past, key.clone(), row)).transpose()
}

/// The version of a key that lived from `written` to `ended`, unless it is compacted.
fn superseded(read: &dyn Read, key: Bytes, written: i64, ended: i64) -> Result<Option<KeyValue>> {
    let row = read.get(Column::Past, &columns::past_key(&key, written, ended))?;
    row.map(|row| record::read(Column::Past, key, row)).transpose()
}

/// Walks every row of history in a range of revisions.
pub fn walk(read: &dyn Read, from: i64, to: i64) -> Result<Box<dyn Cursor + '_>> {
    read.scan(Column::History, &columns::revision_key(from), Some(&columns::revision_key(to + 1)))
}
