//! Restore drill: a running cluster's store goes back to an older snapshot, with its revisions bumped and marked as compacted.
//! Nothing else is stopped, started or told; everything must follow.
#![allow(clippy::unwrap_used)]

mod drill;
mod informer;
mod workload;

use std::time::Duration;

use serde_json::Value;
use tests::{Cluster, within};

use drill::restore;
use informer::Informer;
use workload::{Workload, deployment};

const MEMBERS: [&str; 3] = ["store-1", "store-2", "store-3"];
/// Until everything has followed, on a loaded machine.
const FOLLOW: Duration = Duration::from_secs(120);

#[test]
fn a_running_cluster_follows_its_store_back_to_a_snapshot() {
    let cluster = Cluster::up(&["--store-members", "3", "--runtime", "process", "--restart"]);
    cluster.wait_for_nodes();
    let robots = ["robot", "late-robot"];
    let workload = Workload::new();
    let kept = prepare(&cluster, &workload, robots[0]);
    let snapshot = cluster.directory().join("snapshot.db");
    cluster.etcdctl(&MEMBERS[..1], &["snapshot", "save", snapshot.to_str().unwrap()]).ok();
    let lost = change(&cluster, &workload, robots[1]);
    let informer = Informer::start(&cluster);
    informer.waits_for(&["after", "both"]);
    let before = revision(&cluster);

    restore(&cluster, &MEMBERS, &snapshot);

    within(FOLLOW, "the API server answers again", || cluster.list(&["configmaps"]).map(drop));
    shows_nothing_but_the_snapshot(&cluster, before);
    informer.lists_anew(&["before", "both"]);
    tells_old_watchers_to_list_anew(&cluster, before);
    credentials_are_those_of_the_snapshot(&cluster, &kept.token, &lost.token);
    workload.is_the_snapshots(&cluster, &kept.pods);
    everybody_works_on(&cluster, &workload);
    assert!(informer.never_went_back(), "{:?}", informer.revisions());
}

/// What is in the snapshot.
struct Kept {
    /// The names of the Deployment's pods.
    pods: Vec<String>,
    token: String,
}

/// What came after it.
struct Lost {
    token: String,
}

fn prepare(cluster: &Cluster, workload: &Workload, robot: &str) -> Kept {
    cluster.kubectl(&["create", "configmap", "before", "--from-literal=a=old"]).ok();
    cluster.kubectl(&["create", "configmap", "both", "--from-literal=a=old"]).ok();
    let token = robot_with_token(cluster, robot);
    cluster.apply(&deployment("web", 3, workload.web));
    cluster.apply(&deployment("removed", 1, workload.removed));
    for name in ["web", "removed"] {
        cluster.kubectl(&["rollout", "status", &format!("deployment/{name}"), "--timeout=60s"]).ok();
    }
    Kept { pods: workload::pods(cluster, "web"), token }
}

