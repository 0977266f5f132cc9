//! What to do about one CronJob. Pure.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use k8s_openapi::{
    api::{
        batch::v1::{CronJob, CronJobStatus, Job},
        core::v1::ObjectReference,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::api::ObjectMeta;

use super::schedule::Schedule;
use crate::{controllers::job::finish, owner};

const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

#[derive(Debug, PartialEq)]
pub(super) enum Action {
    Create(Box<Job>, Timestamp),
    Delete(Arc<Job>),
    Normal(&'static str, String),
    Warning(&'static str, String),
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) actions: Vec<Action>,
    pub(super) status: CronJobStatus,
    pub(super) again: Option<Duration>,
}

/// The steps at `now`, with all `jobs` the cron job has started.
pub(super) fn plan(cron: &CronJob, jobs: &[Arc<Job>], now: Timestamp) -> Plan {
    let mut plan = Plan { status: cron.status.clone().unwrap_or_default(), ..Plan::default() };
    plan.watch(jobs);
    plan.clean_up(cron, jobs);
    let spec = &cron.spec;
    if spec.suspend == Some(true) || cron.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let zone = match spec.time_zone.as_deref() {
        None | Some("UTC" | "Etc/UTC") => TimeZone::UTC,
        Some(name) => match TimeZone::get(name) {
            Ok(zone) => zone,
            Err(error) => {
                plan.actions.push(Action::Warning("UnknownTimeZone", format!("invalid timeZone: {name:?}: {error}")));
                return plan;
            }
        },
    };
    match Schedule::parse(&spec.schedule) {
        Err(error) => {
            plan.actions.push(Action::Warning("UnparseableSchedule", format!("unparseable schedule: {:?} : {error}", spec.schedule)))
        }
        Ok(schedule) => plan.schedule(cron, jobs, &schedule, &zone, now),
    }
    plan
}

impl Plan {
    /// Strikes jobs that are over, or gone, off the list of active ones.
    fn watch(&mut self, jobs: &[Arc<Job>]) {
        let active = self.status.active.take().unwrap_or_default();
        let mut kept = Vec::new();
        for reference in active {
            let job = jobs.iter().find(|job| job.metadata.uid == reference.uid);
            match job {
                Some(job) if finish::is_finished(job) => {
                    let failed = job.status.as_ref().is_some_and(|status| finish::holds(status, finish::FAILED));
                    let how = if failed { finish::FAILED } else { finish::COMPLETE };
                    let text = format!("Saw completed job: {}, condition: {how}", name_of(&job.metadata));
                    self.actions.push(Action::Normal("SawCompletedJob", text));
                    self.succeeded(job);
                }
                Some(_) => kept.push(reference),
                None => {
                    let text = format!("Active job went missing: {}", reference.name.as_deref().unwrap_or_default());
                    self.actions.push(Action::Normal("MissingJob", text));
                }
            }
        }
        self.status.active = Some(kept).filter(|active| !active.is_empty());
    }

    fn succeeded(&mut self, job: &Job) {
        let ended = job.status.as_ref().and_then(|status| status.completion_time.clone());
        if let Some(ended) = ended
            && self.status.last_successful_time.as_ref().is_none_or(|last| last.0 < ended.0)
        {
            self.status.last_successful_time = Some(ended);
        }
    }

    /// Deletes the oldest finished jobs beyond the limits.
    fn clean_up(&mut self, cron: &CronJob, jobs: &[Arc<Job>]) {
        let spec = &cron.spec;
        let limits = [
            (finish::COMPLETE, spec.successful_jobs_history_limit.unwrap_or(3)),
            (finish::FAILED, spec.failed_jobs_history_limit.unwrap_or(1)),
        ];
        for (how, limit) in limits {
            let finished = jobs.iter().filter(|job| job.status.as_ref().is_some_and(|status| finish::holds(status, how)));
            let mut finished: Vec<_> = finished.filter(|job| job.metadata.deletion_timestamp.is_none()).cloned().collect();
            finished.sort_by_key(|job| (started(job), job.metadata.name.clone()));
            let excess = finished.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
            self.actions.extend(finished.into_iter().take(excess).map(Action::Delete));
        }
    }

    fn schedule(&mut self, cron: &CronJob, jobs: &[Arc<Job>], schedule: &Schedule, zone: &TimeZone, now: Timestamp) {
        let next = schedule.next(now, zone).and_then(|next| Duration::try_from(next.duration_since(now)).ok());
        // A little later, so that the time has surely come on the next look.
        self.again = next.map(|wait| wait + Duration::from_millis(100));
        let spec = &cron.spec;
        let created = cron.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
        let since = self.status.last_schedule_time.as_ref().map_or(created, |time| time.0);
        let Some(due) = schedule.last(since, now, zone) else { return };
        let deadline = spec.starting_deadline_seconds.map(SignedDuration::from_secs);
        if deadline.is_some_and(|deadline| now.duration_since(due) > deadline) {
            let text = format!("Missed scheduled time to start a job: {due}");
            self.actions.push(Action::Warning("MissSchedule", text));
            return;
        }
        let policy = spec.concurrency_policy.as_deref().unwrap_or("Allow");
        let active = self.status.active.clone().unwrap_or_default();
        if policy == "Forbid" && !active.is_empty() {
            self.actions.push(Action::Normal(
                "JobAlreadyActive",
                "Not starting job because prior execution is running and concurrency policy is Forbid".into(),
            ));
            return;
        }
        if policy == "Replace" {
            let running = jobs.iter().filter(|job| active.iter().any(|reference| reference.uid == job.metadata.uid));
            self.actions.extend(running.cloned().map(Action::Delete));
            self.status.active = None;
        }
        self.actions.push(Action::Create(Box::new(job(cron, due, zone)), due));
    }

    /// Notes a job that was made.
    pub(super) fn started(&mut self, reference: ObjectReference, due: Timestamp) {
        self.status.active.get_or_insert_default().push(reference);
        self.status.last_schedule_time = Some(Time(due));
    }
}

fn started(job: &Job) -> Option<Timestamp> {
    let status = job.status.as_ref().and_then(|status| status.start_time.as_ref());
    status.or(job.metadata.creation_timestamp.as_ref()).map(|time| time.0)
}

fn name_of(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}

/// The job of one scheduled time; its name follows from the time, so that it is made at most once.
fn job(cron: &CronJob, due: Timestamp, zone: &TimeZone) -> Job {
    let template = cron.spec.job_template.clone();
    let meta = template.metadata.unwrap_or_default();
    let mut annotations = meta.annotations.unwrap_or_default();
    let local = due.to_zoned(zone.clone());
    annotations
        .insert(SCHEDULED.into(), jiff::fmt::strtime::format("%Y-%m-%dT%H:%M:%S%:z", &local).unwrap_or_default().replace("+00:00", "Z"));
    Job {
        metadata: ObjectMeta {
            name: Some(format!("{}-{}", name_of(&cron.metadata), due.as_second() / 60)),
            namespace: cron.metadata.namespace.clone(),
            labels: meta.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![owner::reference(cron)]),
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use k8s_openapi::api::batch::v1::{CronJob, Job};
    use serde_json::{Value, json};

    use super::{Action, Plan, plan};

    fn cron(spec: &Value, status: Value) -> CronJob {
        let mut value = json!({
            "metadata": {"name": "cj", "namespace": "default", "uid": "cj", "creationTimestamp": "2026-01-01T00:00:30Z"},
            "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": {}}}},
            "status": status,
        });
        for (name, field) in spec.as_object().into_iter().flatten() {
            value["spec"][name] = field.clone();
        }
        serde_json::from_value(value).unwrap()
    }

    fn job(name: &str, condition: Option<&str>, started: &str) -> Arc<Job> {
        let conditions: Vec<_> = condition.into_iter().map(|kind| json!({"type": kind, "status": "True"})).collect();
        let status = json!({"startTime": started, "conditions": conditions});
        Arc::new(serde_json::from_value(json!({"metadata": {"name": name, "uid": name}, "status": status})).unwrap())
    }

    fn at(time: &str) -> Timestamp {
        time.parse().unwrap()
    }

    fn created(plan: &Plan) -> Vec<&str> {
        let made = plan.actions.iter().filter_map(|action| match action {
            Action::Create(job, _) => job.metadata.name.as_deref(),
            _ => None,
        });
        made.collect()
    }

    #[test]
    fn starts_the_last_missed_run_only() {
        let plan = plan(&cron(&Value::Null, json!({})), &[], at("2026-01-01T00:17:00Z"));
        assert_eq!(created(&plan), ["cj-29453775"]);
        assert_eq!(plan.again.map(|wait| wait.as_secs()), Some(180));
    }

    #[test]
    fn starts_each_run_once() {
        let ran = json!({"lastScheduleTime": "2026-01-01T00:15:00Z"});
        assert!(created(&plan(&cron(&Value::Null, ran), &[], at("2026-01-01T00:17:00Z"))).is_empty());
    }

    #[test]
    fn a_suspended_one_starts_nothing() {
        let plan = plan(&cron(&json!({"suspend": true}), json!({})), &[], at("2026-01-01T00:17:00Z"));
        assert_eq!((plan.actions, plan.again), (vec![], None));
    }

    #[test]
    fn overlapping_runs_are_allowed_forbidden_or_replaced() {
        let running = json!({"active": [{"uid": "old", "name": "old"}]});
        let jobs = [job("old", None, "2026-01-01T00:10:00Z")];
        let run = |policy: &str| plan(&cron(&json!({"concurrencyPolicy": policy}), running.clone()), &jobs, at("2026-01-01T00:17:00Z"));
        assert_eq!(created(&run("Allow")).len(), 1);
        assert!(created(&run("Forbid")).is_empty());
        let replaced = run("Replace");
        assert!(matches!(&replaced.actions[..], [Action::Delete(_), Action::Create(..)]));
    }

    #[test]
    fn old_runs_are_cleaned_up_and_finished_ones_struck_off() {
        let jobs: Vec<_> = (1..=5).map(|n| job(&format!("j{n}"), Some("Complete"), &format!("2026-01-01T00:0{n}:00Z"))).collect();
        let status = json!({"active": [{"uid": "j5", "name": "j5"}], "lastScheduleTime": "2026-01-01T00:15:00Z"});
        let plan = plan(&cron(&Value::Null, status), &jobs, at("2026-01-01T00:16:00Z"));
        let deleted = plan.actions.iter().filter(|action| matches!(action, Action::Delete(_))).count();
        assert_eq!((deleted, plan.status.active), (2, None));
    }

    #[test]
    fn a_run_too_late_is_missed() {
        let plan = plan(&cron(&json!({"startingDeadlineSeconds": 60}), json!({})), &[], at("2026-01-01T00:17:00Z"));
        assert!(matches!(&plan.actions[..], [Action::Warning("MissSchedule", _)]));
    }
}
