//! Conversions between openraft's types and the protobuf form they have between members and on disk.

use std::collections::{BTreeMap, BTreeSet};

use openraft::{
    entry::RaftEntry,
    raft::{AppendEntriesRequest, StreamAppendError, StreamAppendResult, TransferLeaderRequest, VoteRequest, VoteResponse},
};
use prost::Message;

use super::types::{
    Bundle, Entry, EntryPayload, LeaderId, LogId, Member, Membership, Proposal, SnapshotMeta, StoredMembership, TypeConfig, Vote,
};

/// The generated messages and service of `proto/raft/v1`.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, clippy::unwrap_used)]
pub(crate) mod pb {
    tonic::include_proto!("raft.v1");
}

/// A message that lacks what every well-behaved member sends, or bytes that are none.
// Shown by implementations for foreign types; the module itself is private.
#[allow(unreachable_pub, missing_docs)]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("decode {0}")]
    Decode(&'static str, #[source] prost::DecodeError),
    #[error("inconsistent membership: {0}")]
    Membership(String),
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        std::io::Error::new(std::io::ErrorKind::InvalidData, error)
    }
}

/// Decodes a `T`, naming it in the error.
pub(crate) fn decode<T: Message + Default>(what: &'static str, bytes: impl bytes::Buf) -> Result<T, Error> {
    T::decode(bytes).map_err(|e| Error::Decode(what, e))
}

impl From<LeaderId> for pb::LeaderId {
    fn from(id: LeaderId) -> Self {
        Self { term: id.term, member_id: id.node_id }
    }
}

impl From<pb::LeaderId> for LeaderId {
    fn from(id: pb::LeaderId) -> Self {
        Self { term: id.term, node_id: id.member_id }
    }
}

impl From<LogId> for pb::LogId {
    fn from(id: LogId) -> Self {
        Self { leader: Some(id.leader_id.into()), index: id.index }
    }
}

impl TryFrom<pb::LogId> for LogId {
    type Error = Error;
    fn try_from(id: pb::LogId) -> Result<Self, Error> {
        let leader = id.leader.ok_or(Error::Missing("the leader of a log id"))?;
        Ok(LogId { leader_id: leader.into(), index: id.index })
    }
}

/// An optional log id; absent on the wire means none.
pub(crate) fn log_id(id: Option<pb::LogId>) -> Result<Option<LogId>, Error> {
    id.map(LogId::try_from).transpose()
}

impl From<Vote> for pb::Vote {
    fn from(vote: Vote) -> Self {
        Self { leader: Some(vote.leader_id.into()), committed: vote.committed }
    }
}

impl TryFrom<pb::Vote> for Vote {
    type Error = Error;
    fn try_from(vote: pb::Vote) -> Result<Self, Error> {
        let leader = vote.leader.ok_or(Error::Missing("the leader of a vote"))?;
        Ok(Vote { leader_id: leader.into(), committed: vote.committed })
    }
}

/// A vote that must be there.
pub(crate) fn vote(vote: Option<pb::Vote>) -> Result<Vote, Error> {
    vote.ok_or(Error::Missing("the vote"))?.try_into()
}

impl From<&Membership> for pb::Membership {
    fn from(membership: &Membership) -> Self {
        let voters = membership.get_joint_config().iter();
        let members = membership.nodes();
        Self {
            voters: voters.map(|set| pb::VoterSet { member_ids: set.iter().copied().collect() }).collect(),
            members: members.map(|(id, m)| member(*id, m)).collect(),
        }
    }
}

pub(crate) fn member(id: u64, member: &Member) -> pb::Member {
    pb::Member { id, name: member.name.clone(), peer_urls: member.peer_urls.clone(), learner: member.learner }
}

impl From<pb::Member> for Member {
    fn from(member: pb::Member) -> Self {
        Self { name: member.name, peer_urls: member.peer_urls, learner: member.learner }
    }
}

