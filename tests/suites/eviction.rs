//! Nodes are drained with kubectl, as far as disruption budgets let them.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use serde_json::{Value, json};
use tests::{Cluster, eventually, within};

const WAIT: Duration = Duration::from_secs(60);

/// A Deployment under a budget, a DaemonSet, and a pod with a directory of its own on node-1.
const WORKLOADS: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, finalizers: [example.com/hold]}
    spec:
      containers: [{name: c, image: "web:1"}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {maxUnavailable: 0, selector: {matchLabels: {app: web}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      containers: [{name: c, image: "agent:1"}]
---
apiVersion: v1
kind: Pod
metadata: {name: scratch, labels: {app: scratch}}
spec:
  nodeName: node-1
  volumes: [{name: scratch, emptyDir: {}}]
  containers: [{name: c, image: "scratch:1"}]
"#;

#[test]
fn a_drain_empties_a_node_as_far_as_budgets_allow() {
    let cluster = Cluster::up(&["--runtime", "hollow", "--nodes", "2"]);
    cluster.wait_for_nodes();
    cluster.kubectl(&["cordon", "node-2"]).ok();
    cluster.apply(WORKLOADS);
    cluster.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]).ok();
    cluster.kubectl(&["wait", "--for=condition=Ready", "pod/scratch", "--timeout=60s"]).ok();
    the_budget_counts_what_its_deployment_asks_for(&cluster);
    drain_asks_before_it_takes_what_nobody_replaces(&cluster);
    drain_waits_for_the_budget(&cluster);
    drain_goes_on_when_the_budget_allows(&cluster);
    an_uncordoned_node_takes_pods_again(&cluster);
    a_budget_over_pods_nobody_counts_allows_nothing(&cluster);
}

fn budget(cluster: &Cluster, name: &str, so: impl Fn(&Value) -> bool) {
    within(WAIT, &format!("the budget {name} is counted"), || {
        let status = cluster.get(&["pdb", name]).unwrap()["status"].take();
        if so(&status) { Ok(()) } else { Err(status.to_string()) }
    });
}

fn the_budget_counts_what_its_deployment_asks_for(cluster: &Cluster) {
    budget(cluster, "web", |status| {
        (&status["expectedPods"], &status["currentHealthy"], &status["desiredHealthy"]) == (&json!(2), &json!(2), &json!(2))
            && status["disruptionsAllowed"] == 0
            && status["conditions"][0]["reason"] == "InsufficientPods"
    });
}

fn drain(cluster: &Cluster, more: &[&str]) -> tests::Output {
    cluster.kubectl(&[&["drain", "node-1", "--timeout=4s"], more].concat())
}

fn drain_asks_before_it_takes_what_nobody_replaces(cluster: &Cluster) {
    let refused = drain(cluster, &[]);
    let words = ["cannot delete DaemonSet-managed Pods", "cannot delete Pods with local storage"];
    assert!(refused.code != 0 && words.iter().all(|words| refused.err.contains(words)), "{refused:?}");
    let node = cluster.get(&["node", "node-1"]).unwrap();
    assert_eq!(node["spec"]["unschedulable"], true);
    assert!(node["spec"]["taints"].to_string().contains("node.kubernetes.io/unschedulable"), "{node}");
}

const ALL: [&str; 3] = ["--ignore-daemonsets", "--delete-emptydir-data", "--force"];

fn drain_waits_for_the_budget(cluster: &Cluster) {
    let before = cluster.get(&["pods", "-l", "app=web"]).unwrap();
    let refused = drain(cluster, &ALL);
    let words = ["Cannot evict pod as it would violate the pod's disruption budget.", "will retry after 5s"];
    assert!(refused.code != 0 && words.iter().all(|words| refused.err.contains(words)), "{refused:?}");
    assert!(cluster.get(&["pod", "scratch"]).is_none(), "what no budget guards is gone");
    let after = cluster.get(&["pods", "-l", "app=web"]).unwrap();
    let uids = |pods: &Value| pods["items"].as_array().unwrap().iter().map(|pod| pod["metadata"]["uid"].clone()).collect::<Vec<_>>();
    assert_eq!(uids(&after), uids(&before));
}

fn drain_goes_on_when_the_budget_allows(cluster: &Cluster) {
    cluster.kubectl(&["uncordon", "node-2"]).ok();
    cluster.kubectl(&["patch", "pdb", "web", "--type=merge", "-p", r#"{"spec":{"maxUnavailable":1}}"#]).ok();
    budget(cluster, "web", |status| status["disruptionsAllowed"] == 1);
    let name = cluster.kubectl(&["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].metadata.name}"]).ok();
    let dry = cluster.kubectl(&["drain", "node-1", "--timeout=4s", "--dry-run=server", "--ignore-daemonsets"]);
    assert!(dry.out.contains(&format!("evicting pod default/{name} (server dry run)")) || dry.err.contains("(server dry run)"), "{dry:?}");
    assert_eq!(cluster.get(&["pdb", "web"]).unwrap()["status"]["disruptionsAllowed"], 1);
    std::thread::scope(|scope| {
        let draining = scope.spawn(|| cluster.kubectl(&[&["drain", "node-1", "--timeout=60s"], &ALL[..]].concat()));
        releases_the_evicted_once_they_say_why(cluster);
        draining.join().unwrap().ok();
    });
    let left = cluster.get(&["pods", "--field-selector=spec.nodeName=node-1"]).unwrap();
    let left = left["items"].as_array().unwrap();
    assert!(left.iter().all(|pod| pod["metadata"]["labels"]["app"] == "agent"), "{left:?}");
    cluster.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]).ok();
}

/// Each evicted pod is held by a finalizer until it has been looked at; the budget lets one go after the other.
fn releases_the_evicted_once_they_say_why(cluster: &Cluster) {
    let on_node_1 = || {
        let pods = cluster.get(&["pods", "-l", "app=web", "--field-selector=spec.nodeName=node-1"]).unwrap();
        pods["items"].as_array().unwrap().clone()
    };
    within(WAIT, "all evicted pods said why they went", || {
        let pods = on_node_1();
        let terminating: Vec<_> = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_string()).collect();
        for pod in &terminating {
            let conditions = pod["status"]["conditions"].as_array().unwrap();
            let said = conditions
                .iter()
                .any(|condition| condition["type"] == "DisruptionTarget" && condition["reason"] == "EvictionByEvictionAPI");
            assert!(said, "{pod}");
            let name = pod["metadata"]["name"].as_str().unwrap();
            cluster.kubectl(&["patch", "pod", name, "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#]);
        }
        if pods.is_empty() { Ok(()) } else { Err(format!("{} left", pods.len())) }
    });
}

fn an_uncordoned_node_takes_pods_again(cluster: &Cluster) {
    cluster.kubectl(&["cordon", "node-2"]).ok();
    cluster.kubectl(&["scale", "deployment/web", "--replicas=3"]).ok();
    cluster.kubectl(&["uncordon", "node-1"]).ok();
    eventually("a new pod runs on node-1", || {
        let pods = cluster.get(&["pods", "-l", "app=web", "--field-selector=spec.nodeName=node-1,status.phase=Running"]).unwrap();
        !pods["items"].as_array().unwrap().is_empty()
    });
    let node = cluster.get(&["node", "node-1"]).unwrap();
    assert!(node["spec"]["taints"].is_null() && node["spec"]["unschedulable"].is_null(), "{node}");
}

/// The pods of a DaemonSet have no scale; those of a ReplicationController have.
fn a_budget_over_pods_nobody_counts_allows_nothing(cluster: &Cluster) {
    cluster.apply(
        r#"
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: agent}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: agent}}}
"#,
    );
    budget(cluster, "agent", |status| {
        status["disruptionsAllowed"] == 0
            && status["conditions"][0]["reason"] == "SyncFailed"
            && status["conditions"][0]["message"] == "daemonsets.apps does not implement the scale subresource"
    });
}
