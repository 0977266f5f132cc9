//! Startup, liveness and readiness probes of one pod: a task per probe, verdicts for plan and status.

pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod target;
mod task;
mod tracker;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use k8s_openapi::api::core::v1::{Container, Pod, PodStatus, Probe};
use parking_lot::Mutex;
use tokio::{sync::Notify, task::JoinHandle};

use crate::{
    cri::observed::{self, Observed, State},
    node::Node,
    pod::{facts, plan::Verdicts},
};
use task::{Task, first_wait};

/// Which probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Startup,
    Liveness,
    Readiness,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Startup, Self::Liveness, Self::Readiness];

    fn of(self, container: &Container) -> Option<&Probe> {
        match self {
            Self::Startup => container.startup_probe.as_ref(),
            Self::Liveness => container.liveness_probe.as_ref(),
            Self::Readiness => container.readiness_probe.as_ref(),
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
        }
    }
}

/// How one try of a probe ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Success,
    /// The container answered badly, or not at all.
    Failure(String),
    /// The probe itself could not be made.
    Error(String),
}

/// Container id and probe.
type Key = (String, Kind);

/// The probes of one pod.
pub(crate) struct Probes {
    node: Arc<Node>,
    news: Arc<Notify>,
    tasks: HashMap<Key, JoinHandle<()>>,
    results: Arc<Mutex<HashMap<Key, bool>>>,
}

impl Probes {
    /// No probe runs yet. What `status` says of containers that are still the same holds until a probe says otherwise, so
    /// that a restart of the kubelet takes no pod out of service.
    pub(crate) fn new(node: Arc<Node>, news: Arc<Notify>, status: Option<&PodStatus>) -> Self {
        let mut results = HashMap::new();
        let lists = status.map(|s| [&s.container_statuses, &s.init_container_statuses]);
        for reported in lists.into_iter().flatten().flatten().flatten() {
            let Some(id) = reported.container_id.as_deref().and_then(|id| id.split_once("://")) else { continue };
            if reported.ready {
                results.insert((id.1.to_owned(), Kind::Readiness), true);
            }
            if reported.started == Some(true) {
                results.insert((id.1.to_owned(), Kind::Startup), true);
            }
        }
        Self { node, news, tasks: HashMap::new(), results: Arc::new(Mutex::new(results)) }
    }

    /// Starts and ends tasks so that exactly the probes of running containers run.
    pub(crate) fn follow(&mut self, pod: &Arc<Pod>, observed: &Observed) {
        if self.node.simulated {
            return;
        }
        let running: HashSet<&str> = observed.running().map(|c| c.id.as_str()).collect();
        self.tasks.retain(|(id, _), task| {
            let keep = running.contains(id.as_str());
            if !keep {
                task.abort();
            }
            keep
        });
        self.results.lock().retain(|(id, _), _| observed.containers.iter().any(|c| &c.id == id));
        for container in observed.running() {
            let spec = pod.spec.iter().flat_map(facts::all_containers).find(|c| c.name == container.name);
            if let Some(spec) = spec {
                self.follow_container(pod, spec, container, observed);
            }
        }
    }

    fn follow_container(&mut self, pod: &Arc<Pod>, spec: &Container, container: &observed::Container, observed: &Observed) {
        let started = self.is_started(spec, &container.id);
        for kind in Kind::ALL {
            let Some(probe) = kind.of(spec) else { continue };
            let key = (container.id.clone(), kind);
            if (kind == Kind::Startup) == started || self.tasks.contains_key(&key) {
                continue;
            }
            let task = Task {
                node: self.node.clone(),
                pod: pod.clone(),
                spec: spec.clone(),
                ip: observed.sandbox().and_then(|s| s.ips.first().cloned()),
                key: key.clone(),
                results: self.results.clone(),
                news: self.news.clone(),
            };
            let since_start = container.started_at.map(|at| self.node.now().duration_since(at));
            self.tasks.insert(key, tokio::spawn(task.run(probe.clone(), first_wait(probe, since_start))));
        }
    }

    fn is_started(&self, spec: &Container, id: &str) -> bool {
        spec.startup_probe.is_none() || self.results.lock().get(&(id.to_owned(), Kind::Startup)) == Some(&true)
    }

    /// What the probes say now.
    pub(crate) fn verdicts(&self, observed: &Observed) -> Verdicts {
        let mut verdicts = Verdicts::default();
        let pod = observed.running();
        for container in pod {
            self.judge(container, &mut verdicts);
        }
        verdicts
    }

    fn judge(&self, container: &observed::Container, verdicts: &mut Verdicts) {
        let results = self.results.lock();
        let result = |kind| results.get(&(container.id.clone(), kind)).copied();
        let has = |kind| self.tasks.contains_key(&(container.id.clone(), kind));
        if self.node.simulated {
            verdicts.started.insert(container.id.clone());
            verdicts.ready.insert(container.id.clone());
            return;
        }
        debug_assert_eq!(container.state, State::Running);
        // A startup task exists from the first look on as long as the container is not started.
        let started = result(Kind::Startup).unwrap_or(!has(Kind::Startup));
        if result(Kind::Startup) == Some(false) {
            verdicts.never_started.insert(container.id.clone());
        }
        if result(Kind::Liveness) == Some(false) {
            verdicts.dead.insert(container.id.clone());
        }
        if started {
            verdicts.started.insert(container.id.clone());
            if result(Kind::Readiness).unwrap_or(!has(Kind::Readiness)) {
                verdicts.ready.insert(container.id.clone());
            }
        }
    }

    /// Ends the probes that could stop a container; readiness goes on being watched.
    pub(crate) fn terminating(&mut self) {
        self.tasks.retain(|(_, kind), task| {
            let keep = *kind == Kind::Readiness;
            if !keep {
                task.abort();
            }
            keep
        });
        self.results.lock().retain(|(_, kind), ok| *ok || *kind == Kind::Readiness);
    }

    /// Ends all probes.
    pub(crate) fn stop(&mut self) {
        self.tasks.drain().for_each(|(_, task)| task.abort());
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        self.stop();
    }
}
