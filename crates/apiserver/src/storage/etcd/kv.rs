//! The [`Kv`] of an etcd v3 client: conditional writes are transactions on mod revisions.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use etcd::client::{Changes, Client, Error as ClientError, Watcher};
use etcd::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use etcd::etcdserverpb::request_op::Request as Op;
use etcd::etcdserverpb::response_op::Response as Answer;
use etcd::etcdserverpb::{Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest, WatchCreateRequest};
use etcd::mvccpb::{self, event::EventType};
use futures::{StreamExt as _, stream};
use tokio::sync::watch;
use tonic::Code;

use super::lease::Leases;
use super::progress::Support;
use crate::storage::kv::{KeyValue, Kv, KvEvent, KvItem, KvStream, Outcome, Range, RangeResult, prefix_end};
use crate::storage::{Error, Result, Revision};

/// etcd's text for a lease that is gone.
const LEASE_NOT_FOUND: &str = "etcdserver: requested lease not found";

/// Keys and values in etcd.
pub(super) struct EtcdKv {
    client: Client,
    leases: Leases,
    progress: watch::Sender<u64>,
    support: Support,
}

impl EtcdKv {
    pub(super) fn new(client: Client) -> Self {
        Self { leases: Leases::new(client.clone()), client, progress: watch::Sender::new(0), support: Support::default() }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Does `op` if the key was last written at `expected`, else reads it.
    async fn write(&self, key: &str, expected: Revision, op: Op) -> Result<Outcome> {
        let unchanged = Compare {
            result: CompareResult::Equal as i32,
            target: CompareTarget::Mod as i32,
            key: key.to_owned().into(),
            target_union: Some(TargetUnion::ModRevision(signed(expected))),
            ..Compare::default()
        };
        let read = Op::RequestRange(RangeRequest { key: key.to_owned().into(), ..RangeRequest::default() });
        let request = |op| vec![RequestOp { request: Some(op) }];
        let txn = TxnRequest { compare: vec![unchanged], success: request(op), failure: request(read) };
        let answer = self.client.txn(txn).await.map_err(failed)?;
        if answer.succeeded {
            return Ok(Outcome::Done(revision(answer.header.as_ref().map(|header| header.revision))));
        }
        match answer.responses.into_iter().next().and_then(|first| first.response) {
            Some(Answer::ResponseRange(found)) => Ok(Outcome::Lost(found.kvs.into_iter().next().map(key_value).transpose()?)),
            _ => Err(Error::Store("the store answered a transaction with something else than was asked".to_owned())),
        }
    }
}

#[async_trait]
impl Kv for EtcdKv {
    async fn range(&self, range: Range) -> Result<RangeResult> {
        let requested = range.revision;
        let request = RangeRequest {
            key: range.start.into(),
            range_end: range.end.into(),
            limit: signed(range.limit),
            revision: signed(range.revision),
            count_only: range.count_only,
            ..RangeRequest::default()
        };
        let answer = self.client.range(request).await.map_err(|error| failed_at(error, requested))?;
        Ok(RangeResult {
            items: answer.kvs.into_iter().map(key_value).collect::<Result<_>>()?,
            count: u64::try_from(answer.count).unwrap_or(0),
            more: answer.more,
            revision: revision(answer.header.map(|header| header.revision)),
        })
    }

    async fn put(&self, key: &str, expected: Revision, value: Bytes, ttl: Option<Duration>) -> Result<Outcome> {
        let put = PutRequest { key: key.to_owned().into(), value, ..PutRequest::default() };
        let Some(ttl) = ttl else { return self.write(key, expected, Op::RequestPut(put)).await };
        let lease = self.leases.get(ttl).await.map_err(failed)?;
        let leased = |lease| Op::RequestPut(PutRequest { lease, ..put.clone() });
        match self.write(key, expected, leased(lease)).await {
            // Revoked by hand, or the store was restored from a snapshot that did not know it yet.
            Err(Error::Store(text)) if text == LEASE_NOT_FOUND => {
                self.leases.forget(lease).await;
                let lease = self.leases.get(ttl).await.map_err(failed)?;
                self.write(key, expected, leased(lease)).await
            }
            written => written,
        }
    }

    async fn delete(&self, key: &str, expected: Revision) -> Result<Outcome> {
        let delete = DeleteRangeRequest { key: key.to_owned().into(), ..DeleteRangeRequest::default() };
        self.write(key, expected, Op::RequestDeleteRange(delete)).await
    }

    async fn watch(&self, prefix: &str, after: Revision, previous: bool) -> Result<KvStream> {
        let create = WatchCreateRequest {
            key: prefix.to_owned().into(),
            range_end: prefix_end(prefix).into(),
            start_revision: signed(after + 1),
            progress_notify: true,
            prev_kv: previous,
            ..WatchCreateRequest::default()
        };
        let following = Following { watcher: self.client.watch(create), progress: self.progress.subscribe(), requested: after };
        Ok(stream::unfold(following, Following::next).boxed())
    }

