//! etcd's buckets but for `key`: what each holds, made from this store's columns.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;
use serde_json::json;

use super::versions::RevisionKey;
use crate::{
    apply::{alarm::Alarms, lease, member},
    auth::records,
    disk::{
        Column, Read, Result,
        columns::{self, AuthPart},
    },
    mvcc::{NEVER_COMPACTED, Revisions},
};

/// All buckets, in bbolt's order.
pub const NAMES: [&str; 10] = ["alarm", "auth", "authRoles", "authUsers", "cluster", KEY, "lease", "members", "members_removed", "meta"];

/// The bucket of versions.
pub const KEY: &str = "key";

/// Version of this layout.
pub const STORAGE_VERSION: &str = "3.6.0";

/// Names in the bucket `meta`.
pub mod meta {
    /// Index of the last applied log entry, u64.
    pub const CONSISTENT_INDEX: &[u8] = b"consistent_index";
    /// Its term, u64.
    pub const TERM: &[u8] = b"term";
    /// Who votes and who learns, as JSON.
    pub const CONF_STATE: &[u8] = b"confState";
    /// The version of the layout, as text.
    pub const STORAGE_VERSION: &[u8] = b"storageVersion";
    /// The revision up to which compaction was asked for, as a key of the bucket `key`.
    pub const SCHEDULED_COMPACT: &[u8] = b"scheduledCompactRev";
    /// The revision up to which it is done.
    pub const FINISHED_COMPACT: &[u8] = b"finishedCompactRev";
}

/// Rows of a bucket by key.
pub type Rows = BTreeMap<Bytes, Bytes>;

/// Where a state stands in its cluster's log, and who the members are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The last applied entry.
    pub index: u64,
    /// Its term.
    pub term: u64,
    /// The members, by number.
    pub members: Vec<Member>,
    /// Numbers of former members.
    pub removed: Vec<u64>,
}

/// A member as the membership knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Its number.
    pub id: u64,
    /// Where its peers reach it.
    pub peer_urls: Vec<String>,
    /// It has no vote.
    pub learner: bool,
}

/// etcd's `leasepb.Lease`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Lease {
    /// Its number.
    #[prost(int64, tag = "1")]
    pub id: i64,
    /// Granted seconds.
    #[prost(int64, tag = "2")]
    pub ttl: i64,
    /// What a checkpoint left of them; 0 for all.
    #[prost(int64, tag = "3")]
    pub remaining: i64,
}

/// etcd's `etcdserverpb.AlarmMember`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AlarmMember {
    /// The member.
    #[prost(uint64, tag = "1")]
    pub member: u64,
    /// The kind of alarm.
    #[prost(int32, tag = "2")]
    pub kind: i32,
}

/// The rows of every bucket but `key`.
///
/// `cluster` stays empty: a restored cluster agrees on its version by itself, and one of 3.6 in the file would keep an
/// etcd of 3.5 from starting.
pub fn read(read: &dyn Read, standing: &Standing) -> Result<BTreeMap<&'static str, Rows>> {
    let mut buckets: BTreeMap<_, _> = NAMES.into_iter().map(|name| (name, Rows::new())).collect();
    buckets.insert("alarm", alarms(read)?);
    buckets.insert("lease", leases(read)?);
    buckets.insert("members", members(read, standing)?);
    buckets.insert("members_removed", standing.removed.iter().map(|id| (hex(*id), "removed".into())).collect());
    buckets.insert("meta", meta_rows(Revisions::read(read)?, standing));
    // etcd writes it at its first start.
    let first = Bytes::copy_from_slice(&records::FIRST_REVISION.to_be_bytes());
    buckets.insert(AuthPart::Settings.name(), Rows::from([(Bytes::from_static(records::REVISION), first)]));
    let mut cursor = read.scan(Column::Auth, b"", None)?;
    while let Some((key, row)) = cursor.row() {
        let (bucket, key) = columns::read_auth_key(key)?;
        buckets.entry(bucket.name()).or_default().insert(Bytes::copy_from_slice(key), Bytes::copy_from_slice(row));
        cursor.advance()?;
    }
    Ok(buckets)
}

fn alarms(read: &dyn Read) -> Result<Rows> {
    let alarms = Alarms::read(read)?.0.into_iter();
    Ok(alarms.map(|(member, kind)| (AlarmMember { member, kind }.encode_to_vec().into(), Bytes::new())).collect())
}

fn leases(read: &dyn Read) -> Result<Rows> {
    let row = |(id, lease): (i64, lease::Lease)| {
        let key = Bytes::copy_from_slice(&columns::lease_key(id));
        (key, Lease { id, ttl: lease.ttl, remaining: lease.remaining }.encode_to_vec().into())
    };
    Ok(lease::list(read)?.into_iter().map(row).collect())
}

fn members(read: &dyn Read, standing: &Standing) -> Result<Rows> {
    let published: BTreeMap<_, _> = member::list(read)?.into_iter().map(|member| (member.member, member)).collect();
    let row = |member: &Member| {
        let mut fields = json!({ "id": member.id, "peerURLs": member.peer_urls });
        if member.learner {
            fields["isLearner"] = true.into();
        }
        if let Some(attributes) = published.get(&member.id) {
            fields["name"] = attributes.name.as_str().into();
            fields["clientURLs"] = attributes.client_urls.clone().into();
        }
        (hex(member.id), fields.to_string().into())
    };
    Ok(standing.members.iter().map(row).collect())
}

fn meta_rows(revisions: Revisions, standing: &Standing) -> Rows {
    let number = |number: u64| Bytes::copy_from_slice(&number.to_be_bytes());
    let mut rows = vec![
        (meta::CONSISTENT_INDEX, number(standing.index)),
        (meta::TERM, number(standing.term)),
        (meta::CONF_STATE, conf_state(standing).into()),
        (meta::STORAGE_VERSION, STORAGE_VERSION.into()),
    ];
    if revisions.compacted != NEVER_COMPACTED {
        let compacted: Bytes = RevisionKey { main: revisions.compacted, sub: 0, deletion: false }.encode().into();
        rows.extend([(meta::SCHEDULED_COMPACT, compacted.clone()), (meta::FINISHED_COMPACT, compacted)]);
    }
    rows.into_iter().map(|(key, value)| (Bytes::from_static(key), value)).collect()
}

fn conf_state(standing: &Standing) -> String {
    let ids = |learner| standing.members.iter().filter(|member| member.learner == learner).map(|member| member.id).collect::<Vec<_>>();
    let mut fields = json!({ "voters": ids(false), "auto_leave": false });
    let learners = ids(true);
    if !learners.is_empty() {
        fields["learners"] = learners.into();
    }
    fields.to_string()
}

fn hex(id: u64) -> Bytes {
    format!("{id:x}").into()
}
