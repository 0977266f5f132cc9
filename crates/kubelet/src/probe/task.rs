//! One probe of one container: try, count, tell.

use std::{collections::HashMap, sync::Arc, time::Duration};

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Container, Pod, Probe};
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout},
};

use super::{Key, Kind, Outcome, grpc, http, target, tracker::Tracker};
use crate::{cri::v1, node::Node, pod::facts};

/// How long until the first try: what is left of the initial delay.
pub(super) fn first_wait(probe: &Probe, since_start: Option<SignedDuration>) -> Duration {
    let delay = SignedDuration::from_secs(i64::from(probe.initial_delay_seconds.unwrap_or(0)));
    let left = delay - since_start.unwrap_or(SignedDuration::ZERO);
    Duration::try_from(left).unwrap_or(Duration::ZERO)
}

/// One probe of one container.
pub(super) struct Task {
    pub(super) node: Arc<Node>,
    pub(super) pod: Arc<Pod>,
    pub(super) spec: Container,
    /// The pod's address, if it has one of its own.
    pub(super) ip: Option<String>,
    pub(super) key: Key,
    pub(super) results: Arc<Mutex<HashMap<Key, bool>>>,
    /// Told when a verdict changes.
    pub(super) news: Arc<Notify>,
}

impl Task {
    /// Probes from `first` on, until there is nothing more to say.
    pub(super) async fn run(self, probe: Probe, first: Duration) {
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
