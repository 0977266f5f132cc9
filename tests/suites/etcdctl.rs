//! etcdctl 3.5 against the store, over TLS with a client certificate.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Stdio};
use std::time::Duration;

use tests::{Cluster, within};

const ALL: [&str; 1] = ["store-1"];

fn store() -> Cluster {
    Cluster::up(&["--components", "store"])
}

#[test]
fn keys_are_put_got_and_deleted() {
    let cluster = store();
    let ctl = |args: &[&str]| cluster.etcdctl(&ALL, args).ok();
    assert_eq!(ctl(&["put", "a", "1"]), "OK\n");
    ctl(&["put", "b", "2"]);
    assert_eq!(ctl(&["get", "a"]), "a\n1\n");
    assert_eq!(ctl(&["get", "a", "c", "--print-value-only"]), "1\n2\n");
    assert_eq!(ctl(&["get", "", "--prefix", "--keys-only", "--order=DESCEND", "--limit=1"]), "b\n\n");
    assert_eq!(ctl(&["del", "a", "--prev-kv"]), "1\na\n1\n");
    assert_eq!(ctl(&["get", "a"]), "");
}

#[test]
fn a_transaction_compares_and_chooses() {
    let cluster = store();
    cluster.etcdctl(&ALL, &["put", "a", "1"]).ok();
    let mut command = cluster.etcdctl_command(&ALL, &["txn"]);
    let said = tests::run_with_input(&mut command, "value(\"a\") = \"1\"\n\nput b yes\n\nput b no\n\n\n").ok();
    assert!(said.starts_with("SUCCESS"), "{said}");
    assert_eq!(cluster.etcdctl(&ALL, &["get", "b", "--print-value-only"]).ok(), "yes\n");
}

#[test]
fn old_revisions_are_readable_until_compacted() {
    let cluster = store();
    for value in ["1", "2", "3"] {
        cluster.etcdctl(&ALL, &["put", "a", value]).ok();
    }
    assert_eq!(cluster.etcdctl(&ALL, &["get", "a", "--rev=2", "--print-value-only"]).ok(), "1\n");
    assert_eq!(cluster.etcdctl(&ALL, &["compaction", "3"]).ok(), "compacted revision 3\n");
    let refused = cluster.etcdctl(&ALL, &["get", "a", "--rev=2"]);
    assert!(refused.code != 0 && refused.err.contains("required revision has been compacted"), "{refused:?}");
}

#[test]
fn a_watch_from_the_past_tells_everything_in_order() {
    let cluster = store();
    for value in ["1", "2"] {
        cluster.etcdctl(&ALL, &["put", "w", value]).ok();
    }
    let out = cluster.directory().join("watch.out");
    let mut watch = cluster
        .etcdctl_command(&ALL, &["watch", "w", "--rev=2"])
        .stdout(std::fs::File::create(&out).unwrap())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let seen = |wanted: &str| {
        within(Duration::from_secs(20), "the watcher's output", || {
            let text = std::fs::read_to_string(&out).unwrap();
            if text == wanted { Ok(()) } else { Err(text) }
        });
    };
    seen("PUT\nw\n1\nPUT\nw\n2\n");
    cluster.etcdctl(&ALL, &["del", "w"]).ok();
    seen("PUT\nw\n1\nPUT\nw\n2\nDELETE\nw\n\n");
    watch.kill().unwrap();
    watch.wait().unwrap();
}

#[test]
fn a_lease_takes_its_keys_along() {
    let cluster = store();
    let granted = cluster.etcdctl(&ALL, &["lease", "grant", "600"]).ok();
    let id = granted.split(' ').nth(1).unwrap().to_owned();
    cluster.etcdctl(&ALL, &["put", "l", "x", &format!("--lease={id}")]).ok();
    let left = cluster.etcdctl(&ALL, &["lease", "timetolive", &id, "--keys"]).ok();
    assert!(left.contains("granted with TTL(600s)") && left.contains("attached keys([l])"), "{left}");
    cluster.etcdctl(&ALL, &["lease", "keep-alive", "--once", &id]).ok();
    cluster.etcdctl(&ALL, &["lease", "revoke", &id]).ok();
    assert_eq!(cluster.etcdctl(&ALL, &["get", "l"]).ok(), "");
}

#[test]
fn an_operator_sees_health_status_and_members() {
    let cluster = Cluster::up(&["--components", "store", "--store-members", "3"]);
    let members = ["store-1", "store-2", "store-3"];
    within(Duration::from_secs(30), "all members are healthy", || {
        let health = cluster.etcdctl(&members, &["endpoint", "health"]);
        if health.code == 0 { Ok(()) } else { Err(health.err) }
    });
    let status = cluster.etcdctl(&members, &["endpoint", "status", "-w", "table"]).ok();
    assert_eq!(status.matches("3.6.").count(), 3, "{status}");
    assert_eq!(status.matches(" true ").count(), 1, "one leader: {status}");
    let list = cluster.etcdctl(&members, &["member", "list"]).ok();
    assert_eq!(list.matches("started, store-").count(), 3, "{list}");
}

#[test]
fn nobody_reaches_the_store_without_a_certificate_of_its_own_authority() {
    let cluster = store();
    let ca = cluster.directory().join("pki/etcd/ca.crt");
    let stranger = tests::run(Command::new("etcdctl").env("ETCDCTL_API", "3").args([
        format!("--endpoints={}", cluster.listens("store-1")),
        format!("--cacert={}", ca.display()),
        "--command-timeout=3s".to_owned(),
        "get".to_owned(),
        "a".to_owned(),
    ]));
    assert_ne!(stranger.code, 0, "{stranger:?}");
}
