//! What to do about one StatefulSet. Pure.
//!
//! In order of ordinals, one pod at a time, and each only when all before it are ready; with `Parallel` management without
//! waiting. Updates go the other way round, from the last ordinal down to the partition.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{StatefulSet, StatefulSetStatus},
    core::v1::{Pod, PodTemplateSpec},
};

use super::pods::{by_ordinal, ordinals, pod, revision};
use crate::pods;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Make the claims of that ordinal, then the pod.
    Create(i32, Box<Pod>),
    Delete(Arc<Pod>),
}

/// A template and the name of its revision.
#[derive(Clone, Debug)]
pub(super) struct Revision {
    pub(super) name: String,
    pub(super) template: PodTemplateSpec,
}

/// The steps and the status after them.
pub(super) fn plan(
    set: &StatefulSet,
    pods: &[Arc<Pod>],
    current: &Revision,
    update: &Revision,
    now: Timestamp,
) -> (Vec<Action>, StatefulSetStatus) {
    let pods = by_ordinal(set, pods);
    let mut actions = Vec::new();
    if set.metadata.deletion_timestamp.is_none() {
        let mut walk = Walk { set, pods: &pods, current, update, now, actions: Vec::new() };
        if walk.fill() && walk.shrink() {
            walk.update();
        }
        actions = walk.actions;
    }
    let status = status(set, &pods, &actions, current, update, now);
    (actions, status)
}

struct Walk<'a> {
    set: &'a StatefulSet,
    pods: &'a [(i32, Arc<Pod>)],
    current: &'a Revision,
    update: &'a Revision,
    now: Timestamp,
    actions: Vec<Action>,
}

impl Walk<'_> {
    fn in_order(&self) -> bool {
        self.set.spec.as_ref().and_then(|spec| spec.pod_management_policy.as_deref()) != Some("Parallel")
    }

    fn at(&self, ordinal: i32) -> Option<&Arc<Pod>> {
        self.pods.iter().find(|(at, _)| *at == ordinal).map(|(_, pod)| pod)
    }

    fn is_healthy(&self, pod: &Pod) -> bool {
        let min_ready = self.set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
        pod.metadata.deletion_timestamp.is_none() && pods::is_available(pod, min_ready, self.now)
    }

    /// Makes missing pods and replaces ended ones; whether all are there and none has to be waited for.
    fn fill(&mut self) -> bool {
        for ordinal in ordinals(self.set) {
            match self.at(ordinal).cloned() {
                None => {
                    let of = if self.belongs_to_current(ordinal) { self.current } else { self.update };
                    let pod = pod(self.set, &of.template, &of.name, ordinal);
                    self.actions.push(Action::Create(ordinal, Box::new(pod)));
                    if self.in_order() {
                        return false;
                    }
                }
                Some(pod) if pods::is_finished(&pod) => {
                    if pod.metadata.deletion_timestamp.is_none() {
                        self.actions.push(Action::Delete(pod));
                    }
                    if self.in_order() {
                        return false;
                    }
                }
                Some(pod) if self.in_order() && !self.is_healthy(&pod) => return false,
                Some(_) => {}
            }
        }
        true
    }

    /// Whether a new pod of that ordinal is still to be of the current revision, while an update is under way.
    fn belongs_to_current(&self, ordinal: i32) -> bool {
        let start = ordinals(self.set).start;
        let partition = self.partition();
        let counted = self.set.status.as_ref().and_then(|status| status.current_replicas).unwrap_or(0);
        match partition {
            None => false,
            Some(0) => ordinal < start + counted,
            Some(partition) => ordinal < start + partition,
        }
    }

    /// Where a rolling update stops; `None` when pods are only replaced as users delete them.
    fn partition(&self) -> Option<i32> {
        let strategy = self.set.spec.as_ref().and_then(|spec| spec.update_strategy.clone()).unwrap_or_default();
        let rolling = strategy.type_.as_deref() != Some("OnDelete");
        rolling.then(|| strategy.rolling_update.and_then(|rolling| rolling.partition).unwrap_or(0))
    }

    /// Takes away pods beyond the last ordinal; whether none is left.
    fn shrink(&mut self) -> bool {
        let wanted = ordinals(self.set);
        let condemned: Vec<_> = self.pods.iter().rev().filter(|(ordinal, _)| !wanted.contains(ordinal)).cloned().collect();
        for (_, pod) in &condemned {
            if pod.metadata.deletion_timestamp.is_none() {
                self.actions.push(Action::Delete(Arc::clone(pod)));
            }
            if self.in_order() {
                return false;
            }
        }
        true
    }

    /// Replaces the last pod of another revision, when all after it are healthy.
    fn update(&mut self) {
        let Some(partition) = self.partition() else { return };
        let wanted = ordinals(self.set);
        for ordinal in (wanted.start + partition..wanted.end).rev() {
            let Some(pod) = self.at(ordinal).cloned() else { return };
            if revision(&pod) != self.update.name && pod.metadata.deletion_timestamp.is_none() {
                self.actions.push(Action::Delete(pod));
                return;
            }
            if !self.is_healthy(&pod) {
                return;
            }
        }
    }
}

fn status(
    set: &StatefulSet,
    pods: &[(i32, Arc<Pod>)],
    actions: &[Action],
    current: &Revision,
    update: &Revision,
    now: Timestamp,
) -> StatefulSetStatus {
    let min_ready = set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
    let deleted =
        |pod: &Pod| actions.iter().any(|action| matches!(action, Action::Delete(doomed) if doomed.metadata.uid == pod.metadata.uid));
    let created = actions.iter().filter_map(|action| match action {
        Action::Create(_, pod) => Some(pod.as_ref()),
        Action::Delete(_) => None,
    });
    let existing: Vec<&Pod> = pods.iter().map(|(_, pod)| pod.as_ref()).collect();
    let staying = existing.iter().copied().filter(|pod| pod.metadata.deletion_timestamp.is_none() && !deleted(pod)).chain(created.clone());
    let staying: Vec<&Pod> = staying.collect();
    let count =
        |pods: &[&Pod], holds: &dyn Fn(&Pod) -> bool| i32::try_from(pods.iter().filter(|pod| holds(pod)).count()).unwrap_or(i32::MAX);
    let total = existing.len() + created.count();
    let mut status = StatefulSetStatus {
        observed_generation: set.metadata.generation,
        replicas: i32::try_from(total).unwrap_or(i32::MAX),
        ready_replicas: positive(count(&existing, &pods::is_ready)),
        available_replicas: Some(count(&existing, &|pod| pods::is_available(pod, min_ready, now))),
        current_replicas: positive(count(&staying, &|pod| revision(pod) == current.name)),
        updated_replicas: positive(count(&staying, &|pod| revision(pod) == update.name)),
        current_revision: Some(current.name.clone()),
        update_revision: Some(update.name.clone()),
        collision_count: Some(set.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0)),
        conditions: set.status.as_ref().and_then(|status| status.conditions.clone()),
    };
    let rolling =
        set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref()).and_then(|strategy| strategy.type_.as_deref()) != Some("OnDelete");
    let all = Some(status.replicas);
    if rolling && status.updated_replicas == all && status.ready_replicas == all {
        status.current_replicas = status.updated_replicas;
        status.current_revision.clone_from(&status.update_revision);
    }
    status
}

/// Zero is left out on the wire.
fn positive(count: i32) -> Option<i32> {
    Some(count).filter(|count| *count != 0)
}