impl TryFrom<pb::Membership> for Membership {
    type Error = Error;
    fn try_from(membership: pb::Membership) -> Result<Self, Error> {
        if membership.voters.is_empty() && membership.members.is_empty() {
            return Ok(Membership::default());
        }
        let voters = membership.voters.into_iter().map(|s| s.member_ids.into_iter().collect::<BTreeSet<_>>());
        let members = membership.members.into_iter();
        let members = members.map(|m| (m.id, m.into()));
        Membership::new(voters.collect(), members.collect::<BTreeMap<_, _>>()).map_err(|e| Error::Membership(e.to_string()))
    }
}

impl From<&StoredMembership> for pb::StoredMembership {
    fn from(stored: &StoredMembership) -> Self {
        Self { log_id: stored.log_id().map(Into::into), membership: Some(stored.membership().into()) }
    }
}

impl TryFrom<pb::StoredMembership> for StoredMembership {
    type Error = Error;
    fn try_from(stored: pb::StoredMembership) -> Result<Self, Error> {
        let membership = stored.membership.unwrap_or_default().try_into()?;
        Ok(StoredMembership::new(log_id(stored.log_id)?, membership))
    }
}

impl From<&SnapshotMeta> for pb::SnapshotMeta {
    fn from(meta: &SnapshotMeta) -> Self {
        Self { last_log_id: meta.last_log_id.map(Into::into), membership: Some((&meta.last_membership).into()) }
    }
}

impl TryFrom<pb::SnapshotMeta> for SnapshotMeta {
    type Error = Error;
    fn try_from(meta: pb::SnapshotMeta) -> Result<Self, Error> {
        let membership = meta.membership.ok_or(Error::Missing("the membership of a snapshot"))?;
        Ok(SnapshotMeta { last_log_id: log_id(meta.last_log_id)?, last_membership: membership.try_into()? })
    }
}

impl From<Proposal> for pb::Proposal {
    fn from(proposal: Proposal) -> Self {
        Self { id: proposal.id, command: proposal.command }
    }
}

impl From<pb::Proposal> for Proposal {
    fn from(proposal: pb::Proposal) -> Self {
        Self { id: proposal.id, command: proposal.command }
    }
}

impl From<Entry> for pb::Entry {
    fn from(entry: Entry) -> Self {
        let payload = match entry.payload {
            EntryPayload::Blank => None,
            EntryPayload::Normal(bundle) => Some(payload(&bundle)),
            EntryPayload::Membership(m) => Some(pb::entry::Payload::Membership((&m).into())),
        };
        Self { log_id: Some(entry.log_id.into()), payload }
    }
}

/// One proposal stands for itself, as it did before there were bundles.
fn payload(bundle: &Bundle) -> pb::entry::Payload {
    let proposals = bundle.0.iter().cloned().map(pb::Proposal::from);
    match &bundle.0[..] {
        [proposal] => pb::entry::Payload::Proposal(proposal.clone().into()),
        _ => pb::entry::Payload::Bundle(pb::Bundle { proposals: proposals.collect() }),
    }
}

/// An entry off the wire or the disk.
pub(crate) fn entry(entry: pb::Entry) -> Result<Entry, Error> {
    let id = entry.log_id.ok_or(Error::Missing("the id of an entry"))?.try_into()?;
    let payload = match entry.payload {
        None => EntryPayload::Blank,
        Some(pb::entry::Payload::Proposal(proposal)) => EntryPayload::Normal(Bundle::new([proposal.into()])),
        Some(pb::entry::Payload::Bundle(bundle)) => {
            let proposals: Vec<Proposal> = bundle.proposals.into_iter().map(Into::into).collect();
            EntryPayload::Normal(Bundle::new(proposals))
        }
        Some(pb::entry::Payload::Membership(m)) => EntryPayload::Membership(m.try_into()?),
    };
    Ok(Entry::new(id, payload))
}

