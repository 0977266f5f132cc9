//! Reading a file of etcd's into an empty database.

use std::{collections::BTreeMap, collections::HashSet};

use bytes::Bytes;
use prost::Message;

use super::{
    bolt::read::{self, Bolt, Bucket, Source, Visitor},
    buckets::{AlarmMember, KEY, Lease, meta},
    versions::RevisionKey,
};
use crate::{
    apply::{View, lease},
    auth::records::{self, Role, User},
    disk::{self, Batch, Column, Database, columns, columns::AuthPart},
    mvcc::{EventKind, FIRST_REVISION, KeyValue, NEVER_COMPACTED, Revisions, Segments, history::Change, range, record},
};

/// Bytes of changes written at once.
const BATCH: usize = 4 << 20;

/// Buckets that are taken over; the others only have to be intact.
const USED: [&str; 7] = [KEY, "meta", "lease", "alarm", "auth", "authRoles", "authUsers"];

/// Why a file was not taken.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is no intact database.
    #[error("the snapshot cannot be used")]
    File(#[from] read::Error),
    /// It is an intact database, but not of etcd's.
    #[error("the snapshot cannot be used: bucket {bucket:?}: {what}")]
    Content {
        /// Where it stands.
        bucket: String,
        /// What is wrong.
        what: &'static str,
    },
    /// The new database failed.
    #[error("write the database")]
    Disk(#[from] disk::Error),
}

/// What to change on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Adjust {
    /// Added to the newest revision, so that clients never see it go back.
    pub bump: i64,
    /// Gives up all history, so that watchers start over.
    pub compact: bool,
}

/// Reads everything but the membership into `database`, which is empty; where history stands then.
pub fn import<S: Source + ?Sized>(bolt: &Bolt<'_, S>, database: &dyn Database, adjust: Adjust) -> Result<Revisions, Error> {
    let buckets: BTreeMap<_, _> = bolt.buckets()?.into_iter().map(|bucket| (bucket.name.clone(), bucket)).collect();
    let (Some(versions), Some(settings)) = (buckets.get(KEY.as_bytes()), buckets.get(&b"meta"[..])) else {
        return Err(content(KEY, "etcd's buckets are not there"));
    };
    let compaction = Compaction::read(bolt, settings)?;
    let leases = small(bolt, &buckets, database)?;
    for (_, unused) in buckets.iter().filter(|(name, _)| !USED.iter().any(|used| used.as_bytes() == &name[..])) {
        bolt.rows(unused, &mut |_, _| Ok::<_, Error>(()))?;
    }
    let mut replay = Replay { database, view: View::new(database)?, leases, compaction, last: None, size: 0 };
    bolt.rows(versions, &mut |key, value| replay.row(key, value))?;
    let newest = replay.finish()?;
    let current = newest.max(FIRST_REVISION).max(compaction.scheduled);
    let current = current.checked_add(adjust.bump).ok_or(content(KEY, "there is no revision so far on"))?;
    let compacted = if adjust.compact { current } else { compaction.scheduled };
    let revisions = Revisions { current, compacted };
    let mut batch = Batch::default();
    batch.put(Column::Meta, columns::meta::REVISIONS, revisions.encode());
    batch.put(Column::Meta, columns::meta::SCRUBBED, Bytes::copy_from_slice(&columns::revision_key(compaction.finished.max(0))));
    database.write(batch)?;
    // Or the first start would have to count.
    Segments::open(database)?;
    database.sync()?;
    Ok(revisions)
}

fn content(bucket: &str, what: &'static str) -> Error {
    Error::Content { bucket: bucket.to_owned(), what }
}

/// How far history was given up, and how far that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Compaction {
    scheduled: i64,
    finished: i64,
}

impl Compaction {
    fn read<S: Source + ?Sized>(bolt: &Bolt<'_, S>, settings: &Bucket) -> Result<Self, Error> {
        let mut found = Compaction { scheduled: NEVER_COMPACTED, finished: NEVER_COMPACTED };
        bolt.rows(settings, &mut |key, value| {
            let revision = || RevisionKey::decode(value).map(|key| key.main).ok_or(content("meta", "a compacted revision is none"));
            match key {
                meta::SCHEDULED_COMPACT => found.scheduled = revision()?,
                meta::FINISHED_COMPACT => found.finished = revision()?,
                _ => {}
            }
            Ok::<_, Error>(())
        })?;
        found.scheduled = found.scheduled.max(found.finished);
        Ok(found)
    }
}

