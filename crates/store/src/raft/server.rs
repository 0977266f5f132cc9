//! What the other members ask of this one.

use std::pin::Pin;

use futures::{Stream, StreamExt, future::ready};
use openraft::{
    ReadPolicy, errors::ClientWriteError, impls::ProgressResponder, raft::AppendEntriesRequest, type_config::alias::SnapshotOf,
};
use tonic::{Request, Response, Status, Streaming};

use super::{
    contact::Contact,
    counted,
    joining::Directory,
    leases,
    member::RaftNode,
    membership::Identity,
    reconfigure::Denied,
    removed, reversed,
    snapshot::{Files, Incoming, Snapshots},
    stamp::{Check, sender},
    transfers::Receiving,
    types::{Bundle, LeaderId, Proposal, Raft, TypeConfig},
    wire::{
        self,
        pb::{self, directory_server::DirectoryServer, peer_server},
    },
};

/// Largest message of a peer, as in [`super::peers`].
const MAX_MESSAGE: usize = 64 << 20;

/// The peer service of this member.
#[derive(Clone)]
pub(crate) struct PeerService {
    pub(crate) node: RaftNode,
    pub(crate) raft: Raft,
    pub(crate) contact: Contact,
    pub(crate) snapshots: Snapshots,
}

impl PeerService {
    /// Routes that refuse calls not meant for `identity`, or of those that are no members any more.
    pub(crate) fn router(self, identity: Identity) -> axum::Router {
        let node = self.node.clone();
        let (directory, peers) = (DirectoryServer::new(Directory(node.clone())), node.peers().clone());
        let service = peer_server::PeerServer::new(self);
        let service = service.max_decoding_message_size(MAX_MESSAGE).max_encoding_message_size(MAX_MESSAGE);
        let service = tonic::service::interceptor::InterceptedService::new(service, Check(identity));
        let refusing = axum::middleware::from_fn_with_state(peers.removed().clone(), removed::refuse);
        let counting = axum::middleware::from_fn_with_state(peers, counted::count);
        let routes = tonic::service::Routes::new(service).add_service(directory).prepare().into_axum_router();
        let ways_back = axum::Router::new().route(reversed::PATH, axum::routing::get(reversed::accept)).with_state(node);
        routes.merge(ways_back).layer(refusing).layer(counting)
    }
}

type Boxed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn garbled(error: wire::Error) -> Status {
    Status::invalid_argument(error.to_string())
}

fn fatal(error: impl std::fmt::Display) -> Status {
    Status::unavailable(format!("etcdserver: server stopped: {error}"))
}

#[tonic::async_trait]
impl peer_server::Peer for PeerService {
    async fn append(&self, request: Request<pb::AppendRequest>) -> Result<Response<pb::AppendResponse>, Status> {
        let rpc = AppendEntriesRequest::try_from(request.into_inner()).map_err(garbled)?;
        self.contact.heard_from(rpc.vote.leader_id.node_id);
        let (prev, last) = (rpc.prev_log_id, rpc.entries.last().map(|entry| entry.log_id).or(rpc.prev_log_id));
        let response = self.raft.append_entries(rpc).await.map_err(fatal)?;
        Ok(Response::new(response.into_stream_result(prev, last).into()))
    }

    type AppendStreamStream = Boxed<pb::AppendResponse>;

    async fn append_stream(&self, request: Request<Streaming<pb::AppendRequest>>) -> Result<Response<Self::AppendStreamStream>, Status> {
        let appends = self.contact.appends();
        // A garbled or broken stream ends here; the leader sees the response stream end and starts over.
        let requests = request.into_inner().map(move |message| {
            let rpc = AppendEntriesRequest::try_from(message.ok()?);
            let rpc = rpc.inspect_err(|error| tracing::warn!(%error, "a peer sent a garbled append")).ok()?;
            appends.heard_from(rpc.vote.leader_id.node_id);
            Some(rpc)
        });
        let requests = requests.take_while(|rpc| ready(rpc.is_some())).filter_map(ready);
        let results = self.raft.stream_append(requests).map(|result| result.map(Into::into).map_err(fatal));
        Ok(Response::new(Box::pin(results)))
    }

    async fn vote(&self, request: Request<pb::VoteRequest>) -> Result<Response<pb::VoteResponse>, Status> {
        let rpc = request.into_inner().try_into().map_err(garbled)?;
        Ok(Response::new(self.raft.vote(rpc).await.map_err(fatal)?.into()))
    }

    async fn pre_vote(&self, request: Request<pb::VoteRequest>) -> Result<Response<pb::VoteResponse>, Status> {
        let rpc = request.into_inner().try_into().map_err(garbled)?;
        Ok(Response::new(self.raft.pre_vote(rpc).await.map_err(fatal)?.into()))
    }

