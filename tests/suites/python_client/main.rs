//! A program with the Python client (PyPI `kubernetes`).
#![allow(clippy::unwrap_used)]

use std::{path::Path, process::Command};

use tests::{Cluster, eventually, run};

#[test]
fn the_python_client_finds_what_it_expects() {
    let cluster = Cluster::up(&["--runtime", "hollow"]);
    cluster.wait_for_nodes();
    eventually("the default service account exists", || cluster.get(&["serviceaccount", "default"]).is_some());
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("suites/python_client/client.py");
    let said = run(Command::new("python3").arg(program).arg(cluster.kubeconfig()).arg(cluster.directory())).ok();
    assert_eq!(said, "all is as it should be\n");
}
