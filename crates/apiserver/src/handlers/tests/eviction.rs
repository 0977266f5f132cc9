//! Evictions against the whole service.

use serde_json::{Value, json};

use super::{Answer, MERGE, api, get, patch, post};
use crate::loopback::Service;

const PODS: &str = "/api/v1/namespaces/a/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/a/poddisruptionbudgets";
const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// A pod of app `web` on a node; `ready` as in its condition, `None` for one still pending.
async fn pod(api: &Service, name: &str, ready: Option<&str>) {
    let containers = json!([{"name": "c", "image": "i"}]);
    let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"nodeName": "n", "containers": containers}});
    assert_eq!(post(api, PODS, &object).await.code, 201);
    if let Some(ready) = ready {
        let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]});
        assert_eq!(patch(api, &format!("{PODS}/{name}/status"), MERGE, &json!({"status": status})).await.code, 200);
    }
}

async fn budget(api: &Service, name: &str, policy: Option<&str>, allowed: i64, healthy: i64) {
    let spec = json!({"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}, "unhealthyPodEvictionPolicy": policy});
    let object = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec});
    assert_eq!(post(api, BUDGETS, &object).await.code, 201);
    let counts =
        json!({"disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": 2, "expectedPods": 3, "observedGeneration": 1});
    assert_eq!(patch(api, &format!("{BUDGETS}/{name}/status"), MERGE, &json!({"status": counts})).await.code, 200);
}

async fn evict(api: &Service, name: &str, options: Value) -> Answer {
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options});
    post(api, &format!("{PODS}/{name}/eviction"), &eviction).await
}

async fn status_of(api: &Service, name: &str) -> Value {
    get(api, &format!("{BUDGETS}/{name}")).await.body["status"].take()
}

#[tokio::test]
async fn an_evicted_pod_says_why_it_goes_and_its_budget_is_charged() {
    let api = api();
    budget(&api, "b", None, 1, 3).await;
    pod(&api, "p", Some("True")).await;
    let evicted = evict(&api, "p", json!({})).await;
    assert_eq!((evicted.code, &evicted.body["status"]), (201, &json!("Success")), "{}", evicted.body);
    let pod = get(&api, &format!("{PODS}/p")).await.body;
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    let disruption = conditions.iter().find(|condition| condition["type"] == "DisruptionTarget").unwrap();
    assert_eq!((&disruption["reason"], &disruption["message"]), (&json!("EvictionByEvictionAPI"), &json!("Eviction API: evicting")));
    let status = status_of(&api, "b").await;
    assert_eq!(status["disruptionsAllowed"], 0);
    assert!(status["disruptedPods"]["p"].is_string(), "{status}");
    assert_eq!(status["conditions"][0]["reason"], "InsufficientPods");
}

#[tokio::test]
async fn a_spent_budget_answers_too_many_requests_and_leaves_the_pod() {
    let api = api();
    budget(&api, "b", None, 0, 2).await;
    pod(&api, "p", Some("True")).await;
    let refused = evict(&api, "p", json!({})).await;
    assert_eq!((refused.code, &refused.body["message"], &refused.body["reason"]), (429, &json!(REFUSED), &json!("TooManyRequests")));
    let cause = json!({"reason": "DisruptionBudget", "message": "The disruption budget b needs 2 healthy pods and has 2 currently"});
    assert_eq!(refused.body["details"], json!({"causes": [cause]}));
    assert!(!refused.headers.contains_key("retry-after"), "a spent budget has no time at which it is filled again");
    let pod = get(&api, &format!("{PODS}/p")).await.body;
    assert!(pod["metadata"]["deletionTimestamp"].is_null() && !pod.to_string().contains("DisruptionTarget"), "{pod}");
}

#[tokio::test]
async fn a_budget_not_counted_yet_says_when_to_ask_again() {
    let api = api();
    budget(&api, "b", None, 1, 3).await;
    pod(&api, "p", Some("True")).await;
    patch(&api, &format!("{BUDGETS}/b"), MERGE, &json!({"spec": {"minAvailable": 1}})).await;
    let refused = evict(&api, "p", json!({})).await;
    assert_eq!((refused.code, refused.headers["retry-after"].to_str().unwrap()), (429, "10"));
    assert_eq!(refused.body["details"]["causes"][0]["message"], "The disruption budget b is still being processed by the server.");
}

