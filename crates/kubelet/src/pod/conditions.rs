//! The conditions of a pod the kubelet owns, with upstream's reasons and messages.

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Container, ContainerStatus, PodCondition, PodReadinessGate},
    apimachinery::pkg::apis::meta::v1::Time,
};

use super::facts;

/// Where the pod is in its worker's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It shall run.
    Running,
    /// Its containers are being stopped.
    Stopping,
    /// Nothing of it runs any more.
    Terminated,
}

/// All that the conditions depend on.
pub(crate) struct Input<'a> {
    pub(crate) phase: &'a str,
    pub(crate) sandbox_ready: bool,
    pub(crate) inits: (&'a [Container], &'a [ContainerStatus]),
    pub(crate) mains: (&'a [Container], &'a [ContainerStatus]),
    pub(crate) gates: &'a [PodReadinessGate],
    /// The kubelet's own last conditions.
    pub(crate) old: &'a [PodCondition],
    /// The API server's conditions, which hold the readiness gates others set.
    pub(crate) reported: &'a [PodCondition],
    pub(crate) generation: Option<i64>,
    pub(crate) now: Timestamp,
}

/// True, or false with reason and message.
type Verdict = Result<(), (&'static str, String)>;

/// The kubelet's conditions, in upstream's order.
pub(crate) fn all(input: &Input<'_>) -> Vec<PodCondition> {
    let sandbox = if input.sandbox_ready { Ok(()) } else { Err(("", String::new())) };
    let containers = containers_ready(input);
    let ready = ready(input, &containers);
    [
        ("PodReadyToStartContainers", sandbox, ""),
        ("Initialized", initialized(input), done_reason(input)),
        ("Ready", ready, ""),
        ("ContainersReady", containers, ""),
        ("PodScheduled", Ok(()), ""),
    ]
    .into_iter()
    .map(|(kind, verdict, reason)| condition(input, kind, verdict, reason))
    .collect()
}

fn done_reason(input: &Input<'_>) -> &'static str {
    if input.phase == "Succeeded" { "PodCompleted" } else { "" }
}

fn condition(input: &Input<'_>, kind: &str, verdict: Verdict, ok_reason: &str) -> PodCondition {
    let old = input.old.iter().find(|c| c.type_ == kind);
    let (status, reason, message) = match verdict {
        Ok(()) => ("True", ok_reason.to_owned(), String::new()),
        Err((reason, message)) => ("False", reason.to_owned(), message),
    };
    let since = old.filter(|c| c.status == status).and_then(|c| c.last_transition_time.clone());
    PodCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: Some(reason).filter(|r| !r.is_empty()),
        message: Some(message).filter(|m| !m.is_empty()),
        last_transition_time: Some(since.unwrap_or(Time(input.now))),
        last_probe_time: None,
        observed_generation: input.generation,
    }
}

fn is_initialized(container: &Container, status: &ContainerStatus) -> bool {
    if facts::is_sidecar(container) { status.started == Some(true) } else { status.ready }
}

fn initialized(input: &Input<'_>) -> Verdict {
    if input.phase == "Succeeded" || input.mains.1.iter().any(|s| s.container_id.is_some()) {
        return Ok(());
    }
    let open: Vec<&str> = pairs(input.inits).filter(|(c, s)| !is_initialized(c, s)).map(|(c, _)| c.name.as_str()).collect();
    if open.is_empty() {
        return Ok(());
    }
    Err(("ContainersNotInitialized", format!("containers with incomplete status: [{}]", open.join(" "))))
}

fn pairs<'a>(lists: (&'a [Container], &'a [ContainerStatus])) -> impl Iterator<Item = (&'a Container, &'a ContainerStatus)> {
    lists.0.iter().zip(lists.1)
}

fn containers_ready(input: &Input<'_>) -> Verdict {
    match input.phase {
        "Succeeded" => return Err(("PodCompleted", String::new())),
        "Failed" => return Err(("PodFailed", String::new())),
        _ => {}
    }
    let sidecars = pairs(input.inits).filter(|(c, _)| facts::is_sidecar(c));
    let unready: Vec<&str> = sidecars.chain(pairs(input.mains)).filter(|(_, s)| !s.ready).map(|(c, _)| c.name.as_str()).collect();
    if unready.is_empty() && !input.mains.1.is_empty() {
        return Ok(());
    }
    Err(("ContainersNotReady", format!("containers with unready status: [{}]", unready.join(" "))))
}

fn ready(input: &Input<'_>, containers: &Verdict) -> Verdict {
    containers.clone()?;
    let gate = |gate: &PodReadinessGate| {
        let kind = &gate.condition_type;
        match input.reported.iter().find(|c| &c.type_ == kind) {
            None => Some(format!("corresponding condition of pod readiness gate \"{kind}\" does not exist.")),
            Some(c) if c.status != "True" => Some(format!("the status of pod readiness gate \"{kind}\" is not \"True\", but {}", c.status)),
            Some(_) => None,
        }
    };
    let open: Vec<String> = input.gates.iter().filter_map(gate).collect();
    if open.is_empty() { Ok(()) } else { Err(("ReadinessGatesNotReady", open.join(", "))) }
}
