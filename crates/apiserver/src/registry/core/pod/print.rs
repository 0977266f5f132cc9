//! What `kubectl get pods` shows.

use std::cmp::max;

use apimachinery::{Object, time};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::registry::{
    Column,
    check::At,
    print::{age, or_none},
};

/// What is not looked at here: the most of a pod.
pub(crate) const UNPRINTED: [&str; 18] = [
    "affinity",
    "annotations",
    "args",
    "command",
    "env",
    "envFrom",
    "labels",
    "lifecycle",
    "livenessProbe",
    "managedFields",
    "ownerReferences",
    "ports",
    "readinessProbe",
    "resources",
    "securityContext",
    "tolerations",
    "volumeMounts",
    "volumes",
];

/// The columns of pods.
pub(crate) fn columns() -> Vec<Column> {
    vec![
        Column::object_name("Name of the pod."),
        Column::new("Ready", "string", "Ready containers of all containers."),
        Column::new("Status", "string", "The phase, or why the pod is not running."),
        Column::new("Restarts", "string", "Restarts of the containers, and when the last one was."),
        Column::new("Age", "string", "Time since creation."),
        Column::wide("IP", "string", "The pod's address."),
        Column::wide("Node", "string", "The node the pod is bound to."),
        Column::wide("Nominated Node", "string", "The node preemption is making room on."),
        Column::wide("Readiness Gates", "string", "Fulfilled readiness gates of all gates."),
    ]
}

/// Tells clients that hide finished pods.
pub(crate) fn conditions(obj: &Object) -> Vec<Value> {
    let (reason, message) = match obj.str_at("/status/phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return Vec::new(),
    };
    vec![json!({"type": "Completed", "status": "True", "reason": reason, "message": message})]
}

/// The cells of one pod.
pub(crate) fn cells(obj: &Object, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (At::field(obj, "spec"), At::field(obj, "status"));
    let summary = Summary::of(obj, &spec, &status);
    let gates = spec.get("readinessGates");
    vec![
        Value::from(obj.name()),
        Value::from(format!("{}/{}", summary.ready, summary.total)),
        Value::from(summary.reason.clone()),
        Value::from(summary.restarts_text(now)),
        age(obj, now),
        or_none(status.get("podIP").str()),
        or_none(spec.get("nodeName").str()),
        or_none(status.get("nominatedNodeName").str()),
        or_none(&readiness(&gates, &status)),
    ]
}

fn readiness(gates: &At<'_>, status: &At<'_>) -> String {
    if gates.size() == 0 {
        return String::new();
    }
    let met = gates.items().iter().filter(|gate| has_condition(status, gate.get("conditionType").str())).count();
    format!("{met}/{}", gates.size())
}

fn has_condition(status: &At<'_>, kind: &str) -> bool {
    let is = |c: &At<'_>| c.get("type").str() == kind && c.get("status").str() == "True";
    status.get("conditions").items().iter().any(is)
}

/// What the container statuses amount to.
struct Summary {
    ready: usize,
    total: usize,
    reason: String,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

/// Restarts of some containers and the end of the last run before a restart.
#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, container: &At<'_>) {
        self.count += container.get("restartCount").int().unwrap_or(0);
        let ended = container.get("lastState").get("terminated").get("finishedAt");
        self.last = max(self.last, time::parse_rfc3339(ended.str()));
    }
}

impl Summary {
    fn of(obj: &Object, spec: &At<'_>, status: &At<'_>) -> Self {
        let sidecars = spec.get("initContainers").items().iter().filter(|c| is_sidecar(c)).count();
        let total = spec.get("containers").size() + sidecars;
        let mut summary = Self { ready: 0, total, reason: first_reason(status), restarts: 0, last_restart: None };
        let (all, of_sidecars, initializing) = summary.init_containers(spec, status);
        let mut restarts = all;
        if !initializing || has_condition(status, "Initialized") {
            restarts = of_sidecars;
            summary.main_containers(status, &mut restarts);
        }
        summary.restarts = restarts.count;
        summary.last_restart = restarts.last;
        summary.deletion(obj, status);
        summary
    }

    /// Restarts of all init containers, of the sidecars among them, and whether initialization is still going on.
    fn init_containers(&mut self, spec: &At<'_>, status: &At<'_>) -> (Restarts, Restarts, bool) {
        let (mut all, mut sidecars) = (Restarts::default(), Restarts::default());
        let declared = spec.get("initContainers");
        for (index, container) in status.get("initContainerStatuses").items().iter().enumerate() {
            all.add(container);
            let named = |c: &At<'_>| c.get("name").str() == container.get("name").str();
            let sidecar = declared.items().iter().any(|c| named(c) && is_sidecar(c));
            if sidecar {
                sidecars.add(container);
            }
            let ended = container.get("state").get("terminated");
            if ended.is_set() && ended.get("exitCode").int().unwrap_or(0) == 0 {
                continue;
            }
            if sidecar && container.get("started").is_true() {
                self.ready += usize::from(container.get("ready").is_true());
                continue;
            }
            self.reason = init_reason(container, index, declared.size());
            return (all, sidecars, true);
        }
        (all, sidecars, false)
    }

