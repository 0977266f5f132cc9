//! What locks and elections have in common: contenders stand in line under a prefix, each with a key that its lease
//! keeps; who created its key first has the turn. etcd's recipe, so that its clients may stand in the same line.

use bytes::Bytes;
use rand::Rng;
use tonic::Status;

use super::{Context, disk_status, identity::Credentials, status};
use crate::{
    command::{
        Command, Compare, DeleteRange, LeaseGrant, Op, Operand, Put, Range, Relation, Request, Response as Answer, Txn, TxnResponse,
    },
    mvcc::{KeyRange, KeyValue, key_range::prefix_end, range},
    refusal::Refusal,
    watch::{Filter, Watch, hub::Next},
};

/// Seconds of a lease that nobody brought along; etcd's.
const SESSION: i64 = 60;

/// A place in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) prefix: Bytes,
    pub(super) key: Bytes,
    pub(super) lease: i64,
    /// The create revision of its key: lower ones come first.
    pub(super) revision: i64,
    /// The value of its key.
    pub(super) value: Bytes,
    /// The store's revision when it went there.
    pub(super) entered: i64,
}

/// Prefix of the keys of a line.
pub(super) fn prefix(name: &[u8]) -> Bytes {
    [name, b"/"].concat().into()
}

impl Context {
    /// Goes to the end of the line, unless this lease stands in it already; `value` counts for a new place only.
    pub(super) async fn enter(&self, who: &Credentials, name: &[u8], lease: i64, value: Bytes) -> Result<Place, Status> {
        let lease = if lease == 0 { self.session(who).await? } else { lease };
        let prefix = prefix(name);
        let key: Bytes = [&prefix[..], format!("{lease:x}").as_bytes()].concat().into();
        let put = Request::Put(Put { key: key.clone(), value: value.clone(), lease, ..Default::default() });
        let get = Request::Range(Range { key: key.clone(), ..Default::default() });
        let (entered, response) = self.if_created(who, &key, 0, Some(put), Some(get)).await?;
        let there = response.responses.into_iter().next().and_then(|response| response.response);
        let (revision, value) = match there {
            Some(Answer::Range(found)) => found.kvs.into_iter().next().map_or((entered, value), |kv| (kv.create_revision, kv.value)),
            _ => (entered, value),
        };
        Ok(Place { prefix, key, lease, revision, value, entered })
    }

    async fn session(&self, who: &Credentials) -> Result<i64, Refusal> {
        let id = rand::rng().random_range(1..i64::MAX);
        self.propose_for(who, Command::LeaseGrant(LeaseGrant { id, ttl: SESSION })).await.map(|_| id)
    }

    /// One operation if a key was created at a revision (0: is absent), another one otherwise.
    pub(super) async fn if_created(
        &self,
        who: &Credentials,
        key: &Bytes,
        revision: i64,
        then: Option<Request>,
        otherwise: Option<Request>,
    ) -> Result<(i64, TxnResponse), Refusal> {
        let operand = Some(Operand::CreateRevision(revision));
        let compare = Compare { relation: Relation::Equal as i32, key: key.clone(), operand, ..Default::default() };
        let ops = |request: Option<Request>| request.map(|request| Op { request: Some(request) }).into_iter().collect();
        let txn = Txn { compares: vec![compare], success: ops(then), failure: ops(otherwise) };
        match self.propose_for(who, Command::Txn(txn)).await? {
            (revision, Answer::Txn(response)) => Ok((revision, response)),
            _ => Err(Refusal::Unknown),
        }
    }

    /// Waits until nobody stands before a place; false when it was lost meanwhile. Gives it up when dropped before.
    pub(super) async fn wait_turn(&self, who: &Credentials, place: &Place) -> Result<bool, Status> {
        let leave = Leave { context: self.clone(), who: who.clone(), place: Some(place.clone()) };
        loop {
            let (revision, line) = self.line(who, &place.prefix).await?;
            let before = line.iter().filter(|kv| kv.create_revision < place.revision).max_by_key(|kv| kv.create_revision);
            let here = line.iter().any(|kv| kv.key == place.key && kv.create_revision == place.revision);
            match before {
                Some(before) if here => self.wait_for_change(&[&before.key, &place.key], revision).await,
                _ => {
                    leave.stay();
                    return Ok(here);
                }
            }
        }
    }

    /// Who stands in a line, as of a revision.
    pub(super) async fn line(&self, who: &Credentials, prefix: &Bytes) -> Result<(i64, Vec<KeyValue>), Status> {
        self.barrier(false).await?;
        let range_end = prefix_end(prefix).unwrap_or(Bytes::from_static(&[0]));
        let asked = self.asked(who).await?;
        asked.reads(prefix, &range_end)?;
        let request = Range { key: prefix.clone(), range_end, ..Default::default() };
        let read = self.node.state().read(|read, revisions| (revisions.current, range::range(read, revisions, &request)));
        let (revision, found) = read.map_err(disk_status)?;
        self.unchanged(&asked)?;
        Ok((revision, found.map_err(status)?.kvs))
    }

    /// Returns once one of the keys has changed after a revision, or may have.
    pub(super) async fn wait_for_change(&self, keys: &[&Bytes], revision: i64) {
        let ranges: Vec<_> = keys.iter().map(|key| KeyRange::new(key, &Bytes::new())).collect();
        self.wait_for_changes(ranges, revision).await;
    }

    /// The same for ranges.
    pub(super) async fn wait_for_changes(&self, ranges: Vec<KeyRange>, revision: i64) {
        let session = self.node.state().hub().session();
        for range in ranges {
            session.watch(Watch { range, filter: Filter::default(), start: revision + 1 });
        }
        let id = session.ready().await;
        // Whatever it is: the caller looks at the state again.
        if let Next::History { to, .. } = session.next(id) {
            session.resume(id, to);
        }
    }
}

/// Takes a place out of the line when its contender gives up waiting.
struct Leave {
    context: Context,
    who: Credentials,
    place: Option<Place>,
}

impl Leave {
    fn stay(mut self) {
        self.place = None;
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        let Some(place) = self.place.take() else { return };
        let (context, who) = (self.context.clone(), self.who.clone());
        tokio::spawn(async move {
            let delete = Request::DeleteRange(DeleteRange { key: place.key.clone(), ..Default::default() });
            // Otherwise it goes with its lease.
            let _ = context.if_created(&who, &place.key, place.revision, Some(delete), None).await;
        });
    }
}
