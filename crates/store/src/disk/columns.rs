//! Every column family and every key layout; nowhere else.
//!
//! `kv/` holds each live key once, newest version with its value, in [`Column::Current`]: a range of the present is
//! one scan without garbage. A version that is superseded moves to [`Column::Past`] under the revisions between
//! which it lived, so a range of the past is one scan of each, and [`Column::History`] names, per revision, the keys it
//! touched and the versions it ended: watchers catch up and compaction cleans up by walking it.

use super::{Error, Result};
use bytes::{BufMut, Bytes, BytesMut};

/// A column family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Column {
    /// `kv/`: names in [`meta`] → their values.
    Meta,
    /// `kv/`: key → record of the live version.
    Current,
    /// `kv/`: [`past_key`] → record of a version that is superseded, as it was in `Current`.
    Past,
    /// `kv/`: [`history_key`] → what happened to which key.
    History,
    /// `kv/`: [`lease_key`] → the lease.
    Lease,
    /// `kv/`: [`lease_key`] and key → nothing; which keys a lease holds.
    LeaseItem,
    /// `kv/`: member (u64) and kind (u32) → nothing; raised alarms.
    Alarm,
    /// `kv/`: member (u64) → its published attributes.
    Member,
    /// `kv/`: member (u64) → nothing; those that were removed.
    Removed,
    /// `kv/`: [`auth_key`] → what etcd keeps in its buckets of authentication, as etcd writes it.
    Auth,
    /// `kv/`: first key → number of live keys from there to the next one's (u32); see [`crate::mvcc::segments`].
    Segment,
    /// `raft/`: log index (u64) → entry.
    RaftLog,
    /// `raft/`: name → vote, committed, purged, member identity.
    RaftMeta,
}

impl Column {
    /// The columns of the `kv/` database, in the order they are declared in.
    pub const KV: [Column; 11] = [
        Column::Meta,
        Column::Current,
        Column::Past,
        Column::History,
        Column::Lease,
        Column::LeaseItem,
        Column::Alarm,
        Column::Member,
        Column::Removed,
        Column::Auth,
        Column::Segment,
    ];

    /// The columns of the `raft/` database.
    pub const RAFT: [Column; 2] = [Column::RaftLog, Column::RaftMeta];

    /// Its name on disk.
    pub fn name(self) -> &'static str {
        match self {
            Column::Meta => "meta",
            Column::Current => "current",
            Column::Past => "past",
            Column::History => "history",
            Column::Lease => "lease",
            Column::LeaseItem => "lease_item",
            Column::Alarm => "alarm",
            Column::Member => "member",
            Column::Removed => "removed",
            Column::Auth => "auth",
            Column::Segment => "segment",
            Column::RaftLog => "raft_log",
            Column::RaftMeta => "raft_meta",
        }
    }
}

/// Names in [`Column::Meta`].
pub mod meta {
    /// Newest revision, i64, then the oldest readable one, i64.
    pub const REVISIONS: &[u8] = b"revisions";
    /// Up to here superseded versions are removed from disk, i64.
    pub const SCRUBBED: &[u8] = b"scrubbed";
    /// Log position of the last applied entry, as the raft layer writes it.
    pub const APPLIED: &[u8] = b"applied";
    /// Membership as of the applied position, as the raft layer writes it.
    pub const MEMBERSHIP: &[u8] = b"membership";
    /// Version all members speak.
    pub const CLUSTER_VERSION: &[u8] = b"cluster_version";
    /// Version the cluster is to go back to.
    pub const DOWNGRADE: &[u8] = b"downgrade";
}

/// Names in [`Column::RaftMeta`]; the values are messages of `proto/raft/v1`.
pub mod raft_meta {
    /// The vote.
    pub const VOTE: &[u8] = b"vote";
    /// The last log position known to be committed.
    pub const COMMITTED: &[u8] = b"committed";
    /// The last log position that was given up.
    pub const PURGED: &[u8] = b"purged";
    /// Whose data this is.
    pub const IDENTITY: &[u8] = b"identity";
}

