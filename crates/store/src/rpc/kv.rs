//! The KV service.

use super::{Context, blocking, check, convert, disk_status, identity::Credentials, range_stream, slow::Trace, status};
use crate::{
    apply::txn::read_only,
    command::{self, Command, Compact, Outcome, Range, Response as Answer},
    disk::Read,
    mvcc::{self, range},
    refusal::Refusal,
    upkeep::quota,
};
use etcd::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse, RangeRequest, RangeResponse,
    RangeStreamResponse, TxnRequest, TxnResponse, kv_server::Kv,
};
use futures::stream::BoxStream;
use prost::Message;
use std::time::Duration;
use tonic::{Request, Response, Status};

/// Longest wait for versions to be removed from disk; etcd waits as long as the client does.
const PHYSICAL_COMPACTION: Duration = Duration::from_secs(600);

#[tonic::async_trait]
impl Kv for Context {
    async fn range(&self, request: Request<RangeRequest>) -> Result<Response<RangeResponse>, Status> {
        let who = Credentials::of(&request);
        let request = request.into_inner();
        let serializable = request.serializable;
        let range = convert::range(request);
        if !serializable && self.node.learns() {
            return Err(Refusal::NotSupportedForLearner.into());
        }
        check::range(&range)?;
        let mut trace = Trace::begin();
        let found = self.read_range(&who, range.clone(), serializable, &mut trace).await;
        self.note_range(&range, &trace, found.as_ref().ok().map(|(found, _)| found));
        let (found, revision) = found?;
        Ok(Response::new(convert::range_response(found, self.header(revision))))
    }

    type RangeStreamStream = BoxStream<'static, Result<RangeStreamResponse, Status>>;

    async fn range_stream(&self, request: Request<RangeRequest>) -> Result<Response<Self::RangeStreamStream>, Status> {
        let who = Credentials::of(&request);
        let request = request.into_inner();
        let serializable = request.serializable;
        let range = convert::range(request);
        check::range(&range)?;
        range_stream::check(&range)?;
        self.barrier(serializable).await?;
        self.asked(&who).await?.reads(&range.key, &range.range_end)?;
        Ok(Response::new(range_stream::stream(self.clone(), who, range)))
    }

    async fn put(&self, request: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        let who = Credentials::of(&request);
        let request = request.into_inner();
        self.size(&request)?;
        let put = convert::put(request);
        self.admit(quota::of_put(&put)).await?;
        check::put(&put)?;
        match self.propose_for(&who, Command::Put(put)).await? {
            (revision, Answer::Put(put)) => Ok(Response::new(convert::put_response(put, self.header(revision)))),
            _ => Err(Refusal::Unknown.into()),
        }
    }

    async fn delete_range(&self, request: Request<DeleteRangeRequest>) -> Result<Response<DeleteRangeResponse>, Status> {
        let who = Credentials::of(&request);
        let request = request.into_inner();
        self.size(&request)?;
        let delete = convert::delete_range(request);
        check::delete_range(&delete)?;
        match self.propose_for(&who, Command::DeleteRange(delete)).await? {
            (revision, Answer::DeleteRange(deleted)) => Ok(Response::new(convert::delete_range_response(deleted, self.header(revision)))),
            _ => Err(Refusal::Unknown.into()),
        }
    }

    async fn txn(&self, request: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        let who = Credentials::of(&request);
        let request = request.into_inner();
        self.size(&request)?;
        let serializable = serializable(&request);
        let txn = convert::txn(request);
        self.admit(quota::of_txn(&txn)).await?;
        check::txn(&txn, &self.limits)?;
        let (revision, txn) = if writes(&txn) {
            match self.propose_for(&who, Command::Txn(txn)).await? {
                (revision, Answer::Txn(txn)) => (revision, txn),
                _ => return Err(Refusal::Unknown.into()),
            }
        } else {
            self.read_txn(&who, txn, serializable).await?
        };
        Ok(Response::new(convert::txn_response(txn, self.header(revision), revision)?))
    }

