//! The status of a Deployment and its conditions. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet},
    apimachinery::pkg::apis::meta::v1::Time,
};

use super::{
    limits,
    plan::{Action, Plan},
    sets,
};

const AVAILABLE: &str = "Available";
pub(super) const PROGRESSING: &str = "Progressing";
const REPLICA_FAILURE: &str = "ReplicaFailure";
const NEW_AVAILABLE: &str = "NewReplicaSetAvailable";
pub(super) const TIMED_OUT: &str = "ProgressDeadlineExceeded";

/// The condition of that type.
pub(super) fn get<'a>(deployment: &'a Deployment, kind: &str) -> Option<&'a DeploymentCondition> {
    let conditions = deployment.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().find(|condition| condition.type_ == kind)
}

fn new(kind: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> DeploymentCondition {
    DeploymentCondition {
        type_: kind.into(),
        status: status.into(),
        reason: Some(reason.into()),
        message: Some(message.into()),
        last_update_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    }
}

/// Sets a condition; one of the same status and reason stays as it is, one of the same status keeps its transition time.
fn set(status: &mut DeploymentStatus, mut condition: DeploymentCondition) {
    let conditions = status.conditions.get_or_insert_default();
    if let Some(current) = conditions.iter().find(|current| current.type_ == condition.type_) {
        if current.status == condition.status && current.reason == condition.reason {
            return;
        }
        if current.status == condition.status {
            condition.last_transition_time.clone_from(&current.last_transition_time);
        }
    }
    conditions.retain(|current| current.type_ != condition.type_);
    conditions.push(condition);
}

fn remove(status: &mut DeploymentStatus, kind: &str) {
    status.conditions.get_or_insert_default().retain(|condition| condition.type_ != kind);
}

/// Marks a rollout as paused or resumed, so that its deadline does not run meanwhile.
pub(super) fn note_pause(deployment: &mut Deployment, now: Timestamp) {
    if limits::progress_deadline(deployment).is_none() {
        return;
    }
    let reason = get(deployment, PROGRESSING).and_then(|condition| condition.reason.clone());
    if reason.as_deref() == Some(TIMED_OUT) {
        return;
    }
    let noted = reason.as_deref() == Some("DeploymentPaused");
    let paused = deployment.spec.as_ref().and_then(|spec| spec.paused) == Some(true);
    let (reason, message) = match (paused, noted) {
        (true, false) => ("DeploymentPaused", "Deployment is paused"),
        (false, true) => ("DeploymentResumed", "Deployment is resumed"),
        _ => return,
    };
    set(deployment.status.get_or_insert_default(), new(PROGRESSING, "Unknown", reason, message, now));
}

/// Notes that the ReplicaSet of a new template cannot be created; whether that is news.
pub(super) fn note_create_error(deployment: &mut Deployment, message: &str, now: Timestamp) -> bool {
    if limits::progress_deadline(deployment).is_none() {
        return false;
    }
    let before = deployment.status.clone();
    let condition = new(PROGRESSING, "False", "ReplicaSetCreateError", message, now);
    set(deployment.status.get_or_insert_default(), condition);
    deployment.status != before
}

/// Whether all pods are of the new template, available and without old ones beside them.
pub(super) fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let wanted = limits::replicas(deployment);
    let all = [status.updated_replicas, status.replicas, status.available_replicas];
    all.iter().all(|count| count.unwrap_or(0) == wanted) && status.observed_generation >= deployment.metadata.generation
}

/// Whether `status` is nearer to completion than what the deployment recorded last.
fn is_progressing(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let before = deployment.status.clone().unwrap_or_default();
    let old_pods = |status: &DeploymentStatus| status.replicas.unwrap_or(0) - status.updated_replicas.unwrap_or(0);
    status.updated_replicas > before.updated_replicas
        || old_pods(status) < old_pods(&before)
        || status.ready_replicas > before.ready_replicas
        || status.available_replicas > before.available_replicas
}

impl Plan {
    /// Sets the Progressing condition of the deployment itself, before its status is computed.
    pub(super) fn set_progressing(&mut self, status: &str, reason: &str, message: String) {
        set(self.deployment.status.get_or_insert_default(), new(PROGRESSING, status, reason, &message, self.now));
    }

    /// Writes the status without judging progress.
    pub(super) fn sync_status_only(&mut self) {
        let status = self.status();
        self.write(status);
    }

    /// Writes the status with the verdict on progress, and asks to be called when the deadline is over.
    pub(super) fn sync_rollout_status(&mut self) {
        let mut status = self.status();
        let current = get(&self.deployment, PROGRESSING).cloned();
        if limits::progress_deadline(&self.deployment).is_none() {
            remove(&mut status, PROGRESSING);
        }
        let settled = status.replicas == status.updated_replicas
            && current.as_ref().is_some_and(|condition| condition.reason.as_deref() == Some(NEW_AVAILABLE));
        if limits::progress_deadline(&self.deployment).is_some() && !settled {
            self.judge(&mut status, current.as_ref());
        }
        match self.replica_failure() {
            Some(condition) => set(&mut status, condition),
            None => remove(&mut status, REPLICA_FAILURE),
        }
        if !self.write(status) {
            self.requeue_stuck();
        }
    }

