//! What to do next for one pod: spec, observed runtime and probe results in, actions out. No IO, no clock.
//!
//! The order is upstream's `computePodActions`: sandbox first, then init containers one by one, then the others;
//! a container that must go is stopped before its successor starts.

use std::collections::HashSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use super::{backoff::Backoff, facts};
use crate::cri::{
    labels,
    observed::{self, Observed, State},
};

/// Verdicts of the probes, by container id.
#[derive(Debug, Clone, Default)]
pub(crate) struct Verdicts {
    /// Liveness probes over their failure threshold.
    pub(crate) dead: HashSet<String>,
    /// Startup probes over their failure threshold.
    pub(crate) never_started: HashSet<String>,
    /// Containers whose startup probe has succeeded, or that have none and run.
    pub(crate) started: HashSet<String>,
    /// Containers that are ready for traffic.
    pub(crate) ready: HashSet<String>,
}

/// All that a plan depends on.
pub(crate) struct View<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) observed: &'a Observed,
    pub(crate) verdicts: &'a Verdicts,
    pub(crate) backoff: &'a Backoff,
    pub(crate) now: Timestamp,
}

/// Which of the pod's containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    Init(usize),
    Main(usize),
}

/// One step, to be done in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Stop all containers and all sandboxes.
    StopPod,
    /// Create a sandbox.
    CreateSandbox { attempt: u32 },
    /// Stop one container because of `why`.
    Stop { id: String, name: String, why: String },
    /// Create and start a container in the newest sandbox.
    Start { which: Which, restart_count: i32 },
}

/// A container that waits for its back-off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) name: String,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// The steps, who waits, and when to look again without any news.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) actions: Vec<Action>,
    pub(crate) waiting: Vec<Waiting>,
    pub(crate) look_again: Option<Timestamp>,
}

/// The container a [`Which`] names.
pub(crate) fn container(spec: &PodSpec, which: Which) -> Option<&Container> {
    match which {
        Which::Init(index) => spec.init_containers.as_ref()?.get(index),
        Which::Main(index) => spec.containers.get(index),
    }
}

/// Key under which a container's restarts are counted; another image starts from zero.
pub(crate) fn backoff_key(pod: &Pod, container: &Container) -> String {
    format!("{}_{}_{}", facts::uid(pod), container.name, labels::hash(container))
}

/// Plans the next steps of a pod that is not being deleted.
pub(crate) fn plan(view: &View<'_>) -> Plan {
    let Some(spec) = view.pod.spec.as_ref() else { return Plan::default() };
    let mut plan = Plan::default();
    if view.observed.usable_sandbox().is_none() {
        replace_sandbox(view, spec, &mut plan);
        return plan;
    }
    if !init_step(view, spec, &mut plan) {
        return plan;
    }
    let kept = main_step(view, spec, &mut plan);
    if kept == 0 && plan.actions.is_empty() && plan.waiting.is_empty() {
        plan.actions.push(Action::StopPod);
    }
    plan
}

/// No sandbox to work in: stop what is left of the old one and begin anew, unless the pod has run its course.
fn replace_sandbox(view: &View<'_>, spec: &PodSpec, plan: &mut Plan) {
    let old = view.observed.sandbox();
    let attempt = old.map_or(0, |s| s.attempt + 1);
    let left = old.is_some_and(|s| s.ready) || view.observed.running().next().is_some();
    if left {
        plan.actions.push(Action::StopPod);
    }
    let ran = !view.observed.containers.is_empty();
    if facts::restarts(spec) == facts::Restart::Never && attempt != 0 && ran {
        return;
    }
    let pending: Vec<usize> = (0..spec.containers.len())
        .filter(|&i| {
            let newest = view.observed.newest(&spec.containers[i].name);
            !newest.is_some_and(|c| c.state == State::Exited && !facts::restarts(spec).after(c.exit_code))
        })
        .collect();
    if pending.is_empty() {
        return;
    }
    plan.actions.push(Action::CreateSandbox { attempt });
    if spec.init_containers.as_ref().is_some_and(|inits| !inits.is_empty()) {
        start(view, spec, Which::Init(0), plan);
    } else {
        for index in pending {
            start(view, spec, Which::Main(index), plan);
        }
    }
}

/// Moves the init containers on; true when the main containers may run.
fn init_step(view: &View<'_>, spec: &PodSpec, plan: &mut Plan) -> bool {
    let inits = spec.init_containers.as_deref().unwrap_or_default();
    // The runtime may have dropped finished init containers: a main container in this sandbox proves that they are done.
    let done = spec.containers.iter().any(|c| in_sandbox(view, &c.name).is_some());
    for (index, init) in inits.iter().enumerate() {
        let which = Which::Init(index);
        let newest = in_sandbox(view, &init.name);
        let going_on = if facts::is_sidecar(init) {
            sidecar(view, spec, which, init, newest, plan) || done
        } else {
            done || one_shot(view, spec, which, newest, plan)
        };
        if !going_on {
            return false;
        }
    }
    true
}

