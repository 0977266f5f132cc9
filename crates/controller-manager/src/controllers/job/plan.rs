//! What to do about one job. Pure.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        batch::v1::{Job, JobStatus},
        core::v1::Pod,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};

use super::{
    FINALIZER,
    count::{self, Counted},
    finish::{self, Verdict},
    indexes,
};
use crate::{controllers::replicaset::rank, pod_control::from_template, pods};

/// Pods created or deleted in one go.
const BURST: usize = 500;
/// Pause after the first failure, doubled with each further one, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(600));

#[derive(Debug, PartialEq)]
pub(super) enum Action {
    Nothing,
    Create(Vec<Pod>),
    Delete(Vec<Arc<Pod>>),
}

#[derive(Debug, PartialEq)]
pub(super) enum Event {
    Normal(&'static str, String),
    Warning(&'static str, String),
}

/// The steps, in the order they are to be taken.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) action: Action,
    /// The status to store, if it differs.
    pub(super) status: Option<JobStatus>,
    pub(super) events: Vec<Event>,
    /// Pods to release once the status is stored.
    pub(super) release: Vec<Arc<Pod>>,
    pub(super) again: Option<Duration>,
}

/// What to do with `job` and its `pods`; nothing is created or deleted while the cache lags (`satisfied` is false).
pub(super) fn plan(job: &Job, pods: &[Arc<Pod>], satisfied: bool, now: Timestamp) -> Plan {
    let mut plan = Plan { action: Action::Nothing, status: None, events: Vec::new(), release: Vec::new(), again: None };
    if finish::is_finished(job) {
        // Whatever still holds a finalizer was counted before the job could finish.
        plan.release = pods.to_vec();
        return plan;
    }
    let before = job.status.clone().unwrap_or_default();
    let mut status = before.clone();
    let suspended = job.spec.as_ref().and_then(|spec| spec.suspend) == Some(true);
    if status.start_time.is_none() && !suspended {
        status.start_time = Some(Time(now));
    }
    let active: Vec<_> = pods.iter().filter(|pod| pods::is_active(pod)).cloned().collect();
    let terminating = pods.iter().filter(|pod| pods::is_terminating(pod)).count();
    let finishing = finish::holds(&status, finish::SUCCESS_CRITERIA_MET) || finish::holds(&status, finish::FAILURE_TARGET);
    let counted = count::count(job, &mut status, pods, finishing && active.is_empty());
    index_successes(job, &mut status, &counted);
    let verdict = finish::verdict(job, &status, (counted.succeeded, counted.failed), &active, now);
    match &verdict {
        Some(verdict) => plan.end(&mut status, verdict, &active, terminating, &counted, now),
        None if suspended => plan.suspend(&mut status, &active, now),
        None => plan.go_on(job, &mut status, pods, &active, terminating, &counted, now),
    }
    if !satisfied || job.metadata.deletion_timestamp.is_some() {
        plan.action = Action::Nothing;
    }
    plan.tally(&mut status, &active, terminating);
    plan.release = counted.release;
    plan.status = (status != before).then_some(status);
    plan
}

fn index_successes(job: &Job, status: &mut JobStatus, counted: &Counted) {
    if indexes::is_indexed(job) && !counted.new_successes.is_empty() {
        let mut done = indexes::parse(status.completed_indexes.as_deref().unwrap_or_default());
        done.extend(counted.new_successes.iter().filter_map(|pod| indexes::of(pod)));
        status.completed_indexes = Some(indexes::format(&done));
    }
}

impl Plan {
    /// Shows active pods as they will be after the action.
    fn tally(&self, status: &mut JobStatus, active: &[Arc<Pod>], terminating: usize) {
        let (created, deleted) = match &self.action {
            Action::Nothing => (0, 0),
            Action::Create(pods) => (pods.len(), 0),
            Action::Delete(pods) => (0, pods.len()),
        };
        let count = |pods: usize| i32::try_from(pods).unwrap_or(i32::MAX);
        status.active = Some(count(active.len() + created - deleted)).filter(|active| *active > 0);
        status.ready = Some(count(active.iter().filter(|pod| pods::is_ready(pod)).count()));
        status.terminating = Some(count(terminating + deleted));
    }

    fn end(
        &mut self,
        status: &mut JobStatus,
        verdict: &Verdict,
        active: &[Arc<Pod>],
        terminating: usize,
        counted: &Counted,
        now: Timestamp,
    ) {
        let (first, last) =
            if verdict.success { (finish::SUCCESS_CRITERIA_MET, finish::COMPLETE) } else { (finish::FAILURE_TARGET, finish::FAILED) };
        finish::set(status, first, "True", &verdict.reason, &verdict.message, now);
        if !active.is_empty() {
            self.action = Action::Delete(active.iter().take(BURST).cloned().collect());
        } else if terminating == 0 && counted.settled && counted.release.is_empty() {
            finish::set(status, last, "True", &verdict.reason, &verdict.message, now);
            if verdict.success {
                status.completion_time = Some(Time(now));
                self.events.push(Event::Normal("Completed", "Job completed".into()));
            } else {
                let reason = if verdict.reason == "DeadlineExceeded" { "DeadlineExceeded" } else { "BackoffLimitExceeded" };
                self.events.push(Event::Warning(reason, verdict.message.clone()));
            }
        }
    }