    async fn install_snapshot(&self, request: Request<Streaming<pb::SnapshotMessage>>) -> Result<Response<pb::SnapshotResponse>, Status> {
        let receiving = Receiving::new(self.node.metrics(), sender(request.metadata().as_ref()));
        let Incoming { vote, meta, files } = self.snapshots.receive(request.into_inner()).await?;
        receiving.done();
        let snapshot: SnapshotOf<TypeConfig, Files> = openraft::Snapshot { meta, snapshot: files };
        let response = self.raft.install_full_snapshot(vote, snapshot).await.map_err(fatal)?;
        Ok(Response::new(pb::SnapshotResponse { vote: Some(response.vote.into()) }))
    }

    async fn transfer_leader(&self, request: Request<pb::TransferLeaderRequest>) -> Result<Response<pb::TransferLeaderResponse>, Status> {
        let rpc = request.into_inner().try_into().map_err(garbled)?;
        let result = self.raft.handle_transfer_leader(rpc).await.map_err(fatal)?;
        let refusal = result.err().map(|error| error.to_string()).unwrap_or_default();
        Ok(Response::new(pb::TransferLeaderResponse { refusal }))
    }

    async fn propose(&self, request: Request<pb::ProposeRequest>) -> Result<Response<pb::ProposeResponse>, Status> {
        let request = request.into_inner();
        let leader = request.leader.ok_or_else(|| garbled(wire::Error::Missing("the leader")))?;
        let ids: Vec<_> = request.proposals.iter().map(|proposal| proposal.id).collect();
        let proposals = request.proposals.into_iter().map(Into::into).collect();
        let rejected = append(&self.raft, leader.into(), proposals).await;
        Ok(Response::new(pb::ProposeResponse { rejected: if rejected { ids } else { Vec::new() } }))
    }

    async fn lease_renew(&self, request: Request<pb::LeaseRequest>) -> Result<Response<pb::LeaseResponse>, Status> {
        leases::renew_here(&self.node, request.into_inner().id).await.map(Response::new)
    }

    async fn lease_time(&self, request: Request<pb::LeaseRequest>) -> Result<Response<pb::LeaseResponse>, Status> {
        leases::time_here(&self.node, request.into_inner().id).await.map(Response::new)
    }

    async fn seen(&self, request: Request<pb::SeenRequest>) -> Result<Response<pb::SeenResponse>, Status> {
        let id = request.into_inner().member_id;
        let (seen, removed) = (self.node.has_seen(id).map_err(fatal)?, self.node.has_removed(id).map_err(fatal)?);
        Ok(Response::new(pb::SeenResponse { seen, removed }))
    }

    async fn reconfigure(&self, request: Request<pb::ReconfigureRequest>) -> Result<Response<pb::ReconfigureResponse>, Status> {
        let change = request.into_inner().try_into().map_err(garbled)?;
        let response = match self.node.reconfigure_here(&change).await {
            Ok(index) => pb::ReconfigureResponse { index: Some(index), refusal: None },
            Err(Denied::NotLeader) => pb::ReconfigureResponse::default(),
            Err(Denied::Refused(refusal)) => pb::ReconfigureResponse { refusal: Some(refusal as i32), index: None },
        };
        Ok(Response::new(response))
    }

    async fn hash_kv(&self, request: Request<pb::HashKvRequest>) -> Result<Response<pb::HashKvResponse>, Status> {
        Ok(Response::new(self.node.hash_here(request.into_inner().revision).await.into()))
    }

    async fn probe(&self, _: Request<pb::ProbeRequest>) -> Result<Response<pb::ProbeResponse>, Status> {
        Ok(Response::new(pb::ProbeResponse {}))
    }

    async fn read_index(&self, _: Request<pb::ReadIndexRequest>) -> Result<Response<pb::ReadIndexResponse>, Status> {
        let linearizer = self.raft.get_read_linearizer(ReadPolicy::ReadIndex).await;
        let linearizer = linearizer.map_err(|error| Status::unavailable(error.to_string()))?;
        let log_id = Some((*linearizer.read_log_id().log_id()).into());
        Ok(Response::new(pb::ReadIndexResponse { log_id }))
    }
}

/// Appends proposals as the leader `leader`, as one entry, and waits until their fate is known. True: they surely entered
/// no log; otherwise they are applied, or lost to a later leader.
pub(crate) async fn append(raft: &Raft, leader: LeaderId, proposals: Vec<Proposal>) -> bool {
    let (responder, done) = ProgressResponder::complete_only();
    // A stopped raft task appends nothing; the receiver then errs, and the waiter learns of the stop elsewhere.
    match raft.write(Bundle::new(proposals)).with_leader(leader).responder(responder).await {
        Ok(()) => matches!(done.await, Ok(Err(ClientWriteError::ForwardToLeader(_)))),
        Err(_) => true,
    }
}
