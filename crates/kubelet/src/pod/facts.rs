//! Small questions to a pod's spec, asked in many places.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

/// `spec.restartPolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restart {
    Always,
    OnFailure,
    Never,
}

impl Restart {
    /// Whether a container that exited with `code` starts again.
    pub(crate) fn after(self, code: i32) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => code != 0,
            Self::Never => false,
        }
    }
}

pub(crate) fn restarts(spec: &PodSpec) -> Restart {
    match spec.restart_policy.as_deref() {
        Some("Never") => Restart::Never,
        Some("OnFailure") => Restart::OnFailure,
        _ => Restart::Always,
    }
}

pub(crate) fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

pub(crate) fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

pub(crate) fn namespace(pod: &Pod) -> &str {
    pod.metadata.namespace.as_deref().unwrap_or_default()
}

/// `name_namespace(uid)`, as upstream's `format.Pod` prints a pod in messages.
pub(crate) fn full_name(pod: &Pod) -> String {
    format!("{}_{}({})", name(pod), namespace(pod), uid(pod))
}

/// Whether the pod shares the node's network.
pub(crate) fn host_network(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|s| s.host_network).unwrap_or(false)
}

/// Whether an init container keeps running beside the main ones.
pub(crate) fn is_sidecar(init: &Container) -> bool {
    init.restart_policy.as_deref() == Some("Always")
}

/// Init and main containers.
pub(crate) fn all_containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.init_containers.iter().flatten().chain(&spec.containers)
}

/// Whether `status.phase` says that the pod has run its course.
pub(crate) fn is_terminal(pod: &Pod) -> bool {
    matches!(pod.status.as_ref().and_then(|s| s.phase.as_deref()), Some("Succeeded" | "Failed"))
}

/// Restart count of a container in the last known status, so that a count survives the loss of the container.
pub(crate) fn reported_restarts(pod: &Pod, name: &str) -> i32 {
    let Some(status) = pod.status.as_ref() else { return 0 };
    let lists = [&status.container_statuses, &status.init_container_statuses];
    let reported = lists.into_iter().flatten().flatten().find(|c| c.name == name);
    reported.map_or(0, |c| if c.container_id.is_some() { c.restart_count + 1 } else { c.restart_count })
}

/// Seconds the pod's containers get to end: the deletion's, else the spec's, else 30.
pub(crate) fn grace_seconds(pod: &Pod) -> i64 {
    pod.metadata.deletion_grace_period_seconds.or_else(|| pod.spec.as_ref().and_then(|s| s.termination_grace_period_seconds)).unwrap_or(30)
}

/// When the pod's `activeDeadlineSeconds` are over, counted from its start.
pub(crate) fn deadline(pod: &Pod, started: Option<Timestamp>) -> Option<Timestamp> {
    let seconds = pod.spec.as_ref()?.active_deadline_seconds?;
    started?.checked_add(SignedDuration::from_secs(seconds)).ok()
}
