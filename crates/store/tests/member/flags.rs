//! What a member refuses to start with, and what it says.

use std::{net::TcpListener, process::Command};

use crate::support::Cluster;

fn refused(args: &[&str]) -> String {
    let output = tests::on_its_own(&mut Command::new(env!("CARGO_BIN_EXE_store"))).args(args).output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn version_is_printed_as_etcd_prints_it() {
    let output = Command::new(env!("CARGO_BIN_EXE_store")).arg("--version").output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().starts_with("etcd Version: 3.6."));
}

#[test]
fn an_unknown_flag_is_named() {
    assert!(refused(&["--no-such-flag"]).contains("flag provided but not defined: -no-such-flag"));
}

#[test]
fn an_occupied_port_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://127.0.0.1:{}", taken.local_addr().unwrap().port());
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().to_str().unwrap();
    let error = refused(&["--data-dir", data, "--listen-client-urls", &url, "--listen-peer-urls", "http://127.0.0.1:0"]);
    assert!(error.contains(&format!("listen on {url}")), "{error}");
    assert!(error.contains("Address already in use"), "{error}");
}

#[test]
fn a_member_that_is_not_listed_is_told_so() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().to_str().unwrap();
    let any = "http://127.0.0.1:0";
    let flags = ["--data-dir", data, "--listen-client-urls", any, "--listen-peer-urls", any, "--name", "x"];
    let error = refused(&[&flags[..], &["--initial-cluster", "y=http://127.0.0.1:1"]].concat());
    assert!(error.contains("couldn't find local name \"x\" in the initial cluster configuration"), "{error}");
}

#[tokio::test]
async fn a_damaged_data_directory_is_refused_with_its_path() {
    let mut cluster = Cluster::start(1).await;
    let member = &mut cluster.members[0];
    member.kill();
    std::fs::write(member.data_dir.join("member/raft/CURRENT"), "rubbish").unwrap();
    member.start();
    assert!(!member.wait_for_end().success());
    assert!(member.logged().contains("member"), "{}", member.logged());
    assert!(member.logged().contains("error: "), "{}", member.logged());
}

#[tokio::test]
async fn a_data_directory_in_use_is_refused() {
    let cluster = Cluster::start(1).await;
    let any = "http://127.0.0.1:0";
    let data = cluster.members[0].data_dir.to_str().unwrap();
    let error = refused(&["--data-dir", data, "--listen-client-urls", any, "--listen-peer-urls", any]);
    assert!(error.contains("in use"), "{error}");
}

#[test]
fn a_key_for_tokens_that_cannot_be_used_is_told_before_anything_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let flags = ["--data-dir", data.to_str().unwrap(), "--auth-token", "jwt,sign-method=RS256,pub-key=/nowhere/key"];
    let error = refused(&flags);
    assert!(error.contains("--auth-token: read pub-key /nowhere/key"), "{error}");
    assert!(!data.exists());
}
