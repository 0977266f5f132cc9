//! A node falls silent: its pods move, and what was deleted meanwhile ends when it returns. With the controllers' times shortened.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tests::{Background, Cluster, within};

/// Longer than the ten seconds between a kubelet's signs of life, also on a loaded machine.
const SILENCE: [&str; 2] = ["--node-monitor-grace-period=20s", "--node-monitor-period=2s"];
const WAIT: Duration = Duration::from_secs(60);
const WITHOUT_MANAGER: &str = "store,apiserver,scheduler,kubelet";

/// A Deployment whose containers ignore SIGTERM and can be told by their command line.
fn deployment(name: &str, replicas: usize, spec: &Value) -> Value {
    let command = format!("trap '' TERM; while :; do sleep 0.2; done # {}", marker(name));
    let mut pod = json!({"terminationGracePeriodSeconds": 1,
        "containers": [{"name": "c", "image": "none", "command": ["/bin/sh", "-c", command]}]});
    pod.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": pod}}})
}

/// A port of the node's own is there once.
fn one_a_node(mut deployment: Value) -> Value {
    deployment["spec"]["template"]["spec"]["containers"][0]["ports"] = json!([{"containerPort": 9, "hostPort": 9}]);
    deployment
}

fn marker(name: &str) -> String {
    format!("quarterdeck-{}-{name}", std::process::id())
}

/// How many shells run a container of `name`. A child of one that is yet to become a `sleep` is no further shell.
fn running(name: &str) -> usize {
    let marker = marker(name);
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|process| process.path());
    let shells: BTreeMap<_, _> = processes
        .filter(|process| std::fs::read(process.join("cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(&marker)))
        .filter_map(|process| Some((process.file_name()?.to_str()?.to_owned(), parent(&process)?)))
        .collect();
    shells.values().filter(|parent| !shells.contains_key(*parent)).count()
}

fn parent(process: &Path) -> Option<String> {
    let status = std::fs::read_to_string(process.join("status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:")).map(|number| number.trim().to_owned())
}

fn tolerates(seconds: u32) -> Value {
    let toleration = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
    json!([toleration("node.kubernetes.io/unreachable"), toleration("node.kubernetes.io/not-ready")])
}

fn on(node: &str) -> Value {
    json!({"kubernetes.io/hostname": node})
}

fn prefers(node: &str) -> Value {
    let term = json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]});
    json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": term}]}})
}

fn apply(cluster: &Cluster, deployments: &[Value]) {
    within(WAIT, "the default service account exists", || {
        if cluster.get(&["serviceaccount", "default"]).is_some() { Ok(()) } else { Err(String::new()) }
    });
    let list = json!({"apiVersion": "v1", "kind": "List", "items": deployments});
    cluster.apply(&list.to_string());
    for deployment in deployments {
        let name = format!("deployment/{}", deployment["metadata"]["name"].as_str().unwrap());
        cluster.kubectl(&["rollout", "status", &name, "--timeout=60s"]).ok();
    }
}

fn pods(cluster: &Cluster, app: &str) -> Vec<Value> {
    cluster.get(&["pods", "-l", &format!("app={app}")]).unwrap()["items"].as_array().unwrap().clone()
}

