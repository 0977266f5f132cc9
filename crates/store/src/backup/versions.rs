//! The rows of etcd's `key` bucket: every version and deletion that compaction left, under its revision.

use bytes::{BufMut, Bytes};
use prost::Message;

use crate::{
    disk::{Column, Error, Read, Result, columns},
    mvcc::{EventKind, KeyValue, Revisions, history::Change, record},
};

/// A key in the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RevisionKey {
    /// The revision.
    pub main: i64,
    /// Which change of it, from 0.
    pub sub: i64,
    /// It is a deletion.
    pub deletion: bool,
}

impl RevisionKey {
    /// Bytes of a key without the mark of a deletion.
    pub const LENGTH: usize = 17;

    /// As etcd writes it: sorts by revision, then by change.
    pub fn encode(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::LENGTH + 1);
        out.put_i64(self.main);
        out.put_u8(b'_');
        out.put_i64(self.sub);
        if self.deletion {
            out.put_u8(b't');
        }
        out
    }

    /// Reads [`RevisionKey::encode`].
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (main, rest) = bytes.split_first_chunk()?;
        let (sub, mark) = rest.strip_prefix(b"_")?.split_first_chunk()?;
        let deletion = match mark {
            b"" => false,
            b"t" => true,
            _ => return None,
        };
        let key = RevisionKey { main: i64::from_be_bytes(*main), sub: i64::from_be_bytes(*sub), deletion };
        (key.main >= 0 && key.sub >= 0).then_some(key)
    }
}

/// Where a version lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is its key's newest.
    Current,
    /// It was superseded at this revision.
    Past(i64),
    /// It is a deletion, of which nothing but the key is kept.
    Deletion,
}

/// A row of the bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct Version {
    /// Its key in the bucket.
    pub at: RevisionKey,
    /// Where it lies.
    pub place: Place,
    /// The pair; of a deletion only the key.
    pub kv: KeyValue,
}

impl Version {
    /// Whether the key had this version at a revision.
    pub fn lived_at(&self, revision: i64) -> bool {
        let ended = match self.place {
            Place::Current => i64::MAX,
            Place::Past(ended) => ended,
            Place::Deletion => 0,
        };
        self.at.main <= revision && revision < ended
    }
}

/// Visits all versions that compaction left, in no particular order.
pub fn visit<E: From<Error>>(read: &dyn Read, revisions: Revisions, visit: &mut dyn FnMut(Version) -> Result<(), E>) -> Result<(), E> {
    let mut cursor = read.scan(Column::Current, b"", None)?;
    while let Some((key, row)) = cursor.row() {
        visit(version(Place::Current, Bytes::copy_from_slice(key), Bytes::copy_from_slice(row))?)?;
        cursor.advance()?;
    }
    let mut cursor = read.scan(Column::Past, b"", None)?;
    while let Some((key, row)) = cursor.row() {
        let (_, ended) = columns::read_past_span(key)?;
        if ended > revisions.compacted {
            visit(version(Place::Past(ended), columns::read_past_key(key)?, Bytes::copy_from_slice(row))?)?;
        }
        cursor.advance()?;
    }
    // A deletion at the compacted revision is kept too, as in etcd: it may be all that tells how far history went.
    let mut cursor = read.scan(Column::History, &columns::revision_key(revisions.compacted.max(0)), None)?;
    while let Some((key, row)) = cursor.row() {
        let (main, sub) = columns::read_history_place(key)?;
        let (kind, _, key) = Change::decode(row)?;
        if kind == EventKind::Delete {
            let at = RevisionKey { main, sub: i64::from(sub), deletion: true };
            visit(Version { at, place: Place::Deletion, kv: deleted(Bytes::copy_from_slice(key)) })?;
        }
        cursor.advance()?;
    }
    Ok(())
}

fn version(place: Place, key: Bytes, row: Bytes) -> Result<Version> {
    let column = if place == Place::Current { Column::Current } else { Column::Past };
    let (header, _) = record::decode(column, &row)?;
    let at = RevisionKey { main: header.mod_revision, sub: header.sub, deletion: false };
    Ok(Version { at, place, kv: record::read(column, key, row)? })
}

fn deleted(key: Bytes) -> KeyValue {
    KeyValue { key, ..Default::default() }
}

