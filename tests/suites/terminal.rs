//! exec on a terminal that is resized, what exec says when it cannot, and who may: a real kubectl over WebSockets and over SPDY.
#![allow(clippy::unwrap_used)]

use std::{path::Path, process::Command};

use tests::{Cluster, Output, containers_are_possible, eventually, run};

const POD: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: shell}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: quarterdeck/storefront-api:1.0
    imagePullPolicy: IfNotPresent
    command: [/bin/sh, -c, "while :; do sleep 1; done"]
"#;

/// May look at pods and, with `get` alone, had a shell in each once.
const READER: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules: [{apiGroups: [""], resources: [pods, pods/exec], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]
"#;

/// Whether kubectl uses WebSockets.
const TRANSPORTS: [&str; 2] = ["true", "false"];

/// Waits until the terminal has its size, which may come after the command has begun, and then for another.
const WATCH: &str = r#"
until [ "$(stty size 2>/dev/null)" = "40 123" ]; do sleep 0.1; done
trap "stty size; exit 4" WINCH
echo ready
while :; do sleep 0.1; done"#;

fn a_terminal_has_its_size_and_is_resized(cluster: &Cluster, websockets: &str) {
    let resize = Path::new(env!("CARGO_MANIFEST_DIR")).join("suites/terminal/resize.py");
    let mut python = Command::new("python3");
    python.arg(resize).args(["kubectl", "exec", "-it", "shell", "--", "sh", "-c", WATCH]);
    python.env("KUBECONFIG", cluster.kubeconfig()).env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets);
    let said = run(&mut python);
    let lines: Vec<&str> = said.out.lines().map(str::trim_end).collect();
    assert_eq!((said.code, &lines[..2]), (4, &["ready", "41 124"][..]), "{said:?}");
}

fn refused(cluster: &Cluster, websockets: &str, args: &[&str]) -> String {
    let Output { code, out, err } = run(cluster.kubectl_command(args).env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets));
    assert_eq!((code, out.as_str()), (1, ""), "{args:?}: {err}");
    err
}

fn what_is_wrong_is_said(cluster: &Cluster, websockets: &str) {
    let wrong = |args: &[&str], text: &str| {
        let said = refused(cluster, websockets, args);
        assert!(said.contains(text), "{args:?}: {said}");
    };
    let container = "Error from server (BadRequest): container other is not valid for pod shell";
    wrong(&["exec", "shell", "-c", "other", "--", "true"], container);
    wrong(&["exec", "nobody", "--", "true"], "Error from server (NotFound): pods \"nobody\" not found");
    wrong(&["exec", "shell", "--", "no-such-command"], "executable file not found in $PATH");
    wrong(&["--as=jane", "exec", "shell", "--", "true"], "cannot create resource \"pods/exec\" in API group \"\"");
}

fn exec(runtime: &str) {
    let cluster = Cluster::up(&["--runtime", runtime]);
    cluster.wait_for_nodes();
    eventually("the default service account exists", || cluster.get(&["serviceaccount", "default"]).is_some());
    cluster.apply(POD);
    cluster.apply(READER);
    cluster.kubectl(&["wait", "--for=condition=Ready", "pod/shell", "--timeout=60s"]).ok();
    for websockets in TRANSPORTS {
        eprintln!("websockets={websockets}");
        a_terminal_has_its_size_and_is_resized(&cluster, websockets);
        what_is_wrong_is_said(&cluster, websockets);
    }
}

#[test]
fn a_process_has_a_terminal() {
    exec("process");
}

#[test]
fn a_container_has_a_terminal() {
    if containers_are_possible() {
        exec("containerd");
    }
}
