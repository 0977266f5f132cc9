//! Members of the store are killed while a client writes: one, then so many that the rest are no quorum for two minutes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tests::{Admin, Compose, within};

use crate::pods;

const MEMBERS: [&str; 3] = ["store-1", "store-2", "store-3"];
/// The longest pause in writing that the loss of one member may cause.
const PAUSE: Duration = Duration::from_secs(3);
/// How long the store is without quorum.
const OUTAGE: Duration = Duration::from_secs(120);
const LIMIT: Duration = Duration::from_secs(60);
/// Nobody may use the ten seconds: a store that is away is no reason to think that nodes are.
const TOLERATIONS: &str =
    "tolerations: [{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 10}]";

pub(crate) fn members_are_lost_and_nothing_else() {
    let cluster = Compose::up();
    cluster.apply(&pods::deployment("shop", 4, "", TOLERATIONS));
    let before = pods::containers(&within(LIMIT, "all are ready", || pods::all_ready(&cluster, "shop", 4)));

    let writer = Writer::start(&cluster);
    without(&cluster, "leader", leader(&cluster));
    let leads = leader(&cluster);
    without(&cluster, "follower", MEMBERS.into_iter().find(|member| *member != leads).unwrap());
    let (written, longest) = writer.end();
    assert!(longest <= PAUSE, "a pause of {longest:?} in {} writes", written.len());

    let lost = Instant::now();
    cluster.compose(&["kill", MEMBERS[0], MEMBERS[1]]).ok();
    etcd_answers_within_the_clients_deadline(&cluster);
    the_api_server_answers_and_says_why(&cluster);
    while lost.elapsed() < OUTAGE {
        std::thread::sleep(Duration::from_secs(1));
    }
    cluster.compose(&["start", MEMBERS[0]]).ok();
    within(LIMIT, "writing resumes with one of them", || {
        let output = cluster.kubectl(&["create", "configmap", "after", "--from-literal=a=b", "--request-timeout=10s"]);
        if output.code == 0 || output.err.contains("AlreadyExists") { Ok(()) } else { Err(output.err) }
    });
    every_acknowledged_write_is_there_in_order(&cluster, &written);
    let after = within(LIMIT, "all are ready", || pods::all_ready(&cluster, "shop", 4));
    assert_eq!(pods::containers(&after), before, "a pod was evicted or restarted");
}

/// Kills a member, waits until the others serve, and brings it back.
fn without(cluster: &Compose, role: &str, member: &str) {
    cluster.compose(&["kill", member]).ok();
    let others: Vec<_> = MEMBERS.into_iter().filter(|other| *other != member).collect();
    within(Duration::from_secs(20), "the others go on", || {
        let output = cluster.etcdctl(&others, &["put", "/after", member]);
        if output.code == 0 { Ok(()) } else { Err(output.err) }
    });
    cluster.kubectl(&["create", "configmap", &format!("without-{role}"), "--from-literal=a=b"]).ok();
    cluster.compose(&["start", member]).ok();
    within(LIMIT, "it is back", || {
        let output = cluster.etcdctl(&MEMBERS, &["endpoint", "health"]);
        if output.code == 0 { Ok(()) } else { Err(output.err) }
    });
}

fn leader(cluster: &Compose) -> &'static str {
    let leads = |member: &&str| {
        let output = cluster.etcdctl(&[member], &["endpoint", "status", "-w", "json"]);
        let status: serde_json::Value = serde_json::from_str(&output.out).unwrap_or_default();
        let status = &status[0]["Status"];
        !status.is_null() && status["leader"] == status["header"]["member_id"]
    };
    within(Duration::from_secs(20), "a leader", || MEMBERS.into_iter().find(leads).ok_or_else(|| "none".to_owned()))
}

fn etcd_answers_within_the_clients_deadline(cluster: &Compose) {
    let began = Instant::now();
    let output = cluster.etcdctl(&["store-3"], &["--command-timeout=15s", "put", "/lost", "x"]);
    assert!(output.code != 0 && began.elapsed() < Duration::from_secs(18), "{output:?} after {:?}", began.elapsed());
    assert!(output.err.contains("etcdserver: ") || output.err.contains("context deadline exceeded"), "{}", output.err);
}

fn the_api_server_answers_and_says_why(cluster: &Compose) {
    let began = Instant::now();
    let output = cluster.kubectl(&["create", "configmap", "lost", "--from-literal=a=b"]);
    // Its bound is 34 s; kubectl asks for the kinds before that.
    assert!(output.code != 0 && began.elapsed() < Duration::from_secs(38), "{output:?} after {:?}", began.elapsed());
    assert!(output.err.contains("Timeout: request did not complete within requested timeout"), "{}", output.err);
    let ready = cluster.kubectl(&["get", "--raw", "/readyz?verbose"]);
    assert!(ready.code != 0 && (ready.out.clone() + &ready.err).contains("[-]etcd failed"), "{ready:?}");
}

fn every_acknowledged_write_is_there_in_order(cluster: &Compose, written: &[String]) {
    let sorted = ["get", "/test/", "--prefix", "--keys-only", "--sort-by=MODIFY", "--order=ASCEND"];
    let all = cluster.etcdctl(&["store-1", "store-3"], &sorted).ok();
    // What was not acknowledged may be there as well.
    let there: Vec<_> = all.lines().filter(|key| written.iter().any(|known| known == key)).collect();
    assert_eq!(there, written);
}

/// A client that writes all the time.
struct Writer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(Vec<String>, Duration)>,
}

impl Writer {
    fn start(admin: &Admin) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (over, admin) = (Arc::clone(&stop), admin.clone());
        Self { stop, thread: std::thread::spawn(move || write(&admin, &over)) }
    }

    /// The acknowledged keys in their order, and the longest time between two of them.
    fn end(self) -> (Vec<String>, Duration) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn write(admin: &Admin, over: &AtomicBool) -> (Vec<String>, Duration) {
    let (mut written, mut longest, mut last) = (Vec::new(), Duration::ZERO, Instant::now());
    for number in 0.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let key = format!("/test/{number:06}");
        if admin.etcdctl(&MEMBERS, &["--command-timeout=5s", "put", &key, "x"]).code == 0 {
            // Before the first nobody waits.
            longest = if written.is_empty() { Duration::ZERO } else { longest.max(last.elapsed()) };
            last = Instant::now();
            written.push(key);
        }
    }
    (written, longest.max(last.elapsed()))
}
