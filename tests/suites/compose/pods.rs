//! Looking at pods: as the API server knows them, and as containers on their nodes.

use std::collections::BTreeMap;

use serde_json::Value;
use tests::Compose;

/// An image of `deploy/images/make`: an HTTP server that answers on /healthz.
pub(crate) const IMAGE: &str = "quarterdeck/storefront-api:1.0";

/// The manifest of a Deployment of HTTP servers. `template` lines go into the pods' spec, `strategy` lines into the Deployment's.
pub(crate) fn deployment(name: &str, replicas: usize, strategy: &str, template: &str) -> String {
    format!(
        r#"
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  {strategy}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      terminationGracePeriodSeconds: 5
      {template}
      containers:
      - name: server
        image: {IMAGE}
        readinessProbe: {{httpGet: {{path: /healthz, port: 8080}}, periodSeconds: 1}}
        livenessProbe: {{httpGet: {{path: /healthz, port: 8080}}, periodSeconds: 5, timeoutSeconds: 5}}
        resources: {{requests: {{cpu: 50m, memory: 16Mi}}}}
"#
    )
}

/// The pods of an app.
pub(crate) fn of(cluster: &Compose, app: &str) -> Result<Vec<Value>, String> {
    cluster.list(&["pods", "-l", &format!("app={app}")])
}

/// The pods of an app, once all of them are ready and as many as they should be.
pub(crate) fn all_ready(cluster: &Compose, app: &str, count: usize) -> Result<Vec<Value>, String> {
    let pods = of(cluster, app)?;
    if pods.len() == count && pods.iter().all(is_ready) { Ok(pods) } else { Err(summary(&pods)) }
}

/// Whether a pod serves.
pub(crate) fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    !is_terminating(pod) && conditions.is_some_and(|list| list.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
}

/// Whether a pod is on its way out.
pub(crate) fn is_terminating(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_null()
}

/// The node a pod is on; empty when on none.
pub(crate) fn node(pod: &Value) -> &str {
    pod["spec"]["nodeName"].as_str().unwrap_or_default()
}

/// UID of an object.
pub(crate) fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// The containers of pods, by the pods' UIDs: ID and restarts.
pub(crate) fn containers(pods: &[Value]) -> BTreeMap<String, String> {
    let container = |pod: &Value| {
        let status = &pod["status"]["containerStatuses"][0];
        format!("{} restarted {} times", status["containerID"], status["restartCount"])
    };
    pods.iter().map(|pod| (uid(pod), container(pod))).collect()
}

/// For people: what is the matter with pods.
pub(crate) fn summary(pods: &[Value]) -> String {
    let line = |pod: &Value| {
        let state = if is_terminating(pod) {
            "terminating"
        } else if is_ready(pod) {
            "ready"
        } else {
            "not ready"
        };
        format!("{} on {:?} {state} {}", pod["metadata"]["name"].as_str().unwrap_or_default(), node(pod), pod["status"]["phase"])
    };
    pods.iter().map(line).collect::<Vec<_>>().join("; ")
}

/// Whether a node runs exactly the containers of the pods that are bound to it: one each, and its sandbox.
pub(crate) fn runs_no_others(cluster: &Compose, name: &str) -> Result<(), String> {
    let pods = cluster.list(&["pods", "-A", "--field-selector", &format!("spec.nodeName={name},status.phase=Running")])?;
    let wanted: usize = pods.iter().map(|pod| pod["spec"]["containers"].as_array().unwrap().len() + 1).sum();
    let tasks = cluster.exec(name, &["ctr", "-n", "k8s.io", "tasks", "ls"]);
    let running = tasks.out.lines().filter(|line| line.contains("RUNNING")).count();
    if running == wanted { Ok(()) } else { Err(format!("{wanted} containers should run on {name}: {}{}", tasks.out, tasks.err)) }
}
