use super::*;
use crate::pod::fixture::{at, observed, pod};

/// The steps as short texts: `stop-pod`, `sandbox 1`, `stop main`, `start main#2`, `wait main`.
fn steps(pod: &Pod, observed: &Observed, verdicts: &Verdicts, backoff: &Backoff) -> Vec<String> {
    let plan = plan(&View { pod, observed, verdicts, backoff, now: at(120) });
    let spec = pod.spec.as_ref().unwrap();
    let acts = plan.actions.iter().map(|action| match action {
        Action::StopPod => "stop-pod".into(),
        Action::CreateSandbox { attempt } => format!("sandbox {attempt}"),
        Action::Stop { name, .. } => format!("stop {name}"),
        Action::Start { which, restart_count } => format!("start {}#{restart_count}", container(spec, *which).unwrap().name),
    });
    acts.chain(plan.waiting.iter().map(|w| format!("wait {}", w.name))).collect()
}

fn check(policy: &str, names: &[&str], seen: &[&str], expected: &[&str]) {
    let pod = pod(policy, names);
    let observed = observed(&pod, seen);
    let mut verdicts = Verdicts::default();
    verdicts.started.extend(observed.running().map(|c| c.id.clone()));
    assert_eq!(steps(&pod, &observed, &verdicts, &Backoff::default()), expected, "{policy} {names:?} {seen:?}");
}

#[test]
fn a_new_pod_gets_a_sandbox_and_its_containers() {
    let pod = pod("Always", &["a", "b"]);
    let steps = steps(&pod, &Observed::default(), &Verdicts::default(), &Backoff::default());
    assert_eq!(steps, ["sandbox 0", "start a#0", "start b#0"]);
}

#[test]
fn init_containers_run_one_by_one_before_the_others() {
    let names = &["init-a", "init-b", "main"];
    check("Always", names, &[], &["start init-a#0"]);
    check("Always", names, &["init-a=running"], &[]);
    check("Always", names, &["init-a=0"], &["start init-b#0"]);
    check("Always", names, &["init-b=0", "init-a=0"], &["start main#0"]);
    check("Always", names, &["init-a=1"], &["start init-a#1"]);
    check("Never", names, &["init-a=1"], &["stop-pod"]);
    check("Always", names, &["main=running"], &[]);
}

#[test]
fn a_sidecar_starts_before_the_others_and_restarts_beside_them() {
    let names = &["side-a", "main"];
    check("Always", names, &[], &["start side-a#0"]);
    check("Always", names, &["side-a=running"], &["start main#0"]);
    check("Never", names, &["main=running", "side-a=1"], &["start side-a#1"]);
}

#[test]
fn the_restart_policy_decides_what_starts_again() {
    check("Always", &["main"], &["main=0"], &["start main#1"]);
    check("OnFailure", &["main"], &["main=1"], &["start main#1"]);
    check("OnFailure", &["main"], &["main=0"], &["stop-pod"]);
    check("Never", &["a", "b"], &["a=1", "b=running"], &[]);
    check("Never", &["a", "b"], &["a=1", "b=0"], &["stop-pod"]);
    check("Always", &["main"], &["main=created"], &["start main#1"]);
}

#[test]
fn another_image_replaces_the_container_whatever_the_policy() {
    let mut pod = pod("Never", &["main"]);
    let observed = observed(&pod, &["main=running"]);
    pod.spec.as_mut().unwrap().containers[0].image = Some("web:2".into());
    let steps = steps(&pod, &observed, &Verdicts::default(), &Backoff::default());
    assert_eq!(steps, ["stop main", "start main#1"]);
}

#[test]
fn a_failed_liveness_probe_restarts_the_container() {
    let pod = pod("Always", &["main"]);
    let observed = observed(&pod, &["main=running"]);
    let mut verdicts = Verdicts::default();
    verdicts.dead.insert("main-0".into());
    let view = View { pod: &pod, observed: &observed, verdicts: &verdicts, backoff: &Backoff::default(), now: at(120) };
    let plan = plan(&view);
    let why = "Container main failed liveness probe, will be restarted".to_owned();
    assert_eq!(plan.actions[0], Action::Stop { id: "main-0".into(), name: "main".into(), why });
    assert_eq!(plan.actions[1], Action::Start { which: Which::Main(0), restart_count: 1 });
}

#[test]
fn a_crashing_container_waits_for_its_back_off() {
    let pod = pod("Always", &["main"]);
    let observed = observed(&pod, &["main=1"]);
    let mut backoff = Backoff::default();
    let key = backoff_key(&pod, &pod.spec.as_ref().unwrap().containers[0]);
    backoff.next(&key, at(90), at(90));
    backoff.next(&key, at(100), at(100));
    let view = View { pod: &pod, observed: &observed, verdicts: &Verdicts::default(), backoff: &backoff, now: at(120) };
    let plan = plan(&view);
    assert_eq!(plan.actions, []);
    assert_eq!(plan.look_again, Some(at(130)));
    let message = "back-off 20s restarting failed container=main pod=web-0_shop(u1)";
    assert_eq!((plan.waiting[0].reason, plan.waiting[0].message.as_str()), ("CrashLoopBackOff", message));
}

#[test]
fn a_lost_sandbox_is_replaced_unless_the_pod_has_run_its_course() {
    let lost = |policy: &str, seen: &[&str]| {
        let pod = pod(policy, &["main"]);
        let mut observed = observed(&pod, seen);
        observed.sandboxes[0].ready = false;
        steps(&pod, &observed, &Verdicts::default(), &Backoff::default())
    };
    assert_eq!(lost("Always", &["main=0"]), ["sandbox 1", "start main#1"]);
    assert_eq!(lost("Always", &["main=running"]), ["stop-pod", "sandbox 1", "start main#1"]);
    assert_eq!(lost("Never", &["main=0"]), [] as [&str; 0]);
    assert_eq!(lost("OnFailure", &["main=0"]), [] as [&str; 0]);
}
