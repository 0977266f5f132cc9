//! Changing the membership. The replicated membership is the one source of truth: a member that was added gets its vote
//! only once it has caught up, so that waiting for it to start costs nobody's writes.

mod rules;
mod tend;

pub(crate) use rules::{Change, Limits};
pub(crate) use tend::tend;

use std::{collections::BTreeSet, time::Duration};

use openraft::{
    ChangeMembers, Instant as _,
    async_runtime::watch::WatchReceiver,
    errors::{ChangeMembershipError, ClientWriteError, RaftError},
};
use tokio::time::{Instant, sleep, timeout_at};
use tonic::Code;

use super::{
    leadership::Leader,
    member::RaftNode,
    peers::Lane,
    types::{Member, TypeConfig},
    wire::{
        self,
        pb::{self, reconfigure_request},
    },
};
use crate::{apply::member, refusal::Refusal};
use rules::{Cluster, Known};

/// Between attempts to find who can.
const RETRY: Duration = Duration::from_millis(50);
/// A member that answered within this time is active; etcd's.
const ACTIVE: Duration = Duration::from_secs(5);

/// A member to be taken in.
pub(crate) fn newcomer(peer_urls: Vec<String>, learner: bool) -> Member {
    Member { name: String::new(), peer_urls, learner }
}

/// Why nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// For good.
    Refused(Refusal),
    /// Another member can, or this one a little later.
    NotLeader,
}

impl RaftNode {
    /// Changes the membership, here too: on return this member has applied it.
    pub(crate) async fn reconfigure(&self, change: Change) -> Result<(), Refusal> {
        let deadline = Instant::now() + self.patience();
        let index = timeout_at(deadline, self.ask_to_reconfigure(&change)).await.map_err(|_| Refusal::Timeout)??;
        // A member that is put out may never hear of it.
        if change != Change::Remove(self.identity().member_id) {
            let mut applied = self.inner.applied.clone();
            let applied = timeout_at(deadline, applied.wait_until(|next| *next > index)).await;
            applied.map_err(|_| Refusal::TimeoutWaitingForApply)?.map_err(|_| Refusal::Stopped)?;
        }
        Ok(())
    }

    /// Asks whoever leads until it answers; asks again only where surely nothing was changed.
    async fn ask_to_reconfigure(&self, change: &Change) -> Result<u64, Refusal> {
        loop {
            let leader = self.leadership().wait().await;
            let answer = match self.leadership().is_mine(&leader) {
                true => self.reconfigure_here(change).await,
                false => self.reconfigure_there(&leader, change).await,
            };
            match answer {
                Ok(index) => return Ok(index),
                Err(Denied::Refused(refusal)) => return Err(refusal),
                Err(Denied::NotLeader) => sleep(RETRY).await,
            }
        }
    }

    async fn reconfigure_there(&self, leader: &Leader, change: &Change) -> Result<u64, Denied> {
        let id = leader.id.node_id;
        let client = self.peers().client(id, &leader.member, Lane::Log).await;
        let mut client = client.map_err(|error| {
            tracing::debug!(%error, "the leader cannot be reached");
            Denied::NotLeader
        })?;
        match client.reconfigure(pb::ReconfigureRequest::from(change)).await {
            Ok(response) => {
                let pb::ReconfigureResponse { refusal, index } = response.into_inner();
                let refusal = refusal.map(|number| Refusal::try_from(number).unwrap_or(Refusal::Unknown));
                refusal.map_or(Ok(()), |refusal| Err(Denied::Refused(refusal)))?;
                index.ok_or(Denied::NotLeader)
            }
            // Refused at the door: it did not read it.
            Err(status) if status.code() == Code::FailedPrecondition => Err(Denied::NotLeader),
            Err(status) => {
                tracing::warn!(%status, "ask the leader to change the membership");
                self.peers().forget(id, Lane::Log);
                Err(Denied::Refused(Refusal::TimeoutConnectionLost))
            }
        }
    }

    /// Changes the membership if this member leads; the log entry with which it is done.
    pub(super) async fn reconfigure_here(&self, change: &Change) -> Result<u64, Denied> {
        let done = self.try_to_reconfigure(change).await;
        match (change, done) {
            (Change::Promote(_), Ok(_)) => {
                self.metrics().promotions.inc();
            }
            (Change::Promote(_), Err(Denied::Refused(refusal))) => {
                let labels = vec![("Reason", refusal.text().to_owned())];
                self.metrics().promotions_failed.get_or_create(&labels).inc();
            }
            _ => {}
        }
        done
    }

    async fn try_to_reconfigure(&self, change: &Change) -> Result<u64, Denied> {
        let _turn = self.inner.reconfiguring.lock().await;
        // What was decided before must be seen before anything is decided now.
        self.read_barrier().await.map_err(|_| Denied::NotLeader)?;
        let cluster = self.cluster().ok_or(Denied::NotLeader)?;
        cluster.check(change, self.inner.limits).map_err(Denied::Refused)?;
        if *change == Change::Remove(self.identity().member_id)
            && let Some(heir) = self.heir()
        {
            self.move_leader(heir).await.map_err(Denied::Refused)?;
            return Err(Denied::NotLeader);
        }
        self.change_membership(self.orders(change).ok_or(Denied::NotLeader)?).await
    }

