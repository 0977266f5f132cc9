//! What members publish of themselves.

use super::write::Writer;
use crate::{
    command::{ClusterVersion, MemberAttributes},
    disk::{self, Batch, Column, Error, Read, columns::meta},
    mvcc::Result,
};
use bytes::Bytes;
use prost::Message;

pub(super) fn attributes(writer: &mut Writer<'_, '_>, attributes: &MemberAttributes) -> Result<()> {
    let key = Bytes::copy_from_slice(&attributes.member.to_be_bytes());
    writer.view_mut().put(Column::Member, key, attributes.encode_to_vec());
    Ok(())
}

pub(super) fn cluster_version(writer: &mut Writer<'_, '_>, version: &ClusterVersion) -> Result<()> {
    let value = Bytes::copy_from_slice(version.version.as_bytes());
    writer.view_mut().put(Column::Meta, meta::CLUSTER_VERSION, value);
    Ok(())
}

/// What every member published, by number.
pub fn list(read: &dyn Read) -> disk::Result<Vec<MemberAttributes>> {
    let mut cursor = read.scan(Column::Member, b"", None)?;
    let mut members = Vec::new();
    while let Some((_, row)) = cursor.row() {
        let corrupt = |_| Error::Corrupt { column: Column::Member, what: "attributes are a message" };
        members.push(MemberAttributes::decode(row).map_err(corrupt)?);
        cursor.advance()?;
    }
    Ok(members)
}

/// Numbers of the members that were removed.
pub fn removed(read: &dyn Read) -> disk::Result<Vec<u64>> {
    let mut cursor = read.scan(Column::Removed, b"", None)?;
    let mut removed = Vec::new();
    while let Some((key, _)) = cursor.row() {
        let corrupt = |_| Error::Corrupt { column: Column::Removed, what: "a key is 8 bytes" };
        removed.push(u64::from_be_bytes(key.try_into().map_err(corrupt)?));
        cursor.advance()?;
    }
    Ok(removed)
}

/// Notes that a member was removed: what it published goes with it.
pub fn remove(batch: &mut Batch, id: u64) {
    let key = Bytes::copy_from_slice(&id.to_be_bytes());
    batch.put(Column::Removed, key.clone(), Bytes::new());
    batch.delete(Column::Member, key);
}