fn names(pods: &[Value]) -> Vec<(&str, &str)> {
    pods.iter().map(|pod| (pod["metadata"]["name"].as_str().unwrap(), pod["spec"]["nodeName"].as_str().unwrap_or_default())).collect()
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

fn node(cluster: &Cluster, name: &str) -> Value {
    cluster.get(&["node", name]).unwrap()
}

/// The node's taints as `key:effect`.
fn taints(node: &Value) -> Vec<String> {
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    taints.iter().map(|taint| format!("{}:{}", taint["key"].as_str().unwrap(), taint["effect"].as_str().unwrap())).collect()
}

#[test]
fn pods_of_a_silent_node_move_and_its_return_ends_what_was_deleted() {
    let cluster = Cluster::up(&["--runtime", "process", "--nodes", "2", "--restart", "--components", WITHOUT_MANAGER]);
    let _manager: Background = cluster.controller_manager(&SILENCE);
    cluster.wait_for_nodes();
    apply(
        &cluster,
        &[
            deployment("moves", 1, &json!({"affinity": prefers("node-2"), "tolerations": tolerates(2)})),
            deployment("stays", 1, &json!({"nodeSelector": on("node-2")})),
            one_a_node(deployment("deleted", 2, &json!({}))),
            deployment("graceful", 2, &json!({"nodeSelector": on("node-1"), "terminationGracePeriodSeconds": 600})),
        ],
    );
    let moved = pods(&cluster, "moves");
    assert_eq!(names(&moved)[0].1, "node-2");
    cluster.signal("kubelet-node-2", Signal::SIGSTOP);
    cluster.kubectl(&["delete", "deployment", "deleted", "--timeout=60s"]).ok();
    grace_periods_are_kept_shortened_and_cut_off(&cluster);
    a_deleted_pod_of_the_silent_node_waits_for_it(&cluster);
    the_silent_node_is_unknown_and_tainted(&cluster);
    its_pods_move_when_their_patience_is_over(&cluster, &moved[0]);
    cluster.signal("kubelet-node-2", Signal::SIGCONT);
    the_node_returns_and_ends_what_was_deleted(&cluster);
    what_is_deleted_while_a_kubelet_is_dead_ends_with_the_next(&cluster);
}

fn a_deleted_pod_of_the_silent_node_waits_for_it(cluster: &Cluster) {
    within(WAIT, "only the pod of the silent node is left", || {
        let left = pods(cluster, "deleted");
        let waits = left.len() == 1 && left[0]["spec"]["nodeName"] == "node-2" && left[0]["metadata"]["deletionTimestamp"].is_string();
        if waits { Ok(()) } else { Err(format!("{:?}", names(&left))) }
    });
    assert!(cluster.get(&["replicasets", "-l", "app=deleted"]).unwrap()["items"].as_array().unwrap().is_empty());
}

/// On the node that lives, while the other's silence is noticed.
fn grace_periods_are_kept_shortened_and_cut_off(cluster: &Cluster) {
    let graceful = pods(cluster, "graceful");
    let [shortened, forced] = [0, 1].map(|number| graceful[number]["metadata"]["name"].as_str().unwrap());
    cluster.kubectl(&["delete", "deployment", "graceful", "--cascade=orphan"]).ok();
    cluster.kubectl(&["delete", "replicaset", "-l", "app=graceful", "--cascade=orphan"]).ok();
    cluster.kubectl(&["delete", "pod", shortened, forced, "--wait=false"]).ok();
    for name in [shortened, forced] {
        assert_eq!(cluster.get(&["pod", name]).unwrap()["metadata"]["deletionGracePeriodSeconds"], 600);
    }
    cluster.kubectl(&["delete", "pod", forced, "--force", "--grace-period=0", "--wait=false"]).ok();
    assert!(cluster.get(&["pod", forced]).is_none(), "a forced deletion waits for nobody");
    cluster.kubectl(&["delete", "pod", shortened, "--grace-period=2", "--timeout=60s"]).ok();
    within(WAIT, "their processes are gone", || if running("graceful") == 0 { Ok(()) } else { Err(running("graceful").to_string()) });
}

fn the_silent_node_is_unknown_and_tainted(cluster: &Cluster) {
    within(WAIT, "node-2 is Unknown and tainted", || {
        let silent = node(cluster, "node-2");
        let ready = condition(&silent, "Ready");
        let said = (&ready["status"], &ready["reason"], &ready["message"])
            == (&json!("Unknown"), &json!("NodeStatusUnknown"), &json!("Kubelet stopped posting node status."));
        let taints = taints(&silent);
        let tainted = ["NoSchedule", "NoExecute"].iter().all(|effect| taints.contains(&format!("node.kubernetes.io/unreachable:{effect}")));
        if said && tainted { Ok(()) } else { Err(format!("{ready} {taints:?}")) }
    });
    assert_eq!(condition(&node(cluster, "node-1"), "Ready")["status"], "True");
}

fn its_pods_move_when_their_patience_is_over(cluster: &Cluster, old: &Value) {
    within(WAIT, "another pod is ready on node-1", || {
        let now = pods(cluster, "moves");
        let ready = now.iter().any(|pod| pod["spec"]["nodeName"] == "node-1" && condition(pod, "Ready")["status"] == "True");
        if ready { Ok(()) } else { Err(format!("{:?}", names(&now))) }
    });
    let old = cluster.get(&["pod", old["metadata"]["name"].as_str().unwrap()]).unwrap();
    assert!(old["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(condition(&old, "DisruptionTarget")["reason"], "DeletionByTaintManager");
    let patient = &pods(cluster, "stays")[0];
    assert!(patient["metadata"]["deletionTimestamp"].is_null(), "its patience of 300 s is not over");
    assert_eq!(condition(patient, "Ready")["status"], "False");
}

fn the_node_returns_and_ends_what_was_deleted(cluster: &Cluster) {
    within(WAIT, "node-2 is Ready without taints", || {
        let node = node(cluster, "node-2");
        if condition(&node, "Ready")["status"] == "True" && taints(&node).is_empty() { Ok(()) } else { Err(format!("{:?}", taints(&node))) }
    });
    within(WAIT, "what was deleted is gone with its processes", || {
        let left = (pods(cluster, "deleted").len(), pods(cluster, "moves").len(), running("deleted"), running("moves"));
        if left == (0, 1, 0, 1) { Ok(()) } else { Err(format!("{left:?}")) }
    });
    within(WAIT, "the pod that stayed is ready again, never restarted", || {
        let stayed = &pods(cluster, "stays")[0];
        let well = condition(stayed, "Ready")["status"] == "True" && stayed["status"]["containerStatuses"][0]["restartCount"] == 0;
        if well { Ok(()) } else { Err(stayed["status"].to_string()) }
    });
}

fn what_is_deleted_while_a_kubelet_is_dead_ends_with_the_next(cluster: &Cluster) {
    // Stopped first, or another would be started at once.
    cluster.signal("kubelet-node-2", Signal::SIGSTOP);
    cluster.kubectl(&["delete", "deployment", "stays", "--timeout=60s"]).ok();
    within(WAIT, "its pod is being deleted", || {
        let left = pods(cluster, "stays");
        if left.len() == 1 && left[0]["metadata"]["deletionTimestamp"].is_string() { Ok(()) } else { Err(format!("{left:?}")) }
    });
    assert_eq!(running("stays"), 1);
    cluster.signal("kubelet-node-2", Signal::SIGKILL);
    within(WAIT, "the next kubelet ends it", || {
        let left = (pods(cluster, "stays").len(), running("stays"));
        if left == (0, 0) { Ok(()) } else { Err(format!("{left:?}")) }
    });
}

#[test]
fn nothing_is_evicted_while_every_node_looks_dead() {
    // All hollow nodes live in one process.
    let cluster = Cluster::up(&["--runtime", "hollow", "--nodes", "2", "--components", WITHOUT_MANAGER]);
    let _manager: Background = cluster.controller_manager(&SILENCE);
    cluster.wait_for_nodes();
    // Longer than it may take from the first node's silence to the last one's.
    apply(&cluster, &[deployment("web", 4, &json!({"tolerations": tolerates(14)}))]);
    let uids = || {
        let pods = pods(&cluster, "web");
        pods.iter().map(|pod| (pod["metadata"]["uid"].to_string(), pod["metadata"]["deletionTimestamp"].is_null())).collect::<Vec<_>>()
    };
    let before = uids();
    cluster.signal("kubelet", Signal::SIGSTOP);
    within(2 * WAIT, "both nodes have been Unknown for longer than any pod's patience", || {
        let nodes = ["node-1", "node-2"].map(|name| node(&cluster, name));
        let silent = nodes.iter().all(|node| {
            let ready = condition(node, "Ready");
            ready["status"] == "Unknown" && age(&ready["lastTransitionTime"]) > 16
        });
        if silent { Ok(nodes) } else { Err(nodes.map(|node| condition(&node, "Ready").to_string()).join(" ")) }
    })
    .iter()
    .for_each(|node| assert_eq!(taints(node), ["node.kubernetes.io/unreachable:NoSchedule"]));
    assert_eq!(uids(), before, "nothing was evicted");
    cluster.signal("kubelet", Signal::SIGCONT);
    cluster.wait_for_nodes();
    within(WAIT, "no taint is left", || {
        let left = ["node-1", "node-2"].map(|name| taints(&node(&cluster, name))).concat();
        if left.is_empty() { Ok(()) } else { Err(left.join(" ")) }
    });
    assert_eq!(uids(), before);
}

/// Seconds since a time as the API server writes it.
fn age(time: &Value) -> i64 {
    jiff::Timestamp::now().as_second() - time.as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_second()
}
