use serde_json::json;

use super::*;
use crate::pod::fixture::{at, observed, pod};

fn known<'a>(pod: &'a Pod, observed: &'a Observed, verdicts: &'a Verdicts, reasons: &'a Reasons) -> Known<'a> {
    Known {
        pod,
        old: pod.status.as_ref(),
        observed,
        verdicts,
        reasons,
        stage: Stage::Running,
        host_ips: &[],
        runtime: "containerd",
        refused: None,
        now: at(200),
    }
}

/// The status of a pod with all running containers started and ready.
fn of(policy: &str, names: &[&str], seen: &[&str]) -> PodStatus {
    let pod = pod(policy, names);
    let observed = observed(&pod, seen);
    let mut verdicts = Verdicts::default();
    verdicts.started.extend(observed.running().map(|c| c.id.clone()));
    verdicts.ready.extend(observed.running().map(|c| c.id.clone()));
    status(&known(&pod, &observed, &verdicts, &Reasons::new()))
}

fn condition(status: &PodStatus, kind: &str) -> (String, String) {
    let found = status.conditions.iter().flatten().find(|c| c.type_ == kind).unwrap();
    (found.status.clone(), found.message.clone().unwrap_or_default())
}

#[test]
fn the_phase_follows_the_containers() {
    let cases: &[(&str, &[&str], &[&str], &str)] = &[
        ("Always", &["main"], &[], "Pending"),
        ("Always", &["main"], &["main=running"], "Running"),
        ("Always", &["main"], &["main=1"], "Running"),
        ("Always", &["a", "b"], &["a=running"], "Pending"),
        ("OnFailure", &["main"], &["main=1"], "Running"),
        ("OnFailure", &["main"], &["main=0"], "Succeeded"),
        ("Never", &["a", "b"], &["a=1", "b=0"], "Failed"),
        ("Never", &["a", "b"], &["a=1", "b=running"], "Running"),
        ("Always", &["init-a", "main"], &["init-a=running"], "Pending"),
        ("Always", &["init-a", "main"], &["init-a=1"], "Pending"),
        ("Never", &["init-a", "main"], &["init-a=1"], "Failed"),
        ("Always", &["init-a", "main"], &["main=running", "init-a=0"], "Running"),
    ];
    for (policy, names, seen, phase) in cases {
        assert_eq!(of(policy, names, seen).phase.as_deref(), Some(*phase), "{policy} {names:?} {seen:?}");
    }
}

#[test]
fn conditions_name_what_is_missing() {
    let running = of("Always", &["a", "b"], &["a=running", "b=running"]);
    assert_eq!(condition(&running, "Ready").0, "True");
    let half = of("Always", &["a", "b"], &["a=running"]);
    assert_eq!(condition(&half, "ContainersReady"), ("False".into(), "containers with unready status: [b]".into()));
    assert_eq!(condition(&half, "PodReadyToStartContainers").0, "True");
    let init = of("Always", &["init-a", "main"], &["init-a=running"]);
    assert_eq!(condition(&init, "Initialized"), ("False".into(), "containers with incomplete status: [init-a]".into()));
}

#[test]
fn a_container_in_back_off_waits_and_keeps_its_last_end() {
    let pod = pod("Always", &["main"]);
    let observed = observed(&pod, &["main=3"]);
    let reasons = Reasons::from([("main".into(), ("CrashLoopBackOff".into(), "back-off 10s".into()))]);
    let status = status(&known(&pod, &observed, &Verdicts::default(), &reasons));
    let container = &status.container_statuses.unwrap()[0];
    let waiting = container.state.as_ref().unwrap().waiting.as_ref().unwrap();
    assert_eq!(waiting.reason.as_deref(), Some("CrashLoopBackOff"));
    let last = container.last_state.as_ref().unwrap().terminated.as_ref().unwrap();
    assert_eq!((last.exit_code, last.reason.as_deref()), (3, Some("Error")));
    assert_eq!(container.container_id.as_deref(), Some("containerd://main-0"));
    assert_eq!(status.phase.as_deref(), Some("Running"));
}

#[test]
fn a_container_that_waits_for_init_containers_says_so() {
    let status = of("Always", &["init-a", "main"], &[]);
    let reason = |list: Option<Vec<ContainerStatus>>| list.unwrap()[0].state.clone().unwrap().waiting.unwrap().reason.unwrap();
    assert_eq!(reason(status.container_statuses), "PodInitializing");
    let status = of("Always", &["main"], &[]);
    assert_eq!(reason(status.container_statuses), "ContainerCreating");
}

#[test]
fn transition_times_and_start_time_stay_until_something_changes() {
    let mut pod = pod("Always", &["main"]);
    let observed = observed(&pod, &["main=running"]);
    let (verdicts, reasons) = (Verdicts::default(), Reasons::new());
    let first = status(&known(&pod, &observed, &verdicts, &reasons));
    pod.status = Some(first.clone());
    let second = status(&Known { now: at(900), ..known(&pod, &observed, &verdicts, &reasons) });
    assert_eq!(first, second);
}

#[test]
fn a_pod_that_ended_stays_ended() {
    let mut pod = pod("Never", &["main"]);
    pod.status = serde_json::from_value(json!({"phase": "Succeeded", "containerStatuses": [{
        "name": "main", "image": "web:1", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": 0, "reason": "Completed"}},
    }]}))
    .unwrap();
    let observed = Observed::default();
    let (verdicts, reasons) = (Verdicts::default(), Reasons::new());
    let status = status(&Known { stage: Stage::Terminated, ..known(&pod, &observed, &verdicts, &reasons) });
    assert_eq!(status.phase.as_deref(), Some("Succeeded"));
    assert!(status.container_statuses.unwrap()[0].state.as_ref().unwrap().terminated.is_some());
}

#[test]
fn a_refused_pod_fails_with_its_reason() {
    let pod = pod("Always", &["main"]);
    let observed = Observed::default();
    let (verdicts, reasons) = (Verdicts::default(), Reasons::new());
    let refused = Some(("OutOfcpu", "Pod was rejected"));
    let status = status(&Known { refused, stage: Stage::Terminated, ..known(&pod, &observed, &verdicts, &reasons) });
    assert_eq!((status.phase.as_deref(), status.reason.as_deref()), (Some("Failed"), Some("OutOfcpu")));
}