/// How to find a version again without keeping it: its place, encoded size and key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Where it lies.
    pub place: Place,
    /// Bytes of it in the bucket.
    pub size: usize,
    /// The key.
    pub key: Bytes,
}

impl Reference {
    /// To a version.
    pub fn to(version: &Version) -> Self {
        Reference { place: version.place.clone(), size: version.kv.encoded_len(), key: version.kv.key.clone() }
    }

    /// For [`super::sort`].
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(17 + self.key.len());
        let (kind, ended) = match self.place {
            Place::Current => (0, 0),
            Place::Past(ended) => (1, ended),
            Place::Deletion => (2, 0),
        };
        out.put_u8(kind);
        out.put_i64_le(ended);
        out.put_u64_le(self.size as u64);
        out.put_slice(&self.key);
        out
    }

    /// Reads [`Reference::encode`], which this process wrote.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let (ended, rest) = rest.split_first_chunk()?;
        let (size, key) = rest.split_first_chunk()?;
        let place = match kind {
            0 => Place::Current,
            1 => Place::Past(i64::from_le_bytes(*ended)),
            _ => Place::Deletion,
        };
        Some(Reference { place, size: u64::from_le_bytes(*size) as usize, key: Bytes::copy_from_slice(key) })
    }

    /// The version written at a revision, as the bucket holds it; `read` is the view it was found in.
    pub fn fetch(&self, read: &dyn Read, main: i64) -> Result<Bytes> {
        let (column, row) = match self.place {
            Place::Deletion => return Ok(deleted(self.key.clone()).encode_to_vec().into()),
            Place::Current => (Column::Current, read.get(Column::Current, &self.key)?),
            Place::Past(ended) => (Column::Past, read.get(Column::Past, &columns::past_key(&self.key, main, ended))?),
        };
        let row = row.ok_or(Error::Corrupt { column, what: "a version is found again" })?;
        Ok(record::read(column, self.key.clone(), row)?.encode_to_vec().into())
    }
}

/// Makes keys unique in the order they come: records of the old format do not say which change they are.
#[derive(Debug, Default)]
pub struct Unique(Option<RevisionKey>);

impl Unique {
    /// The key, or the next one that is free in its revision.
    pub fn next(&mut self, mut key: RevisionKey) -> RevisionKey {
        if let Some(last) = self.0.filter(|last| last.main == key.main && last.sub >= key.sub) {
            key.sub = last.sub + 1;
        }
        self.0 = Some(key);
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(main: i64, sub: i64, deletion: bool) -> RevisionKey {
        RevisionKey { main, sub, deletion }
    }

    #[test]
    fn keys_are_etcds_and_read_back() {
        assert_eq!(key(2, 0, false).encode(), b"\0\0\0\0\0\0\0\x02_\0\0\0\0\0\0\0\0");
        assert_eq!(key(258, 1, true).encode(), b"\0\0\0\0\0\0\x01\x02_\0\0\0\0\0\0\0\x01t");
        for key in [key(2, 0, false), key(1 << 40, 77, true)] {
            assert_eq!(RevisionKey::decode(&key.encode()), Some(key));
        }
        for garbled in [&b""[..], b"short", b"\0\0\0\0\0\0\0\x02-\0\0\0\0\0\0\0\0", b"\0\0\0\0\0\0\0\x02_\0\0\0\0\0\0\0\0x"] {
            assert_eq!(RevisionKey::decode(garbled), None);
        }
        assert_eq!(RevisionKey::decode(&[0xff; 17]), None);
    }

    #[test]
    fn changes_that_do_not_know_their_place_get_one() {
        let mut unique = Unique::default();
        let given = [key(2, 0, false), key(2, 0, false), key(2, 1, true), key(3, 0, false)];
        let expected = [key(2, 0, false), key(2, 1, false), key(2, 2, true), key(3, 0, false)];
        assert_eq!(given.map(|key| unique.next(key)), expected);
    }

    #[test]
    fn references_read_back() {
        for place in [Place::Current, Place::Past(9), Place::Deletion] {
            let reference = Reference { place, size: 70_000, key: "k".into() };
            assert_eq!(Reference::decode(&reference.encode()), Some(reference));
        }
    }
}