/// The newest container of that name, if it belongs to the sandbox in use.
fn in_sandbox<'a>(view: &View<'a>, name: &str) -> Option<&'a observed::Container> {
    let sandbox = view.observed.usable_sandbox()?;
    view.observed.newest(name).filter(|c| c.sandbox_id == sandbox.id)
}

/// An init container that must exit 0; true when it has.
fn one_shot(view: &View<'_>, spec: &PodSpec, which: Which, newest: Option<&observed::Container>, plan: &mut Plan) -> bool {
    match newest {
        Some(c) if c.state == State::Running => false,
        Some(c) if c.state == State::Exited && c.exit_code == 0 => true,
        Some(c) if c.state == State::Exited && facts::restarts(spec) == facts::Restart::Never => {
            if plan.actions.is_empty() {
                plan.actions.push(Action::StopPod);
            }
            false
        }
        _ => {
            start(view, spec, which, plan);
            false
        }
    }
}

/// A restartable init container; true once it is up, so that the next one may start.
fn sidecar(view: &View<'_>, spec: &PodSpec, which: Which, init: &Container, newest: Option<&observed::Container>, plan: &mut Plan) -> bool {
    match newest {
        Some(c) if c.state == State::Running => {
            if let Some(why) = must_stop(view, init, c) {
                plan.actions.push(stop(c, format!("{why}, will be restarted")));
                start(view, spec, which, plan);
                return false;
            }
            view.verdicts.started.contains(&c.id)
        }
        _ => {
            start(view, spec, which, plan);
            false
        }
    }
}

/// Starts, keeps or replaces the main containers; returns how many are kept running.
fn main_step(view: &View<'_>, spec: &PodSpec, plan: &mut Plan) -> usize {
    let policy = facts::restarts(spec);
    let mut kept = 0;
    for (index, container) in spec.containers.iter().enumerate() {
        let which = Which::Main(index);
        match view.observed.newest(&container.name) {
            Some(c) if c.state == State::Running => match must_stop(view, container, c) {
                None => kept += 1,
                Some(why) => {
                    let changed = c.notes.hash != labels::hash(container);
                    let again = changed || policy != facts::Restart::Never;
                    plan.actions.push(stop(c, if again { format!("{why}, will be restarted") } else { why }));
                    if again {
                        start(view, spec, which, plan);
                    }
                }
            },
            Some(c) if c.state == State::Exited && !policy.after(c.exit_code) => {}
            _ => start(view, spec, which, plan),
        }
    }
    kept
}

/// Why a running container cannot stay, in upstream's words.
fn must_stop(view: &View<'_>, spec: &Container, running: &observed::Container) -> Option<String> {
    let name = &spec.name;
    if running.notes.hash != labels::hash(spec) {
        Some(format!("Container {name} definition changed"))
    } else if view.verdicts.dead.contains(&running.id) {
        Some(format!("Container {name} failed liveness probe"))
    } else if view.verdicts.never_started.contains(&running.id) {
        Some(format!("Container {name} failed startup probe"))
    } else {
        None
    }
}

fn stop(container: &observed::Container, why: String) -> Action {
    Action::Stop { id: container.id.clone(), name: container.name.clone(), why }
}

/// Adds the start of a container, or its wait for the back-off.
fn start(view: &View<'_>, spec: &PodSpec, which: Which, plan: &mut Plan) {
    let Some(container) = container(spec, which) else { return };
    let newest = view.observed.newest(&container.name);
    let ended = view.observed.last_exit(&container.name);
    let blocked = ended.and_then(|at| view.backoff.blocked(&backoff_key(view.pod, container), at, view.now));
    if let Some((until, delay)) = blocked {
        plan.look_again = Some(plan.look_again.map_or(until, |other| other.min(until)));
        plan.waiting.push(Waiting {
            name: container.name.clone(),
            reason: "CrashLoopBackOff",
            message: format!(
                "back-off {} restarting failed container={} pod={}",
                crate::text::duration(delay),
                container.name,
                facts::full_name(view.pod)
            ),
        });
        return;
    }
    let restart_count = newest.map_or_else(|| facts::reported_restarts(view.pod, &container.name), |c| c.notes.restart_count + 1);
    plan.actions.push(Action::Start { which, restart_count });
}

#[cfg(test)]
mod tests;
