//! When a job is over, and how. Pure.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        batch::v1::{Job, JobCondition, JobStatus},
        core::v1::Pod,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};

pub(crate) const COMPLETE: &str = "Complete";
pub(crate) const FAILED: &str = "Failed";
pub(crate) const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
pub(crate) const FAILURE_TARGET: &str = "FailureTarget";
pub(crate) const SUSPENDED: &str = "Suspended";

/// How a job ends: the condition that says so first, reason and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) success: bool,
    pub(super) reason: String,
    pub(super) message: String,
}

/// Whether the condition of that type is true.
pub(crate) fn holds(status: &JobStatus, kind: &str) -> bool {
    get(status, kind).is_some_and(|condition| condition.status == "True")
}

pub(super) fn get<'a>(status: &'a JobStatus, kind: &str) -> Option<&'a JobCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == kind)
}

/// Sets a condition; one of the same status keeps its times.
pub(super) fn set(status: &mut JobStatus, kind: &str, value: &str, reason: &str, message: &str, now: Timestamp) -> bool {
    let conditions = status.conditions.get_or_insert_default();
    if conditions.iter().any(|condition| condition.type_ == kind && condition.status == value) {
        return false;
    }
    conditions.retain(|condition| condition.type_ != kind);
    conditions.push(JobCondition {
        type_: kind.into(),
        status: value.into(),
        reason: Some(reason.into()),
        message: Some(message.into()),
        last_probe_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    });
    true
}

/// Whether the job is over for good.
pub(crate) fn is_finished(job: &Job) -> bool {
    job.status.as_ref().is_some_and(|status| holds(status, COMPLETE) || holds(status, FAILED))
}

/// How the job ends, if it does now or was found to before.
pub(super) fn verdict(job: &Job, status: &JobStatus, counts: (i32, i32), active: &[Arc<Pod>], now: Timestamp) -> Option<Verdict> {
    for (kind, success) in [(SUCCESS_CRITERIA_MET, true), (FAILURE_TARGET, false)] {
        if let Some(found) = get(status, kind).filter(|condition| condition.status == "True") {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            return Some(Verdict { success, reason: text(&found.reason), message: text(&found.message) });
        }
    }
    let failure = |reason: &str, message: &str| Verdict { success: false, reason: reason.into(), message: message.into() };
    let spec = job.spec.clone().unwrap_or_default();
    let (succeeded, failed) = counts;
    let limit = spec.backoff_limit.unwrap_or(6);
    if failed > limit || restarts_exceed(job, active, limit) {
        return Some(failure("BackoffLimitExceeded", "Job has reached the specified backoff limit"));
    }
    if deadline(job, now) == Some(Duration::ZERO) {
        return Some(failure("DeadlineExceeded", "Job was active longer than specified deadline"));
    }
    let enough = match spec.completions {
        Some(completions) => succeeded >= completions,
        // Any success ends a work queue, once its other workers have ended too.
        None => succeeded > 0 && active.is_empty(),
    };
    enough.then(|| Verdict {
        success: true,
        reason: "CompletionsReached".into(),
        message: "Reached expected number of succeeded pods".into(),
    })
}

/// With restarts in place, containers that fail show as restarts and not as failed pods.
fn restarts_exceed(job: &Job, active: &[Arc<Pod>], limit: i32) -> bool {
    let template = job.spec.as_ref().map(|spec| &spec.template);
    let policy = template.and_then(|template| template.spec.as_ref()).and_then(|spec| spec.restart_policy.as_deref());
    if policy != Some("OnFailure") {
        return false;
    }
    let statuses = active.iter().filter_map(|pod| pod.status.as_ref());
    let containers = statuses.flat_map(|status| status.container_statuses.iter().chain(&status.init_container_statuses).flatten());
    let restarts: i32 = containers.map(|container| container.restart_count).sum();
    if limit == 0 { restarts > 0 } else { restarts >= limit }
}

/// How long the job may still be active, if that is limited and it has started.
pub(super) fn deadline(job: &Job, now: Timestamp) -> Option<Duration> {
    let spec = job.spec.as_ref()?;
    if spec.suspend == Some(true) {
        return None;
    }
    let (seconds, start) = (spec.active_deadline_seconds?, job.status.as_ref()?.start_time.as_ref()?.0);
    let left = start.duration_since(now) + SignedDuration::from_secs(seconds);
    Some(Duration::try_from(left).unwrap_or_default())
}
