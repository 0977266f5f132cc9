//! Two nodes and a pod as network namespaces, a small API server, and the kernel's own routes and rules. Needs root; says
//! so where it is not.
#![allow(clippy::unwrap_used, clippy::panic)]

mod api;

use std::{
    process::Command,
    time::{Duration, Instant},
};

use api::Api;
use component::Shutdown;
use node_routes::Config;
use serde_json::{Value, json};

/// Says to a copy of this test that it has namespaces of its own.
const INSIDE: &str = "NODE_ROUTES_TEST_INSIDE";
/// Until something has come about.
const LIMIT: Duration = Duration::from_secs(30);

/// Runs a line of shell; its output when it succeeds.
fn shell(line: &str) -> Result<String, String> {
    let output = Command::new("sh").arg("-c").arg(line).env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin").output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(format!("{line}: {}", text(&output.stderr))) }
}

fn must(line: &str) -> String {
    shell(line).unwrap()
}

/// Whether the test goes on here: in namespaces of its own. Elsewhere it starts itself again in such, if it may.
fn inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    if let Err(why) = shell("[ $(id -u) = 0 ] && unshare --net --mount true && command -v iptables busybox") {
        eprintln!("skipped: needs root that may make namespaces, iptables and busybox ({why})");
        return false;
    }
    let own = std::env::current_exe().unwrap();
    let mut again = Command::new("unshare");
    again.args(["--net", "--mount", "--"]).arg(own).args(["--exact", test, "--nocapture"]).env(INSIDE, "1");
    assert!(again.status().unwrap().success(), "failed inside");
    false
}

/// This namespace is node-1; node-2 and a pod of node-1 get others. The address 198.51.100.1, behind node-2, is the world.
fn lay_out() {
    must("mount -t tmpfs none /run && ip link set lo up && ip netns add node-2 && ip netns add pod");
    must("ip link add eth0 type veth peer name eth0 netns node-2 && ip link add cni0 type veth peer name eth0 netns pod");
    must("ip addr add 192.0.2.1/24 dev eth0 && ip link set eth0 up");
    must("ip addr add 10.244.1.1/24 dev cni0 && ip link set cni0 up");
    must("ip -n pod addr add 10.244.1.2/24 dev eth0 && ip -n pod link set eth0 up && ip -n pod route add default via 10.244.1.1");
    must("ip -n node-2 addr add 192.0.2.2/24 dev eth0 && ip -n node-2 link set eth0 up && ip -n node-2 link set lo up");
    must("ip -n node-2 addr add 10.244.2.2/32 dev lo && ip -n node-2 addr add 198.51.100.1/32 dev lo");
    must("ip -n node-2 route add 10.244.1.0/24 via 192.0.2.1 && ip route add 198.51.100.0/24 via 192.0.2.2");
    // A host as Docker leaves it, at worst.
    must("iptables -P FORWARD DROP && echo 0 >/proc/sys/net/ipv4/ip_forward");
}

/// A web server on node-2 that says from which address it was called.
struct Echo {
    server: std::process::Child,
    _files: tempfile::TempDir,
}

