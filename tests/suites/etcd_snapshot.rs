//! Snapshot files move between the store and a real etcd, both ways, with etcd's own tools and ours.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::Value;
use tests::{Maker, Maker::Etcd, Maker::Ours, Output, Server, run, within};

/// A history with everything in it: versions, deletions, a compaction, leases.
fn live(server: &Server) {
    let ctl = |args: &[&str]| server.etcdctl(args).ok();
    for value in ["1", "2", "3", "4"] {
        ctl(&["put", "a", value]);
    }
    ctl(&["put", "gone", "x"]);
    ctl(&["del", "gone"]);
    ctl(&["compaction", "4"]);
    ctl(&["put", "large", &"v".repeat(20_000)]);
    let granted = ctl(&["lease", "grant", "3600"]);
    let id = granted.split(' ').nth(1).unwrap();
    ctl(&["put", "leased", "1", &format!("--lease={id}")]);
    for round in 0..3 {
        let puts: String = (0..100).map(|i| format!("put many/{round}/{i:02} value\n")).collect();
        server.etcdctl_with_input(&["txn"], &format!("\n{puts}\n\n")).ok();
    }
}

fn json(output: Output) -> Value {
    serde_json::from_str(&output.ok()).unwrap()
}

/// What etcdctl sees: keys now and before, the leases, and the hash of it all.
fn seen(server: &Server) -> String {
    let mut seen = Vec::new();
    for revision in ["0", "4", "6", "7", "8"] {
        let all = json(server.etcdctl(&["get", "", "--prefix", "-w", "json", &format!("--rev={revision}")]));
        assert!(!all["kvs"].as_array().unwrap().is_empty());
        seen.push(all["kvs"].to_string());
        seen.push(all["header"]["revision"].to_string());
    }
    let refused = server.etcdctl(&["get", "a", "--rev=3"]);
    assert!(refused.err.contains("required revision has been compacted"), "{refused:?}");
    let leases = server.etcdctl(&["lease", "list"]).ok();
    let id = leases.lines().last().unwrap().to_owned();
    let left = json(server.etcdctl(&["lease", "timetolive", &id, "--keys", "-w", "json"]));
    seen.push(format!("{leases} {} {}", left["granted-ttl"], left["keys"]));
    seen.push(json(server.etcdctl(&["endpoint", "hashkv", "-w", "json"]))[0]["HashKV"]["hash"].to_string());
    seen.join("\n")
}

#[test]
fn a_snapshot_moves_from_each_to_each_and_the_same_is_served() {
    for (from, to) in [(Etcd, Ours), (Ours, Etcd), (Ours, Ours)] {
        let origin = Server::start(from, &[]);
        live(&origin);
        let restored = Server::restore(to, &origin.snapshot(), &[]);
        assert_eq!(seen(&restored), seen(&origin), "{from:?} to {to:?}");
        // And life goes on where it was.
        let put = |server: &Server| json(server.etcdctl(&["put", "next", "1", "-w", "json"]))["header"]["revision"].clone();
        assert_eq!(put(&restored), put(&origin));
    }
}

#[test]
fn both_tools_tell_the_same_of_a_file() {
    let server = Server::start(Ours, &[]);
    live(&server);
    let file = server.snapshot();
    let told = |maker: Maker| json(run(Command::new(maker.tool()).args(["snapshot", "status", "-w", "json"]).arg(&file)));
    let (ours, etcds) = (told(Ours), told(Etcd));
    for field in ["hash", "revision", "totalSize"] {
        assert_eq!(ours[field], etcds[field], "{field}");
    }
    assert_eq!(ours["version"], "3.6.0");
    assert_eq!(ours["totalKey"], 303);
}

#[test]
fn a_restored_cluster_can_be_bumped_so_that_revisions_never_go_back() {
    for maker in [Etcd, Ours] {
        let origin = Server::start(maker, &[]);
        live(&origin);
        let before = json(origin.etcdctl(&["get", "a", "-w", "json"]))["header"]["revision"].as_i64().unwrap();
        let restored = Server::restore(Ours, &origin.snapshot(), &["--bump-revision", "1000000", "--mark-compacted"]);
        let all = json(restored.etcdctl(&["get", "a", "-w", "json"]));
        assert_eq!(all["header"]["revision"], before + 1_000_000);
        assert_eq!(all["kvs"][0]["mod_revision"], 5);
        let watched = restored.etcdctl(&["watch", "a", &format!("--rev={before}")]);
        assert!(watched.err.contains("required revision has been compacted"), "{watched:?}");
        // A file of what was bumped is bumped too, whoever restores it.
        let again = Server::restore(Etcd, &restored.snapshot(), &[]);
        let revision = |server: &Server| json(server.etcdctl(&["put", "b", "1", "-w", "json"]))["header"]["revision"].clone();
        assert_eq!(revision(&again), before + 1_000_001);
    }
}

