//! What openraft sends to the other members.

use std::{future::Future, pin::Pin, time::Duration};

use futures::{FutureExt, StreamExt, stream};
use openraft::{
    AnyError, OptionalSend,
    base::{BoxFuture, BoxStream},
    errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable},
    network::{RPCOption, RPCTypes, RaftNetworkFactory, stream_append_sequential, v2::RaftNetworkV2},
    raft::{
        AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult, TransferLeaderRequest, TransferLeaderResponse,
        VoteRequest, VoteResponse,
    },
    type_config::alias::SnapshotOf,
};
use tonic::{Code, Status};

use super::{
    peers::{Client, Lane, Peers},
    snapshot::Files,
    transfers::Sending,
    types::{Member, TypeConfig, Vote},
    wire::{self, pb},
};
use crate::metrics::member_label;

/// Opening a stream of appends takes no longer than this on a working connection.
const OPEN_STREAM: Duration = Duration::from_secs(2);

/// Makes a [`Connection`] for each purpose openraft has.
#[derive(Clone)]
pub(crate) struct Network {
    pub(crate) peers: Peers,
    /// This member.
    pub(crate) id: u64,
}

impl Network {
    fn connection(&self, target: u64, member: &Member, lane: Lane) -> Connection {
        Connection { peers: self.peers.clone(), id: self.id, target, member: member.clone(), lane }
    }
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Connection;

    async fn new_client(&mut self, target: u64, node: &Member) -> Connection {
        self.connection(target, node, Lane::Log)
    }

    async fn new_heartbeat_client(&mut self, target: u64, node: &Member) -> Connection {
        self.connection(target, node, Lane::Control)
    }

    async fn new_snapshot_client(&mut self, target: u64, node: &Member) -> Connection {
        self.connection(target, node, Lane::Snapshot)
    }
}

/// The way to one member for one purpose.
pub(crate) struct Connection {
    peers: Peers,
    id: u64,
    target: u64,
    member: Member,
    lane: Lane,
}

type Rpc<T> = Result<T, RPCError<TypeConfig>>;

impl Connection {
    async fn client(&self) -> Rpc<Client> {
        let client = self.peers.client(self.target, &self.member, self.lane).await;
        client.map_err(|e| RPCError::Unreachable(Unreachable::new(&e)))
    }

    /// One call within `ttl`; a failed one gives up the connection.
    async fn call<T>(
        &self,
        action: RPCTypes,
        ttl: Duration,
        call: impl AsyncFnOnce(Client) -> Result<tonic::Response<T>, Status>,
    ) -> Rpc<T> {
        let client = self.client().await.inspect_err(|_| self.count_failure())?;
        match tokio::time::timeout(ttl, call(client)).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(self.failed(&status)),
            Err(_) => {
                self.count_failure();
                Err(RPCError::Timeout(Timeout { action, id: self.id, target: self.target, timeout: ttl }))
            }
        }
    }

    fn count_failure(&self) {
        let metrics = self.peers.metrics();
        metrics.peer_sent_failures.get_or_create(&member_label("To", self.target)).inc();
    }

    fn failed(&self, status: &Status) -> RPCError<TypeConfig> {
        self.count_failure();
        self.peers.forget(self.target, self.lane);
        // What has a cause was not said by the peer: the connection broke. Only an unreachable peer is left in peace for a
        // while; others are tried again at once.
        let broken = std::error::Error::source(status).is_some();
        match status.code() {
            Code::Unavailable | Code::FailedPrecondition => RPCError::Unreachable(Unreachable::new(status)),
            _ if broken => RPCError::Unreachable(Unreachable::new(status)),
            _ => RPCError::Network(NetworkError::new(status)),
        }
    }
}

/// A vote is synced before it is answered: on a slow disk every moment counts.
fn vote_ttl(option: &RPCOption) -> Duration {
    option.hard_ttl() * 19 / 20
}

fn garbled(error: wire::Error) -> RPCError<TypeConfig> {
    RPCError::Network(NetworkError::new(&error))
}

impl RaftNetworkV2<TypeConfig> for Connection {
    type SnapshotData = Files;

