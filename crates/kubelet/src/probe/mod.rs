//! Startup, liveness and readiness probes of one pod: a task per probe, verdicts for plan and status.

pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod target;
mod tracker;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Container, Pod, PodStatus, Probe};
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use crate::{
    cri::{
        observed::{self, Observed, State},
        v1,
    },
    node::Node,
    pod::{facts, plan::Verdicts},
};
use tracker::Tracker;

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

/// How long until the first try: what is left of the initial delay.
fn first_wait(probe: &Probe, since_start: Option<SignedDuration>) -> Duration {
    let delay = SignedDuration::from_secs(i64::from(probe.initial_delay_seconds.unwrap_or(0)));
    let left = delay - since_start.unwrap_or(SignedDuration::ZERO);
    Duration::try_from(left).unwrap_or(Duration::ZERO)
}

/// One probe of one container.
struct Task {
    node: Arc<Node>,
    pod: Arc<Pod>,
    spec: Container,
    ip: Option<String>,
    key: Key,
    results: Arc<Mutex<HashMap<Key, bool>>>,
    news: Arc<Notify>,
}

impl Task {
    async fn run(self, probe: Probe, first: Duration) {
        let seconds = |value: Option<i32>, default: i32| Duration::from_secs(value.unwrap_or(default).max(1).unsigned_abs().into());
        let (period, limit) = (seconds(probe.period_seconds, 10), seconds(probe.timeout_seconds, 1));
        let mut tracker = Tracker::new(probe.success_threshold, probe.failure_threshold);
        sleep(first).await;
        loop {
            let begun = Instant::now();
            let outcome = self.attempt(&probe, limit).await;
            self.tell(&outcome);
            if let Some(verdict) = tracker.record(outcome == Outcome::Success)
                && self.decide(verdict)
            {
                return;
            }
            sleep(period.saturating_sub(begun.elapsed())).await;
        }
    }

    /// Notes a verdict; true when the probe has nothing more to say.
    fn decide(&self, verdict: bool) -> bool {
        let before = self.results.lock().insert(self.key.clone(), verdict);
        if before != Some(verdict) {
            self.news.notify_one();
        }
        match self.key.1 {
            Kind::Startup => true,
            Kind::Liveness => !verdict,
            Kind::Readiness => false,
        }
    }

    fn tell(&self, outcome: &Outcome) {
        let title = self.key.1.title();
        let text = match outcome {
            Outcome::Success => return,
            Outcome::Failure(output) => format!("{title} probe failed: {output}"),
            Outcome::Error(error) => format!("{title} probe errored and resulted in unknown state: {error}"),
        };
        self.node.events.pod(&self.pod, Some(&self.spec.name), "Warning", "Unhealthy", &text);
    }

    async fn attempt(&self, probe: &Probe, limit: Duration) -> Outcome {
        if let Some(exec) = &probe.exec {
            return self.exec(exec.command.clone().unwrap_or_default(), limit).await;
        }
        let ip = if facts::host_network(&self.pod) { self.node.host_ips.first() } else { self.ip.as_ref() };
        let ip = ip.map(String::as_str);
        if let Some(get) = &probe.http_get {
            return match target::http(&self.spec, get, ip) {
                Ok(request) => http::probe(&request, limit).await,
                Err(error) => Outcome::Error(error),
            };
        }
        if let Some(tcp) = &probe.tcp_socket {
            return match target::tcp(&self.spec, tcp, ip) {
                Ok(address) => connect(&address, limit).await,
                Err(error) => Outcome::Error(error),
            };
        }
        match &probe.grpc {
            Some(grpc) => grpc::probe(ip, grpc, limit).await,
            None => Outcome::Error(format!("missing probe handler for {}:{}", facts::full_name(&self.pod), self.spec.name)),
        }
    }

    async fn exec(&self, command: Vec<String>, limit: Duration) -> Outcome {
        let seconds = i64::try_from(limit.as_secs()).unwrap_or(1);
        let request = v1::ExecSyncRequest { container_id: self.key.0.clone(), cmd: command.clone(), timeout: seconds };
        match self.node.cri.exec_sync(request).await {
            Ok(answer) if answer.exit_code == 0 => Outcome::Success,
            Ok(answer) => {
                let output = String::from_utf8_lossy(&[answer.stdout, answer.stderr].concat()).into_owned();
                Outcome::Failure(output.chars().take(10 << 10).collect())
            }
            Err(status) if status.code() == tonic::Code::DeadlineExceeded => {
                Outcome::Failure(format!("command timed out: {:?} timed out after {}s", command.join(" "), limit.as_secs()))
            }
            Err(status) => Outcome::Error(crate::cri::describe(&status)),
        }
    }
}

/// The TCP probe.
async fn connect(address: &str, limit: Duration) -> Outcome {
    match timeout(limit, tokio::net::TcpStream::connect(address)).await {
        Ok(Ok(_)) => Outcome::Success,
        Ok(Err(error)) => Outcome::Failure(format!("dial tcp {address}: {}", http::cause(&error))),
        Err(_) => Outcome::Failure(format!("dial tcp {address}: i/o timeout")),
    }
}
