//! Where a state stands, told to a snapshot file; and a state from such a file put where a member of a new cluster
//! will find it.

use std::{collections::BTreeMap, io};

use prost::Message as _;

use super::{
    log_store::io_error,
    membership::Identity,
    state_machine::Position,
    types::Member,
    wire::{self, pb},
};
use crate::{
    apply::member,
    backup::buckets::{self, Standing},
    disk::{self, Batch, Column, Database, Read, columns::meta, columns::raft_meta},
};

/// Where a state stands in its cluster's log.
pub(crate) fn standing(read: &dyn Read) -> io::Result<Standing> {
    let position = Position::read(read)?;
    let membership = position.membership.membership();
    let member = |(id, member): (&u64, &Member)| buckets::Member { id: *id, peer_urls: member.peer_urls.clone(), learner: member.learner };
    let members = membership.nodes().map(member).collect();
    let (index, term) = position.applied.map_or((0, 0), |id| (id.index, id.leader_id.term));
    Ok(Standing { index, term, members, removed: member::removed(read).map_err(io_error)? })
}

/// The applied membership, by ID.
pub(crate) fn members(read: &dyn Read) -> io::Result<Vec<(u64, Member)>> {
    Ok(Position::read(read)?.membership.nodes().map(|(id, member)| (*id, member.clone())).collect())
}

/// Makes `state` and the still empty database of the log those of a member that has applied the forming of its
/// cluster and nothing since. Every member does it with the same membership, and so comes to the same log.
pub(crate) fn plant(state: &dyn Database, log: &dyn Database, identity: &Identity, members: &BTreeMap<u64, Member>) -> disk::Result<()> {
    let leader = pb::LeaderId { term: 1, member_id: members.keys().next().copied().unwrap_or_default() };
    let applied = pb::LogId { leader: Some(leader), index: members.len() as u64 };
    let membership = pb::Membership {
        voters: vec![pb::VoterSet { member_ids: members.keys().copied().collect() }],
        members: members.iter().map(|(id, member)| wire::member(*id, member)).collect(),
    };
    let membership = pb::StoredMembership { log_id: Some(applied), membership: Some(membership) };
    let mut batch = Batch::default();
    batch.put(Column::Meta, meta::APPLIED, applied.encode_to_vec());
    batch.put(Column::Meta, meta::MEMBERSHIP, membership.encode_to_vec());
    state.write(batch)?;
    state.sync()?;
    let vote = pb::Vote { leader: Some(leader), committed: false };
    let identity = pb::Identity { cluster_id: identity.cluster_id, member_id: identity.member_id };
    let mut batch = Batch::default();
    batch.put(Column::RaftMeta, raft_meta::VOTE, vote.encode_to_vec());
    batch.put(Column::RaftMeta, raft_meta::PURGED, applied.encode_to_vec());
    batch.put(Column::RaftMeta, raft_meta::COMMITTED, applied.encode_to_vec());
    batch.put(Column::RaftMeta, raft_meta::IDENTITY, identity.encode_to_vec());
    log.write(batch)?;
    log.sync()
}
