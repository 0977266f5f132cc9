//! Fingerprints of a state, as etcd takes them: members that agree have the same, and so has an etcd of equal content.

use std::path::PathBuf;

use bytes::{Buf, BufMut};
use prost::Message;

use super::{
    Error,
    buckets::{self, KEY, Standing, meta},
    crc32c::Crc32c,
    sort::{Sorted, Sorter},
    versions::{self, RevisionKey, Unique, Version},
};
use crate::{
    disk::Read,
    mvcc::{Revisions, range},
};

/// What was hashed, and what came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash {
    /// The fingerprint.
    pub hash: u32,
    /// Revision it covers.
    pub revision: i64,
    /// Compacted revision it starts from.
    pub compacted: i64,
}

/// Hashes the versions up to `revision` (0 or less: the newest) that compaction left.
///
/// How far a member got with removing compacted versions from disk makes no difference.
pub fn hash_kv(read: &dyn Read, revision: i64, scratch: PathBuf) -> Result<Hash, Error> {
    let revisions = Revisions::read(read)?;
    let at = range::resolve(revisions, revision)?;
    let compacted = revisions.compacted;
    let mut sorter = Sorter::new(scratch);
    let mut some_live = false;
    versions::visit(read, revisions, &mut |version| {
        some_live |= version.lived_at(at);
        if version.at.main > at || (version.at.deletion && version.at.main == compacted) {
            return Ok(());
        }
        push(&mut sorter, &version, version.at.main > compacted || version.lived_at(at))
    })?;
    // As in etcd, old versions that are gone by now count only where nothing else is left.
    let hash = sum(Crc32c::of(KEY.as_bytes()), &sorter.finish(), !some_live)?;
    Ok(Hash { hash: hash.value(), revision: at, compacted })
}

/// Hashes everything, in all of etcd's buckets, but for how far the log is applied.
pub fn hash_all(read: &dyn Read, standing: &Standing, scratch: PathBuf) -> Result<Hash, Error> {
    let revisions = Revisions::read(read)?;
    let mut sum_all = Crc32c::default();
    let mut sorter = Sorter::new(scratch);
    versions::visit(read, revisions, &mut |version| push(&mut sorter, &version, true))?;
    let versions = sorter.finish();
    let ignored = [meta::CONSISTENT_INDEX, meta::TERM, meta::STORAGE_VERSION];
    for (name, rows) in buckets::read(read, standing)? {
        sum_all.update(name.as_bytes());
        if name == KEY {
            sum_all = sum(sum_all, &versions, true)?;
        }
        for (key, value) in rows.iter().filter(|(key, _)| name != "meta" || !ignored.contains(&&key[..])) {
            sum_all.update(key);
            sum_all.update(value);
        }
    }
    Ok(Hash { hash: sum_all.value(), revision: revisions.current, compacted: revisions.compacted })
}

/// Adds a version's sum, and whether it counts in any case.
fn push(sorter: &mut Sorter, version: &Version, counts: bool) -> Result<(), Error> {
    let value = version.kv.encode_to_vec();
    let mut payload = Vec::with_capacity(13);
    payload.put_u8(u8::from(counts));
    payload.put_u32(Crc32c::of(&value).value());
    payload.put_u64(value.len() as u64);
    sorter.push(&version.at.encode(), &payload).map_err(Error::Scratch)
}

/// Goes on with the rows in their order: keys, and values of which the sums are known.
fn sum(mut sum: Crc32c, versions: &Sorted, all: bool) -> Result<Crc32c, Error> {
    let (mut merge, mut unique) = (versions.read().map_err(Error::Scratch)?, Unique::default());
    let row = |key: &[u8], mut payload: &[u8]| {
        Some((RevisionKey::decode(key)?, payload.try_get_u8().ok()?, payload.try_get_u32().ok()?, payload.try_get_u64().ok()?))
    };
    while let Some(row) = merge.next(row).map_err(Error::Scratch)? {
        let (at, counts, value, length) = row.ok_or(Error::Moved)?;
        let at = unique.next(at);
        if all || counts == 1 {
            sum.update(&at.encode());
            sum.append(Crc32c::from_value(value), length);
        }
    }
    Ok(sum)
}
