//! The pod status that follows from spec, runtime, probes and the last status. No IO, no clock.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{
        ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, HostIP, Pod, PodIP,
        PodSpec, PodStatus, VolumeMount, VolumeMountStatus,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};

use super::{
    conditions::{self, Stage},
    facts, phase,
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
        None => phase::phase(known, spec, &init_statuses, &statuses),
    };
    let mut status = PodStatus {
        phase: Some(phase.to_owned()),
        reason: known.refused.map(|(reason, _)| reason.to_owned()),
        message: known.refused.map(|(_, message)| message.to_owned()),
        host_ip: known.host_ips.first().cloned(),
        host_ips: (!known.host_ips.is_empty()).then(|| known.host_ips.iter().map(|ip| HostIP { ip: ip.clone() }).collect()),
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
    // A pod refused before it began has no containers to tell of.
    let began = known.refused.is_none() || !known.observed.containers.is_empty();
    status.container_statuses = began.then_some(statuses);
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
        volume_mounts: volume_mounts(container),
        ..Default::default()
    };
    if newest.is_some_and(|c| c.state == State::Running) {
        status.resources.clone_from(&container.resources);
        status.allocated_resources = container.resources.as_ref().and_then(|r| r.requests.clone());
    }
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

fn volume_mounts(container: &k8s_openapi::api::core::v1::Container) -> Option<Vec<VolumeMountStatus>> {
    let mounts = container.volume_mounts.as_ref().filter(|mounts| !mounts.is_empty())?;
    let status = |mount: &VolumeMount| VolumeMountStatus {
        name: mount.name.clone(),
        mount_path: mount.mount_path.clone(),
        read_only: mount.read_only,
        recursive_read_only: (mount.read_only == Some(true)).then(|| "Disabled".to_owned()),
        volume_status: None,
    };
    Some(mounts.iter().map(status).collect())
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
    status.ready = if one_shot { seen.state == State::Exited && seen.exit_code == 0 } else { seen.state == State::Running && ready };
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
        Some(c) if c.state == State::Exited => facts::is_sidecar(container) || facts::restarts(spec).after(c.exit_code),
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
    ContainerState { waiting: Some(ContainerStateWaiting { reason: Some(reason.to_owned()), message }), ..Default::default() }
}

fn state(known: &Known<'_>, seen: &observed::Container) -> ContainerState {
    match seen.state {
        State::Created => waiting("ContainerCreating", None),
        State::Running => {
            ContainerState { running: Some(ContainerStateRunning { started_at: seen.started_at.map(Time) }), ..Default::default() }
        }
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

#[cfg(test)]
mod tests;
