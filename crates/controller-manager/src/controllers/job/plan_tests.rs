use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use serde_json::{Value, json};

use super::{
    FINALIZER, finish, indexes,
    plan::{Action, Plan, plan},
};

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn job(spec: &Value, status: Value) -> Job {
    let mut value = json!({
        "metadata": {"name": "j", "namespace": "default", "uid": "j"},
        "spec": {"parallelism": 2, "completions": 3, "backoffLimit": 1, "template": {"spec": {"containers": [], "restartPolicy": "Never"}}},
        "status": status,
    });
    for (name, field) in spec.as_object().into_iter().flatten() {
        value["spec"][name] = field.clone();
    }
    serde_json::from_value(value).unwrap()
}

fn pod(name: &str, phase: &str, tracked: bool) -> Arc<Pod> {
    let finalizers = if tracked { vec![FINALIZER] } else { vec![] };
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {"name": name, "uid": name, "finalizers": finalizers},
            "status": {"phase": phase, "containerStatuses": [{
                "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T11:59:55Z"}},
            }]},
        }))
        .unwrap(),
    )
}

fn created(plan: &Plan) -> usize {
    match &plan.action {
        Action::Create(pods) => pods.len(),
        _ => 0,
    }
}

#[test]
fn starts_as_many_pods_as_may_run_at_once() {
    let plan = plan(&job(&Value::Null, json!({})), &[], true, now());
    assert_eq!(created(&plan), 2);
    let status = plan.status.unwrap();
    assert_eq!((status.active, status.ready, status.start_time.map(|time| time.0)), (Some(2), Some(0), Some(now())));
}

#[test]
fn an_end_is_listed_then_released_then_counted() {
    let (done, running) = (pod("a", "Succeeded", true), pod("b", "Running", true));
    let first = plan(&job(&Value::Null, json!({})), &[done.clone(), running.clone()], true, now());
    let status = first.status.unwrap();
    assert_eq!(status.uncounted_terminated_pods.as_ref().unwrap().succeeded, Some(vec!["a".into()]));
    assert_eq!((status.succeeded, first.release), (None, vec![done]));
    let stored = job(&Value::Null, serde_json::to_value(status).unwrap());
    let second = plan(&stored, &[pod("a", "Succeeded", false), running], true, now());
    let status = second.status.unwrap();
    assert_eq!((status.succeeded, status.uncounted_terminated_pods.unwrap().succeeded), (Some(1), None));
}

#[test]
fn completes_when_all_ends_are_counted() {
    let met = json!({"succeeded": 3, "startTime": "2026-01-01T11:00:00Z"});
    let plan = plan(&job(&Value::Null, met), &[], true, now());
    let status = plan.status.unwrap();
    assert!(finish::holds(&status, finish::SUCCESS_CRITERIA_MET) && finish::holds(&status, finish::COMPLETE));
    assert_eq!(status.completion_time.map(|time| time.0), Some(now()));
}

#[test]
fn fails_beyond_the_backoff_limit_after_its_pods_are_gone() {
    let running = pod("c", "Running", true);
    let failing = plan(&job(&Value::Null, json!({"failed": 2})), std::slice::from_ref(&running), true, now());
    assert_eq!(failing.action, Action::Delete(vec![running]));
    let status = failing.status.unwrap();
    assert!(finish::holds(&status, finish::FAILURE_TARGET) && !finish::holds(&status, finish::FAILED));
    let stored = job(&Value::Null, serde_json::to_value(status).unwrap());
    assert!(finish::holds(&plan(&stored, &[], true, now()).status.unwrap(), finish::FAILED));
}

#[test]
fn waits_longer_after_each_failure() {
    let failed = [pod("a", "Failed", false)];
    let waiting = plan(&job(&Value::Null, json!({"failed": 1})), &failed, true, now());
    assert_eq!((created(&waiting), waiting.again.map(|wait| wait.as_secs())), (0, Some(5)));
    let later = "2026-01-01T12:00:06Z".parse().unwrap();
    assert_eq!(created(&plan(&job(&Value::Null, json!({"failed": 1})), &failed, true, later)), 2);
}

#[test]
fn a_suspended_job_runs_nothing_and_says_so() {
    let running = pod("a", "Running", true);
    let plan = plan(&job(&json!({"suspend": true}), json!({})), std::slice::from_ref(&running), true, now());
    assert_eq!(plan.action, Action::Delete(vec![running]));
    let status = plan.status.unwrap();
    assert!(finish::holds(&status, finish::SUSPENDED) && status.start_time.is_none());
}

#[test]
fn an_indexed_job_runs_each_index_once() {
    let indexed = json!({"completionMode": "Indexed"});
    let plan = plan(&job(&indexed, json!({"completedIndexes": "0", "succeeded": 1})), &[], true, now());
    let Action::Create(pods) = &plan.action else { panic!("{plan:?}") };
    assert_eq!(pods.iter().map(indexes::of).collect::<Vec<_>>(), [Some(1), Some(2)]);
    assert_eq!(pods[0].spec.as_ref().unwrap().hostname.as_deref(), Some("j-1"));
}

#[test]
fn a_job_over_its_deadline_fails() {
    let status = json!({"startTime": "2026-01-01T11:59:00Z"});
    let plan = plan(&job(&json!({"activeDeadlineSeconds": 30}), status), &[], true, now());
    let status = plan.status.unwrap();
    assert_eq!(finish::get(&status, finish::FAILED).unwrap().reason.as_deref(), Some("DeadlineExceeded"));
}

#[test]
fn nothing_is_created_while_the_cache_lags() {
    assert_eq!(plan(&job(&Value::Null, json!({})), &[], false, now()).action, Action::Nothing);
}
