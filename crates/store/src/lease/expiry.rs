//! Proposes to revoke leases whose time is up, and to checkpoint long ones, while this member leads.

use crate::{
    command::{Command, LeaseCheckpoint, LeaseRevoke, Remaining},
    metrics::Metrics,
    node::Node,
    state::State,
};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// Leases revoked per round at most; etcd's limit of 1000 per second.
const REVOKED_PER_ROUND: usize = 500;
const ROUND: Duration = Duration::from_millis(500);
/// A revocation that did not get through is tried again after this time.
const RETRY: Duration = Duration::from_secs(3);
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(300);
const CHECKPOINTED_PER_ROUND: usize = 1000;

/// Runs until shutdown; checkpoints where that is switched on.
pub async fn run(node: Arc<dyn Node>, checkpoints: bool, metrics: Metrics, shutdown: CancellationToken) {
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(ROUND) => {}
        }
        revoke_expired(&node, &metrics).await;
        if checkpoints {
            checkpoint(&node).await;
        }
    }
}

async fn revoke_expired(node: &Arc<dyn Node>, metrics: &Metrics) {
    let expired = expired(node.state());
    metrics.leases_expired.inc_by(expired.len() as u64);
    let revoke = |revoke| node.propose(Command::LeaseRevoke(revoke));
    for outcome in futures::future::join_all(expired.into_iter().map(revoke)).await {
        if let Err(refusal) = outcome {
            tracing::warn!(%refusal, "revoke expired lease; will try again");
        }
    }
}

/// Leases whose time is up, put off until it is known whether they are revoked. One that is still there after that was
/// renewed by a later leader, or its revocation got lost.
fn expired(state: &State) -> Vec<LeaseRevoke> {
    state.with_lessor(|lessor, now| {
        let Some(term) = lessor.term() else { return Vec::new() };
        let expired = lessor.expired(now, REVOKED_PER_ROUND);
        expired.iter().for_each(|id| lessor.defer(*id, now + RETRY));
        expired.into_iter().map(|id| LeaseRevoke { id, expired_in: term }).collect()
    })
}

async fn checkpoint(node: &Arc<dyn Node>) {
    let Some(checkpoint) = due_checkpoint(node.state()) else { return };
    if let Err(refusal) = node.propose(Command::LeaseCheckpoint(checkpoint)).await {
        tracing::warn!(%refusal, "checkpoint leases; will try again");
    }
}

/// What long leases have left, where that has not been noted for a while.
fn due_checkpoint(state: &State) -> Option<LeaseCheckpoint> {
    let left = state.with_lessor(|lessor, now| lessor.checkpoints(now, CHECKPOINT_INTERVAL, CHECKPOINTED_PER_ROUND));
    let leases: Vec<_> = left.into_iter().map(|(id, ttl)| Remaining { id, ttl }).collect();
    (!leases.is_empty()).then_some(LeaseCheckpoint { leases })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        command::LeaseGrant,
        disk::{Batch, memory::Memory},
    };
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// Members that apply the same commands, each with its own state, on one clock of seconds.
    struct Members {
        clock: Arc<AtomicU64>,
        states: Vec<Arc<State>>,
    }

    impl Members {
        fn new(count: usize) -> Self {
            let clock = Arc::new(AtomicU64::new(0));
            let open = |_| {
                let clock = clock.clone();
                State::open(Arc::new(Memory::new()), Arc::new(move || Duration::from_secs(clock.load(Relaxed)))).unwrap()
            };
            let states = (0..count).map(open).collect();
            Members { clock, states }
        }

        /// In the log of a term, and then applied by all.
        fn apply(&self, term: u64, command: &Command) {
            for state in &self.states {
                state.apply(&[command.clone().in_term(term)], Batch::default()).unwrap();
            }
        }

        fn grant(&self, ttl: i64) {
            self.apply(1, &Command::LeaseGrant(LeaseGrant { id: 1, ttl }));
        }

        fn at(&self, seconds: u64) {
            self.clock.store(seconds, Relaxed);
        }

        /// Seconds the lease has left, as one member says.
        fn left(&self, member: usize) -> Option<u64> {
            self.states[member].with_lessor(|lessor, now| lessor.remaining(1, now)).map(|time| time.left.as_secs())
        }
    }

    #[test]
    fn a_change_of_leaders_does_not_extend_a_lease_that_was_checkpointed() {
        for (checkpoints, left) in [(true, 700), (false, 1000)] {
            let members = Members::new(2);
            members.states[0].promote(1, Duration::ZERO);
            members.grant(1000);
            members.at(300);
            if checkpoints {
                members.apply(1, &Command::LeaseCheckpoint(due_checkpoint(&members.states[0]).unwrap()));
            }
            members.states[0].demote();
            members.states[1].promote(2, Duration::ZERO);
            assert_eq!(members.left(1), Some(left), "checkpoints: {checkpoints}");
        }
    }

    #[test]
    fn a_checkpoint_survives_the_restart_of_all_members() {
        let disk = Arc::new(Memory::new());
        let at = |seconds| State::open(disk.clone(), Arc::new(move || Duration::from_secs(seconds))).unwrap();
        let state = at(0);
        state.apply(&[Command::LeaseGrant(LeaseGrant { id: 1, ttl: 1000 })], Batch::default()).unwrap();
        let leases = vec![Remaining { id: 1, ttl: 640 }];
        state.apply(&[Command::LeaseCheckpoint(LeaseCheckpoint { leases })], Batch::default()).unwrap();
        let state = at(5000);
        state.promote(2, Duration::ZERO);
        assert_eq!(state.with_lessor(|lessor, now| lessor.remaining(1, now)).unwrap().left, Duration::from_secs(640));
    }

    #[test]
    fn a_leader_that_was_stalled_revokes_nothing_its_successor_keeps_alive() {
        let members = Members::new(2);
        members.states[0].promote(1, Duration::ZERO);
        members.grant(10);
        // The first leader stands still, another one is elected and the lease kept alive with it.
        members.states[1].promote(2, Duration::ZERO);
        members.at(9);
        members.states[1].with_lessor(|lessor, now| lessor.renew(1, now)).unwrap();
        // Now the first one goes on, and does not know yet.
        members.at(12);
        let revocations = expired(&members.states[0]);
        assert_eq!(revocations, [LeaseRevoke { id: 1, expired_in: 1 }]);
        members.apply(2, &Command::LeaseRevoke(revocations[0]));
        assert_eq!(members.left(1), Some(7));
        // Its time being up for the leader of the term is another matter.
        members.at(19);
        members.apply(2, &Command::LeaseRevoke(expired(&members.states[1])[0]));
        assert_eq!(members.left(1), None);
    }

    #[test]
    fn a_revocation_that_waits_for_a_stalled_disk_is_not_proposed_twice_and_nothing_else_is() {
        let members = Members::new(1);
        members.states[0].promote(1, Duration::ZERO);
        members.grant(10);
        members.apply(1, &Command::LeaseGrant(LeaseGrant { id: 2, ttl: 60 }));
        members.at(10);
        assert_eq!(expired(&members.states[0]).len(), 1);
        members.at(12);
        assert!(expired(&members.states[0]).is_empty());
        members.at(14);
        assert_eq!(expired(&members.states[0]), [LeaseRevoke { id: 1, expired_in: 1 }]);
    }
}
