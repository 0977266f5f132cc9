use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use serde_json::{Value, json};

use super::{
    plan::{Action, Observed, plan},
    revision, sets,
};

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

/// A deployment of `replicas` pods of image `image`, whose spec `extra` overrides.
fn deployment(replicas: i32, image: &str, extra: &Value) -> Deployment {
    let mut value = json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "d", "generation": 2},
        "spec": {
            "replicas": replicas, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
        },
        "status": {"observedGeneration": 1},
    });
    for (name, field) in extra.as_object().into_iter().flatten() {
        value["spec"][name] = field.clone();
    }
    serde_json::from_value(value).unwrap()
}

/// A ReplicaSet of that image with `replicas` asked for, as many there and `available` of them available.
fn set(image: &str, revision: i32, replicas: i32, available: i32) -> ReplicaSet {
    let mut set = revision::new_set(&deployment(3, image, &Value::Null));
    sets::set_new_annotations(&mut set, &deployment(3, image, &Value::Null), i64::from(revision), false);
    let mut value = serde_json::to_value(set).unwrap();
    value["metadata"]["uid"] = json!(image);
    value["metadata"]["generation"] = json!(1);
    value["metadata"]["creationTimestamp"] = json!(format!("2026-01-01T00:00:{revision:02}Z"));
    value["spec"]["replicas"] = json!(replicas);
    value["status"] = json!({
        "observedGeneration": 1, "replicas": replicas, "readyReplicas": available, "availableReplicas": available,
    });
    serde_json::from_value(value).unwrap()
}

fn planned(deployment: Deployment, sets: Vec<ReplicaSet>) -> Vec<Action> {
    plan(Observed { deployment, sets, pods: std::collections::BTreeMap::new() }, now())
}

/// The sizes written, as `image=replicas`, in order.
fn sizes(actions: &[Action]) -> Vec<String> {
    let sized = |set: &ReplicaSet| {
        let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref()).and_then(|template| template.spec.as_ref());
        let image = template.and_then(|spec| spec.containers[0].image.clone()).unwrap();
        format!("{image}={}", sets::replicas(set))
    };
    let sets = actions.iter().filter_map(|action| match action {
        Action::CreateSet(set) | Action::UpdateSet(set) => Some(sized(set)),
        _ => None,
    });
    sets.collect()
}

fn condition(actions: &[Action], kind: &str) -> Option<(String, String)> {
    actions.iter().find_map(|action| match action {
        Action::UpdateStatus(deployment) => super::conditions::get(deployment, kind)
            .map(|condition| (condition.status.clone(), condition.reason.clone().unwrap_or_default())),
        _ => None,
    })
}

fn messages(actions: &[Action]) -> Vec<&str> {
    let told = actions.iter().filter_map(|action| match action {
        Action::Normal(_, message) | Action::Warning(_, message) => Some(message.as_str()),
        _ => None,
    });
    told.collect()
}

#[test]
fn creates_the_first_replica_set_at_full_size() {
    let actions = planned(deployment(3, "v1", &Value::Null), vec![]);
    assert_eq!(sizes(&actions), ["v1=3"]);
    let name = sets::name(&revision::new_set(&deployment(3, "v1", &Value::Null))).to_owned();
    assert_eq!(messages(&actions), [format!("Scaled up replica set {name} from 0 to 3")]);
    assert_eq!(condition(&actions, "Progressing"), Some(("True".into(), "NewReplicaSetCreated".into())));
    assert_eq!(condition(&actions, "Available"), Some(("False".into(), "MinimumReplicasUnavailable".into())));
}

#[test]
fn surges_by_one_and_keeps_old_pods_until_new_are_ready() {
    let actions = planned(deployment(3, "v2", &Value::Null), vec![set("v1", 1, 3, 3)]);
    assert_eq!(sizes(&actions), ["v2=1"]);
    let waiting = planned(deployment(3, "v2", &Value::Null), vec![set("v1", 1, 3, 3), set("v2", 2, 1, 0)]);
    assert!(sizes(&waiting).is_empty(), "{waiting:?}");
    let ready = planned(deployment(3, "v2", &Value::Null), vec![set("v1", 1, 3, 3), set("v2", 2, 1, 1)]);
    assert_eq!(sizes(&ready), ["v1=2"]);
}

#[test]
fn takes_old_pods_that_never_became_available_first() {
    let extra = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}});
    let actions = planned(deployment(3, "v3", &extra), vec![set("v1", 1, 2, 2), set("v2", 2, 1, 0), set("v3", 3, 1, 0)]);
    assert_eq!(sizes(&actions), ["v2=0"]);
}