    fn main_containers(&mut self, status: &At<'_>, restarts: &mut Restarts) {
        let mut running = false;
        for container in status.get("containerStatuses").items().iter().rev() {
            restarts.add(container);
            let (waiting, ended) = (container.get("state").get("waiting"), container.get("state").get("terminated"));
            if !waiting.get("reason").is_empty() {
                self.reason = waiting.get("reason").str().to_owned();
            } else if ended.is_set() {
                self.reason = end_reason(&ended, "");
            } else if container.get("ready").is_true() && container.get("state").get("running").is_set() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" && running {
            self.reason = if has_condition(status, "Ready") { "Running" } else { "NotReady" }.to_owned();
        }
    }

    fn deletion(&mut self, obj: &Object, status: &At<'_>) {
        if obj.deletion_timestamp().is_none() {
            return;
        }
        let over = ["Failed", "Succeeded"].contains(&status.get("phase").str());
        if status.get("reason").str() == "NodeLost" {
            self.reason = "Unknown".into();
        } else if !over {
            self.reason = "Terminating".into();
        }
    }

    fn restarts_text(&self, now: Timestamp) -> String {
        match self.last_restart {
            Some(last) if self.restarts != 0 => format!("{} ({} ago)", self.restarts, time::age(Some(last), now)),
            _ => self.restarts.to_string(),
        }
    }
}

fn is_sidecar(container: &At<'_>) -> bool {
    container.get("restartPolicy").str() == "Always"
}

fn first_reason(status: &At<'_>) -> String {
    let gated = |c: &At<'_>| c.get("type").str() == "PodScheduled" && c.get("reason").str() == "SchedulingGated";
    if status.get("conditions").items().iter().any(gated) {
        return "SchedulingGated".into();
    }
    let reason = status.get("reason").str();
    if reason.is_empty() { status.get("phase").str() } else { reason }.to_owned()
}

fn init_reason(container: &At<'_>, index: usize, total: usize) -> String {
    let (waiting, ended) = (container.get("state").get("waiting"), container.get("state").get("terminated"));
    let reason = waiting.get("reason").str();
    if ended.is_set() {
        end_reason(&ended, "Init:")
    } else if !reason.is_empty() && reason != "PodInitializing" {
        format!("Init:{reason}")
    } else {
        format!("Init:{index}/{total}")
    }
}

fn end_reason(ended: &At<'_>, prefix: &str) -> String {
    let signal = ended.get("signal").int().unwrap_or(0);
    match ended.get("reason").str() {
        "" if signal != 0 => format!("{prefix}Signal:{signal}"),
        "" => format!("{prefix}ExitCode:{}", ended.get("exitCode").int().unwrap_or(0)),
        reason => format!("{prefix}{reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-02T03:04:05Z";

    fn row(spec: Value, status: Value, deleted: bool) -> [String; 3] {
        let mut metadata = json!({"name": "p", "creationTimestamp": "2026-01-02T03:00:05Z"});
        if deleted {
            metadata["deletionTimestamp"] = json!(NOW);
        }
        let obj = Object::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap();
        let cells = cells(&obj, NOW.parse().unwrap());
        [1, 2, 3].map(|i: usize| cells[i].as_str().unwrap().to_owned())
    }

    #[test]
    fn status_and_restarts_read_as_upstreams() {
        let one = json!({"containers": [{"name": "c"}]});
        let init = json!({"containers": [{"name": "c"}], "initContainers": [{"name": "i"}, {"name": "j"}]});
        let sidecar = json!({"containers": [{"name": "c"}], "initContainers": [{"name": "s", "restartPolicy": "Always"}]});
        let restarted = json!({"phase": "Running", "containerStatuses": [{"name": "c", "ready": true, "restartCount": 2,
            "state": {"running": {}}, "lastState": {"terminated": {"finishedAt": "2026-01-02T03:04:00Z"}}}]});
        let waiting = json!({"phase": "Running", "containerStatuses": [{"name": "c", "restartCount": 0,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]});
        let failed_init = json!({"phase": "Pending", "initContainerStatuses": [
            {"name": "i", "restartCount": 1, "state": {"terminated": {"exitCode": 3}}}]});
        let second_init = json!({"phase": "Pending", "initContainerStatuses": [
            {"name": "i", "state": {"terminated": {"exitCode": 0}}}, {"name": "j", "state": {"running": {}}}]});
        let with_sidecar = json!({"phase": "Running", "initContainerStatuses": [
            {"name": "s", "started": true, "ready": true, "state": {"running": {}}}],
            "containerStatuses": [{"name": "c", "ready": true, "state": {"running": {}}}]});
        let done = json!({"phase": "Succeeded", "containerStatuses": [{"name": "c",
            "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]});
        for (spec, status, deleted, expected) in [
            (&one, json!({"phase": "Pending"}), false, ["0/1", "Pending", "0"]),
            (&one, restarted.clone(), false, ["1/1", "Running", "2 (5s ago)"]),
            (&one, restarted, true, ["1/1", "Terminating", "2 (5s ago)"]),
            (&one, waiting, false, ["0/1", "CrashLoopBackOff", "0"]),
            (&one, json!({"phase": "Failed", "reason": "Evicted"}), false, ["0/1", "Evicted", "0"]),
            (&one, done, false, ["0/1", "Completed", "0"]),
            (&init, failed_init, false, ["0/1", "Init:ExitCode:3", "1"]),
            (&init, second_init, false, ["0/1", "Init:1/2", "0"]),
            (&sidecar, with_sidecar, false, ["2/2", "Running", "0"]),
        ] {
            assert_eq!(row(spec.clone(), status.clone(), deleted), expected, "{status}");
        }
    }
}
