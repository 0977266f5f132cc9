//! The whole chain on real containers on two nodes, and again after everything was taken down.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use serde_json::Value;
use tests::{Compose, within};

use crate::pods;

const EXAMPLE: &str = include_str!("../../../deploy/examples/storefront-api.yaml");
const APP: &str = "storefront-api";
const NODES: [&str; 2] = ["node-1", "node-2"];

pub(crate) fn the_chain_works_and_survives_down_and_up() {
    let cluster = Compose::up();
    the_example_is_available_within_thirty_seconds(&cluster);
    its_containers_are_on_both_nodes(&cluster);
    addresses_are_of_each_nodes_range(&cluster);
    for name in NODES {
        pods_of_every_node_are_reached_from(&cluster, name);
    }
    tests::chain::a_deployment_travels_the_whole_chain(&cluster);
    everything_is_as_before_after_down_and_up(&cluster);
    nodes_that_swap_addresses_are_found_again(&cluster);
}

fn example(cluster: &Compose) -> Result<Vec<Value>, String> {
    pods::all_ready(cluster, APP, 3)
}

fn the_example_is_available_within_thirty_seconds(cluster: &Compose) {
    cluster.apply(EXAMPLE);
    within(Duration::from_secs(30), "3/3 available", || {
        let deployment = cluster.get(&["deployment", APP]).unwrap();
        if deployment["status"]["availableReplicas"] == 3 { Ok(()) } else { Err(deployment["status"].to_string()) }
    });
    let slices = cluster.list(&["endpointslices", "-l", "kubernetes.io/service-name=storefront-api"]).unwrap();
    assert_eq!(slices[0]["endpoints"].as_array().unwrap().len(), 3);
    let logs = cluster.kubectl(&["logs", "deployment/storefront-api"]).ok();
    assert!(logs.contains("listening on"), "{logs}");
}

fn its_containers_are_on_both_nodes(cluster: &Compose) {
    let pods = example(cluster).unwrap();
    for name in NODES {
        assert!(pods.iter().any(|pod| pods::node(pod) == name), "none on {name}: {}", pods::summary(&pods));
        pods::runs_no_others(cluster, name).unwrap();
    }
}

fn addresses_are_of_each_nodes_range(cluster: &Compose) {
    let nodes = cluster.list(&["nodes"]).unwrap();
    let name = |node: &Value| node["metadata"]["name"].as_str().unwrap().to_owned();
    let ranges: BTreeMap<_, IpNet> =
        nodes.iter().map(|node| (name(node), node["spec"]["podCIDR"].as_str().unwrap().parse().unwrap())).collect();
    assert!(ranges["node-1"] != ranges["node-2"], "{ranges:?}");
    for pod in example(cluster).unwrap() {
        let address: IpAddr = pod["status"]["podIP"].as_str().unwrap().parse().unwrap();
        assert!(ranges[pods::node(&pod)].contains(&address), "{address} is not of {ranges:?}: {pod}");
    }
}

/// A pod on one node asks all pods of the example.
fn pods_of_every_node_are_reached_from(cluster: &Compose, node: &str) {
    let pods = example(cluster).unwrap();
    let addresses: Vec<_> = pods.iter().map(|pod| pod["status"]["podIP"].as_str().unwrap()).collect();
    let request = r"printf 'GET / HTTP/1.0\r\n\r\n'";
    let asker = format!("asker-{node}");
    let manifest = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": asker},
        "spec": {"nodeName": node, "restartPolicy": "Never", "containers": [{
            "name": "asker", "image": pods::IMAGE,
            "command": ["/bin/sh", "-ec", format!("for pod in {}; do {request} | nc -w 5 $pod 8080; done", addresses.join(" "))],
        }]},
    });
    cluster.apply(&manifest.to_string());
    within(Duration::from_secs(30), "every pod has answered", || {
        let pod = cluster.get(&["pod", &asker]).unwrap();
        if pod["status"]["phase"] == "Succeeded" { Ok(()) } else { Err(pod["status"].to_string()) }
    });
    let answers = cluster.kubectl(&["logs", &asker]).ok();
    for pod in pods {
        let greeting = format!("storefront-api on {}\n", pod["metadata"]["name"].as_str().unwrap());
        assert!(answers.contains(&greeting), "{greeting:?} is not in {answers:?}");
    }
}

