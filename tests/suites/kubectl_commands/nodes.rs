//! What is done to nodes.

use crate::session::Session;

pub(crate) fn all(session: &Session) {
    session.does(&[
        ("create deployment stays --image=web:1 --replicas=2", "created"),
        ("rollout status deployment/stays --timeout=60s", "successfully rolled out"),
        ("taint node node-2 colour=red:NoSchedule", "node/node-2 tainted"),
        ("get node node-2 -o jsonpath={.spec.taints[?(@.key==\"colour\")].value}", "red"),
        ("taint node node-2 colour:NoSchedule-", "node/node-2 untainted"),
        ("cordon node-2", "node/node-2 cordoned"),
        ("get node node-2", "SchedulingDisabled"),
        ("uncordon node-2", "node/node-2 uncordoned"),
        ("drain node-2 --ignore-daemonsets --delete-emptydir-data --force --timeout=60s", "node/node-2 drained"),
        ("rollout status deployment/stays --timeout=60s", "successfully rolled out"),
    ]);
    let pods = session.typed("get pods -l app=stays -o jsonpath={.items[*].spec.nodeName}").ok();
    assert!(pods.contains("node-1") && !pods.contains("node-2"), "a drained node keeps no pods: {pods}");
    session.does(&[
        ("uncordon node-2", "node/node-2 uncordoned"),
        ("label node node-2 rack=7", "node/node-2 labeled"),
        ("describe node node-2", "rack=7"),
        ("label node node-2 rack-", "node/node-2 unlabeled"),
        ("delete deployment stays", "deleted"),
    ]);
}
