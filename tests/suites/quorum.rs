//! Members of the store die by kill -9 while a client writes.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tests::{Cluster, within};

const MEMBERS: [&str; 3] = ["store-1", "store-2", "store-3"];
/// The bound on a pause in writing.
const PAUSE: Duration = Duration::from_secs(3);

/// Times are measured here: one test at a time has the machine.
static ALONE: Mutex<()> = Mutex::new(());

/// A client that writes all the time: each acknowledged key, and the longest time between two acknowledgements.
struct Writer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(Vec<String>, Duration)>,
}

impl Writer {
    fn start(endpoints: String, pki: std::path::PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut written, mut longest, mut last) = (Vec::new(), Duration::ZERO, Instant::now());
            for number in 0.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                let key = format!("/test/{number:06}");
                if put(&endpoints, &pki, &key, Duration::from_secs(5)) {
                    written.push(key);
                    longest = longest.max(last.elapsed());
                    last = Instant::now();
                }
            }
            (written, longest.max(last.elapsed()))
        });
        Self { stop, thread }
    }

    fn end(self) -> (Vec<String>, Duration) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn etcdctl(endpoints: &str, pki: &std::path::Path) -> std::process::Command {
    let mut command = std::process::Command::new("etcdctl");
    command.env("ETCDCTL_API", "3").arg(format!("--endpoints={endpoints}"));
    for (flag, file) in [("cacert", "ca.crt"), ("cert", "healthcheck-client.crt"), ("key", "healthcheck-client.key")] {
        command.arg(format!("--{flag}={}", pki.join(file).display()));
    }
    command
}

fn put(endpoints: &str, pki: &std::path::Path, key: &str, limit: Duration) -> bool {
    let timeout = format!("--command-timeout={}ms", limit.as_millis());
    tests::run(etcdctl(endpoints, pki).arg(timeout).args(["put", key, "x"])).code == 0
}

fn endpoints(cluster: &Cluster) -> String {
    MEMBERS.map(|member| cluster.listens(member)).join(",")
}

fn pki(cluster: &Cluster) -> std::path::PathBuf {
    cluster.directory().join("pki/etcd")
}

/// Which member leads.
fn leader(cluster: &Cluster) -> &'static str {
    within(Duration::from_secs(20), "a leader", || {
        let found = MEMBERS.into_iter().find(|member| {
            let output = cluster.etcdctl(&[member], &["endpoint", "status", "-w", "json"]);
            let status: serde_json::Value = serde_json::from_str(&output.out).unwrap_or_default();
            let status = &status[0]["Status"];
            !status.is_null() && status["leader"] == status["header"]["member_id"]
        });
        found.ok_or_else(|| "none".to_owned())
    })
}

fn survives_the_loss_of(which: impl Fn(&Cluster) -> &'static str) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let cluster = Cluster::up(&["--store-members", "3", "--components", "store,apiserver"]);
    let victim = which(&cluster);
    let writer = Writer::start(endpoints(&cluster), pki(&cluster));
    within(Duration::from_secs(20), "the client writes", || {
        if put(&endpoints(&cluster), &pki(&cluster), "/warm", PAUSE) { Ok(()) } else { Err(String::new()) }
    });
    cluster.signal(victim, Signal::SIGKILL);
    let survivors: Vec<_> = MEMBERS.into_iter().filter(|member| *member != victim).collect();
    within(Duration::from_secs(20), "the survivors go on", || {
        let output = cluster.etcdctl(&survivors, &["put", "/after", "x"]);
        if output.code == 0 { Ok(()) } else { Err(output.err) }
    });
    cluster.kubectl(&["create", "configmap", "after", "--from-literal=a=b"]).ok();
    cluster.etcdctl(&survivors, &["put", "/test/last", "x"]).ok();
    let (written, longest) = writer.end();
    assert!(!written.is_empty());
    assert!(longest <= PAUSE, "a pause of {longest:?}");
    let all = cluster.etcdctl(&survivors, &["get", "/test/", "--prefix", "--keys-only"]).ok();
    let lost: Vec<_> = written.iter().filter(|key| !all.contains(key.as_str())).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
}

#[test]
fn writes_go_on_without_the_leader() {
    survives_the_loss_of(leader);
}

#[test]
fn writes_go_on_without_a_follower() {
    survives_the_loss_of(|cluster| {
        let leader = leader(cluster);
        MEMBERS.into_iter().find(|member| *member != leader).unwrap()
    });
}

#[test]
fn without_quorum_everything_answers_and_with_it_writing_resumes() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let cluster = Cluster::up(&["--store-members", "3", "--runtime", "hollow", "--restart"]);
    cluster.wait_for_nodes();
    cluster.kubectl(&["create", "deployment", "web", "--image=web:1"]).ok();
    cluster.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]).ok();
    cluster.kubectl(&["create", "configmap", "before", "--from-literal=a=b"]).ok();
    let pods_before = pod_uids(&cluster);
    for member in ["store-1", "store-2"] {
        cluster.signal(member, Signal::SIGSTOP);
    }
    etcd_answers_within_the_clients_deadline(&cluster);
    the_api_server_answers_and_says_why(&cluster);
    for member in ["store-1", "store-2"] {
        // Stopped, then killed: it has to recover from its disk.
        cluster.signal(member, Signal::SIGKILL);
    }
    within(Duration::from_secs(60), "writing resumes", || {
        let output = cluster.kubectl(&["create", "configmap", "after", "--from-literal=a=b", "--request-timeout=10s"]);
        if output.code == 0 || output.err.contains("AlreadyExists") { Ok(()) } else { Err(output.err) }
    });
    assert!(cluster.get(&["configmap", "before"]).is_some(), "what was acknowledged is there");
    assert_eq!(pod_uids(&cluster), pods_before, "no pod was evicted or replaced");
    let nodes = cluster.get(&["nodes"]).unwrap();
    assert!(!nodes.to_string().contains("node.kubernetes.io/unreachable"), "{nodes}");
}

fn pod_uids(cluster: &Cluster) -> String {
    cluster.kubectl(&["get", "pods", "-o", "jsonpath={.items[*].metadata.uid} {.items[*].status.containerStatuses[*].restartCount}"]).ok()
}

fn etcd_answers_within_the_clients_deadline(cluster: &Cluster) {
    let began = Instant::now();
    let output = cluster.etcdctl(&["store-3"], &["--command-timeout=15s", "put", "/lost", "x"]);
    assert!(output.code != 0 && began.elapsed() < Duration::from_secs(17), "{output:?}");
    assert!(output.err.contains("etcdserver: ") || output.err.contains("context deadline exceeded"), "{}", output.err);
}

fn the_api_server_answers_and_says_why(cluster: &Cluster) {
    let began = Instant::now();
    let output = cluster.kubectl(&["create", "configmap", "lost", "--from-literal=a=b"]);
    assert!(output.code != 0 && began.elapsed() < Duration::from_secs(36), "{output:?} after {:?}", began.elapsed());
    let words = "Timeout: request did not complete within requested timeout - ";
    assert!(output.err.contains(words), "{}", output.err);
    let ready = cluster.kubectl(&["get", "--raw", "/readyz?verbose"]);
    assert!(ready.code != 0 && (ready.out.clone() + &ready.err).contains("[-]etcd failed"), "{ready:?}");
}
