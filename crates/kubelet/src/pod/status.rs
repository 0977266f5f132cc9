//! The pod status that follows from spec, runtime, probes and the last status. No IO, no clock.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{
        ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
        HostIP, Pod, PodIP, PodSpec, PodStatus,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};

use super::{
    conditions::{self, Stage},
    facts,
    plan::Verdicts,
    qos,
};
use crate::cri::observed::{self, Observed, State};

/// Why containers of a pod wait: name → (reason, message).
pub(crate) type Reasons = BTreeMap<String, (String, String)>;

/// All that a status depends on.
pub(crate) struct Known<'a> {
    pub(crate) pod: &'a Pod,
    /// The last status reported, or the API server's at first.
    pub(crate) old: Option<&'a PodStatus>,
    pub(crate) observed: &'a Observed,
    pub(crate) verdicts: &'a Verdicts,
    pub(crate) reasons: &'a Reasons,
    pub(crate) stage: Stage,
    pub(crate) host_ips: &'a [String],
    /// `containerd`, as in `containerd://…`.
    pub(crate) runtime: &'a str,
    /// A reason and message the kubelet itself gives for the whole pod, with phase Failed (rejected, evicted).
    pub(crate) refused: Option<(&'a str, &'a str)>,
    pub(crate) now: Timestamp,
}

/// Computes the status.
pub(crate) fn status(known: &Known<'_>) -> PodStatus {
    let Some(spec) = known.pod.spec.as_ref() else { return PodStatus::default() };
    let old = known.old;
    let inits = spec.init_containers.as_deref().unwrap_or_default();
    let waiting_for_init = !inits.is_empty();
    let list = |containers: &[k8s_openapi::api::core::v1::Container], init: bool| -> Vec<ContainerStatus> {
        containers.iter().map(|c| container_status(known, spec, c, init, waiting_for_init)).collect()
    };
    let (init_statuses, statuses) = (list(inits, true), list(&spec.containers, false));
    let phase = match known.refused {
        Some(_) => "Failed",
        None => phase(known, spec, &init_statuses, &statuses),
    };
    let mut status = PodStatus {
        phase: Some(phase.to_owned()),
        reason: known.refused.map(|(reason, _)| reason.to_owned()),
        message: known.refused.map(|(_, message)| message.to_owned()),
        host_ip: known.host_ips.first().cloned(),
        host_ips: (!known.host_ips.is_empty())
            .then(|| known.host_ips.iter().map(|ip| HostIP { ip: ip.clone() }).collect()),
        start_time: old.and_then(|s| s.start_time.clone()).or(Some(Time(known.now))),
        qos_class: Some(old.and_then(|s| s.qos_class.clone()).unwrap_or_else(|| qos::class(spec).to_owned())),
        observed_generation: known.pod.metadata.generation,
        ..Default::default()
    };
    set_ips(known, &mut status);
    let gates = spec.readiness_gates.as_deref().unwrap_or_default();
    status.conditions = Some(conditions::all(&conditions::Input {
        phase,
        sandbox_ready: known.observed.usable_sandbox().is_some(),
        inits: (inits, &init_statuses),
        mains: (&spec.containers, &statuses),
        gates,
        old: old.and_then(|s| s.conditions.as_deref()).unwrap_or_default(),
        reported: known.pod.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default(),
        generation: known.pod.metadata.generation,
        now: known.now,
    }));
    status.init_container_statuses = (!init_statuses.is_empty()).then_some(init_statuses);
    status.container_statuses = (known.refused.is_none()).then_some(statuses);
    status
}

/// Addresses come from the sandbox in use, or the node; once it is gone the last ones stay.
fn set_ips(known: &Known<'_>, status: &mut PodStatus) {
    let sandbox = known.observed.sandbox();
    let ips: Vec<String> = match sandbox {
        Some(_) if facts::host_network(known.pod) => known.host_ips.to_vec(),
        Some(sandbox) => sandbox.ips.clone(),
        None => vec![],
    };
    let old = known.old;
    if ips.is_empty() {
        status.pod_ip = old.and_then(|s| s.pod_ip.clone());
        status.pod_ips = old.and_then(|s| s.pod_ips.clone());
    } else {
        status.pod_ip = ips.first().cloned();
        status.pod_ips = Some(ips.into_iter().map(|ip| PodIP { ip }).collect());
    }
}