    /// What is known here, if this member leads.
    fn cluster(&self) -> Option<Cluster> {
        let metrics = self.raft().metrics().borrow_watched().clone();
        let (replication, heartbeat) = (metrics.replication?, metrics.heartbeat?);
        let published = self.state().read(|read, _| member::list(read)).and_then(|list| list).ok()?;
        let started = |id: u64| published.iter().any(|attributes| attributes.member == id && !attributes.name.is_empty());
        let active = |id| heartbeat.get(&id).is_some_and(|at| at.is_some_and(|at| at.elapsed() <= ACTIVE));
        let matched = |id| replication.get(&id).and_then(Option::as_ref).map_or(0, |log_id| log_id.index);
        let known = |(id, member): (&u64, &Member)| {
            (*id, Known { member: member.clone(), started: started(*id), active: active(*id), matched: matched(*id) })
        };
        let members = metrics.membership_config.nodes().map(known).collect();
        Some(Cluster { members, leader: self.identity().member_id, last: metrics.last_log_index.unwrap_or_default() })
    }

    /// A change in openraft's words; none when the member it concerns is gone meanwhile.
    fn orders(&self, change: &Change) -> Option<ChangeMembers<u64, Member>> {
        let metrics = self.raft().metrics().borrow_watched().clone();
        let membership = metrics.membership_config.membership();
        Some(match change {
            Change::Add(id, member) => ChangeMembers::AddNodes([(*id, member.clone())].into()),
            Change::Remove(id) if membership.voter_ids().any(|voter| voter == *id) => ChangeMembers::RemoveVoters([*id].into()),
            Change::Remove(id) => ChangeMembers::RemoveNodes([*id].into()),
            Change::Promote(id) => {
                let member = Member { learner: false, ..membership.get_node(id)?.clone() };
                ChangeMembers::Batch(vec![ChangeMembers::SetNodes([(*id, member)].into()), ChangeMembers::AddVoterIds([*id].into())])
            }
            Change::Update(id, urls) => {
                let member = Member { peer_urls: urls.clone(), ..membership.get_node(id)?.clone() };
                ChangeMembers::SetNodes([(*id, member)].into())
            }
        })
    }

    /// Ends a change of voters that an earlier leader left half done.
    fn nothing_more() -> ChangeMembers<u64, Member> {
        ChangeMembers::AddVoterIds(BTreeSet::new())
    }

    async fn change_membership(&self, orders: ChangeMembers<u64, Member>) -> Result<u64, Denied> {
        tracing::info!(%orders, "changing the membership");
        // A voter that is no more is no learner either.
        match self.raft().change_membership(orders, false).await {
            Ok(response) => Ok(response.log_id.index),
            Err(RaftError::APIError(error)) => Err(denied(error)),
            Err(RaftError::Fatal(_)) => Err(Denied::Refused(Refusal::Stopped)),
        }
    }
}

fn denied(error: ClientWriteError<TypeConfig>) -> Denied {
    match error {
        ClientWriteError::ChangeMembershipError(ChangeMembershipError::EmptyMembership(_)) => {
            Denied::Refused(Refusal::MemberNotEnoughStarted)
        }
        ClientWriteError::ChangeMembershipError(ChangeMembershipError::LearnerNotFound(_)) => Denied::Refused(Refusal::MemberNotFound),
        error => {
            tracing::debug!(%error, "change the membership");
            Denied::NotLeader
        }
    }
}

impl From<&Change> for pb::ReconfigureRequest {
    fn from(change: &Change) -> Self {
        let change = match change {
            Change::Add(id, member) => reconfigure_request::Change::Add(wire::member(*id, member)),
            Change::Remove(id) => reconfigure_request::Change::Remove(*id),
            Change::Promote(id) => reconfigure_request::Change::Promote(*id),
            Change::Update(id, urls) => {
                reconfigure_request::Change::Update(pb::Member { id: *id, peer_urls: urls.clone(), ..Default::default() })
            }
        };
        Self { change: Some(change) }
    }
}

impl TryFrom<pb::ReconfigureRequest> for Change {
    type Error = wire::Error;

    fn try_from(request: pb::ReconfigureRequest) -> Result<Self, wire::Error> {
        Ok(match request.change.ok_or(wire::Error::Missing("the change"))? {
            reconfigure_request::Change::Add(member) => Change::Add(member.id, member.into()),
            reconfigure_request::Change::Remove(id) => Change::Remove(id),
            reconfigure_request::Change::Promote(id) => Change::Promote(id),
            reconfigure_request::Change::Update(member) => Change::Update(member.id, member.peer_urls),
        })
    }
}