    async fn request_progress(&self) -> Result<()> {
        self.progress.send_modify(|asked| *asked += 1);
        Ok(())
    }

    async fn reports_progress(&self) -> bool {
        self.support.of(&self.client).await
    }
}

/// One watch, and the wish for progress it listens to.
struct Following {
    watcher: Watcher,
    progress: watch::Receiver<u64>,
    requested: Revision,
}

impl Following {
    async fn next(mut self) -> Option<(Result<KvItem>, Self)> {
        loop {
            tokio::select! {
                biased;
                asked = self.progress.changed() => match asked {
                    Ok(()) => self.watcher.request_progress(),
                    Err(_) => return None,
                },
                changes = self.watcher.next() => {
                    let item = match changes {
                        Ok(changes) => item(changes),
                        Err(error) => Err(failed_at(error, self.requested)),
                    };
                    return Some((item, self));
                }
            }
        }
    }
}

fn item(changes: Changes) -> Result<KvItem> {
    if changes.events.is_empty() {
        return Ok(KvItem::Progress(revision(Some(changes.revision))));
    }
    changes.events.into_iter().map(event).collect::<Result<_>>().map(KvItem::Events)
}

fn event(event: mvccpb::Event) -> Result<KvEvent> {
    let deleted = event.r#type == EventType::Delete as i32;
    let kv = event.kv.map(key_value).transpose()?.ok_or_else(|| Error::Store("the store sent an event without a key".to_owned()))?;
    let previous = event.prev_kv.map(key_value).transpose()?;
    Ok(KvEvent { key: kv.key, revision: kv.revision, value: (!deleted).then_some(kv.value), previous })
}

fn key_value(kv: mvccpb::KeyValue) -> Result<KeyValue> {
    let key = String::from_utf8(kv.key.into()).map_err(|_| Error::Store("the store holds a key that is no text".to_owned()))?;
    Ok(KeyValue { key, value: kv.value, revision: revision(Some(kv.mod_revision)), leased: kv.lease != 0 })
}

fn revision(revision: Option<i64>) -> Revision {
    revision.and_then(|revision| u64::try_from(revision).ok()).unwrap_or(0)
}

fn signed(revision: u64) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}

fn failed(error: ClientError) -> Error {
    failed_at(error, 0)
}

/// What a client's error means, where `requested` is the revision asked for.
fn failed_at(error: ClientError, requested: Revision) -> Error {
    let text = match &error {
        // As Go's client prints what is not the store's own answer.
        ClientError::Status(status) if !status.message().starts_with("etcdserver: ") => {
            format!("rpc error: code = {:?} desc = {}", status.code(), status.message())
        }
        own => own.to_string(),
    };
    match (&error, error.code()) {
        (ClientError::Compacted { compact_revision }, _) => {
            let oldest = Some(revision(Some(*compact_revision))).filter(|oldest| *oldest > 0);
            Error::Compacted { requested, oldest, continue_token: String::new() }
        }
        (_, Code::OutOfRange) => Error::FutureRevision { requested, current: 0 },
        (_, Code::DeadlineExceeded) => Error::Timeout("context deadline exceeded".to_owned()),
        (_, Code::Unavailable) => Error::Timeout(text),
        _ => Error::Store(text),
    }
}

#[cfg(test)]
mod tests {
    use apimachinery::gvk::GroupResource;
    use tonic::Status;

    use super::*;
    use crate::storage::Verb;

    #[test]
    fn a_store_that_is_late_or_away_makes_a_request_time_out_and_one_that_refuses_makes_it_fail() {
        let answer = |status: Status| failed(status.into()).into_status(Verb::Create, &GroupResource::new("", "configmaps"), "x");
        let words = "Timeout: request did not complete within requested timeout";
        let away = answer(Status::unavailable("connection error: http2 error: keep-alive timed out"));
        let cause = "rpc error: code = Unavailable desc = connection error: http2 error: keep-alive timed out";
        assert_eq!((away.code, &*away.reason, away.message), (504, "Timeout", format!("{words} - {cause}")));
        let late = answer(Status::deadline_exceeded("context deadline exceeded"));
        assert_eq!((late.code, late.message), (504, format!("{words} - context deadline exceeded")));
        let own = answer(Status::unavailable("etcdserver: request timed out"));
        assert_eq!((own.code, own.message), (504, format!("{words} - etcdserver: request timed out")));
        let full = answer(Status::resource_exhausted("etcdserver: mvcc: database space exceeded"));
        assert_eq!((full.code, &*full.message), (500, "etcdserver: mvcc: database space exceeded"));
    }
}
