//! What is deleted while a node is down, and what a finalizer holds.

use std::time::Duration;

use serde_json::Value;
use tests::{Compose, within};

use crate::pods;

const DOWN: &str = "node-2";
const LIMIT: Duration = Duration::from_secs(60);

/// A finalizer that nobody serves.
const HELD: &str = "test.quarterdeck.io/held";

pub(crate) fn what_was_deleted_while_a_node_was_down_goes_when_it_returns() {
    let cluster = Compose::up();
    for app in ["background", "foreground"] {
        cluster.apply(&pods::deployment(app, 4, "", ""));
        let ready = within(LIMIT, "all are ready", || pods::all_ready(&cluster, app, 4));
        assert!(ready.iter().any(|pod| pods::node(pod) == DOWN), "none on {DOWN}: {}", pods::summary(&ready));
    }
    cluster.compose(&["kill", DOWN]).ok();
    for app in ["background", "foreground"] {
        cluster.kubectl(&["delete", "deployment", app, &format!("--cascade={app}"), "--wait=false"]).ok();
    }
    a_stuck_finalizer_keeps_its_object_until_it_is_removed(&cluster);
    for app in ["background", "foreground"] {
        within(LIMIT, "only the pods of the node that is down are left, terminating", || {
            let left = pods::of(&cluster, app)?;
            let waiting = |pod: &Value| pods::is_terminating(pod) && pods::node(pod) == DOWN;
            if !left.is_empty() && left.iter().all(waiting) { Ok(()) } else { Err(pods::summary(&left)) }
        });
    }
    assert!(cluster.get(&["deployment", "background"]).is_none(), "its dependents go after it");
    let foreground = cluster.get(&["deployment", "foreground"]).expect("its dependents go before it");
    assert!(pods::is_terminating(&foreground), "{foreground}");

    cluster.compose(&["start", DOWN]).ok();
    within(LIMIT, "everything is gone", || {
        let left = cluster.list(&["deployments,replicasets,pods", "-l", "app in (background, foreground)"])?;
        let deployments = cluster.list(&["deployments"])?;
        if left.is_empty() && deployments.is_empty() { Ok(()) } else { Err(format!("{} {deployments:?}", pods::summary(&left))) }
    });
    within(LIMIT, "no container is left", || pods::runs_no_others(&cluster, DOWN));
    cluster.wait_for_nodes();
}

/// An object and the namespace around it wait for whoever put the finalizer there.
fn a_stuck_finalizer_keeps_its_object_until_it_is_removed(cluster: &Compose) {
    cluster.kubectl(&["create", "namespace", "held"]).ok();
    let map =
        format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"held","namespace":"held","finalizers":["{HELD}"]}}}}"#);
    cluster.apply(&map);
    cluster.kubectl(&["delete", "configmap", "held", "-n", "held", "--wait=false"]).ok();
    cluster.kubectl(&["delete", "namespace", "held", "--wait=false"]).ok();
    within(LIMIT, "the namespace says what it waits for", || {
        let namespace = cluster.get(&["namespace", "held"]).unwrap();
        let conditions = namespace["status"]["conditions"].to_string();
        if conditions.contains(&format!("{HELD} in 1 resource instances")) { Ok(()) } else { Err(conditions) }
    });
    let map = cluster.get(&["configmap", "held", "-n", "held"]).expect("held by its finalizer");
    assert!(pods::is_terminating(&map), "{map}");
    let added = r#"{"metadata":{"finalizers":["test.quarterdeck.io/held","test.quarterdeck.io/too-late"]}}"#;
    let refused = cluster.kubectl(&["patch", "configmap", "held", "-n", "held", "--type=merge", "-p", added]);
    assert!(refused.code != 0 && refused.err.contains("no new finalizers can be added if the object is being deleted"), "{refused:?}");
    cluster.kubectl(&["patch", "configmap", "held", "-n", "held", "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#]).ok();
    within(LIMIT, "both are gone", || match cluster.get(&["namespace", "held"]) {
        None => Ok(()),
        Some(namespace) => Err(namespace["status"].to_string()),
    });
}
