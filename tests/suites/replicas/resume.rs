//! Clients behind a load balancer, while servers and the store's leader die and come back under them.

use std::path::PathBuf;
use std::time::Duration;

use etcd::client::Tls;
use nix::sys::signal::Signal;
use tests::api_traffic::ApiTraffic;
use tests::traffic::Door;
use tests::{Balancer, Cluster, within};

use crate::several::NAMES;

const MEMBERS: [&str; 3] = ["store-1", "store-2", "store-3"];
/// From a death until a new write is acknowledged and was shown to everybody; on a loaded machine.
const RECOVER: Duration = Duration::from_secs(30);
/// Until who has died runs again.
const AGAIN: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_watch_misses_repeats_or_goes_back_over_deaths_of_servers_and_of_the_stores_leader() {
    let cluster = Cluster::up(&["--components", "store,apiserver", "--apiservers", "2", "--store-members", "3", "--restart"]);
    let balancer = Balancer::before(&NAMES.map(|name| cluster.listens(name)));
    let traffic = ApiTraffic::start(4711, &balanced(&cluster, &balancer), doors(&cluster)).await;
    traffic.reaches_everybody().await;
    for (signal, server) in [(Signal::SIGTERM, 0), (Signal::SIGKILL, 1), (Signal::SIGKILL, 0), (Signal::SIGTERM, 1)] {
        dies(&cluster, NAMES[server], signal, &traffic).await;
        ready(&cluster, NAMES[server]);
    }
    for _ in 0..2 {
        dies(&cluster, leader(&cluster), Signal::SIGKILL, &traffic).await;
    }
    let summary = traffic.end().await.unwrap_or_else(|violation| panic!("{violation}"));
    eprintln!("{summary:?}, connections {:?}", balancer.carried());
    assert!(summary.acknowledged > 100, "{summary:?}");
    assert_eq!(summary.lists, 4, "each watcher listed but once: {summary:?}");
    assert!(balancer.carried().iter().all(|carried| *carried > 2), "both servers had clients: {:?}", balancer.carried());
}

/// Kills a process, and waits until clients go on and another life of it runs.
async fn dies(cluster: &Cluster, name: &str, signal: Signal, traffic: &ApiTraffic) {
    let before = cluster.pid(name);
    cluster.signal(name, signal);
    let took = traffic.reaches_everybody().await;
    eprintln!("{signal} to {name}: everybody was shown a new write after {took:?}");
    assert!(took <= RECOVER, "{signal} to {name}: {took:?}");
    within(AGAIN, "it runs again", || {
        let now = cluster.pid(name);
        if now != before && now != 0 { Ok(()) } else { Err(cluster.said()) }
    });
    traffic.reaches_everybody().await;
}

fn ready(cluster: &Cluster, server: &str) {
    let url = format!("--server={}", cluster.listens(server));
    within(AGAIN, "the API server is ready", || {
        let ready = cluster.kubectl(&["get", "--raw", "/readyz", &url]);
        if ready.code == 0 { Ok(()) } else { Err(format!("{}\n{}", ready.err, cluster.log(server))) }
    });
}

/// The admin's kubeconfig, leading to the balancer.
fn balanced(cluster: &Cluster, balancer: &Balancer) -> PathBuf {
    let text = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    let direct = cluster.listens(NAMES[0]);
    assert!(text.contains(&direct), "{text}");
    let file = cluster.directory().join("balanced.conf");
    std::fs::write(&file, text.replace(&direct, &balancer.url())).unwrap();
    file
}

fn doors(cluster: &Cluster) -> Vec<Door> {
    let read = |name: &str| std::fs::read(cluster.directory().join("pki/etcd").join(name)).unwrap();
    let tls = Tls { ca: read("ca.crt"), identity: Some((read("healthcheck-client.crt"), read("healthcheck-client.key"))) };
    MEMBERS.iter().map(|member| Door::new(member, &cluster.endpoints(&[member]), Some(&tls))).collect()
}

fn leader(cluster: &Cluster) -> &'static str {
    within(AGAIN, "a leader", || {
        let found = MEMBERS.into_iter().find(|member| {
            let output = cluster.etcdctl(&[member], &["--command-timeout=2s", "endpoint", "status", "-w", "json"]);
            let status: serde_json::Value = serde_json::from_str(&output.out).unwrap_or_default();
            let status = &status[0]["Status"];
            !status.is_null() && status["leader"] == status["header"]["member_id"]
        });
        found.ok_or_else(|| "none".to_owned())
    })
}
