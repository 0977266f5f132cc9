//! The member as the RPC layer sees it: propose, read barrier, and the local state.

use crate::{
    command::{Command, Outcome},
    refusal::Refusal,
    state::State,
};
use std::{sync::Arc, time::Duration};

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster.
    pub cluster: u64,
    /// The member.
    pub member: u64,
}

/// What the leader knows of a lease's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTime {
    /// Granted time to live.
    pub granted: Duration,
    /// What is left of it.
    pub remaining: Duration,
}

/// A member of a cluster.
#[async_trait::async_trait]
pub trait Node: Send + Sync + 'static {
    /// Who it is.
    fn identity(&self) -> Identity;

    /// The term it is in.
    fn term(&self) -> u64;

    /// Its own replica of the state.
    fn state(&self) -> &Arc<State>;

    /// There is a leader, as far as this member knows.
    fn has_leader(&self) -> bool;

    /// It was added to learn only: it serves nothing that must be up to date.
    fn learns(&self) -> bool {
        false
    }

    /// Has a command replicated and applied, here too. An error means it may or may not have been, unless it is one
    /// of a request that never entered a log.
    async fn propose(&self, command: Command) -> Result<Outcome, Refusal>;

    /// Returns once the local state holds every write acknowledged before the call.
    async fn read_barrier(&self) -> Result<(), Refusal>;

    /// This member leads, and the others agree: one that was paused may have been replaced and not know it yet.
    async fn still_leads(&self) -> bool {
        self.read_barrier().await.is_ok()
    }

    /// Starts a lease's time afresh, on the leader; the granted seconds.
    async fn lease_renew(&self, id: i64) -> Result<i64, Refusal>;

    /// A lease's time, from the leader.
    async fn lease_time(&self, id: i64) -> Result<LeaseTime, Refusal>;
}
