//! What flags come to.

use super::*;

fn config(args: &[&str]) -> anyhow::Result<Config> {
    let args = ["kubelet", "--kubeconfig", "kubelet.conf"].iter().chain(args);
    Flags::try_parse_from(args)?.into_config()
}

#[test]
fn hollow_nodes_are_numbered_from_one() {
    let config = config(&["--hollow-nodes", "2", "--hostname-override", "node"]).unwrap();
    assert_eq!(config.nodes, ["node-1", "node-2"]);
    assert_eq!(config.runtime, Runtime::Hollow);
}

#[test]
fn a_runtime_is_a_name_or_an_endpoint() {
    let of = |args: &[&str]| config(args).unwrap().runtime;
    assert_eq!(of(&[]), Runtime::Socket(CONTAINERD.into()));
    assert_eq!(of(&["--container-runtime-endpoint", "unix:///x.sock"]), Runtime::Socket("unix:///x.sock".into()));
    assert_eq!(of(&["--runtime", "process"]), Runtime::Process);
    assert!(config(&["--runtime", "docker"]).is_err());
    assert!(config(&["--runtime", "process", "--hollow-nodes", "2"]).is_err());
}

#[test]
fn streams_may_be_silent_for_four_hours_unless_told_otherwise() {
    let idle = |args: &[&str]| config(args).unwrap().streaming_idle;
    assert_eq!(idle(&[]), Some(Duration::from_secs(14400)));
    assert_eq!(idle(&["--streaming-connection-idle-timeout", "1h30m"]), Some(Duration::from_secs(5400)));
    assert_eq!(idle(&["--streaming-connection-idle-timeout", "0"]), None);
    assert!(config(&["--streaming-connection-idle-timeout", "soon"]).is_err());
}

#[test]
fn one_dead_container_is_kept_unless_told_otherwise() {
    let garbage = |args: &[&str]| config(args).unwrap().garbage;
    assert_eq!(garbage(&[]), GarbagePolicy::default());
    let all = garbage(&["--maximum-dead-containers-per-container", "-1", "--maximum-dead-containers=100"]);
    assert_eq!((all.per_container, all.per_node), (None, Some(100)));
    assert_eq!(garbage(&["--minimum-container-ttl-duration", "1m30s"]).min_age, jiff::SignedDuration::from_secs(90));
    assert!(config(&["--minimum-container-ttl-duration", "young"]).unwrap_err().to_string().contains("time: invalid duration"));
}

#[test]
fn labels_and_taints_are_checked() {
    let config = config(&["--node-labels", "a=1,b=", "--register-with-taints", "k=v:NoSchedule", "--hostname-override", "n"]).unwrap();
    assert_eq!(config.node_labels["b"], "");
    assert_eq!(config.taints[0].value.as_deref(), Some("v"));
    assert!(parse_labels("x").is_err());
    assert!(parse_taint("k=v:Never").is_err());
}
