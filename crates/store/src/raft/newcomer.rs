//! A member that starts with an empty data directory: for the first time, or because it lost what it had.
//!
//! Only the first may go on. The other has acknowledged writes and given votes it no longer knows of; under its old ID
//! it would help elect a leader without those writes. As in etcd, the other members tell which it is; unlike in etcd,
//! a leader it has answered and a member it has asked for votes know it too, not only who saw it publish itself.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::future::join_all;
use openraft::async_runtime::watch::WatchReceiver;
use tokio::time::timeout;
use tonic::{Code, Status};

use super::{
    member::RaftNode,
    membership::Identity,
    peers::{Lane, PeerTls, Peers},
    types::Member,
    wire::pb,
};
use crate::{apply::member, disk, metrics::Metrics};

/// Longest wait for a peer's answer. One that starts at the same time listens, but answers only when it has started.
const ANSWER: Duration = Duration::from_secs(2);

/// A member that must not start.
#[derive(Debug, thiserror::Error)]
#[error("member {member:x} has already been bootstrapped: {peer} knows it, but its data directory is empty")]
pub(crate) struct Known {
    member: u64,
    peer: String,
}

/// Asks every other member that answers whether it knows `identity`.
///
/// # Errors
/// One does.
pub(crate) async fn check(identity: &Identity, initial: &BTreeMap<u64, Member>, tls: PeerTls) -> Result<(), Known> {
    let peers = Peers::new(identity.clone(), Arc::new(tls), Metrics::new());
    let others = initial.iter().filter(|(id, _)| **id != identity.member_id);
    let asked = others.map(async |(id, other)| match timeout(ANSWER, ask(&peers, *id, other, identity.member_id)).await {
        Ok(Ok(answer)) => answer.seen.then(|| other.name.clone()),
        Ok(Err(status)) => {
            tracing::debug!(peer = other.name, %status, "ask whether this member is known");
            None
        }
        Err(_) => None,
    });
    match join_all(asked).await.into_iter().flatten().next() {
        Some(peer) => Err(Known { member: identity.member_id, peer }),
        None => Ok(()),
    }
}

/// What a peer knows of a member.
pub(super) async fn ask(peers: &Peers, id: u64, other: &Member, member_id: u64) -> Result<pb::SeenResponse, Status> {
    let client = peers.client(id, other, Lane::Control).await;
    let mut client = client.map_err(|error| Status::new(Code::Unavailable, error.to_string()))?;
    Ok(client.seen(pb::SeenRequest { member_id }).await?.into_inner())
}

impl RaftNode {
    /// Whether `id` has taken part, as far as this member knows: it published itself, led or campaigned in the present
    /// term, or acknowledged entries to this leader.
    pub(crate) fn has_seen(&self, id: u64) -> disk::Result<bool> {
        let published = self.state().read(|read, _| member::list(read))??;
        let metrics = self.raft().metrics().borrow_watched().clone();
        let acknowledged = metrics.replication.is_some_and(|matched| matched.get(&id).is_some_and(Option::is_some));
        let campaigned = metrics.vote.leader_id.node_id == id;
        Ok(acknowledged || campaigned || published.iter().any(|published| published.member == id))
    }

    /// Whether `id` was removed from the cluster.
    pub(crate) fn has_removed(&self, id: u64) -> disk::Result<bool> {
        Ok(self.state().read(|read, _| member::removed(read))??.contains(&id))
    }
}
