//! Whole pods on hollow nodes, against an API server that only takes notes.

use std::{collections::BTreeSet, time::Duration};

use http::Method;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{
    fixture::{Note, fake_api, fake_api_failing, hollow_node, pod},
    *,
};

/// The first request that `wanted` takes.
async fn find<T>(asked: &mut mpsc::UnboundedReceiver<Note>, wanted: impl Fn(&Note) -> Option<T>) -> T {
    let search = async {
        loop {
            if let Some(found) = wanted(&asked.recv().await.unwrap()) {
                return found;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), search).await.expect("the request did not come")
}

fn running((method, path, body): &Note) -> Option<(String, Value)> {
    let matches = method == Method::PATCH && body["status"]["phase"] == "Running";
    matches.then(|| (path.clone(), body.clone()))
}

#[tokio::test]
async fn a_pod_runs_and_its_object_goes_after_its_containers() {
    let (client, mut asked) = fake_api();
    let node = hollow_node(1, &client);
    node.pods.set(&node, pod("web", json!({})));
    let (path, patch) = find(&mut asked, running).await;
    assert_eq!(path, "/api/v1/namespaces/shop/pods/web/status");
    assert_eq!(patch["metadata"]["uid"], "uid-web");
    assert_eq!(patch["status"]["podIP"], "10.128.1.1");
    assert_eq!(patch["status"]["containerStatuses"][0]["ready"], true);
    let deletion = json!({"deletionTimestamp": "2026-11-30T09:00:00Z", "deletionGracePeriodSeconds": 30});
    node.pods.set(&node, pod("web", deletion));
    let end = find(&mut asked, |(method, path, body)| {
        let ended = body["status"]["containerStatuses"][0]["state"].get("terminated").is_some();
        (ended || method == Method::DELETE).then(|| (method.clone(), path.clone(), body.clone()))
    });
    assert_eq!(end.await.0, Method::PATCH, "the last status comes before the delete");
    let (path, body) = find(&mut asked, |(method, path, body)| (method == Method::DELETE).then(|| (path.clone(), body.clone()))).await;
    assert_eq!(path, "/api/v1/namespaces/shop/pods/web");
    assert_eq!((&body["gracePeriodSeconds"], &body["preconditions"]["uid"]), (&json!(0), &json!("uid-web")));
    assert!(observed::observe(&*node.cri, "uid-web").await.unwrap().sandboxes.is_empty());
}

#[tokio::test]
async fn one_pods_failing_writes_do_not_delay_the_others() {
    let (client, mut asked) = fake_api_failing("/pods/broken/");
    let node = hollow_node(1, &client);
    let phase = |phase: &str| k8s_openapi::api::core::v1::PodStatus { phase: Some(phase.into()), ..Default::default() };
    node.statuses.set(&pod("broken", json!({})), &phase("Running"));
    find(&mut asked, |(_, path, _)| path.contains("/broken/").then_some(())).await;
    // Each is written at once, where a common back-off would let them wait a second and more.
    let began = std::time::Instant::now();
    for number in 0..20 {
        let name = format!("p{number}");
        node.statuses.set(&pod(&name, json!({})), &phase("Running"));
        find(&mut asked, |(_, path, _)| path.contains(&format!("/{name}/")).then_some(())).await;
    }
    assert!(began.elapsed() < Duration::from_secs(5));
    assert!(node.statuses.written("uid-broken").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_nodes_run_their_pods_in_one_process() {
    let (client, mut asked) = fake_api();
    let nodes: Vec<Arc<Node>> = (0..300).map(|index| hollow_node(index, &client)).collect();
    for (index, node) in nodes.iter().enumerate() {
        for number in 0..4 {
            node.pods.set(node, pod(&format!("web-{index}-{number}"), json!({})));
        }
    }
    let mut up = BTreeSet::new();
    while up.len() < 1200 {
        up.insert(find(&mut asked, running).await.0);
    }
}

#[tokio::test]
async fn a_pod_beyond_the_nodes_limit_is_refused() {
    let (client, mut asked) = fake_api();
    let node = hollow_node(1, &client);
    let mut big = pod("big", json!({}));
    let requests = BTreeMap::from([("cpu".to_owned(), k8s_openapi::apimachinery::pkg::api::resource::Quantity("33".into()))]);
    let resources = k8s_openapi::api::core::v1::ResourceRequirements { requests: Some(requests), ..Default::default() };
    big.spec.as_mut().unwrap().containers[0].resources = Some(resources);
    node.pods.set(&node, big);
    let status = find(&mut asked, |(method, _, body)| (method == Method::PATCH).then(|| body["status"].clone())).await;
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("OutOfcpu")));
}
