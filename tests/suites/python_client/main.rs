//! A program with the Python client (PyPI `kubernetes`), which `tests/tools` installs apart from all else.
#![allow(clippy::unwrap_used)]

use std::{env, path::Path, process::Command};

use tests::{Cluster, eventually, run};

#[test]
fn the_python_client_finds_what_it_expects() {
    let cluster = Cluster::up(&["--runtime", "hollow"]);
    cluster.wait_for_nodes();
    eventually("the default service account exists", || cluster.get(&["serviceaccount", "default"]).is_some());
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("suites/python_client/client.py");
    let tools = env::var_os("PYTHONPATH").unwrap_or_default();
    let libraries = env::join_paths(env::split_paths(&tools).map(|directory| directory.join("python-client"))).unwrap();
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", libraries).arg(program).arg(cluster.kubeconfig()).arg(cluster.directory());
    let said = run(&mut python).ok();
    assert_eq!(said, "all is as it should be\n");
}
