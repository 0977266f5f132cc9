//! One version of a key on disk: a format byte, five varints, the value.

use super::KeyValue;
use crate::disk::{Column, Error, Result};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::encoding::{decode_varint, encode_varint};

const FORMAT: u8 = 2;
/// Without the place of the change.
const OLD_FORMAT: u8 = 1;
const LONGEST_HEADER: usize = 1 + 5 * 10;

/// Everything about a version but its key and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Revision at which the key came to be.
    pub create_revision: i64,
    /// Revision of this version.
    pub mod_revision: i64,
    /// Changes since the key came to be.
    pub version: i64,
    /// The lease, or 0.
    pub lease: i64,
    /// Which change of its revision wrote it, from 0; etcd's sub revision.
    pub sub: i64,
}

/// Writes the record of a pair that the change `sub` of its revision wrote.
pub fn encode(kv: &KeyValue, sub: i64) -> Bytes {
    let mut out = BytesMut::with_capacity(LONGEST_HEADER + kv.value.len());
    put(&mut out, &Header::of(kv, sub), &kv.value);
    out.freeze()
}

fn put(out: &mut BytesMut, header: &Header, value: &[u8]) {
    out.put_u8(FORMAT);
    for number in [header.create_revision, header.mod_revision, header.version, header.lease, header.sub] {
        encode_varint(number as u64, out);
    }
    out.put_slice(value);
}

/// Reads the header of a record; the rest is the value.
pub fn decode(column: Column, mut record: &[u8]) -> Result<(Header, &[u8])> {
    let corrupt = |what| Error::Corrupt { column, what };
    let format = match record.first() {
        Some(&format @ (FORMAT | OLD_FORMAT)) => format,
        _ => return Err(corrupt("unknown record format")),
    };
    record.advance(1);
    let mut number = || decode_varint(&mut record).map(|number| number as i64).map_err(|_| corrupt("a header has its numbers"));
    let (create_revision, mod_revision, version, lease) = (number()?, number()?, number()?, number()?);
    let sub = if format == FORMAT { number()? } else { 0 };
    if [create_revision, mod_revision, version, sub].iter().any(|number| !(0..i64::MAX).contains(number)) {
        return Err(corrupt("a version's numbers count from 0 and have a next one"));
    }
    let header = Header { create_revision, mod_revision, version, lease, sub };
    Ok((header, record))
}

/// The pair of a key and its record; the value shares `record`.
pub fn read(column: Column, key: Bytes, record: Bytes) -> Result<KeyValue> {
    let (header, value) = decode(column, &record)?;
    let value = record.slice(record.len() - value.len()..);
    Ok(header.with(key, value))
}

/// A pair together with its record, which it shares its value with.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// The pair.
    pub kv: KeyValue,
    /// Its record.
    pub row: Bytes,
}

impl Stored {
    /// A record and the pair in it.
    pub fn read(column: Column, key: Bytes, row: Bytes) -> Result<Self> {
        Ok(Stored { kv: read(column, key, row.clone())?, row })
    }

    /// Copies what a scan lends: the value once.
    pub fn copy(header: Header, key: &[u8], value: &[u8]) -> Self {
        let mut out = BytesMut::with_capacity(LONGEST_HEADER + value.len());
        put(&mut out, &header, value);
        let row = out.freeze();
        let value = row.slice(row.len() - value.len()..);
        Stored { kv: header.with(Bytes::copy_from_slice(key), value), row }
    }
}

impl Header {
    /// Of a pair that the change `sub` of its revision wrote.
    pub fn of(kv: &KeyValue, sub: i64) -> Self {
        let KeyValue { create_revision, mod_revision, version, lease, .. } = *kv;
        Header { create_revision, mod_revision, version, lease, sub }
    }

    /// Completes the pair.
    pub fn with(self, key: Bytes, value: Bytes) -> KeyValue {
        let Header { create_revision, mod_revision, version, lease, .. } = self;
        KeyValue { key, create_revision, mod_revision, version, value, lease }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_read_back_without_copying_the_value() {
        let kv = KeyValue { key: "k".into(), create_revision: 2, mod_revision: 1 << 40, version: 3, value: "value".into(), lease: -7 };
        let record = encode(&kv, 300);
        assert_eq!(decode(Column::Current, &record).unwrap().0.sub, 300);
        let back = read(Column::Current, kv.key.clone(), record.clone()).unwrap();
        assert_eq!(back, kv);
        assert_eq!(back.value.as_ptr_range().end, record.as_ptr_range().end);
        let stored = Stored::copy(decode(Column::Current, &record).unwrap().0, b"k", b"value");
        assert_eq!((stored.kv, stored.row), (kv, record));
    }

    #[test]
    fn a_record_of_the_old_format_has_its_place_unsaid() {
        let (header, value) = decode(Column::Current, b"\x01\x02\x03\x04\x05v").unwrap();
        assert_eq!(header, Header { create_revision: 2, mod_revision: 3, version: 4, lease: 5, sub: 0 });
        assert_eq!(value, b"v");
    }

    #[test]
    fn a_foreign_record_is_corrupt() {
        assert!(decode(Column::Current, b"").is_err());
        assert!(decode(Column::Current, b"\x03abc").is_err());
        assert!(decode(Column::Current, b"\x01\xff").is_err());
    }
}