/// A revision as a key or value that sorts by number.
pub fn revision_key(revision: i64) -> [u8; 8] {
    (revision as u64).to_be_bytes()
}

/// Reads [`revision_key`].
pub fn read_revision(column: Column, bytes: &[u8]) -> Result<i64> {
    let bytes = bytes.try_into().map_err(|_| Error::Corrupt { column, what: "a revision is 8 bytes" })?;
    Ok(u64::from_be_bytes(bytes) as i64)
}

/// Key of a history row: revision, then the place of the change within it.
pub fn history_key(revision: i64, sub: u32) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&revision_key(revision));
    key[8..].copy_from_slice(&sub.to_be_bytes());
    key
}

/// Revision of a history row's key.
pub fn read_history_key(key: &[u8]) -> Result<i64> {
    read_history_place(key).map(|(revision, _)| revision)
}

/// Revision of a history row's key, and the place of the change within it.
pub fn read_history_place(key: &[u8]) -> Result<(i64, u32)> {
    let parts = key.split_first_chunk().and_then(|(revision, sub)| Some((*revision, sub.try_into().ok()?)));
    let (revision, sub) = parts.ok_or(Error::Corrupt { column: Column::History, what: "a key is 12 bytes" })?;
    Ok((u64::from_be_bytes(revision) as i64, u32::from_be_bytes(sub)))
}

/// Appends a key so that it sorts as itself and ends recognisably: 0 becomes 0 255, the end is 0 0.
fn put_escaped(out: &mut BytesMut, key: &[u8]) {
    for part in key.split_inclusive(|&byte| byte == 0) {
        out.put_slice(part);
        if part.ends_with(&[0]) {
            out.put_u8(255);
        }
    }
    out.put_slice(&[0, 0]);
}

/// First key in [`Column::Past`] of any version of `key`, and of keys after it.
pub fn past_prefix(key: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(key.len() + 10);
    put_escaped(&mut out, key);
    out.freeze()
}

/// Key in [`Column::Past`] of the version of `key` written at `revision` and superseded at `ended`.
pub fn past_key(key: &[u8], revision: i64, ended: i64) -> Bytes {
    let mut out = BytesMut::with_capacity(key.len() + 18);
    put_escaped(&mut out, key);
    out.put_slice(&revision_key(revision));
    out.put_slice(&revision_key(ended));
    out.freeze()
}

/// The revisions of a [`past_key`]: written, and superseded.
pub fn read_past_span(bytes: &[u8]) -> Result<(i64, i64)> {
    let corrupt = Error::Corrupt { column: Column::Past, what: "a key ends in two revisions" };
    let (rest, ended) = bytes.split_last_chunk::<8>().ok_or(corrupt)?;
    let corrupt = Error::Corrupt { column: Column::Past, what: "a key ends in two revisions" };
    let (_, written) = rest.split_last_chunk::<8>().ok_or(corrupt)?;
    Ok((u64::from_be_bytes(*written) as i64, u64::from_be_bytes(*ended) as i64))
}

/// The key within a [`past_key`].
pub fn read_past_key(bytes: &[u8]) -> Result<Bytes> {
    let corrupt = |what| Error::Corrupt { column: Column::Past, what };
    let mut key = BytesMut::with_capacity(bytes.len());
    let mut rest = bytes;
    loop {
        let zero = rest.iter().position(|&byte| byte == 0).ok_or(corrupt("a key has an end"))?;
        key.put_slice(&rest[..zero]);
        match rest.get(zero + 1) {
            Some(255) => key.put_u8(0),
            Some(0) => return Ok(key.freeze()),
            _ => return Err(corrupt("a zero byte is escaped")),
        }
        rest = &rest[zero + 2..];
    }
}

/// Key of a lease: sorts by number, as unsigned.
pub fn lease_key(id: i64) -> [u8; 8] {
    (id as u64).to_be_bytes()
}