    async fn compact(&self, request: Request<CompactionRequest>) -> Result<Response<CompactionResponse>, Status> {
        let CompactionRequest { revision, physical } = request.into_inner();
        let (current, _) = self.propose(Command::Compact(Compact { revision })).await?;
        if physical {
            let scrubbed = self.node.state().scrubbed(revision);
            tokio::time::timeout(PHYSICAL_COMPACTION, scrubbed).await.map_err(|_| Refusal::Timeout)?;
        }
        Ok(Response::new(CompactionResponse { header: self.header(current) }))
    }
}

impl Context {
    /// Linearizable reads wait for what was acknowledged before them. As in etcd, an alarm stands in no read's way.
    pub(super) async fn barrier(&self, serializable: bool) -> Result<(), Refusal> {
        if serializable { Ok(()) } else { self.node.read_barrier().await }
    }

    /// Proposes; the revision it was applied at and the answer.
    pub(super) async fn propose(&self, command: Command) -> Result<(i64, Answer), Refusal> {
        let Outcome { revision, result } = self.node.propose(command).await?;
        result.map(|answer| (revision, answer))
    }

    /// A request that is to be replicated is not too large for it.
    fn size(&self, request: &impl Message) -> Result<(), Refusal> {
        if request.encoded_len() > self.limits.request_bytes { Err(Refusal::RequestTooLarge) } else { Ok(()) }
    }

    async fn read_range(
        &self,
        who: &Credentials,
        range: Range,
        serializable: bool,
        trace: &mut Trace,
    ) -> Result<(command::RangeResponse, i64), Status> {
        self.barrier(serializable).await?;
        trace.step("agreement among raft nodes before linearized reading");
        let asked = self.asked(who).await?;
        asked.reads(&range.key, &range.range_end)?;
        let single = range.range_end.is_empty();
        let state = self.node.state().clone();
        let read = move || state.read(|read, revisions| (range::range(read, revisions, &range), revisions.current));
        let read = if single { read() } else { blocking(self.node.state(), read).await? };
        trace.step("range keys");
        let (found, revision) = read.map_err(disk_status)?;
        let found = found.map_err(status)?;
        self.unchanged(&asked)?;
        Ok((found, revision))
    }

    async fn read_txn(&self, who: &Credentials, txn: command::Txn, serializable: bool) -> Result<(i64, command::TxnResponse), Status> {
        let mut trace = Trace::begin();
        self.barrier(serializable).await?;
        trace.step("agreement among raft nodes before linearized reading");
        let asked = self.asked(who).await?;
        let (state, asks, operations) = (self.node.state().clone(), asked.clone(), txn.success.len().max(txn.failure.len()));
        let answer = move |read: &dyn Read, revisions| {
            asks.reads_in(read, &txn)?;
            read_only(read, revisions, &txn)
        };
        let read = move || state.read(|read, revisions| (answer(read, revisions), revisions.current));
        let (found, revision): (mvcc::Result<_>, _) = blocking(self.node.state(), read).await?.map_err(disk_status)?;
        trace.step("read keys");
        self.note_read_txn(operations, &trace);
        let found = found.map_err(status)?;
        self.unchanged(&asked)?;
        Ok((revision, found))
    }
}

/// Some operation writes, whichever branch it is in.
fn writes(txn: &command::Txn) -> bool {
    txn.success.iter().chain(&txn.failure).any(|op| match &op.request {
        Some(command::Request::Range(_)) | None => false,
        Some(command::Request::Txn(nested)) => writes(nested),
        Some(_) => true,
    })
}

/// Every read in it says so: then it may be answered from local state.
fn serializable(txn: &TxnRequest) -> bool {
    use etcd::etcdserverpb::request_op::Request;
    txn.success.iter().chain(&txn.failure).all(|op| match &op.request {
        Some(Request::RequestRange(range)) => range.serializable,
        _ => false,
    })
}