    fn judge(&self, status: &mut DeploymentStatus, current: Option<&DeploymentCondition>) {
        let subject = match self.new {
            Some(new) => format!("ReplicaSet \"{}\"", sets::name(&self.sets[new])),
            None => format!("Deployment \"{}\"", self.deployment.metadata.name.as_deref().unwrap_or_default()),
        };
        if is_complete(&self.deployment, status) {
            let message = format!("{subject} has successfully progressed.");
            set(status, new(PROGRESSING, "True", NEW_AVAILABLE, &message, self.now));
        } else if is_progressing(&self.deployment, status) {
            let message = format!("{subject} is progressing.");
            let mut condition = new(PROGRESSING, "True", "ReplicaSetUpdated", &message, self.now);
            // Each bit of progress starts the deadline anew, so the update time must move even if nothing else does.
            if let Some(current) = current.filter(|current| current.status == "True") {
                condition.last_transition_time.clone_from(&current.last_transition_time);
            }
            remove(status, PROGRESSING);
            set(status, condition);
        } else if self.timed_out(status) {
            let message = format!("{subject} has timed out progressing.");
            set(status, new(PROGRESSING, "False", TIMED_OUT, &message, self.now));
        }
    }

    fn timed_out(&self, status: &DeploymentStatus) -> bool {
        let condition = status.conditions.iter().flatten().find(|condition| condition.type_ == PROGRESSING);
        let Some((condition, deadline)) = condition.zip(limits::progress_deadline(&self.deployment)) else { return false };
        match condition.reason.as_deref() {
            Some(TIMED_OUT) => true,
            Some(NEW_AVAILABLE) => false,
            _ => condition
                .last_update_time
                .as_ref()
                .is_some_and(|from| from.0.saturating_add(SignedDuration::from_secs(deadline.into())).is_ok_and(|end| end < self.now)),
        }
    }

    fn requeue_stuck(&mut self) {
        let Some(deadline) = limits::progress_deadline(&self.deployment) else { return };
        let Some(current) = get(&self.deployment, PROGRESSING) else { return };
        let status = self.deployment.status.clone().unwrap_or_default();
        if is_complete(&self.deployment, &status) || current.reason.as_deref() == Some(TIMED_OUT) {
            return;
        }
        let from = current.last_update_time.as_ref().map_or(self.now, |time| time.0);
        let left = from.duration_since(self.now) + SignedDuration::from_secs(deadline.into());
        let left = Duration::try_from(left).unwrap_or_default();
        self.actions.push(if left < Duration::from_secs(1) {
            Action::Requeue
        } else {
            // One second more: clocks are compared in seconds on the wire.
            Action::RequeueAfter(left + Duration::from_secs(1))
        });
    }

    /// The failure that the new ReplicaSet, or else any, reports.
    fn replica_failure(&self) -> Option<DeploymentCondition> {
        let failure = |set: &ReplicaSet| {
            let conditions = set.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
            conditions.into_iter().find(|condition| condition.type_ == REPLICA_FAILURE)
        };
        let newest = self.new.and_then(|new| failure(&self.sets[new]));
        let condition = newest.or_else(|| self.sets.iter().find_map(failure))?;
        Some(DeploymentCondition {
            type_: condition.type_,
            status: condition.status,
            reason: condition.reason,
            message: condition.message,
            last_transition_time: condition.last_transition_time.clone(),
            last_update_time: condition.last_transition_time,
        })
    }

    /// Counts as the ReplicaSets report them, with the Available condition.
    fn status(&self) -> DeploymentStatus {
        let sum = |count: fn(&ReplicaSet) -> i32| self.sets.iter().map(count).sum::<i32>();
        let (replicas, available) = (sum(sets::actual), sum(sets::available));
        let before = self.deployment.status.clone().unwrap_or_default();
        let mut status = DeploymentStatus {
            observed_generation: self.deployment.metadata.generation,
            replicas: positive(replicas),
            updated_replicas: positive(self.new.map_or(0, |new| sets::actual(&self.sets[new]))),
            ready_replicas: positive(sum(|set| set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0))),
            available_replicas: positive(available),
            unavailable_replicas: positive((replicas - available).max(0)),
            terminating_replicas: self.terminating(),
            collision_count: before.collision_count,
            conditions: before.conditions,
        };
        let enough = available >= limits::replicas(&self.deployment) - limits::max_unavailable(&self.deployment);
        set(
            &mut status,
            if enough {
                new(AVAILABLE, "True", "MinimumReplicasAvailable", "Deployment has minimum availability.", self.now)
            } else {
                new(AVAILABLE, "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.", self.now)
            },
        );
        status
    }

    /// Unknown as long as one ReplicaSet has not reported it.
    fn terminating(&self) -> Option<i32> {
        let counts = self.sets.iter().map(|set| set.status.as_ref().and_then(|status| status.terminating_replicas));
        counts.sum::<Option<i32>>()
    }

    /// Writes `status` and the annotations if anything differs from what was observed; whether it did.
    fn write(&mut self, mut status: DeploymentStatus) -> bool {
        if status.conditions.as_ref().is_some_and(Vec::is_empty) {
            status.conditions = None;
        }
        self.deployment.status = Some(status);
        let changed = self.deployment != self.original;
        if changed {
            self.actions.push(Action::UpdateStatus(Box::new(self.deployment.clone())));
        }
        changed
    }
}

/// Zero is left out on the wire.
fn positive(count: i32) -> Option<i32> {
    Some(count).filter(|count| *count != 0)
}