impl From<AppendEntriesRequest<TypeConfig>> for pb::AppendRequest {
    fn from(rpc: AppendEntriesRequest<TypeConfig>) -> Self {
        Self {
            vote: Some(rpc.vote.into()),
            prev_log_id: rpc.prev_log_id.map(Into::into),
            entries: rpc.entries.into_iter().map(Into::into).collect(),
            leader_commit: rpc.leader_commit.map(Into::into),
        }
    }
}

impl TryFrom<pb::AppendRequest> for AppendEntriesRequest<TypeConfig> {
    type Error = Error;
    fn try_from(rpc: pb::AppendRequest) -> Result<Self, Error> {
        Ok(Self {
            vote: vote(rpc.vote)?,
            prev_log_id: log_id(rpc.prev_log_id)?,
            entries: rpc.entries.into_iter().map(entry).collect::<Result<_, _>>()?,
            leader_commit: log_id(rpc.leader_commit)?,
        })
    }
}

impl From<StreamAppendResult<TypeConfig>> for pb::AppendResponse {
    fn from(result: StreamAppendResult<TypeConfig>) -> Self {
        use pb::append_response::Result as Wire;
        let result = match result {
            Ok(matched) => Wire::Matched(pb::Matched { log_id: matched.map(Into::into) }),
            Err(StreamAppendError::Conflict(id)) => Wire::Conflict(id.into()),
            Err(StreamAppendError::HigherVote(vote)) => Wire::HigherVote(vote.into()),
        };
        Self { result: Some(result) }
    }
}

/// What a follower answered to an append.
pub(crate) fn append_result(response: pb::AppendResponse) -> Result<StreamAppendResult<TypeConfig>, Error> {
    use pb::append_response::Result as Wire;
    Ok(match response.result.ok_or(Error::Missing("the result of an append"))? {
        Wire::Matched(matched) => Ok(log_id(matched.log_id)?),
        Wire::Conflict(id) => Err(StreamAppendError::Conflict(id.try_into()?)),
        Wire::HigherVote(vote) => Err(StreamAppendError::HigherVote(vote.try_into()?)),
    })
}

impl From<VoteRequest<TypeConfig>> for pb::VoteRequest {
    fn from(rpc: VoteRequest<TypeConfig>) -> Self {
        Self { vote: Some(rpc.vote.into()), last_log_id: rpc.last_log_id.map(Into::into), leadership_transfer: rpc.leadership_transfer }
    }
}

impl TryFrom<pb::VoteRequest> for VoteRequest<TypeConfig> {
    type Error = Error;
    fn try_from(rpc: pb::VoteRequest) -> Result<Self, Error> {
        let mut request = VoteRequest::new(vote(rpc.vote)?, log_id(rpc.last_log_id)?);
        request.leadership_transfer = rpc.leadership_transfer;
        Ok(request)
    }
}

impl From<VoteResponse<TypeConfig>> for pb::VoteResponse {
    fn from(response: VoteResponse<TypeConfig>) -> Self {
        Self { vote: Some(response.vote.into()), granted: response.vote_granted, last_log_id: response.last_log_id.map(Into::into) }
    }
}

impl TryFrom<pb::VoteResponse> for VoteResponse<TypeConfig> {
    type Error = Error;
    fn try_from(response: pb::VoteResponse) -> Result<Self, Error> {
        Ok(VoteResponse::new(vote(response.vote)?, log_id(response.last_log_id)?, response.granted))
    }
}

impl From<TransferLeaderRequest<TypeConfig>> for pb::TransferLeaderRequest {
    fn from(rpc: TransferLeaderRequest<TypeConfig>) -> Self {
        Self { from: Some((*rpc.from_leader()).into()), to: *rpc.to_node_id(), last_log_id: rpc.last_log_id().copied().map(Into::into) }
    }
}

impl TryFrom<pb::TransferLeaderRequest> for TransferLeaderRequest<TypeConfig> {
    type Error = Error;
    fn try_from(rpc: pb::TransferLeaderRequest) -> Result<Self, Error> {
        Ok(TransferLeaderRequest::new(vote(rpc.from)?, rpc.to, log_id(rpc.last_log_id)?))
    }
}