#[test]
fn a_damaged_file_is_refused_and_nothing_is_left_behind() {
    let server = Server::start(Ours, &[]);
    live(&server);
    let file = server.snapshot();
    let whole = fs::read(&file).unwrap();
    let data = server.directory().join("restored");
    let restore = |bytes: &[u8], flags: &[&str]| {
        fs::write(&file, bytes).unwrap();
        let output = run(Command::new(Ours.tool()).args(["snapshot", "restore"]).arg(&file).arg("--data-dir").arg(&data).args(flags));
        assert_eq!(output.code, 1, "{output:?}");
        assert!(!data.join("member").exists() && !data.join("member.restoring").exists());
        output.err
    };
    let mut flipped = whole.clone();
    flipped[5000] ^= 1;
    assert!(restore(&flipped, &[]).contains("expected sha256"));
    assert!(restore(&whole[..whole.len() - 32], &[]).contains("missing hash"));
    assert!(restore(&whole[..4096 * 4], &["--skip-hash-check"]).contains("cut short"));
    assert!(restore(b"rubbish", &["--skip-hash-check"]).contains("not a bbolt database"));
    let mut lost = whole.clone();
    lost[4096 * 3..4096 * 4].fill(0xff);
    assert!(restore(&lost, &["--skip-hash-check"]).contains("page 3 is damaged"));
    let lonely = run(Command::new(Ours.tool()).args(["snapshot", "restore"]).arg(&file).args(["--bump-revision", "5"]));
    assert_eq!((lonely.code, lonely.err.contains("--mark-compacted required")), (128, true));
}

/// The commands are those of the README.
#[test]
fn a_snapshot_lies_encrypted_at_rest_and_serves_again_when_decrypted() {
    let server = Server::start(Ours, &[]);
    live(&server);
    server.etcdctl(&["put", "secret", "a-secret-that-nobody-may-read"]).ok();
    let file = server.snapshot();
    let name = |suffix: &str| format!("{}{suffix}", file.display());
    let key = server.directory().join("backup.key");
    fs::write(&key, "correct horse battery staple").unwrap();
    let openssl = |flags: &[&str], key: &std::path::Path, from: &str, to: &str| {
        let pass = format!("file:{}", key.display());
        run(Command::new("openssl").args(["enc", "-aes-256-cbc", "-pbkdf2"]).args(flags).args(["-pass", &pass, "-in", from, "-out", to]))
    };
    openssl(&[], &key, &name(""), &name(".enc")).ok();
    let holds = |path: &str| fs::read(path).unwrap().windows(29).any(|part| part == b"a-secret-that-nobody-may-read");
    assert_eq!((holds(&name("")), holds(&name(".enc"))), (true, false));
    openssl(&["-d"], &key, &name(".enc"), &name(".dec")).ok();
    let restored = Server::restore(Ours, name(".dec").as_ref(), &[]);
    assert_eq!(restored.etcdctl(&["get", "secret", "--print-value-only"]).ok().trim(), "a-secret-that-nobody-may-read");
    // A file that was changed where it lies decrypts to something that is refused.
    let mut changed = fs::read(name(".enc")).unwrap();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    fs::write(name(".enc"), changed).unwrap();
    openssl(&["-d"], &key, &name(".enc"), &name(".dec")).ok();
    let data = server.directory().join("never");
    let refused = run(Command::new(Ours.tool()).args(["snapshot", "restore", &name(".dec"), "--data-dir"]).arg(&data));
    assert!(refused.err.contains("expected sha256"), "{refused:?}");
}

#[test]
fn a_snapshot_stands_still_while_writes_go_on() {
    let server = Server::start(Ours, &[]);
    live(&server);
    let client = |args: &str| format!("ETCDCTL_API=3 etcdctl --endpoints={} {args}", server.endpoint());
    let script = format!("i=0; while {} >/dev/null; do i=$((i+1)); done", client("put busy $i"));
    let mut writer = Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).spawn().unwrap();
    within(Duration::from_secs(20), "the writer writes", || match server.etcdctl(&["get", "busy"]).ok() {
        found if found.is_empty() => Err("not yet".into()),
        _ => Ok(()),
    });
    let restored = Server::restore(Etcd, &server.snapshot(), &[]);
    writer.kill().unwrap();
    writer.wait().unwrap();
    let busy = json(restored.etcdctl(&["get", "busy", "-w", "json"]));
    // The last write in the file is the newest revision, and no version is missing before it.
    assert_eq!(busy["kvs"][0]["mod_revision"], busy["header"]["revision"]);
    let created = busy["kvs"][0]["create_revision"].as_i64().unwrap();
    assert_eq!(busy["header"]["revision"].as_i64().unwrap() - created + 1, busy["kvs"][0]["version"].as_i64().unwrap());
}