fn container_status(
    known: &Known<'_>,
    spec: &PodSpec,
    container: &k8s_openapi::api::core::v1::Container,
    init: bool,
    waiting_for_init: bool,
) -> ContainerStatus {
    let name = &container.name;
    let mut history = known.observed.containers.iter().filter(|c| &c.name == name);
    let newest = history.next();
    let before = history.find(|c| c.state == State::Exited);
    let mut status = ContainerStatus {
        name: name.clone(),
        image: container.image.clone().unwrap_or_default(),
        last_state: Some(before.map(|c| state(known, c)).unwrap_or_default()),
        ..Default::default()
    };
    match newest {
        Some(seen) => fill(known, &mut status, seen, init && !facts::is_sidecar(container)),
        None => absent(known, &mut status, waiting_for_init),
    }
    apply_reason(known, spec, container, newest, &mut status);
    if known.stage == Stage::Terminated && status.state.as_ref().is_some_and(|s| s.terminated.is_none()) {
        gone(&mut status, newest.is_some());
    }
    status
}

/// A container the runtime knows; one that must end first (`one_shot`) is ready once it has.
fn fill(known: &Known<'_>, status: &mut ContainerStatus, seen: &observed::Container, one_shot: bool) {
    let ready = known.verdicts.ready.contains(&seen.id);
    status.state = Some(state(known, seen));
    status.restart_count = seen.notes.restart_count;
    status.container_id = Some(id(known, seen));
    status.image_id = seen.image_id.clone();
    if !seen.image.is_empty() && !seen.image.starts_with("sha256:") {
        status.image.clone_from(&seen.image);
    }
    status.ready = if one_shot {
        seen.state == State::Exited && seen.exit_code == 0
    } else {
        seen.state == State::Running && ready
    };
    status.started = Some(seen.state == State::Running && known.verdicts.started.contains(&seen.id));
}

/// A container never made, or one whose traces are lost: the last status tells what is still known.
fn absent(known: &Known<'_>, status: &mut ContainerStatus, waiting_for_init: bool) {
    let reason = if waiting_for_init { "PodInitializing" } else { "ContainerCreating" };
    status.state = Some(waiting(reason, None));
    status.started = Some(false);
    let old = known.old;
    let lists = old.map(|s| [&s.init_container_statuses, &s.container_statuses]);
    let reported = lists.into_iter().flatten().flatten().flatten().find(|c| c.name == status.name);
    if let Some(reported) = reported {
        status.restart_count = reported.restart_count;
        let ended = reported.state.as_ref().is_some_and(|s| s.terminated.is_some());
        if ended && (known.stage == Stage::Terminated || facts::is_terminal(known.pod)) {
            *status = reported.clone();
        } else if ended {
            status.last_state = reported.state.clone();
        }
    }
}

/// A container that will start again waits, and its end moves to the last state.
fn apply_reason(
    known: &Known<'_>,
    spec: &PodSpec,
    container: &k8s_openapi::api::core::v1::Container,
    newest: Option<&observed::Container>,
    status: &mut ContainerStatus,
) {
    let restarts = match newest {
        None => true,
        Some(c) if c.state == State::Running => false,
        Some(c) if c.state == State::Exited => {
            facts::is_sidecar(container) || facts::restarts(spec).after(c.exit_code)
        }
        Some(_) => true,
    };
    let Some((reason, message)) = known.reasons.get(&container.name).filter(|_| restarts) else { return };
    if status.state.as_ref().is_some_and(|s| s.terminated.is_some()) {
        status.last_state = status.state.take();
    }
    status.state = Some(waiting(reason, Some(message.clone()).filter(|m| !m.is_empty())));
}

/// The pod is over and nobody can say how this container ended.
fn gone(status: &mut ContainerStatus, existed: bool) {
    let message = if existed {
        "The container could not be located when the pod was terminated"
    } else {
        "The container could not be located when the pod was deleted.  The container used to be Running"
    };
    if !existed && status.restart_count == 0 && status.container_id.is_none() {
        return;
    }
    status.state = Some(ContainerState {
        terminated: Some(ContainerStateTerminated {
            exit_code: 137,
            reason: Some("ContainerStatusUnknown".into()),
            message: Some(message.into()),
            ..Default::default()
        }),
        ..Default::default()
    });
    status.ready = false;
    status.started = Some(false);
}

fn id(known: &Known<'_>, seen: &observed::Container) -> String {
    format!("{}://{}", known.runtime, seen.id)
}

fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    ContainerState {
        waiting: Some(ContainerStateWaiting { reason: Some(reason.to_owned()), message }),
        ..Default::default()
    }
}

fn state(known: &Known<'_>, seen: &observed::Container) -> ContainerState {
    match seen.state {
        State::Created => waiting("ContainerCreating", None),
        State::Running => ContainerState {
            running: Some(ContainerStateRunning { started_at: seen.started_at.map(Time) }),
            ..Default::default()
        },
        State::Exited => ContainerState {
            terminated: Some(ContainerStateTerminated {
                exit_code: seen.exit_code,
                reason: Some(end_reason(seen)),
                message: Some(seen.message.clone()).filter(|m| !m.is_empty()),
                started_at: seen.started_at.or(seen.finished_at).map(Time),
                finished_at: seen.finished_at.map(Time),
                container_id: Some(id(known, seen)),
                signal: None,
            }),
            ..Default::default()
        },
        State::Unknown => ContainerState {
            terminated: Some(ContainerStateTerminated {
                exit_code: 137,
                reason: Some("ContainerStatusUnknown".into()),
                message: Some("The container could not be located when the pod was terminated".into()),
                container_id: Some(id(known, seen)),
                ..Default::default()
            }),
            ..Default::default()
        },
    }
}

fn end_reason(seen: &observed::Container) -> String {
    match (seen.reason.as_str(), seen.exit_code) {
        ("", 0) => "Completed".into(),
        ("", _) => "Error".into(),
        (reason, _) => reason.to_owned(),
    }
}

/// How many containers are in which state, as upstream's `getPhase` counts them.
#[derive(Default)]
struct Count {
    waiting: usize,
    running: usize,
    stopped: usize,
    succeeded: usize,
}

fn count(statuses: &[ContainerStatus]) -> Count {
    let mut count = Count::default();
    for status in statuses {
        let state = status.state.as_ref();
        let ended_before = status.last_state.as_ref().is_some_and(|s| s.terminated.is_some());
        if state.is_some_and(|s| s.running.is_some()) {
            count.running += 1;
        } else if let Some(end) = state.and_then(|s| s.terminated.as_ref()) {
            count.stopped += 1;
            count.succeeded += usize::from(end.exit_code == 0);
        } else if ended_before {
            count.stopped += 1;
        } else {
            count.waiting += 1;
        }
    }
    count
}

fn phase(known: &Known<'_>, spec: &PodSpec, inits: &[ContainerStatus], mains: &[ContainerStatus]) -> &'static str {
    if let Some(phase) = known.old.and_then(|s| s.phase.as_deref()) {
        match phase {
            "Failed" => return "Failed",
            "Succeeded" => return "Succeeded",
            _ => {}
        }
    }
    let policy = facts::restarts(spec);
    let one_shot = |status: &ContainerStatus| {
        let specs = spec.init_containers.as_deref().unwrap_or_default();
        !specs.iter().any(|c| c.name == status.name && facts::is_sidecar(c))
    };
    let exit = |s: &ContainerStatus| s.state.as_ref().and_then(|s| s.terminated.as_ref()).map(|t| t.exit_code);
    let mains_begun = mains.iter().any(|s| s.container_id.is_some());
    let init_failed = inits.iter().filter(|s| one_shot(s)).any(|s| exit(s).is_some_and(|code| code != 0));
    let init_pending = !mains_begun && inits.iter().filter(|s| one_shot(s)).any(|s| exit(s) != Some(0));
    let sidecars_left = inits.iter().filter(|s| !one_shot(s)).any(|s| s.state.as_ref().is_some_and(|s| s.running.is_some()));
    let count = count(mains);
    if init_failed && policy == facts::Restart::Never {
        "Failed"
    } else if init_pending || count.waiting > 0 {
        if known.stage == Stage::Terminated { "Failed" } else { "Pending" }
    } else if count.running > 0 || policy == facts::Restart::Always && known.stage != Stage::Terminated {
        "Running"
    } else if count.stopped == count.succeeded {
        if sidecars_left && known.stage == Stage::Running && policy == facts::Restart::Always { "Running" } else { "Succeeded" }
    } else if policy == facts::Restart::Never || known.stage == Stage::Terminated {
        "Failed"
    } else {
        "Running"
    }
}


#[cfg(test)]
mod tests;
