//! Gives up old history, as kube-apiserver does: every few minutes, one of several API servers, agreed on by a key.

use std::time::Duration;

use component::Shutdown;
use etcd::client::{Client, Error};
use etcd::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use etcd::etcdserverpb::request_op::Request as Op;
use etcd::etcdserverpb::response_op::Response as Answer;
use etcd::etcdserverpb::{CompactionRequest, Compare, PutRequest, RangeRequest, RequestOp, TxnRequest};

const KEY: &str = "compact_rev_key";

/// Where the last round left off: the version of the agreed key, and the store's revision at that time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Round {
    version: i64,
    revision: i64,
}

/// Runs until shutdown. In each round whoever is first sets the key to the revision it saw, and compacts to the revision of
/// the round before, so that history reaches back one to two intervals.
pub(super) async fn run(client: Client, interval: Duration, shutdown: Shutdown) {
    if interval.is_zero() {
        return;
    }
    let mut round = Round::default();
    while tokio::time::timeout(interval, shutdown.cancelled()).await.is_err() {
        match compact(&client, round).await {
            Ok(next) => round = next,
            Err(error) => tracing::warn!(%error, "compacting the store's history failed; trying again in the next round"),
        }
    }
}

async fn compact(client: &Client, last: Round) -> Result<Round, Error> {
    let compare = Compare {
        result: CompareResult::Equal as i32,
        target: CompareTarget::Version as i32,
        key: KEY.into(),
        target_union: Some(TargetUnion::Version(last.version)),
        ..Compare::default()
    };
    let put = PutRequest { key: KEY.into(), value: last.revision.to_string().into(), ..PutRequest::default() };
    let read = RangeRequest { key: KEY.into(), ..RangeRequest::default() };
    let request = |op| vec![RequestOp { request: Some(op) }];
    let txn = TxnRequest { compare: vec![compare], success: request(Op::RequestPut(put)), failure: request(Op::RequestRange(read)) };
    let answer = client.txn(txn).await?;
    let revision = answer.header.map_or(0, |header| header.revision);
    if !answer.succeeded {
        // Another server did this round: take part in the next from its version.
        let found = answer.responses.into_iter().next().and_then(|first| first.response);
        let version = match found {
            Some(Answer::ResponseRange(found)) => found.kvs.first().map_or(0, |kv| kv.version),
            _ => 0,
        };
        return Ok(Round { version, revision });
    }
    if last.revision > 0 {
        client.compact(CompactionRequest { revision: last.revision, ..CompactionRequest::default() }).await.or_else(already_done)?;
        tracing::debug!(revision = last.revision, "compacted the store's history");
    }
    Ok(Round { version: last.version + 1, revision })
}

fn already_done(error: Error) -> Result<etcd::etcdserverpb::CompactionResponse, Error> {
    if error.is_compacted() { Ok(Default::default()) } else { Err(error) }
}