    fn suspend(&mut self, status: &mut JobStatus, active: &[Arc<Pod>], now: Timestamp) {
        if !active.is_empty() {
            self.action = Action::Delete(active.iter().take(BURST).cloned().collect());
        }
        if finish::set(status, finish::SUSPENDED, "True", "JobSuspended", "Job suspended", now) {
            self.events.push(Event::Normal("Suspended", "Job suspended".into()));
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn go_on(
        &mut self,
        job: &Job,
        status: &mut JobStatus,
        pods: &[Arc<Pod>],
        active: &[Arc<Pod>],
        terminating: usize,
        counted: &Counted,
        now: Timestamp,
    ) {
        if finish::get(status, finish::SUSPENDED).is_some()
            && finish::set(status, finish::SUSPENDED, "False", "JobResumed", "Job resumed", now)
        {
            // The time a job was suspended does not count towards its deadline.
            status.start_time = Some(Time(now));
            self.events.push(Event::Normal("Resumed", "Job resumed".into()));
        }
        self.again = finish::deadline(job, now);
        let wanted = wanted(job, counted.succeeded, active.len());
        if active.len() > wanted {
            self.action = Action::Delete(rank::doomed(active, active, (active.len() - wanted).min(BURST), now));
            return;
        }
        let waits = job.spec.as_ref().and_then(|spec| spec.pod_replacement_policy.as_deref()) == Some("Failed");
        let held = if waits { terminating } else { 0 };
        let missing = wanted.saturating_sub(active.len() + held).min(BURST);
        if missing == 0 {
            return;
        }
        match backoff(pods, now) {
            Some(delay) => self.again = Some(self.again.map_or(delay, |again| again.min(delay))),
            None => self.action = Action::Create(new_pods(job, status, active, missing)),
        }
    }
}

/// How many pods are to run at once.
fn wanted(job: &Job, succeeded: i32, active: usize) -> usize {
    let spec = job.spec.clone().unwrap_or_default();
    let parallelism = usize::try_from(spec.parallelism.unwrap_or(1)).unwrap_or(0);
    match spec.completions {
        Some(completions) => usize::try_from(completions - succeeded).unwrap_or(0).min(parallelism),
        // A work queue of which one worker has succeeded is empty: no new workers.
        None if succeeded > 0 => active.min(parallelism),
        None => parallelism,
    }
}

/// How long to wait before the next pod, after failures without a success since.
fn backoff(pods: &[Arc<Pod>], now: Timestamp) -> Option<Duration> {
    let ended = |phase: &'static str| pods.iter().filter(move |pod| pods::phase(pod) == phase).filter_map(|pod| ended_at(pod));
    let last_success = ended("Succeeded").max();
    let failures: Vec<_> = ended("Failed").filter(|failed| last_success.is_none_or(|success| *failed > success)).collect();
    let last = failures.iter().max()?;
    let doublings = u32::try_from(failures.len() - 1).unwrap_or(u32::MAX).min(16);
    let delay = (BACKOFF.0 * 2_u32.pow(doublings)).min(BACKOFF.1);
    let left = last.duration_since(now) + SignedDuration::try_from(delay).unwrap_or_default();
    Duration::try_from(left).ok().filter(|left| !left.is_zero())
}

/// When the last container of an ended pod ended.
fn ended_at(pod: &Pod) -> Option<Timestamp> {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let ends = statuses.filter_map(|container| container.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref().map(|time| time.0));
    ends.max().or_else(|| pods::condition(pod, "Ready")?.last_transition_time.as_ref().map(|time| time.0))
}

fn new_pods(job: &Job, status: &JobStatus, active: &[Arc<Pod>], count: usize) -> Vec<Pod> {
    let template = job.spec.as_ref().map(|spec| &spec.template);
    let mut pod = from_template(job, template);
    pod.metadata.finalizers.get_or_insert_default().push(FINALIZER.into());
    if !indexes::is_indexed(job) {
        return vec![pod; count];
    }
    let mut taken: BTreeSet<i32> = indexes::parse(status.completed_indexes.as_deref().unwrap_or_default());
    taken.extend(active.iter().filter_map(|pod| indexes::of(pod)));
    let completions = job.spec.as_ref().and_then(|spec| spec.completions).unwrap_or(0);
    let made = indexes::next(completions, &taken, count).into_iter().map(|index| {
        let mut pod = pod.clone();
        indexes::assign(job, &mut pod, index);
        pod
    });
    made.collect()
}