/// Takes over all but versions; the leases there are.
fn small<S: Source + ?Sized>(
    bolt: &Bolt<'_, S>,
    buckets: &BTreeMap<Vec<u8>, Bucket>,
    database: &dyn Database,
) -> Result<HashSet<i64>, Error> {
    let mut leases = HashSet::new();
    let mut batch = Batch::default();
    let each = |name: &str, visit: &mut Visitor<'_, Error>| match buckets.get(name.as_bytes()) {
        Some(bucket) => bolt.rows(bucket, visit),
        None => Ok(()),
    };
    each("lease", &mut |key, value| {
        let lease = Lease::decode(value).ok().filter(|lease| key == lease.id.to_be_bytes());
        let lease = lease.ok_or(content("lease", "a row is no lease"))?;
        let row = lease::Lease { ttl: lease.ttl, remaining: lease.remaining }.encode_to_vec();
        batch.put(Column::Lease, Bytes::copy_from_slice(key), row);
        leases.insert(lease.id);
        Ok(())
    })?;
    each("alarm", &mut |key, _| {
        let alarm = AlarmMember::decode(key).map_err(|_| content("alarm", "a row is no alarm"))?;
        batch.put(Column::Alarm, Bytes::copy_from_slice(&columns::alarm_key(alarm.member, alarm.kind)), Bytes::new());
        Ok(())
    })?;
    for part in AuthPart::ALL {
        each(part.name(), &mut |key, value| {
            if !is_sound(part, key, value) {
                return Err(content(part.name(), "a row is not as etcd writes it"));
            }
            batch.put(Column::Auth, columns::auth_key(part, key), Bytes::copy_from_slice(value));
            Ok(())
        })?;
    }
    database.write(batch)?;
    Ok(leases)
}

/// Reading it later must not fail: the member would stop.
fn is_sound(part: AuthPart, key: &[u8], value: &[u8]) -> bool {
    match part {
        AuthPart::Settings => key != records::REVISION || value.len() == 8,
        AuthPart::Roles => Role::decode(value).is_ok_and(|role| role.name == key),
        AuthPart::Users => User::decode(value).is_ok_and(|user| user.name == key),
    }
}

/// Lives through the versions again, in their order.
struct Replay<'a> {
    database: &'a dyn Database,
    view: View<'a>,
    leases: HashSet<i64>,
    compaction: Compaction,
    last: Option<RevisionKey>,
    size: usize,
}

impl Replay<'_> {
    fn row(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let at = RevisionKey::decode(key).ok_or(content(KEY, "a key is no revision"))?;
        if self.last.is_some_and(|last| (last.main, last.sub) >= (at.main, at.sub)) {
            return Err(content(KEY, "a change stands twice"));
        }
        self.last = Some(at);
        let kv = KeyValue::decode(Bytes::copy_from_slice(value)).map_err(|_| content(KEY, "a value is no version of a key"))?;
        // etcd's own tool marks a bumped revision with a row that says nothing else.
        if !kv.key.is_empty() {
            self.change(at, kv)?;
        }
        self.size += key.len() + value.len();
        if self.size >= BATCH { self.write() } else { Ok(()) }
    }

    fn change(&mut self, at: RevisionKey, kv: KeyValue) -> Result<(), Error> {
        let sub = u32::try_from(at.sub).map_err(|_| content(KEY, "a revision has more changes than there can be"))?;
        let prev = range::newest(&self.view, &kv.key)?;
        let ended = prev.as_ref().map_or(0, |prev| prev.kv.mod_revision);
        let held = prev.as_ref().map_or(0, |prev| prev.kv.lease);
        if let Some(prev) = prev.filter(|_| at.main > self.compaction.finished) {
            self.view.put(Column::Past, columns::past_key(&kv.key, ended, at.main), prev.row);
        }
        let kind = if at.deletion { EventKind::Delete } else { EventKind::Put };
        // Older changes are gone, and what a removal from disk walks over with them.
        if at.main >= self.compaction.finished {
            let change = Change { kind, ended, key: kv.key.clone() };
            self.view.put(Column::History, Bytes::copy_from_slice(&columns::history_key(at.main, sub)), change.encode());
        }
        let lease = if at.deletion { 0 } else { kv.lease };
        if held != lease {
            self.view.delete(Column::LeaseItem, columns::lease_item_key(held, &kv.key));
            if self.leases.contains(&lease) {
                self.view.put(Column::LeaseItem, columns::lease_item_key(lease, &kv.key), Bytes::new());
            }
        }
        match kind {
            EventKind::Delete => self.view.delete(Column::Current, kv.key),
            EventKind::Put if kv.mod_revision != at.main => return Err(content(KEY, "a version stands at another revision than its own")),
            EventKind::Put => self.view.put(Column::Current, kv.key.clone(), record::encode(&kv, at.sub)),
        }
        let revisions = self.view.revisions();
        self.view.accept(revisions);
        Ok(())
    }

    fn write(&mut self) -> Result<(), Error> {
        let view = std::mem::replace(&mut self.view, View::new(self.database)?);
        self.database.write(view.into_batch())?;
        self.view = View::new(self.database)?;
        self.size = 0;
        Ok(())
    }

    /// Writes what is left; the newest revision there was.
    fn finish(mut self) -> Result<i64, Error> {
        self.write()?;
        Ok(self.last.map_or(0, |last| last.main))
    }
}