impl Echo {
    fn start() -> Self {
        let files = tempfile::tempdir().unwrap();
        let root = files.path().display();
        must(&format!(
            "mkdir {root}/cgi-bin && printf '#!/bin/sh\\necho; echo $REMOTE_ADDR\\n' >{root}/cgi-bin/who && chmod +x {root}/cgi-bin/who"
        ));
        let args = ["netns", "exec", "node-2", "busybox", "httpd", "-f", "-p", "8080", "-h"];
        let server = Command::new("ip").args(args).arg(files.path()).spawn().unwrap();
        Self { server, _files: files }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Asks for a page and gives its last line; a command in front says where.
fn page(from: &str, address: &str, port: u16, path: &str) -> Result<String, String> {
    let answer = shell(&format!("printf 'GET {path} HTTP/1.0\\r\\n\\r\\n' | {from} busybox nc -w 2 {address} {port}"))?;
    answer.lines().last().map(str::to_owned).ok_or_else(|| format!("{address}:{port}{path}: no answer"))
}

/// From which address a call out of the pod to `address` arrives there.
fn seen_at(address: &str) -> Result<String, String> {
    let seen = page("ip netns exec pod", address, 8080, "/cgi-bin/who")?;
    // A socket for both families sees mapped addresses.
    Ok(seen.trim_start_matches(['[', ':']).trim_start_matches("ffff:").trim_end_matches(']').to_owned())
}

fn routes(protocol: &str) -> Vec<String> {
    let shown: Value = serde_json::from_str(&must(&format!("ip -json -4 route show proto {protocol}"))).unwrap();
    shown.as_array().unwrap().iter().map(|route| route["dst"].as_str().unwrap().to_owned()).collect()
}

/// Packets that the masquerading rule has seen.
fn masqueraded() -> u64 {
    let rules = must("iptables -t nat -nvxL QUARTERDECK-POSTROUTING | grep MASQUERADE");
    rules.split_whitespace().next().unwrap().parse().unwrap()
}

async fn becomes<T: PartialEq + std::fmt::Debug>(expected: T, look: impl Fn() -> T) {
    let began = Instant::now();
    loop {
        let is = look();
        if is == expected {
            return;
        }
        assert!(began.elapsed() < LIMIT, "{is:?} did not become {expected:?} within {LIMIT:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn node(number: u8) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": format!("node-{number}"), "uid": format!("{number}")},
        "spec": {
            "podCIDR": format!("10.244.{number}.0/24"),
            "podCIDRs": [format!("10.244.{number}.0/24"), format!("fd00:244:0:{number}::/64")],
        },
        "status": {"addresses": [
            {"type": "InternalIP", "address": format!("192.0.2.{number}")},
            {"type": "InternalIP", "address": format!("2001:db8::{number}")},
        ]},
    })
}

/// node-routes on node-1.
fn start(api: &Api, cluster_cidr: &str) -> (Shutdown, tokio::task::JoinHandle<anyhow::Result<()>>) {
    component::install_crypto_provider();
    let config = Config {
        kubeconfig: Some(api.kubeconfig()),
        node: "node-1".into(),
        cluster_cidrs: vec![cluster_cidr.parse().unwrap()],
        healthz: Some("127.0.0.1:10256".parse().unwrap()),
    };
    let shutdown = Shutdown::new();
    (shutdown.clone(), tokio::spawn(node_routes::run(config, shutdown)))
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_keep_their_addresses_between_nodes_and_take_the_nodes_outside() {
    if !inside("pods_keep_their_addresses_between_nodes_and_take_the_nodes_outside") {
        return;
    }
    lay_out();
    let _echo = Echo::start();
    must("ip route add 10.244.7.0/24 via 192.0.2.2 proto 113 && ip route add 10.244.9.0/24 via 192.0.2.2 proto static");
    let api = Api::start(vec![node(1), node(2)]).await;
    let (shutdown, run) = start(&api, "10.244.0.0/16");

    becomes(Ok("10.244.1.2".to_owned()), || seen_at("10.244.2.2")).await;
    becomes(Ok("192.0.2.1".to_owned()), || seen_at("198.51.100.1")).await;
    becomes(Ok("ok".to_owned()), || page("", "127.0.0.1", 10256, "/readyz")).await;
    assert_eq!(routes("113"), ["10.244.2.0/24"], "what a node that is gone left behind is removed");

    api.add(node(3));
    becomes(vec!["10.244.2.0/24".to_owned(), "10.244.3.0/24".to_owned()], || routes("113")).await;
    api.remove("node-3");
    becomes(vec!["10.244.2.0/24".to_owned()], || routes("113")).await;
    assert!(masqueraded() > 0, "rules that are right were written anew");

    // A change of any node has the kernel read again.
    must("ip route del 10.244.2.0/24 && iptables -t nat -F && iptables -F");
    api.add(node(3));
    becomes(Ok("10.244.1.2".to_owned()), || seen_at("10.244.2.2")).await;
    becomes(Ok("192.0.2.1".to_owned()), || seen_at("198.51.100.1")).await;
    assert_eq!(routes("static"), ["10.244.9.0/24"], "others' routes stay");

    shutdown.cancel();
    run.await.unwrap().unwrap();
    // Pods go on talking.
    becomes(Ok("10.244.1.2".to_owned()), || seen_at("10.244.2.2")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_other_family_has_routes_and_rules_of_its_own() {
    if !inside("the_other_family_has_routes_and_rules_of_its_own") {
        return;
    }
    must("ip link set lo up && ip link add eth0 type veth peer name peer && ip link set eth0 up && ip link set peer up");
    if let Err(why) = shell("ip -6 addr add 2001:db8::1/64 dev eth0 nodad && ip6tables -t nat -S") {
        eprintln!("skipped: no IPv6 here ({why})");
        return;
    }
    let api = Api::start(vec![node(1), node(2)]).await;
    let (shutdown, run) = start(&api, "fd00:244::/48");
    becomes(Ok("ok".to_owned()), || page("", "127.0.0.1", 10256, "/readyz")).await;
    assert!(must("ip -6 route show proto 113").starts_with("fd00:244:0:2::/64 via 2001:db8::2 "));
    assert_eq!(must("cat /proc/sys/net/ipv6/conf/all/forwarding"), "1");
    let rules = must("ip6tables-save");
    for rule in ["-A QUARTERDECK-FORWARD -s fd00:244::/48 -j ACCEPT", "-A QUARTERDECK-POSTROUTING -s fd00:244:0:1::/64 -j MASQUERADE"] {
        assert!(rules.contains(rule), "{rule} is not in {rules}");
    }
    assert!(routes("113").is_empty(), "a cluster without IPv4 gets no IPv4 routes");
    shutdown.cancel();
    run.await.unwrap().unwrap();
}
