//! The phase of a pod, from its containers; as upstream's `getPhase`.

use k8s_openapi::api::core::v1::{ContainerStatus, PodSpec};

use super::{conditions::Stage, facts, status::Known};

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

/// The phase; one that is final stays.
pub(super) fn phase(known: &Known<'_>, spec: &PodSpec, inits: &[ContainerStatus], mains: &[ContainerStatus]) -> &'static str {
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
