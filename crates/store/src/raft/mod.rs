//! Consensus: one log that all members apply in the same order, on openraft. Only this module names it.
//!
//! A write: [`member`] gives it an ID and waits; [`proposer`] brings it to the leader, whose log and whose peers'
//! logs ([`log_store`]) make it durable; [`state_machine`] applies it on each member once it is on that member's own
//! disk, and tells whoever waits under its ID ([`proposals`]). A linearizable read passes the [`barrier`].

mod alone;
#[cfg(test)]
mod any_bytes;
mod barrier;
mod contact;
mod counted;
mod flusher;
mod hashes;
mod housekeeping;
pub(crate) mod joining;
mod leadership;
mod leases;
mod log_store;
mod lost_leader;
mod member;
pub(crate) mod membership;
mod network;
pub(crate) mod newcomer;
mod overload;
pub(crate) mod peers;
pub(crate) mod planted;
mod probe;
mod proposals;
mod proposer;
pub(crate) mod reconfigure;
pub(crate) mod removed;
mod reversed;
pub(crate) mod runtime;
mod server;
mod snapshot;
mod stamp;
mod start;
mod state_machine;
mod tail;
#[cfg(test)]
mod tests;
mod transfers;
mod types;
mod wire;

pub(crate) use hashes::Print;
pub(crate) use member::RaftNode;
pub(crate) use start::Options;
#[cfg(test)]
pub(crate) use types::Member;

use std::sync::Arc;

use crate::{
    command::{Command, Outcome},
    node::{self, LeaseTime, Node},
    refusal::Refusal,
    state::State,
};

#[async_trait::async_trait]
impl Node for RaftNode {
    fn identity(&self) -> node::Identity {
        let identity = RaftNode::identity(self);
        node::Identity { cluster: identity.cluster_id, member: identity.member_id }
    }

    fn term(&self) -> u64 {
        RaftNode::term(self)
    }

    fn state(&self) -> &Arc<State> {
        RaftNode::state(self)
    }

    fn has_leader(&self) -> bool {
        self.leadership().id().is_some()
    }

    fn learns(&self) -> bool {
        RaftNode::learns(self)
    }

    async fn propose(&self, command: Command) -> Result<Outcome, Refusal> {
        RaftNode::propose(self, command).await
    }

    async fn read_barrier(&self) -> Result<(), Refusal> {
        RaftNode::read_barrier(self).await
    }

    async fn still_leads(&self) -> bool {
        let own = |leader: &leadership::Leader| self.leadership().is_mine(leader);
        let Some(before) = self.leadership().current().filter(own) else { return false };
        self.read_barrier().await.is_ok() && self.leadership().current().is_some_and(|now| now.id == before.id)
    }

    async fn lease_renew(&self, id: i64) -> Result<i64, Refusal> {
        self.renew_lease(id).await
    }

    async fn lease_time(&self, id: i64) -> Result<LeaseTime, Refusal> {
        self.time_of_lease(id).await
    }
}
