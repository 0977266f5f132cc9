//! Deletions against the whole service.

use axum::body::Body;
use serde_json::{Value, json};

use super::{Answer, MAPS, MERGE, api, get, map, patch, post, put, send};
use crate::loopback::Service;

async fn delete(api: &Service, url: &str, options: &Value) -> Answer {
    send(api, "DELETE", url, &[], options.to_string()).await
}

fn held(name: &str) -> Value {
    let mut held = map(name, "1");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    held
}

#[tokio::test]
async fn a_stuck_finalizer_keeps_an_object_terminating_until_it_is_removed() {
    let api = api();
    let url = format!("{MAPS}/x");
    post(&api, MAPS, &held("x")).await;
    let marked = delete(&api, &url, &json!({})).await;
    assert_eq!((marked.code, &marked.body["metadata"]["deletionGracePeriodSeconds"]), (200, &json!(0)));
    let again = delete(&api, &url, &json!({"gracePeriodSeconds": 0})).await;
    assert_eq!(again.body["metadata"], marked.body["metadata"], "a second deletion changes nothing");
    assert_eq!(patch(&api, &url, MERGE, &json!({"metadata": {"labels": {"w": "2"}}})).await.code, 200);
    let refused = patch(&api, &url, MERGE, &json!({"metadata": {"finalizers": ["example.com/hold", "example.com/new"]}})).await;
    assert_eq!(refused.code, 422);
    let text =
        "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"example.com/new\"}";
    assert_eq!(refused.body["details"]["causes"][0]["message"], text);
    assert_eq!(patch(&api, &url, MERGE, &json!({"metadata": {"finalizers": null}})).await.code, 200);
    assert_eq!(get(&api, &url).await.code, 404);
}

#[tokio::test]
async fn each_propagation_leaves_its_finalizer() {
    let cases = [
        (json!({}), None),
        (json!({"propagationPolicy": "Background"}), None),
        (json!({"propagationPolicy": "Foreground"}), Some("foregroundDeletion")),
        (json!({"propagationPolicy": "Orphan"}), Some("orphan")),
        (json!({"orphanDependents": true}), Some("orphan")),
        (json!({"orphanDependents": false}), None),
    ];
    for (options, finalizer) in &cases {
        let api = api();
        post(&api, MAPS, &map("x", "1")).await;
        let deleted = delete(&api, &format!("{MAPS}/x"), options).await;
        assert_eq!(deleted.code, 200, "{options}");
        let left = get(&api, &format!("{MAPS}/x")).await;
        match finalizer {
            None => assert_eq!(left.code, 404, "{options}"),
            Some(finalizer) => assert_eq!(left.body["metadata"]["finalizers"], json!([finalizer]), "{options}"),
        }
    }
}

#[tokio::test]
async fn a_collection_is_deleted_with_each_propagation() {
    for (policy, finalizers) in [("Background", json!(null)), ("Foreground", json!(["foregroundDeletion"])), ("Orphan", json!(["orphan"]))]
    {
        let api = api();
        post(&api, MAPS, &map("x", "1")).await;
        post(&api, MAPS, &map("y", "2")).await;
        let url = format!("{MAPS}?labelSelector=v%3D1&propagationPolicy={policy}");
        let deleted = send(&api, "DELETE", &url, &[], Body::empty()).await;
        assert_eq!((deleted.code, deleted.body["items"].as_array().unwrap().len()), (200, 1), "{policy}");
        assert_eq!(get(&api, &format!("{MAPS}/x")).await.body["metadata"]["finalizers"], finalizers, "{policy}");
        assert_eq!(get(&api, &format!("{MAPS}/y")).await.code, 200);
    }
}

#[tokio::test]
async fn the_old_way_of_deleting_dependents_is_told_that_it_goes_on() {
    let api = api();
    post(&api, MAPS, &held("x")).await;
    assert_eq!(delete(&api, &format!("{MAPS}/x"), &json!({"orphanDependents": false})).await.code, 202);
}

