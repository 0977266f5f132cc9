//! etcdctl's `user`, `role` and `auth` against the store, and against a real etcd wherever both must say the same.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use tests::{Maker, Maker::Etcd, Maker::Ours, Output, Server};

/// A server with `root` and `alice`, whose role lets her read and write below `a/`; requests are checked.
fn guarded(maker: Maker, flags: &[&str]) -> Server {
    let server = Server::start(maker, &[&["--bcrypt-cost", "4"], flags].concat());
    for args in [
        &["put", "b", "secret"][..],
        &["user", "add", "root:root"],
        &["user", "add", "alice:alice"],
        &["role", "add", "r"],
        &["role", "grant-permission", "--prefix", "r", "readwrite", "a/"],
        &["user", "grant-role", "alice", "r"],
        &["user", "grant-role", "root", "root"],
        &["auth", "enable"],
    ] {
        server.etcdctl(args).ok();
    }
    server
}

fn as_user(server: &Server, user: &str, args: &[&str]) -> Output {
    server.etcdctl(&[&["--user", user][..], args].concat())
}

/// What it said, with the exit code; etcdctl's log lines aside, which hold times.
fn said(output: &Output) -> String {
    let error = output.err.lines().filter(|line| !line.starts_with('{')).collect::<Vec<_>>().join("\n");
    format!("{} {} {error}", output.code, output.out)
}

/// Commands as users, one after the other; what came of each.
fn conversation(server: &Server) -> Vec<String> {
    let (root, alice) = (Some("root:root"), Some("alice:alice"));
    let commands: [(Option<&str>, &[&str]); 24] = [
        (alice, &["put", "a/1", "x"]),
        (alice, &["get", "a/1"]),
        (alice, &["get", "a/", "--prefix"]),
        (alice, &["get", "b"]),
        (alice, &["get", "a", "z"]),
        (alice, &["put", "b", "x"]),
        (alice, &["del", "a/", "--prefix"]),
        (alice, &["del", "", "--prefix"]),
        (Some("alice:wrong"), &["get", "a/1"]),
        (Some("eve:eve"), &["get", "a/1"]),
        (None, &["get", "a/1"]),
        (alice, &["user", "add", "eve:eve"]),
        (alice, &["user", "get", "alice"]),
        (alice, &["role", "get", "r"]),
        (root, &["get", "b"]),
        (root, &["user", "list"]),
        (root, &["role", "list"]),
        (root, &["user", "get", "alice", "--detail"]),
        (root, &["user", "delete", "root"]),
        (root, &["user", "revoke-role", "root", "root"]),
        (root, &["role", "revoke-permission", "--prefix", "r", "a/"]),
        (alice, &["get", "a/1"]),
        (root, &["role", "grant-permission", "r", "read", "b"]),
        (alice, &["get", "b"]),
    ];
    let run = |(user, args): (Option<&str>, &[&str])| match user {
        Some(user) => as_user(server, user, args),
        None => server.etcdctl(args),
    };
    commands.into_iter().map(|command| format!("{command:?}: {}", said(&run(command)))).collect()
}

#[test]
fn users_are_let_in_and_kept_out_as_etcd_does() {
    let (ours, etcds) = (conversation(&guarded(Ours, &[])), conversation(&guarded(Etcd, &[])));
    for (ours, etcds) in ours.iter().zip(&etcds) {
        assert_eq!(ours, etcds);
    }
    assert!(ours[3].contains("permission denied") && ours[8].contains("authentication failed"), "{ours:?}");
}

#[test]
fn checking_is_switched_off_again_by_root_alone() {
    let server = guarded(Ours, &[]);
    let refused = as_user(&server, "alice:alice", &["auth", "disable"]);
    assert!(refused.err.contains("permission denied"), "{refused:?}");
    assert!(as_user(&server, "root:root", &["auth", "status"]).ok().contains("Authentication Status: true"));
    assert_eq!(as_user(&server, "root:root", &["auth", "disable"]).ok(), "Authentication Disabled\n");
    assert_eq!(server.etcdctl(&["get", "b", "--print-value-only"]).ok(), "secret\n");
}

#[test]
fn a_password_is_changed_by_root() {
    let server = guarded(Ours, &[]);
    let change = ["--user", "root:root", "user", "passwd", "alice", "--interactive=false"];
    server.etcdctl_with_input(&change, "other\n").ok();
    assert!(as_user(&server, "alice:alice", &["get", "a/1"]).err.contains("authentication failed"));
    as_user(&server, "alice:other", &["get", "a/1"]).ok();
}

fn openssl(directory: &Path, args: &[&str]) {
    let output = Command::new("openssl").current_dir(directory).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn signed_tokens_by_keys_that_openssl_made() {
    let directory = tempfile::tempdir().unwrap();
    openssl(directory.path(), &["genrsa", "-out", "rsa.key", "2048"]);
    openssl(directory.path(), &["rsa", "-in", "rsa.key", "-pubout", "-out", "rsa.pub"]);
    openssl(directory.path(), &["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "ec.key"]);
    openssl(directory.path(), &["ec", "-in", "ec.key", "-pubout", "-out", "ec.pub"]);
    for (kind, method) in [("rsa", "RS256"), ("rsa", "PS512"), ("ec", "ES256")] {
        let file = |end: &str| directory.path().join(format!("{kind}.{end}")).display().to_string();
        let token = format!("jwt,pub-key={},priv-key={},sign-method={method},ttl=10m", file("pub"), file("key"));
        for maker in [Ours, Etcd] {
            let server = guarded(maker, &["--auth-token", &token]);
            as_user(&server, "alice:alice", &["put", "a/1", "x"]).ok();
            assert!(as_user(&server, "alice:alice", &["get", "b"]).err.contains("permission denied"), "{maker:?} {method}");
            assert!(as_user(&server, "alice:wrong", &["get", "a/1"]).err.contains("authentication failed"), "{maker:?} {method}");
        }
    }
}

/// What etcdctl tells of users and roles.
fn told(server: &Server) -> Vec<String> {
    let commands = [&["user", "list"][..], &["user", "get", "alice"], &["role", "list"], &["role", "get", "r"], &["get", "", "--prefix"]];
    commands.map(|args| as_user(server, "root:root", args).ok()).into()
}

fn snapshot(server: &Server) -> std::path::PathBuf {
    let file = server.directory().join("snapshot.db");
    as_user(server, "root:root", &["snapshot", "save", file.to_str().unwrap()]).ok();
    file
}

#[test]
fn a_snapshot_takes_users_along_from_each_to_each() {
    for (from, to) in [(Etcd, Ours), (Ours, Etcd), (Ours, Ours)] {
        let origin = guarded(from, &[]);
        as_user(&origin, "alice:alice", &["put", "a/1", "x"]).ok();
        let restored = Server::restore(to, &snapshot(&origin), &[]);
        assert_eq!(told(&restored), told(&origin), "{from:?} to {to:?}");
        as_user(&restored, "alice:alice", &["put", "a/2", "x"]).ok();
        assert!(as_user(&restored, "alice:alice", &["get", "b"]).err.contains("permission denied"), "{from:?} to {to:?}");
        assert!(as_user(&restored, "alice:wrong", &["get", "a/1"]).err.contains("authentication failed"), "{from:?} to {to:?}");
        assert!(restored.etcdctl(&["get", "b"]).err.contains("user name is empty"), "{from:?} to {to:?}");
        as_user(&restored, "root:root", &["user", "add", "bob:bob"]).ok();
    }
}
