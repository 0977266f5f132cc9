//! Containers' commands as plain processes: no root, no containerd.
#![allow(clippy::unwrap_used)]

use tests::{Cluster, eventually};

const POD: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: talker}
spec:
  restartPolicy: Never
  containers:
  - name: talker
    image: none
    command: [/bin/sh, -c, "echo hello from $WHO; exit 3"]
    env: [{name: WHO, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
"#;

#[test]
fn a_command_runs_and_its_end_and_words_are_told() {
    let cluster = Cluster::up(&["--runtime", "process"]);
    cluster.wait_for_nodes();
    eventually("the default service account exists", || cluster.get(&["serviceaccount", "default"]).is_some());
    cluster.apply(POD);
    eventually("the pod has failed with its command's code", || {
        let pod = cluster.get(&["pod", "talker"]).unwrap();
        pod["status"]["phase"] == "Failed" && pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    });
    assert_eq!(cluster.kubectl(&["logs", "talker"]).ok(), "hello from talker\n");
}

const TICKER: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: ticker}
spec:
  restartPolicy: Never
  containers:
  - name: ticker
    image: none
    command: [/bin/sh, -c, "for i in 1 2 3; do echo tick $i; sleep 0.3; done"]
"#;

#[test]
fn logs_are_followed_to_the_containers_end() {
    let cluster = Cluster::up(&["--runtime", "process"]);
    cluster.wait_for_nodes();
    eventually("the default service account exists", || cluster.get(&["serviceaccount", "default"]).is_some());
    cluster.apply(TICKER);
    eventually("the container has started", || cluster.kubectl(&["logs", "ticker"]).out.contains("tick 1"));
    assert_eq!(cluster.kubectl(&["logs", "-f", "ticker"]).ok(), "tick 1\ntick 2\ntick 3\n");
    assert_eq!(cluster.kubectl(&["logs", "ticker", "--tail=1"]).ok(), "tick 3\n");
}