#[tokio::test]
async fn a_dry_run_asks_the_budget_and_changes_nothing() {
    let api = api();
    budget(&api, "b", None, 1, 3).await;
    pod(&api, "p", Some("True")).await;
    let before = get(&api, &format!("{PODS}/p")).await.body;
    assert_eq!(evict(&api, "p", json!({"dryRun": ["All"]})).await.code, 201);
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    assert_eq!(post(&api, &format!("{PODS}/p/eviction?dryRun=All"), &eviction).await.code, 201);
    assert_eq!(get(&api, &format!("{PODS}/p")).await.body, before);
    assert_eq!(status_of(&api, "b").await["disruptionsAllowed"], 1);
}

#[tokio::test]
async fn a_pod_of_two_budgets_is_not_evicted() {
    let api = api();
    budget(&api, "b", None, 1, 3).await;
    budget(&api, "c", None, 1, 3).await;
    pod(&api, "p", Some("True")).await;
    let refused = evict(&api, "p", json!({})).await;
    let text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    assert_eq!((refused.code, &refused.body["message"]), (500, &json!(text)));
}

#[tokio::test]
async fn an_unhealthy_pod_goes_when_its_budget_is_met_or_always_allows() {
    for (policy, healthy, code) in [(None, 2, 201), (None, 1, 429), (Some("IfHealthyBudget"), 1, 429), (Some("AlwaysAllow"), 1, 201)] {
        let api = api();
        budget(&api, "b", policy, 0, healthy).await;
        pod(&api, "p", Some("False")).await;
        assert_eq!(evict(&api, "p", json!({})).await.code, code, "{policy:?} with {healthy} healthy");
        assert_eq!(status_of(&api, "b").await["disruptionsAllowed"], 0);
    }
}

#[tokio::test]
async fn a_pending_pod_goes_whatever_the_budget() {
    let api = api();
    budget(&api, "b", None, 0, 2).await;
    pod(&api, "p", None).await;
    assert_eq!(evict(&api, "p", json!({})).await.code, 201);
    assert_eq!(status_of(&api, "b").await["disruptionsAllowed"], 0);
}

#[tokio::test]
async fn preconditions_of_an_eviction_must_hold() {
    let api = api();
    pod(&api, "p", Some("True")).await;
    let meta = get(&api, &format!("{PODS}/p")).await.body["metadata"].take();
    let (uid, version) = (meta["uid"].as_str().unwrap(), meta["resourceVersion"].as_str().unwrap());
    let refused = evict(&api, "p", json!({"preconditions": {"uid": "other"}})).await;
    let text = format!(
        "Operation cannot be fulfilled on Pod \"p\": the UID in the precondition (other) does not match the UID in record ({uid}). The object \
         might have been deleted and then recreated"
    );
    assert_eq!((refused.code, &refused.body["message"]), (409, &json!(text)));
    assert_eq!(evict(&api, "p", json!({"preconditions": {"resourceVersion": "1"}})).await.code, 409);
    // The version the client saw holds, although the eviction itself marks the pod before it deletes it.
    let evicted = evict(&api, "p", json!({"preconditions": {"uid": uid, "resourceVersion": version}, "gracePeriodSeconds": 0})).await;
    assert_eq!(evicted.code, 201, "{}", evicted.body);
    assert_eq!(get(&api, &format!("{PODS}/p")).await.code, 404);
}

#[tokio::test]
async fn an_eviction_names_its_pod() {
    let api = api();
    pod(&api, "p", Some("True")).await;
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "q"}});
    let refused = post(&api, &format!("{PODS}/p/eviction"), &eviction).await;
    assert_eq!((refused.code, &refused.body["message"]), (400, &json!("name in URL does not match name in Eviction object")));
    assert_eq!(evict(&api, "nobody", json!({})).await.code, 404);
}
