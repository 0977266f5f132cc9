//! Which changes of the membership are allowed: etcd's rules, on what the leader knows of its members.

use std::collections::BTreeMap;

use super::super::types::Member;
use crate::refusal::Refusal;

/// A learner must have this much of the leader's log to get a vote, in hundredths; etcd's.
const CAUGHT_UP: u64 = 90;

/// A change of the membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Takes in a member.
    Add(u64, Member),
    /// Puts out a member.
    Remove(u64),
    /// Gives a learner a vote.
    Promote(u64),
    /// Gives a member other peer URLs.
    Update(u64, Vec<String>),
}

/// What the operator allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Refuse what could cost the quorum (`--strict-reconfig-check`).
    pub(crate) strict: bool,
    /// Members that only learn (`--max-learners`).
    pub(crate) learners: usize,
}

/// What the leader knows of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) member: Member,
    /// It said what it is called.
    pub(crate) started: bool,
    /// It answered not long ago.
    pub(crate) active: bool,
    /// How much of the log it has.
    pub(crate) matched: u64,
}

/// The cluster as its leader knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cluster {
    pub(crate) members: BTreeMap<u64, Known>,
    /// The leader.
    pub(crate) leader: u64,
    /// How much log there is.
    pub(crate) last: u64,
}

impl Cluster {
    /// Whether a change may be made.
    pub(crate) fn check(&self, change: &Change, limits: Limits) -> Result<(), Refusal> {
        match change {
            Change::Add(id, member) => self.check_add(*id, member, limits),
            Change::Remove(id) => self.check_remove(*id, limits),
            Change::Promote(id) => self.check_promote(*id, limits),
            Change::Update(id, urls) if self.members.contains_key(id) => self.check_urls(*id, urls),
            Change::Update(..) => Err(Refusal::MemberNotFound),
        }
    }

    fn check_add(&self, id: u64, member: &Member, limits: Limits) -> Result<(), Refusal> {
        let (size, started, active) = (self.voting(None).count(), self.started(None), self.active());
        // A single member may be joined by a second whatever its state: so clusters are grown after a disaster.
        let alone = (size, started) == (1, 1);
        if limits.strict && !member.learner && !alone && started < quorum(size + 1) {
            return Err(Refusal::MemberNotEnoughStarted);
        }
        if limits.strict && size > 1 && active < quorum(size + 1) {
            return Err(Refusal::Unhealthy);
        }
        if self.members.contains_key(&id) {
            return Err(Refusal::MemberExists);
        }
        self.check_urls(id, &member.peer_urls)?;
        let learners = self.members.values().filter(|known| known.member.learner).count();
        if member.learner && learners >= limits.learners { Err(Refusal::TooManyLearners) } else { Ok(()) }
    }

    fn check_urls(&self, id: u64, urls: &[String]) -> Result<(), Refusal> {
        let mut others = self.members.iter().filter(|(other, _)| **other != id).flat_map(|(_, known)| &known.member.peer_urls);
        if others.any(|taken| urls.contains(taken)) { Err(Refusal::PeerUrlExists) } else { Ok(()) }
    }

    fn check_remove(&self, id: u64, limits: Limits) -> Result<(), Refusal> {
        let known = self.members.get(&id);
        let learns = known.is_some_and(|known| known.member.learner);
        if limits.strict && !learns {
            if self.started(Some(id)) < quorum(self.voting(Some(id)).count()) {
                return Err(Refusal::MemberNotEnoughStarted);
            }
            let down = known.is_none_or(|known| id != self.leader && !known.active);
            let size = self.voting(None).count();
            if !down && self.active() < 2 + size.saturating_sub(1) / 2 {
                return Err(Refusal::Unhealthy);
            }
        }
        known.map(drop).ok_or(Refusal::MemberNotFound)
    }

    fn check_promote(&self, id: u64, limits: Limits) -> Result<(), Refusal> {
        let known = self.members.get(&id).ok_or(Refusal::MemberNotFound)?;
        if id != self.leader && known.matched * 100 < self.last * CAUGHT_UP {
            return Err(Refusal::LearnerNotReady);
        }
        if limits.strict && self.started(None) + 1 < quorum(self.voting(None).count() + 1) {
            return Err(Refusal::MemberNotEnoughStarted);
        }
        if known.member.learner { Ok(()) } else { Err(Refusal::MemberNotLearner) }
    }

    /// Members that are not there to learn only, but for one.
    fn voting(&self, but: Option<u64>) -> impl Iterator<Item = (&u64, &Known)> {
        self.members.iter().filter(move |(id, known)| !known.member.learner && Some(**id) != but)
    }

    fn started(&self, but: Option<u64>) -> usize {
        self.voting(but).filter(|(_, known)| known.started).count()
    }

    fn active(&self) -> usize {
        self.voting(None).filter(|(id, known)| **id == self.leader || known.active).count()
    }
}

