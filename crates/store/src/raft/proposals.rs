//! Proposals on their way: from a client's request on this member, through the leader's log, to the outcome this
//! member computes when it applies the entry itself.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::types::{LeaderId, Proposal};
use crate::command::Outcome;

/// What became of a proposal.
#[derive(Debug)]
pub(crate) enum Fate {
    /// It was applied here.
    Applied(Outcome),
    /// It surely is in no log that counts: it can be sent again.
    Lost,
    /// Nobody knows: a snapshot replaced the entries it might have been among.
    Unknown,
}

/// The proposals this member waits for.
#[derive(Default)]
pub(crate) struct Proposals(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: BTreeMap<u64, Waiting>,
    /// The latest leadership an entry was applied of.
    leader: Option<LeaderId>,
}

struct Waiting {
    tell: oneshot::Sender<Fate>,
    /// The leadership it was sent to; only that one may append it.
    leader: Option<LeaderId>,
}

impl Proposals {
    /// Waits for a proposal under a new ID.
    pub(crate) fn register(&self, id: u64) -> oneshot::Receiver<Fate> {
        let (tell, fate) = oneshot::channel();
        self.0.lock().waiting.insert(id, Waiting { tell, leader: None });
        fate
    }

    /// Stops waiting when what it returns is dropped: the client gave up, or has its answer.
    pub(crate) fn abandon_later(&self, id: u64) -> Abandon<'_> {
        Abandon { proposals: self, id }
    }

    /// Proposals under way.
    pub(crate) fn pending(&self) -> usize {
        self.0.lock().waiting.len()
    }

    /// Notes which leadership proposals are about to be sent to. Those that nobody waits for any more are taken out, and
    /// all of them when that leadership is over: they are not to be sent.
    pub(crate) fn sending(&self, proposals: &mut Vec<Proposal>, leader: LeaderId) {
        let state = &mut *self.0.lock();
        let over = state.leader > Some(leader);
        proposals.retain(|Proposal { id, .. }| {
            if over {
                tell(state, *id, Fate::Lost);
                return false;
            }
            let waiting = state.waiting.get_mut(id);
            waiting.map(|waiting| waiting.leader = Some(leader)).is_some()
        });
    }

    /// The leader said that it did not append it.
    pub(crate) fn rejected(&self, id: u64) {
        tell(&mut self.0.lock(), id, Fate::Lost);
    }

    /// An entry was applied here; its proposals, each with its outcome.
    pub(crate) fn applied(&self, outcomes: impl Iterator<Item = (u64, Outcome)>) {
        let state = &mut *self.0.lock();
        outcomes.for_each(|(id, outcome)| tell(state, id, Fate::Applied(outcome)));
    }

    /// An entry of `leader` was applied: terms in a log only grow, so whatever an earlier leadership still holds
    /// and was not applied before will never be.
    pub(crate) fn leadership_passed_to(&self, leader: LeaderId) {
        let mut state = self.0.lock();
        if state.leader >= Some(leader) {
            return;
        }
        state.leader = Some(leader);
        let lost = state.waiting.extract_if(.., |_, waiting| waiting.leader.is_some_and(|sent_to| sent_to < leader));
        for (_, waiting) in lost {
            // Gone when its client gave up.
            let _ = waiting.tell.send(Fate::Lost);
        }
    }

    /// A snapshot took the place of entries that were not applied one by one.
    pub(crate) fn skipped_by_snapshot(&self) {
        for waiting in std::mem::take(&mut self.0.lock().waiting).into_values() {
            let _ = waiting.tell.send(Fate::Unknown);
        }
    }
}

/// See [`Proposals::abandon_later`].
pub(crate) struct Abandon<'a> {
    proposals: &'a Proposals,
    id: u64,
}

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        self.proposals.0.lock().waiting.remove(&self.id);
    }
}

fn tell(state: &mut State, id: u64, fate: Fate) {
    if let Some(waiting) = state.waiting.remove(&id) {
        // Gone when its client gave up.
        let _ = waiting.tell.send(fate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Done, Response};

    fn leader(term: u64) -> LeaderId {
        LeaderId { term, node_id: 1 }
    }

    fn send(proposals: &Proposals, ids: &[u64], leader: LeaderId) -> Vec<u64> {
        let mut sent = ids.iter().map(|id| Proposal { id: *id, command: Default::default() }).collect();
        proposals.sending(&mut sent, leader);
        sent.iter().map(|proposal| proposal.id).collect()
    }

    fn outcome() -> Outcome {
        Outcome { revision: 2, result: Ok(Response::Done(Done {})) }
    }

    #[test]
    fn an_applied_proposal_has_its_outcome() {
        let proposals = Proposals::default();
        let mut fate = proposals.register(7);
        assert_eq!(send(&proposals, &[7, 9], leader(1)), [7], "nobody waits for 9");
        proposals.applied([(8, outcome()), (7, outcome())].into_iter());
        assert!(matches!(fate.try_recv(), Ok(Fate::Applied(_))));
        assert_eq!(proposals.pending(), 0);
    }

    #[test]
    fn a_proposal_is_lost_once_a_later_leader_was_heard_in_the_log() {
        let proposals = Proposals::default();
        let (mut old, mut new, mut unsent) = (proposals.register(1), proposals.register(2), proposals.register(3));
        send(&proposals, &[1], leader(1));
        send(&proposals, &[2], leader(2));
        proposals.leadership_passed_to(leader(2));
        assert!(matches!(old.try_recv(), Ok(Fate::Lost)));
        assert!(new.try_recv().is_err() && unsent.try_recv().is_err());
    }

    #[test]
    fn nothing_is_sent_to_a_leadership_that_is_over() {
        let proposals = Proposals::default();
        proposals.leadership_passed_to(leader(2));
        let mut fate = proposals.register(1);
        assert!(send(&proposals, &[1], leader(1)).is_empty());
        assert!(matches!(fate.try_recv(), Ok(Fate::Lost)));
    }

    #[test]
    fn a_snapshot_leaves_the_fate_open() {
        let proposals = Proposals::default();
        let mut fate = proposals.register(1);
        send(&proposals, &[1], leader(1));
        proposals.skipped_by_snapshot();
        assert!(matches!(fate.try_recv(), Ok(Fate::Unknown)));
    }
}
