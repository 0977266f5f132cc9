//! Every subcommand of kubectl once, by each kubectl there is: the machine's own and PyPI's. What works on a pod's streams (exec, attach, cp,
//! logs, port-forward) is in the suite `streams`.
#![allow(clippy::unwrap_used, clippy::panic)]

mod access;
mod files;
mod nodes;
mod session;
mod workloads;

use std::path::PathBuf;

use session::Session;
use tests::{Cluster, eventually};

#[test]
fn every_subcommand_does_its_work() {
    let cluster = Cluster::up(&["--runtime", "hollow", "--nodes", "2"]);
    cluster.wait_for_nodes();
    for (number, kubectl) in kubectls().into_iter().enumerate() {
        let session = Session::new(&cluster, kubectl, &format!("round-{number}"));
        eprintln!("{}", session.typed("version").ok());
        eventually("the default service account exists", || session.typed("get serviceaccount default").code == 0);
        workloads::all(&session);
        files::all(&session);
        access::all(&session);
        nodes::all(&session);
    }
}

/// The kubectls of the path, each once.
fn kubectls() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = Vec::new();
    for file in std::env::split_paths(&path).map(|directory| directory.join("kubectl")).filter(|file| file.is_file()) {
        let file = file.canonicalize().unwrap();
        if !found.contains(&file) {
            found.push(file);
        }
    }
    assert!(!found.is_empty(), "no kubectl in PATH");
    found
}
