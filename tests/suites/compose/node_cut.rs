//! The network between a node and the API server is cut for a while.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tests::{Compose, within};

use crate::pods;

const CUT: &str = "node-2";
const OTHER: &str = "node-1";
const REPLICAS: usize = 4;

/// The controller manager's `--node-monitor-grace-period`, and how often it looks.
const SILENCE: i64 = 40;
const LOOKS: i64 = 5;
const TOLERATED: i64 = 10;
/// What clocks that count whole seconds, and a busy machine, may add.
const SLACK: i64 = 5;

const TOLERATIONS: &str =
    "tolerations: [{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 10}]";

pub(crate) fn a_node_that_is_cut_off_is_emptied_and_comes_back() {
    let cluster = Compose::up();
    cluster.apply(&pods::deployment("shop", REPLICAS, "", TOLERATIONS));
    // Tolerates five minutes, as admission has it.
    cluster.apply(&pods::deployment("patient", 2, "", ""));
    let before = within(Duration::from_secs(60), "all are ready", || pods::all_ready(&cluster, "shop", REPLICAS));
    let patient = within(Duration::from_secs(60), "all are ready", || pods::all_ready(&cluster, "patient", 2));
    let doomed: Vec<_> = before.iter().filter(|pod| pods::node(pod) == CUT).map(pods::uid).collect();
    assert!(!doomed.is_empty() && doomed.len() < REPLICAS, "on one node only: {}", pods::summary(&before));

    cluster.cut(CUT, "apiserver");
    becomes_unknown_when_its_silence_is_long_enough(&cluster);
    evicts_after_the_toleration(&cluster, &doomed);
    within(Duration::from_secs(30), "all replicas are ready on the other node", || {
        let ready = pods::of(&cluster, "shop")?;
        let count = ready.iter().filter(|pod| pods::is_ready(pod) && pods::node(pod) == OTHER).count();
        if count == REPLICAS { Ok(()) } else { Err(pods::summary(&ready)) }
    });
    let now = pods::of(&cluster, "shop").unwrap();
    let kept = now.iter().map(pods::uid).filter(|uid| doomed.contains(uid)).count();
    assert_eq!(kept, doomed.len(), "nobody may say that they ended while their node is silent: {}", pods::summary(&now));

    cluster.heal();
    everything_is_well_again(&cluster, &patient);
}

fn becomes_unknown_when_its_silence_is_long_enough(cluster: &Compose) {
    let ready = within(Duration::from_secs(70), "the node is Unknown", || {
        let ready = condition(&node(cluster)?, "Ready");
        if ready["status"] == "Unknown" { Ok(ready) } else { Err(ready.to_string()) }
    });
    assert_eq!(ready["reason"], "NodeStatusUnknown");
    let lease = cluster.get(&["lease", CUT, "-n", "kube-node-lease"]).unwrap();
    let silent = seconds(&lease["spec"]["renewTime"], &ready["lastTransitionTime"]);
    assert!((SILENCE - 1..=SILENCE + LOOKS + SLACK).contains(&silent), "Unknown after {silent} s of silence");
}

fn evicts_after_the_toleration(cluster: &Compose, doomed: &[String]) {
    let taint = within(Duration::from_secs(20), "the node is tainted", || {
        let node = node(cluster)?;
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        let found = taints.into_iter().find(|taint| taint["key"] == "node.kubernetes.io/unreachable" && taint["effect"] == "NoExecute");
        found.ok_or_else(|| node["spec"].to_string())
    });
    let evicted = within(Duration::from_secs(30), "its pods are evicted", || {
        let pods = pods::of(cluster, "shop")?;
        let evicted: Vec<_> = pods.iter().filter(|pod| doomed.contains(&pods::uid(pod)) && pods::is_terminating(pod)).cloned().collect();
        if evicted.len() == doomed.len() { Ok(evicted) } else { Err(pods::summary(&pods)) }
    });
    for pod in evicted {
        // The timestamp is when the pod has to be gone: its grace period after the deletion.
        let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap();
        let stayed = seconds(&taint["timeAdded"], &pod["metadata"]["deletionTimestamp"]) - grace;
        assert!((TOLERATED - 1..=TOLERATED + SLACK).contains(&stayed), "evicted after {stayed} s: {pod}");
    }
}

fn everything_is_well_again(cluster: &Compose, patient: &[Value]) {
    let limit = Duration::from_secs(45);
    within(limit, "the node is Ready and bears no taint", || {
        let node = node(cluster)?;
        let well = condition(&node, "Ready")["status"] == "True" && node["spec"]["taints"].is_null();
        if well { Ok(()) } else { Err(format!("{} {}", condition(&node, "Ready"), node["spec"])) }
    });
    within(limit, "the old pods are gone", || pods::all_ready(cluster, "shop", REPLICAS));
    within(limit, "their containers too", || pods::runs_no_others(cluster, CUT));
    let still = within(limit, "the patient are ready again", || pods::all_ready(cluster, "patient", 2));
    let (before, after): (BTreeMap<_, _>, _) = (pods::containers(patient), pods::containers(&still));
    assert_eq!(before, after, "those who could wait were left alone");
}

fn node(cluster: &Compose) -> Result<Value, String> {
    cluster.get(&["node", CUT]).ok_or_else(|| "no answer".to_owned())
}

fn condition(node: &Value, kind: &str) -> Value {
    let conditions = node["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == kind).cloned().unwrap_or_default()
}

fn seconds(from: &Value, to: &Value) -> i64 {
    let time = |text: &Value| text.as_str().unwrap().parse::<Timestamp>().unwrap();
    time(to).as_second() - time(from).as_second()
}
