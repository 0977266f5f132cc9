//! What a user does with kubectl on a cluster of hollow nodes, and what they see.
#![allow(clippy::unwrap_used)]

use tests::{Cluster, chain, eventually};

#[test]
fn a_deployment_travels_the_whole_chain_and_kubectl_shows_it() {
    let cluster = Cluster::up(&["--runtime", "hollow", "--nodes", "2"]);
    cluster.wait_for_nodes();
    chain::a_deployment_travels_the_whole_chain(&cluster);
}

#[test]
fn a_namespace_takes_its_content_along() {
    let cluster = Cluster::up(&["--runtime", "hollow"]);
    cluster.kubectl(&["create", "namespace", "shop"]).ok();
    eventually("service account and root CA are there", || {
        cluster.get(&["serviceaccount", "default", "-n", "shop"]).is_some()
            && cluster.get(&["configmap", "kube-root-ca.crt", "-n", "shop"]).is_some()
    });
    cluster.kubectl(&["create", "configmap", "c", "-n", "shop", "--from-literal=a=b"]).ok();
    cluster.kubectl(&["delete", "namespace", "shop", "--timeout=60s"]).ok();
    assert!(cluster.get(&["namespace", "shop"]).is_none());
}

#[test]
fn a_pod_that_fits_nowhere_says_why() {
    let cluster = Cluster::up(&["--runtime", "hollow"]);
    cluster.wait_for_nodes();
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"big"},"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"10000"}}}]}}"#;
    eventually("the default service account exists", || cluster.get(&["serviceaccount", "default"]).is_some());
    cluster.apply(pod);
    eventually("the event gives upstream's reason", || {
        let events = cluster.kubectl(&["get", "events", "--field-selector", "reason=FailedScheduling"]).out;
        events.contains("0/1 nodes are available: 1 Insufficient cpu.")
    });
}