fn quorum(members: usize) -> usize {
    members / 2 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: Limits = Limits { strict: true, learners: 1 };
    const LAX: Limits = Limits { strict: false, learners: 1 };

    fn member(id: u64, learner: bool) -> Member {
        Member { name: String::new(), peer_urls: vec![format!("http://h{id}:2380")], learner }
    }

    fn known(id: u64) -> Known {
        Known { member: member(id, false), started: true, active: true, matched: 100 }
    }

    /// Members 1 to `size`, all well, led by 1, which are then `changed`.
    fn cluster(size: u64, change: impl FnOnce(&mut BTreeMap<u64, Known>)) -> Cluster {
        let mut members = (1..=size).map(|id| (id, known(id))).collect();
        change(&mut members);
        Cluster { members, leader: 1, last: 100 }
    }

    fn learner(matched: u64) -> Known {
        Known { member: member(9, true), matched, ..known(9) }
    }

    #[test]
    fn a_well_cluster_takes_in_and_puts_out() {
        let cluster = cluster(3, |_| {});
        assert_eq!(cluster.check(&Change::Add(9, member(9, false)), STRICT), Ok(()));
        assert_eq!(cluster.check(&Change::Add(9, member(9, true)), STRICT), Ok(()));
        assert_eq!(cluster.check(&Change::Remove(3), STRICT), Ok(()));
        assert_eq!(cluster.check(&Change::Remove(1), STRICT), Ok(()));
    }

    #[test]
    fn nobody_is_taken_in_twice() {
        let cluster = cluster(3, |_| {});
        assert_eq!(cluster.check(&Change::Add(3, member(9, false)), STRICT), Err(Refusal::MemberExists));
        assert_eq!(cluster.check(&Change::Add(9, member(3, false)), STRICT), Err(Refusal::PeerUrlExists));
        assert_eq!(cluster.check(&Change::Update(2, member(3, false).peer_urls), STRICT), Err(Refusal::PeerUrlExists));
        assert_eq!(cluster.check(&Change::Update(2, member(2, false).peer_urls), STRICT), Ok(()));
        assert_eq!(cluster.check(&Change::Update(9, Vec::new()), STRICT), Err(Refusal::MemberNotFound));
        assert_eq!(cluster.check(&Change::Remove(9), STRICT), Err(Refusal::MemberNotFound));
    }

    #[test]
    fn a_second_member_may_not_come_before_the_first_newcomer_has_started() {
        assert_eq!(cluster(1, |_| {}).check(&Change::Add(9, member(9, false)), STRICT), Ok(()));
        let growing = cluster(2, |members| members.get_mut(&2).unwrap().started = false);
        assert_eq!(growing.check(&Change::Add(9, member(9, false)), STRICT), Err(Refusal::MemberNotEnoughStarted));
        assert_eq!(growing.check(&Change::Add(9, member(9, false)), LAX), Ok(()));
    }

    #[test]
    fn a_cluster_that_could_lose_its_quorum_takes_in_nobody() {
        let one_silent = cluster(3, |members| members.get_mut(&3).unwrap().active = false);
        assert_eq!(one_silent.check(&Change::Add(9, member(9, false)), STRICT), Err(Refusal::Unhealthy));
        assert_eq!(one_silent.check(&Change::Add(9, member(9, true)), STRICT), Err(Refusal::Unhealthy));
        assert_eq!(one_silent.check(&Change::Add(9, member(9, false)), LAX), Ok(()));
    }

    #[test]
    fn only_the_member_that_is_down_may_be_put_out() {
        let one_silent = cluster(3, |members| members.get_mut(&3).unwrap().active = false);
        assert_eq!(one_silent.check(&Change::Remove(3), STRICT), Ok(()));
        assert_eq!(one_silent.check(&Change::Remove(2), STRICT), Err(Refusal::Unhealthy));
        assert_eq!(one_silent.check(&Change::Remove(2), LAX), Ok(()));
        assert_eq!(cluster(1, |_| {}).check(&Change::Remove(1), STRICT), Err(Refusal::MemberNotEnoughStarted));
    }

    #[test]
    fn a_learner_is_promoted_once_it_has_nearly_all_of_the_log() {
        let with = |matched| cluster(3, |members| drop(members.insert(9, learner(matched))));
        assert_eq!(with(89).check(&Change::Promote(9), STRICT), Err(Refusal::LearnerNotReady));
        assert_eq!(with(90).check(&Change::Promote(9), STRICT), Ok(()));
        assert_eq!(with(90).check(&Change::Promote(8), STRICT), Err(Refusal::MemberNotFound));
        assert_eq!(with(90).check(&Change::Promote(2), STRICT), Err(Refusal::MemberNotLearner));
        assert_eq!(with(90).check(&Change::Add(10, member(10, true)), STRICT), Err(Refusal::TooManyLearners));
    }
}