#[tokio::test]
async fn deleting_a_job_without_a_word_on_its_pods_keeps_them_and_warns() {
    let api = api();
    let jobs = "/apis/batch/v1/namespaces/a/jobs";
    let spec = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}});
    let job = |name: &str| json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec});
    for name in ["quiet", "said"] {
        assert_eq!(post(&api, jobs, &job(name)).await.code, 201);
    }
    let quiet = delete(&api, &format!("{jobs}/quiet"), &json!({})).await;
    assert_eq!(quiet.body["metadata"]["finalizers"], json!(["orphan"]));
    assert!(quiet.headers["warning"].to_str().unwrap().contains("child pods are preserved by default when jobs are deleted"));
    let said = delete(&api, &format!("{jobs}/said"), &json!({"propagationPolicy": "Background"})).await;
    assert!(!said.headers.contains_key("warning"));
    assert_eq!(get(&api, &format!("{jobs}/said")).await.code, 404);
}

#[tokio::test]
async fn an_event_has_no_dependents_and_takes_no_finalizer_for_them() {
    let api = api();
    let events = "/api/v1/namespaces/a/events";
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": {"namespace": "a"}});
    assert_eq!(post(&api, events, &event).await.code, 201);
    assert_eq!(delete(&api, &format!("{events}/e"), &json!({"propagationPolicy": "Foreground"})).await.code, 200);
    assert_eq!(get(&api, &format!("{events}/e")).await.code, 404);
}

#[tokio::test]
async fn preconditions_of_a_deletion_must_hold() {
    let api = api();
    let created = post(&api, MAPS, &map("x", "1")).await.body;
    let url = format!("{MAPS}/x");
    let uid = created["metadata"]["uid"].as_str().unwrap();
    let refused = delete(&api, &url, &json!({"preconditions": {"uid": "other"}})).await;
    let text = format!(
        "Operation cannot be fulfilled on ConfigMap \"x\": the UID in the precondition (other) does not match the UID in record ({uid}). The \
         object might have been deleted and then recreated"
    );
    assert_eq!((refused.code, &refused.body["message"]), (409, &json!(text)));
    let refused = delete(&api, &url, &json!({"preconditions": {"resourceVersion": "1"}})).await;
    assert_eq!(refused.code, 409);
    assert_eq!(delete(&api, &url, &json!({"preconditions": {"uid": uid}})).await.code, 200);
}

#[tokio::test]
async fn a_namespace_that_terminates_is_left_to_its_finalizers() {
    let api = api();
    let url = "/api/v1/namespaces/n";
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    assert_eq!(post(&api, "/api/v1/namespaces", &namespace).await.code, 201);
    let refused = delete(&api, url, &json!({"preconditions": {"uid": "other"}})).await;
    let text = refused.body["message"].as_str().unwrap();
    assert!(
        text.starts_with("Operation cannot be fulfilled on namespaces \"n\": Precondition failed: UID in precondition: other, "),
        "{text}"
    );
    let marked = delete(&api, url, &json!({})).await;
    assert_eq!((&marked.body["status"]["phase"], marked.code), (&json!("Terminating"), 200));
    let again = delete(&api, url, &json!({"propagationPolicy": "Foreground"})).await;
    assert_eq!(again.body["metadata"], marked.body["metadata"]);
    let empty = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}, "spec": {"finalizers": []}});
    assert_eq!(put(&api, &format!("{url}/finalize"), &empty).await.code, 200);
    assert_eq!(get(&api, url).await.code, 404);
}

#[tokio::test]
async fn a_pods_grace_period_is_shortened_by_a_second_deletion_and_ended_by_force() {
    let api = api();
    let pods = "/api/v1/namespaces/a/pods";
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    post(&api, pods, &pod).await;
    let url = format!("{pods}/p");
    let grace = |answer: &Answer| answer.body["metadata"]["deletionGracePeriodSeconds"].clone();
    let first = delete(&api, &url, &json!({})).await;
    assert_eq!(grace(&first), 30);
    assert_eq!(grace(&delete(&api, &url, &json!({"gracePeriodSeconds": 60})).await), 30);
    let shorter = delete(&api, &url, &json!({"gracePeriodSeconds": 5})).await;
    assert_eq!(grace(&shorter), 5);
    assert!(shorter.body["metadata"]["deletionTimestamp"].as_str() < first.body["metadata"]["deletionTimestamp"].as_str());
    assert_eq!(delete(&api, &url, &json!({"gracePeriodSeconds": 0})).await.code, 200);
    assert_eq!(get(&api, &url).await.code, 404);
}
