//! Leases as replicated state. When one expires is for the leader's lessor to find out; it then proposes to revoke.

use super::write::Writer;
use crate::{
    command::{LeaseCheckpoint, LeaseGrant, LeaseRevoke},
    disk::{self, Column, Error, Read, columns},
    mvcc::Result,
    refusal::Refusal,
};
use bytes::Bytes;

/// Longest time to live, in seconds; etcd's.
pub const MAX_TTL: i64 = 9_000_000_000;

/// A lease on disk.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Lease {
    /// Granted time to live, in seconds.
    #[prost(int64, tag = "1")]
    pub ttl: i64,
    /// What a checkpoint left of it, in seconds; 0 for all.
    #[prost(int64, tag = "2")]
    pub remaining: i64,
}

/// What the lessor must know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseChange {
    /// There is a new one.
    Granted {
        /// Its number.
        id: i64,
        /// In seconds.
        ttl: i64,
    },
    /// It is gone.
    Revoked {
        /// Its number.
        id: i64,
    },
    /// What it had left at some time.
    Checkpointed {
        /// Its number.
        id: i64,
        /// In seconds.
        remaining: i64,
    },
}

/// The lease, if there is one.
pub fn read(read: &dyn Read, id: i64) -> disk::Result<Option<Lease>> {
    match read.get(Column::Lease, &columns::lease_key(id))? {
        Some(row) => decode(&row).map(Some),
        None => Ok(None),
    }
}

fn decode(row: &[u8]) -> disk::Result<Lease> {
    prost::Message::decode(row).map_err(|_| Error::Corrupt { column: Column::Lease, what: "a lease is a message" })
}

/// All leases, by number.
pub fn list(read: &dyn Read) -> disk::Result<Vec<(i64, Lease)>> {
    let mut cursor = read.scan(Column::Lease, b"", None)?;
    let mut leases = Vec::new();
    while let Some((key, row)) = cursor.row() {
        leases.push((columns::read_lease_key(Column::Lease, key)?.0, decode(row)?));
        cursor.advance()?;
    }
    Ok(leases)
}

/// The keys a lease holds, in order.
pub fn keys(read: &dyn Read, id: i64) -> disk::Result<Vec<Bytes>> {
    let start = columns::lease_key(id);
    let end = (id as u64).checked_add(1).map(u64::to_be_bytes);
    let mut cursor = read.scan(Column::LeaseItem, &start, end.as_ref().map(|end| &end[..]))?;
    let mut keys = Vec::new();
    while let Some((item, _)) = cursor.row() {
        keys.push(Bytes::copy_from_slice(columns::read_lease_key(Column::LeaseItem, item)?.1));
        cursor.advance()?;
    }
    Ok(keys)
}

fn write(writer: &mut Writer<'_, '_>, id: i64, lease: Lease) {
    let row = prost::Message::encode_to_vec(&lease);
    writer.view_mut().put(Column::Lease, Bytes::copy_from_slice(&columns::lease_key(id)), row);
}

pub(super) fn grant(writer: &mut Writer<'_, '_>, grant: LeaseGrant) -> Result<LeaseGrant> {
    if grant.id == 0 {
        return Err(Refusal::LeaseNotFound.into());
    }
    if grant.ttl > MAX_TTL {
        return Err(Refusal::LeaseTtlTooLarge.into());
    }
    if read(writer.view(), grant.id)?.is_some() {
        return Err(Refusal::LeaseExists.into());
    }
    write(writer, grant.id, Lease { ttl: grant.ttl, remaining: 0 });
    writer.lease_changed(LeaseChange::Granted { id: grant.id, ttl: grant.ttl });
    Ok(grant)
}

pub(super) fn revoke(writer: &mut Writer<'_, '_>, revoke: LeaseRevoke) -> Result<()> {
    let id = revoke.id;
    if read(writer.view(), id)?.is_none() {
        return Err(Refusal::LeaseNotFound.into());
    }
    for key in keys(writer.view(), id)? {
        if let Some(stored) = writer.newest(&key)? {
            writer.remove(stored);
        }
    }
    writer.view_mut().delete(Column::Lease, Bytes::copy_from_slice(&columns::lease_key(id)));
    writer.lease_changed(LeaseChange::Revoked { id });
    Ok(())
}

/// Leases that are gone meanwhile are passed over.
pub(super) fn checkpoint(writer: &mut Writer<'_, '_>, checkpoint: &LeaseCheckpoint) -> Result<()> {
    for left in &checkpoint.leases {
        if let Some(lease) = read(writer.view(), left.id)? {
            write(writer, left.id, Lease { remaining: left.ttl, ..lease });
            writer.lease_changed(LeaseChange::Checkpointed { id: left.id, remaining: left.ttl });
        }
    }
    Ok(())
}