/// Reads [`lease_key`] from the front of `bytes`; the rest is a key it holds.
pub fn read_lease_key(column: Column, bytes: &[u8]) -> Result<(i64, &[u8])> {
    let (id, rest) = bytes.split_first_chunk().ok_or(Error::Corrupt { column, what: "a lease is 8 bytes" })?;
    Ok((u64::from_be_bytes(*id) as i64, rest))
}

/// Key in [`Column::LeaseItem`].
pub fn lease_item_key(id: i64, key: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(8 + key.len());
    out.put_slice(&lease_key(id));
    out.put_slice(key);
    out.freeze()
}

/// Key in [`Column::Alarm`].
pub fn alarm_key(member: u64, kind: i32) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&member.to_be_bytes());
    key[8..].copy_from_slice(&(kind as u32).to_be_bytes());
    key
}

/// Member and kind of an [`alarm_key`].
pub fn read_alarm_key(bytes: &[u8]) -> Result<(u64, i32)> {
    let corrupt = Error::Corrupt { column: Column::Alarm, what: "a key is 12 bytes" };
    let (member, kind) = bytes.split_first_chunk::<8>().ok_or(corrupt)?;
    let corrupt = |_| Error::Corrupt { column: Column::Alarm, what: "a key is 12 bytes" };
    let kind = u32::from_be_bytes(kind.try_into().map_err(corrupt)?);
    Ok((u64::from_be_bytes(*member), kind as i32))
}

/// The three parts of [`Column::Auth`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AuthPart {
    /// Settings.
    Settings = 0,
    /// Roles by name.
    Roles = 1,
    /// Users by name.
    Users = 2,
}

impl AuthPart {
    /// All of them.
    pub const ALL: [AuthPart; 3] = [AuthPart::Settings, AuthPart::Roles, AuthPart::Users];

    /// etcd's bucket of the same.
    pub fn name(self) -> &'static str {
        match self {
            AuthPart::Settings => "auth",
            AuthPart::Roles => "authRoles",
            AuthPart::Users => "authUsers",
        }
    }
}

/// Key in [`Column::Auth`].
pub fn auth_key(part: AuthPart, name: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(1 + name.len());
    out.put_u8(part as u8);
    out.put_slice(name);
    out.freeze()
}

/// Part and name of an [`auth_key`].
pub fn read_auth_key(bytes: &[u8]) -> Result<(AuthPart, &[u8])> {
    let part = bytes.split_first().and_then(|(tag, name)| Some((*AuthPart::ALL.get(usize::from(*tag))?, name)));
    part.ok_or(Error::Corrupt { column: Column::Auth, what: "a key names its part" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn past_keys_sort_by_key_then_revision() {
        let keys: [&[u8]; 6] = [b"", b"\0", b"\0\xff", b"a", b"a\0", b"ab"];
        let mut rows: Vec<Bytes> = Vec::new();
        for key in keys {
            rows.extend([past_prefix(key), past_key(key, 2, 9), past_key(key, 300, 301)]);
        }
        assert!(rows.is_sorted());
    }

    #[test]
    fn past_keys_read_back() {
        for key in [&b""[..], b"a", b"\0", b"a\0b\0\0", b"\xff\0\xff"] {
            let row = past_key(key, 77, 1 << 40);
            assert_eq!((read_past_key(&row).unwrap(), read_past_span(&row).unwrap()), (Bytes::copy_from_slice(key), (77, 1 << 40)));
        }
        assert!(read_past_key(b"no end").is_err());
        assert!(read_past_span(b"short").is_err());
    }

    #[test]
    fn columns_of_state_come_first_and_in_order() {
        assert!(Column::KV.iter().enumerate().all(|(at, column)| *column as usize == at));
    }

    #[test]
    fn column_names_are_unique() {
        let mut names: Vec<_> = Column::KV.iter().chain(&Column::RAFT).map(|column| column.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Column::KV.len() + Column::RAFT.len());
    }
}
