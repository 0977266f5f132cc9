//! `--force-new-cluster`: what is left of a cluster that lost its quorum for good becomes a cluster of one.
//!
//! The log gets one more entry, a membership of this member alone, which nobody else agreed to. It holds as soon as it is in
//! the log, so that this member elects itself and commits what lies before it. Unlike in etcd that includes entries this
//! member does not know to be committed: some may have been acknowledged, and those that were not may well have happened.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};

use openraft::{entry::RaftEntry, vote::RaftLeaderId as _};
use prost::Message as _;

use super::{
    log_store::{self, io_error},
    state_machine::Position,
    types::{Entry, EntryPayload, LeaderId, LogId, Member, Membership, Vote},
    wire::{self, pb},
};
use crate::{
    apply::member,
    disk::{Batch, Column, Database, columns::raft_meta},
};

/// Makes the member whose log and state these are the only one. One that is alone already, or new, stays as it is.
pub(crate) fn stay_alone(log: &dyn Database, state: &dyn Database) -> io::Result<()> {
    let Some(identity) = log_store::read::<pb::Identity>(log, raft_meta::IDENTITY)? else { return Ok(()) };
    let position = Position::read(state)?;
    let purged = wire::log_id(log_store::read(log, raft_meta::PURGED)?)?;
    let last = log_store::last_entry(log, purged.map_or(0, |id| id.index + 1))?.or(purged).max(position.applied);
    let (Some(last), members) = (last, latest_membership(log, &position)?) else { return Ok(()) };
    let me = identity.member_id;
    let known = members.get_node(&me).cloned();
    let known = known.ok_or_else(|| io::Error::other("--force-new-cluster: this member was removed from its cluster"))?;
    // Those of the applied membership too: a crash between the two writes below leaves a log that names this member alone.
    let named = members.nodes().chain(position.membership.membership().nodes());
    let others: BTreeSet<_> = named.map(|(id, _)| *id).filter(|id| *id != me).collect();
    if others.is_empty() {
        return Ok(());
    }
    let removed = others.iter().map(|id| format!("{id:x}")).collect::<Vec<_>>().join(",");
    tracing::warn!(member = format!("{me:x}"), removed, "forcing a new cluster of this member alone");
    let vote = log_store::read::<pb::Vote>(log, raft_meta::VOTE)?.map(Vote::try_from).transpose()?;
    let term = vote.map_or(0, |vote| vote.leader_id.term).max(last.leader_id.term) + 1;
    append(log, LogId::new(LeaderId::new(term, me), last.index + 1), Member { learner: false, ..known })?;
    give_up(state, &others)
}

/// Notes now what applying that entry will note again: nothing of the others may be listened to before it.
fn give_up(state: &dyn Database, others: &BTreeSet<u64>) -> io::Result<()> {
    let mut batch = Batch::default();
    others.iter().for_each(|id| member::remove(&mut batch, *id));
    state.write(batch).map_err(io_error)?;
    state.sync().map_err(io_error)
}

/// The membership that holds: the last one in the log, or the one that was applied.
fn latest_membership(log: &dyn Database, position: &Position) -> io::Result<Membership> {
    let mut cursor = log.scan(Column::RaftLog, &0u64.to_be_bytes(), None).map_err(io_error)?;
    let mut latest = position.membership.membership().clone();
    while let Some((_, value)) = cursor.row() {
        if let EntryPayload::Membership(membership) = log_store::entry(value)?.payload {
            latest = membership;
        }
        cursor.advance().map_err(io_error)?;
    }
    Ok(latest)
}

fn append(log: &dyn Database, id: LogId, member: Member) -> io::Result<()> {
    let me = id.leader_id.node_id;
    let alone = Membership::new(vec![BTreeSet::from([me])], BTreeMap::from([(me, member)])).map_err(io::Error::other)?;
    let entry = Entry::new(id, EntryPayload::Membership(alone));
    let vote = pb::Vote { leader: Some(pb::LeaderId { term: id.leader_id.term, member_id: me }), committed: false };
    let mut batch = Batch::default();
    batch.put(Column::RaftLog, id.index.to_be_bytes().to_vec(), pb::Entry::from(entry).encode_to_vec());
    batch.put(Column::RaftMeta, raft_meta::VOTE, vote.encode_to_vec());
    log.write(batch).map_err(io_error)?;
    log.sync().map_err(io_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        disk::memory::Memory,
        raft::{membership::Identity, planted::plant},
    };

    #[test]
    fn a_crash_in_the_midst_of_it_lets_nobody_come_back() {
        let identity = Identity { cluster_id: 9, member_id: 1 };
        let members = [1, 2, 3].map(|id| (id, Member { name: String::new(), peer_urls: Vec::new(), learner: false }));
        let [log, state, lost] = [(); 3].map(|()| Memory::new());
        for state in [&state, &lost] {
            plant(state, &log, &identity, &BTreeMap::from(members.clone())).unwrap();
        }
        // The log has the new membership; what was noted in the state never reached the disk.
        stay_alone(&log, &lost).unwrap();
        stay_alone(&log, &state).unwrap();
        assert_eq!(member::removed(&state).unwrap(), [2, 3]);
    }
}