#[test]
fn rolls_back_to_the_set_of_the_template_under_a_new_revision() {
    let actions = planned(deployment(3, "v1", &Value::Null), vec![set("v1", 1, 0, 0), set("v2", 2, 3, 3)]);
    let Some(Action::UpdateSet(set)) = actions.first() else { panic!("{actions:?}") };
    assert_eq!((sets::revision(&set.metadata), sizes(&actions).last().map(String::as_str)), (3, Some("v1=1")));
}

#[test]
fn a_recreation_waits_until_no_old_pod_is_left() {
    let extra = json!({"strategy": {"type": "Recreate"}});
    let down = planned(deployment(3, "v2", &extra), vec![set("v1", 1, 3, 3)]);
    assert_eq!(sizes(&down), ["v1=0"]);
    let mut draining = set("v1", 1, 0, 0);
    draining.status.as_mut().unwrap().replicas = 2;
    assert!(sizes(&planned(deployment(3, "v2", &extra), vec![draining])).is_empty());
    let up = planned(deployment(3, "v2", &extra), vec![set("v1", 1, 0, 0)]);
    assert_eq!(sizes(&up), ["v2=3"]);
}

#[test]
fn a_change_of_size_is_spread_over_a_rollout_under_way() {
    let scaled = planned(deployment(6, "v2", &Value::Null), vec![set("v1", 1, 3, 3), set("v2", 2, 1, 1)]);
    // Seven are allowed now where four were: each grows by its share.
    assert_eq!(sizes(&scaled), ["v1=5", "v2=2"]);
}

#[test]
fn a_paused_deployment_scales_but_rolls_no_further() {
    let paused = json!({"paused": true});
    let actions = planned(deployment(3, "v2", &paused), vec![set("v1", 1, 3, 3)]);
    assert!(sizes(&actions).is_empty(), "{actions:?}");
    assert_eq!(condition(&actions, "Progressing"), Some(("Unknown".into(), "DeploymentPaused".into())));
    assert_eq!(sizes(&planned(deployment(5, "v1", &paused), vec![set("v1", 1, 3, 3)])), ["v1=5"]);
}

#[test]
fn a_rollout_without_progress_times_out() {
    let mut stuck = deployment(3, "v2", &Value::Null);
    stuck.status = serde_json::from_value(json!({
        "observedGeneration": 2, "replicas": 4, "updatedReplicas": 1, "readyReplicas": 3, "availableReplicas": 3,
        "conditions": [{"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated",
            "lastUpdateTime": "2026-01-01T11:00:00Z", "lastTransitionTime": "2026-01-01T11:00:00Z"}],
    }))
    .unwrap();
    let actions = planned(stuck, vec![set("v1", 1, 3, 3), set("v2", 2, 1, 0)]);
    assert_eq!(condition(&actions, "Progressing"), Some(("False".into(), "ProgressDeadlineExceeded".into())));
}

#[test]
fn a_finished_rollout_is_complete_and_old_revisions_go() {
    let extra = json!({"revisionHistoryLimit": 1});
    let sets = vec![set("v1", 1, 0, 0), set("v2", 2, 0, 0), set("v3", 3, 3, 3)];
    let mut done = deployment(3, "v3", &extra);
    done.status = serde_json::from_value(json!({
        "observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
    }))
    .unwrap();
    let actions = planned(done, sets.clone());
    assert_eq!(condition(&actions, "Progressing"), Some(("True".into(), "NewReplicaSetAvailable".into())));
    let deleted: Vec<_> = actions.iter().filter(|action| matches!(action, Action::DeleteSet(_))).collect();
    assert_eq!(deleted, [&Action::DeleteSet(sets::name(&sets[0]).into())]);
}

#[test]
fn a_settled_deployment_is_left_alone() {
    let sets = vec![set("v1", 1, 3, 3)];
    let first = planned(deployment(3, "v1", &Value::Null), sets.clone());
    let Some(Action::UpdateStatus(written)) = first.last() else { panic!("{first:?}") };
    assert_eq!(planned(written.as_ref().clone(), sets), []);
}

#[test]
fn a_selector_for_everything_is_refused() {
    let actions = planned(deployment(3, "v1", &json!({"selector": {}})), vec![]);
    assert_eq!(messages(&actions), ["This deployment is selecting all pods. A non-empty selector is required."]);
    assert!(sizes(&actions).is_empty());
}
