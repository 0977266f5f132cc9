//! Counting ended pods exactly once. Pure.
//!
//! An ended pod goes through three states: with its finalizer and not in the status; with its finalizer and listed in
//! `uncountedTerminatedPods`; without its finalizer and in a counter. A status is stored before a finalizer is removed, and
//! a counter grows only once the finalizer is gone, so a stop at any point loses and doubles nothing.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::{
    batch::v1::{Job, JobStatus, UncountedTerminatedPods},
    core::v1::Pod,
};

use super::is_tracked;
use crate::pods;

/// Pods listed in one status update, so that it stays small.
const MOST: usize = 500;

/// The ends of pods as known after this sync's status is stored.
pub(super) struct Counted {
    pub(super) succeeded: i32,
    pub(super) failed: i32,
    /// Pods whose finalizer may go once the status is stored.
    pub(super) release: Vec<Arc<Pod>>,
    /// Pods whose success this status is the first to list.
    pub(super) new_successes: Vec<Arc<Pod>>,
    /// Whether every ended pod is in a counter.
    pub(super) settled: bool,
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

/// Whether the pod will not succeed any more. A pod deleted by others counts as failed at once, unless the job asks to wait
/// until it really ends.
pub(super) fn is_failed(job: &Job, pod: &Pod) -> bool {
    let policy = job.spec.as_ref().and_then(|spec| spec.pod_replacement_policy.as_deref());
    let deleted = pod.metadata.deletion_timestamp.is_some() && policy != Some("Failed");
    pods::phase(pod) == "Failed" || (deleted && pods::phase(pod) != "Succeeded")
}

/// Moves ended pods one state on in `status`; `finishing` counts pods still running as failed.
pub(super) fn count(job: &Job, status: &mut JobStatus, pods: &[Arc<Pod>], finishing: bool) -> Counted {
    let tracked: BTreeSet<&str> = pods.iter().filter(|pod| is_tracked(pod)).map(|pod| uid(pod)).collect();
    let uncounted = status.uncounted_terminated_pods.get_or_insert_default();
    let succeeded = settle(&mut uncounted.succeeded, &tracked);
    let failed = settle(&mut uncounted.failed, &tracked);
    status.succeeded = sum(status.succeeded, succeeded);
    status.failed = sum(status.failed, failed);
    let (mut release, mut new_successes) = (Vec::new(), Vec::new());
    for pod in pods.iter().filter(|pod| is_tracked(pod)) {
        let success = pods::phase(pod) == "Succeeded";
        if !success && !is_failed(job, pod) && !finishing {
            continue;
        }
        let known = listed(uncounted, uid(pod));
        if !known && release.len() >= MOST {
            continue;
        }
        if !known {
            let list = if success { &mut uncounted.succeeded } else { &mut uncounted.failed };
            list.get_or_insert_default().push(uid(pod).to_owned());
            if success {
                new_successes.push(Arc::clone(pod));
            }
        }
        release.push(Arc::clone(pod));
    }
    let pending = |list: &Option<Vec<String>>| list.as_ref().map_or(0, Vec::len);
    let (more_succeeded, more_failed) = (pending(&uncounted.succeeded), pending(&uncounted.failed));
    Counted {
        succeeded: sum(status.succeeded, more_succeeded).unwrap_or(0),
        failed: sum(status.failed, more_failed).unwrap_or(0),
        settled: more_succeeded + more_failed == 0,
        release,
        new_successes,
    }
}

/// Takes out of `list` what has lost its finalizer; how many that were.
fn settle(list: &mut Option<Vec<String>>, tracked: &BTreeSet<&str>) -> usize {
    let Some(uids) = list else { return 0 };
    let before = uids.len();
    uids.retain(|uid| tracked.contains(uid.as_str()));
    let settled = before - uids.len();
    if uids.is_empty() {
        *list = None;
    }
    settled
}

fn listed(uncounted: &UncountedTerminatedPods, uid: &str) -> bool {
    let in_list = |list: &Option<Vec<String>>| list.iter().flatten().any(|listed| listed == uid);
    in_list(&uncounted.succeeded) || in_list(&uncounted.failed)
}

fn sum(count: Option<i32>, more: usize) -> Option<i32> {
    let total = count.unwrap_or(0).saturating_add(i32::try_from(more).unwrap_or(i32::MAX));
    Some(total).filter(|total| *total > 0)
}
