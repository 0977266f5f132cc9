//! The example Deployment as real containers under containerd. Needs root; says so where it is not.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use nix::sys::signal::Signal;
use tests::{Cluster, alive, containers_are_possible, eventually, within};

const EXAMPLE: &str = include_str!("../../deploy/examples/storefront-api.yaml");

#[test]
fn containerd_ends_when_quarterdeck_is_killed() {
    if !containers_are_possible() {
        return;
    }
    let cluster = Cluster::up(&["--runtime", "containerd"]);
    let containerd = cluster.pid("containerd-node-1");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(cluster.up_pid()), Signal::SIGKILL).unwrap();
    eventually("containerd has ended", || !alive(containerd));
}

#[test]
fn pods_that_outlive_quarterdeck_keep_their_network() {
    if !containers_are_possible() {
        return;
    }
    let args = ["--runtime", "containerd"];
    let mut cluster = Cluster::up(&args);
    cluster.wait_for_nodes();
    cluster.apply(EXAMPLE);
    cluster.kubectl(&["rollout", "status", "deployment/storefront-api", "--timeout=60s"]).ok();
    let (before, addresses) = (container_ids(&cluster), addresses(&cluster));
    // One that ends in order takes its pods with it.
    cluster.signal("kubelet-node-1", Signal::SIGKILL);
    cluster.kill9_and_up(&args);
    cluster.wait_for_nodes();
    let bridge = bridge(&cluster);
    assert!(cluster.said().contains(&format!("pods of node-1 run on: their network, the bridge {bridge}, stays")), "{}", cluster.said());
    is_started_beside(&cluster, &before);
    for address in addresses {
        answers(&address);
    }
}

/// The addresses of the example's pods.
fn addresses(cluster: &Cluster) -> Vec<String> {
    let pods = cluster.get(&["pods", "-l", "app=storefront-api"]).unwrap();
    pods["items"].as_array().unwrap().iter().map(|pod| pod["status"]["podIP"].as_str().unwrap().to_owned()).collect()
}

/// Asks a pod from the node it is on.
fn answers(address: &str) {
    within(Duration::from_secs(10), "a pod answers its node", || {
        let socket = format!("{address}:8080").parse().unwrap();
        let mut stream = TcpStream::connect_timeout(&socket, Duration::from_secs(2)).map_err(|error| format!("{address}: {error}"))?;
        stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let mut answer = String::new();
        let asked = stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").and_then(|()| stream.read_to_string(&mut answer));
        if asked.is_ok() && answer.ends_with("\nok\n") { Ok(()) } else { Err(format!("{address}: {asked:?} {answer:?}")) }
    });
}

fn container_ids(cluster: &Cluster) -> Vec<String> {
    let pods = cluster.get(&["pods", "-l", "app=storefront-api"]).unwrap();
    let pods = pods["items"].as_array().unwrap();
    let mut ids: Vec<_> = pods.iter().map(|pod| pod["status"]["containerStatuses"][0]["containerID"].to_string()).collect();
    ids.sort();
    ids
}

#[test]
fn three_replicas_are_available_within_thirty_seconds_and_survive_the_kubelet() {
    if !containers_are_possible() {
        return;
    }
    let mut cluster = Cluster::up(&["--runtime", "containerd", "--restart"]);
    cluster.wait_for_nodes();
    cluster.apply(EXAMPLE);
    within(Duration::from_secs(30), "3/3 available", || {
        let deployment = cluster.get(&["deployment", "storefront-api"]).unwrap();
        if deployment["status"]["availableReplicas"] == 3 { Ok(()) } else { Err(deployment["status"].to_string()) }
    });
    let slices = cluster.get(&["endpointslices", "-l", "kubernetes.io/service-name=storefront-api"]).unwrap();
    assert_eq!(slices["items"][0]["endpoints"].as_array().unwrap().len(), 3);
    let logs = cluster.kubectl(&["logs", "deployment/storefront-api"]).ok();
    assert!(logs.contains("listening on"), "{logs}");
    pods_have_addresses_of_their_nodes_range(&cluster);
    restarting_the_kubelet_restarts_no_container(&cluster);
    cluster.kubectl(&["delete", "deployment", "storefront-api", "--timeout=60s"]).ok();
    within(Duration::from_secs(60), "pods are gone", || {
        let pods = cluster.get(&["pods", "-l", "app=storefront-api"]).unwrap();
        if pods["items"].as_array().unwrap().is_empty() { Ok(()) } else { Err(pods.to_string()) }
    });
    let bridge = bridge(&cluster);
    assert!(interface_exists(&bridge), "{bridge}");
    cluster.stop();
    assert!(!interface_exists(&bridge), "the end of the cluster leaves {bridge} behind");
}

/// The bridge of node-1's pods.
fn bridge(cluster: &Cluster) -> String {
    let config = cluster.directory().join("containerd-node-1/cni-template.conflist");
    let config: serde_json::Value = serde_json::from_slice(&std::fs::read(config).unwrap()).unwrap();
    config["plugins"][0]["bridge"].as_str().unwrap().to_owned()
}

fn interface_exists(name: &str) -> bool {
    std::path::Path::new("/sys/class/net").join(name).exists()
}

fn pods_have_addresses_of_their_nodes_range(cluster: &Cluster) {
    let node = cluster.get(&["node", "node-1"]).unwrap();
    let range = node["spec"]["podCIDR"].as_str().unwrap().strip_suffix("0/24").unwrap().to_owned();
    let pods = cluster.get(&["pods", "-l", "app=storefront-api"]).unwrap();
    for pod in pods["items"].as_array().unwrap() {
        let address = pod["status"]["podIP"].as_str().unwrap();
        assert!(address.starts_with(&range), "{address} is not in {range}0/24");
    }
}

fn restarting_the_kubelet_restarts_no_container(cluster: &Cluster) {
    let before = container_ids(cluster);
    let old = cluster.pid("kubelet-node-1");
    cluster.signal("kubelet-node-1", Signal::SIGKILL);
    eventually("another kubelet runs", || cluster.pid("kubelet-node-1") != old && cluster.pid("kubelet-node-1") != 0);
    cluster.wait_for_nodes();
    is_started_beside(cluster, &before);
}

/// A pod made now is started by the kubelet of now, after it has looked at what it found: that goes on as it is.
fn is_started_beside(cluster: &Cluster, before: &[String]) {
    cluster.kubectl(&["scale", "deployment/storefront-api", "--replicas=4"]).ok();
    cluster.kubectl(&["rollout", "status", "deployment/storefront-api", "--timeout=60s"]).ok();
    let after = container_ids(cluster);
    assert!(before.iter().all(|id| after.contains(id)), "before {before:?}, after {after:?}");
}
