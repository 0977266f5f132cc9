//! What to do about one Deployment. Pure: the plan works on copies and notes each step as an action.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::Pod,
};

use super::{conditions, limits, revision, sets};

/// What the caches show.
pub(super) struct Observed {
    pub(super) deployment: Deployment,
    /// The ReplicaSets it controls.
    pub(super) sets: Vec<ReplicaSet>,
    /// Their pods, by UID of the ReplicaSet.
    pub(super) pods: BTreeMap<String, Vec<Arc<Pod>>>,
}

/// One step; they are taken in order, and the first failure ends the sync.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Create the ReplicaSet of a new template.
    CreateSet(Box<ReplicaSet>),
    /// Write a ReplicaSet as changed.
    UpdateSet(Box<ReplicaSet>),
    /// Delete the ReplicaSet of that name.
    DeleteSet(String),
    /// Write status and annotations of the Deployment.
    UpdateStatus(Box<Deployment>),
    /// Tell of a step.
    Normal(&'static str, String),
    /// Warn of a step.
    Warning(&'static str, String),
    /// Look again later.
    RequeueAfter(Duration),
    /// Look again after the key's back-off.
    Requeue,
}

/// The state as it will be after the actions noted so far.
pub(super) struct Plan {
    pub(super) now: Timestamp,
    pub(super) original: Deployment,
    pub(super) deployment: Deployment,
    pub(super) sets: Vec<ReplicaSet>,
    /// Index of the ReplicaSet with the current template.
    pub(super) new: Option<usize>,
    pub(super) pods: BTreeMap<String, Vec<Arc<Pod>>>,
    pub(super) actions: Vec<Action>,
}

/// The steps that bring `observed` closer to what its Deployment asks for at `now`.
pub(super) fn plan(observed: Observed, now: Timestamp) -> Vec<Action> {
    let mut sets = observed.sets;
    sets.sort_by(|a, b| age(a).cmp(&age(b)));
    let mut plan = Plan {
        now,
        original: observed.deployment.clone(),
        deployment: observed.deployment,
        sets,
        new: None,
        pods: observed.pods,
        actions: Vec::new(),
    };
    plan.sync();
    plan.actions
}

fn age(set: &ReplicaSet) -> (Option<Timestamp>, &str) {
    (set.metadata.creation_timestamp.as_ref().map(|time| time.0), sets::name(set))
}

impl Plan {
    fn sync(&mut self) {
        if selects_everything(&self.deployment) {
            return self.refuse();
        }
        self.new = revision::find_new(&self.deployment, &self.sets);
        if self.deployment.metadata.deletion_timestamp.is_some() {
            return self.sync_status_only();
        }
        conditions::note_pause(&mut self.deployment, self.now);
        let paused = self.deployment.spec.as_ref().and_then(|spec| spec.paused) == Some(true);
        if paused || self.was_scaled() {
            self.sync_revision(false);
            self.scale_proportionally();
            if paused {
                self.clean_up();
            }
            return self.sync_status_only();
        }
        if limits::is_rolling(&self.deployment) {
            self.roll()
        } else {
            self.recreate()
        }
        self.sync_rollout_status();
    }

    fn refuse(&mut self) {
        let message = "This deployment is selecting all pods. A non-empty selector is required.";
        self.actions.push(Action::Warning("SelectingAll", message.into()));
        let status = self.deployment.status.get_or_insert_default();
        if status.observed_generation < self.deployment.metadata.generation {
            status.observed_generation = self.deployment.metadata.generation;
            self.actions.push(Action::UpdateStatus(Box::new(self.deployment.clone())));
        }
    }

    /// Whether `spec.replicas` changed since the ReplicaSets were last scaled.
    fn was_scaled(&self) -> bool {
        let wanted = limits::replicas(&self.deployment);
        let active = self.sets.iter().filter(|set| sets::replicas(set) > 0);
        active.filter_map(sets::desired).any(|desired| desired != wanted)
    }

    /// Indexes of all ReplicaSets but the new one, oldest first.
    pub(super) fn old(&self) -> Vec<usize> {
        (0..self.sets.len()).filter(|index| Some(*index) != self.new).collect()
    }

    /// Indexes of the old ReplicaSets that ask for pods, oldest first.
    pub(super) fn old_active(&self) -> Vec<usize> {
        self.old().into_iter().filter(|index| sets::replicas(&self.sets[*index]) > 0).collect()
    }

    /// Sum of `spec.replicas` over the ReplicaSets at `indexes`.
    pub(super) fn total(&self, indexes: &[usize]) -> i32 {
        indexes.iter().map(|index| sets::replicas(&self.sets[*index])).sum()
    }

    /// Scales the ReplicaSet at `index`; whether its size changed.
    pub(super) fn scale(&mut self, index: usize, replicas: i32) -> bool {
        let set = &mut self.sets[index];
        let old = sets::replicas(set);
        let annotated = sets::set_replicas_annotations(set, &self.deployment);
        if old == replicas && !annotated {
            return false;
        }
        set.spec.get_or_insert_default().replicas = Some(replicas);
        self.actions.push(Action::UpdateSet(Box::new(set.clone())));
        if old != replicas {
            let direction = if old < replicas { "up" } else { "down" };
            let message = format!("Scaled {direction} replica set {} from {old} to {replicas}", sets::name(set));
            self.actions.push(Action::Normal("ScalingReplicaSet", message));
        }
        old != replicas
    }

    /// Deletes the oldest revisions beyond `spec.revisionHistoryLimit` that have no pods any more.
    pub(super) fn clean_up(&mut self) {
        let Some(limit) = limits::history_limit(&self.deployment) else { return };
        let mut alive: Vec<&ReplicaSet> = self.old().into_iter().map(|index| &self.sets[index]).collect();
        alive.retain(|set| set.metadata.deletion_timestamp.is_none());
        let Some(excess) = alive.len().checked_sub(usize::try_from(limit).unwrap_or(0)) else { return };
        alive.sort_by_key(|set| sets::revision(&set.metadata));
        let idle = |set: &&&ReplicaSet| {
            let observed = set.status.as_ref().and_then(|status| status.observed_generation);
            sets::actual(set) == 0 && sets::replicas(set) == 0 && set.metadata.generation <= observed
        };
        let doomed = alive.iter().take(excess).filter(idle).map(|set| Action::DeleteSet(sets::name(set).into()));
        let doomed: Vec<_> = doomed.collect();
        self.actions.extend(doomed);
    }
}

fn selects_everything(deployment: &Deployment) -> bool {
    deployment.spec.as_ref().is_none_or(|spec| {
        let labels = spec.selector.match_labels.iter().flatten().count();
        labels + spec.selector.match_expressions.iter().flatten().count() == 0
    })
}
