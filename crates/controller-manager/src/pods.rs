//! What controllers read off a pod.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};

/// `status.phase`, empty when absent.
pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Whether all containers have ended for good.
pub(crate) fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Neither finished nor being deleted.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && pod.metadata.deletion_timestamp.is_none()
}

/// Being deleted and not finished yet.
pub(crate) fn is_terminating(pod: &Pod) -> bool {
    !is_finished(pod) && pod.metadata.deletion_timestamp.is_some()
}

/// The condition of that type.
pub(crate) fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().find(|condition| condition.type_ == kind)
}

/// Whether the Ready condition is true.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready.status == "True")
}

/// When the pod became ready, if it is.
pub(crate) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let ready = condition(pod, "Ready").filter(|ready| ready.status == "True")?;
    ready.last_transition_time.as_ref().map(|time| time.0)
}

/// Whether the pod has been ready for `min_ready_seconds` at `now`.
pub(crate) fn is_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    is_ready(pod) && until_available(pod, min_ready_seconds, now) == Some(Duration::ZERO)
}

/// How long until a ready pod counts as available; `None` when it is not ready, or since an unknown time.
pub(crate) fn until_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> Option<Duration> {
    if !is_ready(pod) {
        return None;
    }
    let min = Duration::from_secs(u64::try_from(min_ready_seconds).unwrap_or(0));
    if min.is_zero() {
        return Some(Duration::ZERO);
    }
    let elapsed = now.duration_since(ready_since(pod)?);
    Some(min.saturating_sub(Duration::try_from(elapsed).unwrap_or(Duration::ZERO)))
}