fn everything_is_as_before_after_down_and_up(cluster: &Compose) {
    let before = objects(cluster).unwrap();
    let pods = example(cluster).unwrap();
    let revision = revision_of_a_new_object(cluster, "before");
    cluster.compose(&["down"]).ok();
    cluster.compose(&["up", "-d"]).ok();
    cluster.wait_for_nodes();
    // Until its kubelet has told otherwise, a pod is shown as it was before.
    let ended = pods::containers(&pods);
    let started = within(Duration::from_secs(60), "the workload is back", || {
        let pods = example(cluster)?;
        let again = pods::containers(&pods).iter().all(|(uid, container)| ended.get(uid) != Some(container));
        if again { Ok(pods) } else { Err(format!("not started again yet: {}", pods::summary(&pods))) }
    });
    let name = |pod: &Value| (pods::uid(pod), pods::node(pod).to_owned());
    assert_eq!(started.iter().map(name).collect::<BTreeMap<_, _>>(), pods.iter().map(name).collect(), "the same pods in their places");
    for node in NODES {
        within(Duration::from_secs(30), "nodes run what they should", || pods::runs_no_others(cluster, node));
    }
    let after = objects(cluster).unwrap();
    let lost: Vec<_> = before.iter().filter(|(name, uid)| after.get(*name) != Some(uid)).collect();
    assert!(lost.is_empty(), "lost or replaced: {lost:?}");
    NODES.iter().for_each(|node| pods_answer_again(cluster, node));
    assert!(revision_of_a_new_object(cluster, "after") > revision, "resourceVersion goes on");
}

fn pods_answer_again(cluster: &Compose, node: &str) {
    cluster.kubectl(&["delete", "pod", &format!("asker-{node}"), "--timeout=30s"]).ok();
    pods_of_every_node_are_reached_from(cluster, node);
}

/// A container that starts gets the lowest address that is free: those that stop together and start the other way round swap theirs.
fn nodes_that_swap_addresses_are_found_again(cluster: &Compose) {
    let before = NODES.map(|node| cluster.address(node));
    let lower = |address: &String| address.parse::<IpAddr>().unwrap();
    let order = if lower(&before[0]) < lower(&before[1]) { ["node-2", "node-1"] } else { ["node-1", "node-2"] };
    cluster.compose(&["stop", "node-1", "node-2"]).ok();
    order.iter().for_each(|node| drop(cluster.compose(&["start", node]).ok()));
    let [one, two] = NODES.map(|node| cluster.address(node));
    assert_eq!([two, one], before, "the engine gives addresses in another order than it used to");
    for node in NODES {
        within(Duration::from_secs(60), "the Node tells its new address", || {
            let addresses =
                cluster.list(&["nodes", "--field-selector", &format!("metadata.name={node}")])?[0]["status"]["addresses"].clone();
            let internal = addresses.as_array().unwrap().iter().find(|address| address["type"] == "InternalIP").unwrap();
            if internal["address"] == *cluster.address(node) { Ok(()) } else { Err(addresses.to_string()) }
        });
    }
    within(Duration::from_secs(60), "every pod is reached through its kubelet", || {
        example(cluster)?.iter().try_for_each(|pod| {
            let (name, host) = (pod["metadata"]["name"].as_str().unwrap(), cluster.address(pods::node(pod)));
            let said = cluster.kubectl(&["exec", name, "--", "hostname"]);
            let found = pod["status"]["hostIP"] == *host && said.out.trim() == name;
            if found { Ok(()) } else { Err(format!("{name} on {host}: {said:?} {}", pod["status"])) }
        })
    });
    NODES.iter().for_each(|node| pods_answer_again(cluster, node));
}

/// The UIDs of what a user cares about, by kind and name.
fn objects(cluster: &Compose) -> Result<BTreeMap<String, String>, String> {
    let kinds = "deployments,replicasets,pods,services,endpointslices,configmaps,secrets,serviceaccounts,nodes,namespaces,clusterroles";
    let found = cluster.list(&["-A", kinds])?;
    let name = |object: &Value| format!("{} {}/{}", object["kind"], object["metadata"]["namespace"], object["metadata"]["name"]);
    Ok(found.iter().map(|object| (name(object), pods::uid(object))).collect())
}

fn revision_of_a_new_object(cluster: &Compose, name: &str) -> u64 {
    cluster.kubectl(&["create", "configmap", name, "--from-literal=a=b"]).ok();
    let map = cluster.get(&["configmap", name]).unwrap();
    map["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}