    async fn append_entries(&mut self, rpc: AppendEntriesRequest<TypeConfig>, option: RPCOption) -> Rpc<AppendEntriesResponse<TypeConfig>> {
        let request = pb::AppendRequest::from(rpc);
        let call = async move |mut client: Client| client.append(request).await;
        let response = self.call(RPCTypes::AppendEntries, option.soft_ttl(), call).await;
        // Entries are streamed: this is a heartbeat.
        let response = response.inspect_err(|_| {
            self.peers.metrics().heartbeats_failed.inc();
        })?;
        Ok(wire::append_result(response).map_err(garbled)?.into())
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        option: RPCOption,
    ) -> BoxFuture<'s, Rpc<BoxStream<'s, Rpc<StreamAppendResult<TypeConfig>>>>>
    where
        S: futures::Stream<Item = AppendEntriesRequest<TypeConfig>> + OptionalSend + Unpin + 'static,
    {
        // A heartbeat is a stream of one: a plain call costs less.
        if self.lane == Lane::Control {
            return stream_append_sequential(self, input, option);
        }
        let open = async move {
            let mut requests = input.map(pb::AppendRequest::from).peekable();
            // The first one is late while openraft leaves a peer in peace after errors: no connection before that.
            if Pin::new(&mut requests).peek().await.is_none() {
                return Ok(stream::empty().boxed() as BoxStream<'s, _>);
            }
            let call = async move |mut client: Client| client.append_stream(requests).await;
            let responses = self.call(RPCTypes::AppendEntries, OPEN_STREAM, call).await?;
            let this = &*self;
            let results = responses.map(move |response| match response {
                Ok(response) => wire::append_result(response).map_err(garbled),
                Err(status) => Err(this.failed(&status)),
            });
            Ok(Box::pin(results) as BoxStream<'s, _>)
        };
        open.boxed()
    }

    async fn vote(&mut self, rpc: VoteRequest<TypeConfig>, option: RPCOption) -> Rpc<VoteResponse<TypeConfig>> {
        let request = pb::VoteRequest::from(rpc);
        let call = async move |mut client: Client| client.vote(request).await;
        let response = self.call(RPCTypes::Vote, vote_ttl(&option), call).await?;
        response.try_into().map_err(garbled)
    }

    async fn pre_vote(&mut self, rpc: VoteRequest<TypeConfig>, option: RPCOption) -> Rpc<VoteResponse<TypeConfig>> {
        let request = pb::VoteRequest::from(rpc);
        let call = async move |mut client: Client| client.pre_vote(request).await;
        let response = self.call(RPCTypes::Vote, vote_ttl(&option), call).await?;
        response.try_into().map_err(garbled)
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: SnapshotOf<TypeConfig, Files>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        let header = pb::SnapshotHeader {
            vote: Some(vote.into()),
            meta: Some((&snapshot.meta).into()),
            files: snapshot.snapshot.list().map_err(|e| StreamingError::from(RPCError::Network(NetworkError::new(&e))))?,
        };
        let messages = snapshot.snapshot.messages(header);
        let sending = Sending::new(self.peers.metrics(), self.target);
        let call = async move |mut client: Client| client.install_snapshot(messages).await;
        let sent = self.call(RPCTypes::InstallSnapshot, option.soft_ttl(), call);
        let response = tokio::select! {
            biased;
            closed = cancel => return Err(closed.into()),
            response = sent => response?,
        };
        sending.done();
        Ok(SnapshotResponse::new(wire::vote(response.vote).map_err(garbled)?))
    }

    async fn transfer_leader(
        &mut self,
        req: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Rpc<TransferLeaderResponse<TypeConfig>> {
        let request = pb::TransferLeaderRequest::from(req);
        let call = async move |mut client: Client| client.transfer_leader(request).await;
        let response = self.call(RPCTypes::TransferLeader, option.soft_ttl(), call).await?;
        match response.refusal.is_empty() {
            true => Ok(Ok(())),
            false => Err(RPCError::Network(NetworkError::new(&AnyError::error(response.refusal)))),
        }
    }
}