fn change(cluster: &Cluster, workload: &Workload, robot: &str) -> Lost {
    cluster.kubectl(&["delete", "configmap", "before"]).ok();
    cluster.kubectl(&["patch", "configmap", "both", "-p", r#"{"data":{"a":"new"}}"#]).ok();
    cluster.kubectl(&["create", "configmap", "after"]).ok();
    let token = robot_with_token(cluster, robot);
    cluster.kubectl(&["scale", "deployment/web", "--replicas=5"]).ok();
    cluster.apply(&deployment("late", 1, workload.late));
    for name in ["web", "late"] {
        cluster.kubectl(&["rollout", "status", &format!("deployment/{name}"), "--timeout=60s"]).ok();
    }
    cluster.kubectl(&["delete", "deployment", "removed"]).ok();
    workload.counts(&[(workload.web, 5), (workload.late, 1), (workload.removed, 0)]);
    Lost { token }
}

/// A service account that may read, and a token of it.
fn robot_with_token(cluster: &Cluster, name: &str) -> String {
    cluster.kubectl(&["create", "serviceaccount", name]).ok();
    let account = format!("--serviceaccount=default:{name}");
    cluster.kubectl(&["create", "rolebinding", name, "--clusterrole=view", &account]).ok();
    cluster.kubectl(&["create", "token", name, "--duration=1h"]).ok()
}

fn revision(cluster: &Cluster) -> u64 {
    let list = cluster.kubectl(&["get", "--raw", "/api/v1/namespaces/default/configmaps"]).ok();
    let list: Value = serde_json::from_str(&list).unwrap();
    list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

fn names(objects: &[Value]) -> Vec<&str> {
    objects.iter().map(|object| object["metadata"]["name"].as_str().unwrap()).collect()
}

/// From the first answer on: a list that asks for the latest state must not show what the server saw before.
fn shows_nothing_but_the_snapshot(cluster: &Cluster, before: u64) {
    let maps = cluster.list(&["configmaps"]).unwrap();
    assert_eq!(names(&maps), ["before", "both", "kube-root-ca.crt"]);
    assert_eq!(maps[1]["data"]["a"], "old");
    assert!(cluster.get(&["configmap", "after"]).is_none());
    let now = revision(cluster);
    assert!(now > before, "revisions went back from {before} to {now}");
    // A list that takes any state is served from memory: it follows too.
    within(FOLLOW, "lists of any state follow", || {
        let list = cluster.kubectl(&["get", "--raw", "/api/v1/namespaces/default/configmaps?resourceVersion=0"]).ok();
        let list: Value = serde_json::from_str(&list).unwrap();
        let names = names(list["items"].as_array().unwrap()).join(" ");
        if names == "before both kube-root-ca.crt" { Ok(()) } else { Err(names) }
    });
}

/// A revision from the time that is no more must not be served, to lists or to watches.
fn tells_old_watchers_to_list_anew(cluster: &Cluster, lost: u64) {
    let maps = "/api/v1/namespaces/default/configmaps";
    let watch = cluster.kubectl(&["get", "--raw", &format!("{maps}?watch=1&resourceVersion={lost}&timeoutSeconds=5")]);
    let said = watch.out + &watch.err;
    assert!(said.contains("Expired") || said.contains("too old resource version"), "{said}");
    let exact = cluster.kubectl(&["get", "--raw", &format!("{maps}?resourceVersion={lost}&resourceVersionMatch=Exact")]);
    assert!(exact.code != 0 && exact.err.contains("too old"), "{exact:?}");
}

fn credentials_are_those_of_the_snapshot(cluster: &Cluster, kept: &str, lost: &str) {
    let ask = |token: &str| {
        let args = ["get", "configmaps", "--request-timeout=10s", "--kubeconfig=/dev/null"];
        let mut command = cluster.kubectl_command(&args);
        command.arg(format!("--server={}", cluster.listens("apiserver")));
        command.arg(format!("--certificate-authority={}", cluster.directory().join("pki/ca.crt").display()));
        command.arg(format!("--token={}", token.trim()));
        tests::run(&mut command)
    };
    let kept = ask(kept);
    assert!(kept.code == 0 && kept.out.contains("before"), "{kept:?}");
    let lost = ask(lost);
    assert!(lost.code != 0 && lost.err.contains("Unauthorized"), "{lost:?}");
}

/// Controllers, scheduler and kubelet take new orders.
fn everybody_works_on(cluster: &Cluster, workload: &Workload) {
    cluster.kubectl(&["scale", "deployment/web", "--replicas=4"]).ok();
    cluster.kubectl(&["rollout", "status", "deployment/web", "--timeout=90s"]).ok();
    workload.counts(&[(workload.web, 4)]);
    cluster.kubectl(&["create", "namespace", "fresh"]).ok();
    within(FOLLOW, "the new namespace has its service account", || {
        cluster.get(&["serviceaccount", "default", "-n", "fresh"]).map(drop).ok_or_else(|| "none".to_owned())
    });
    cluster.kubectl(&["delete", "deployment", "web", "removed"]).ok();
    workload.counts(&[(workload.web, 0), (workload.removed, 0)]);
    cluster.kubectl(&["wait", "--for=condition=Ready", "node", "--all", "--timeout=60s"]).ok();
}
