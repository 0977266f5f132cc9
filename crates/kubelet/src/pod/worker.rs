//! One task per pod: it looks, plans, acts and reports, and looks again on news or when the plan says so.
//!
//! Life of a worker: running → stopping (deleted, gone, or run its course) → terminated → cleaned up. All it needs to go
//! on after a restart of the kubelet is in the runtime and in the API server.

mod end;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

use super::{
    admit,
    backoff::Backoff,
    conditions::Stage,
    facts, kill,
    plan::{self, Action, Plan, Verdicts, View},
    start,
    status::{self, Known, Reasons},
};
use crate::{
    cri::observed::{self, Observed},
    node::Node,
    probe::Probes,
};

/// A pod is looked at this often without news (upstream's `syncFrequency`).
const RESYNC: Duration = Duration::from_secs(60);
/// After something failed, try again after this time (upstream's `backOffPeriod`).
const RETRY: Duration = Duration::from_secs(10);
/// First and last wait after the runtime itself failed to answer.
const RUNTIME_RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// What the API server last said about the pod.
#[derive(Debug, Clone)]
pub(crate) struct Desired {
    pub(crate) pod: Arc<Pod>,
    /// The object is gone: stop and clean up without reporting.
    pub(crate) gone: bool,
}

impl Desired {
    /// Whether the pod is to end.
    fn ends(&self) -> bool {
        self.gone || self.pod.metadata.deletion_timestamp.is_some()
    }
}

/// When to look again.
enum Next {
    Now,
    News,
    At(Timestamp),
    After(Duration),
    /// The pod has run its course.
    Over,
}

/// The task's state.
pub(crate) struct Worker {
    node: Arc<Node>,
    uid: String,
    desired: watch::Receiver<Desired>,
    news: Arc<Notify>,
    probes: Probes,
    backoff: Backoff,
    reasons: Reasons,
    last: Option<PodStatus>,
    refused: Option<(String, String)>,
    runtime_retry: Duration,
    refreshed: Option<Instant>,
}

impl Worker {
    /// A worker for the pod in `desired`, woken by `news`.
    pub(crate) fn new(node: Arc<Node>, desired: watch::Receiver<Desired>, news: Arc<Notify>) -> Self {
        let pod = desired.borrow().pod.clone();
        let uid = facts::uid(&pod).to_owned();
        let probes = Probes::new(node.clone(), news.clone(), pod.status.as_ref());
        let most = node.settings.max_restart_delay;
        let backoff = Backoff::with_most(most);
        Self {
            node,
            uid,
            desired,
            news,
            probes,
            backoff,
            reasons: Reasons::new(),
            last: pod.status.clone(),
            refused: None,
            runtime_retry: RUNTIME_RETRY.0,
            refreshed: None,
        }
    }

    /// Runs the pod to its end; returns once nothing of it is left on the node.
    pub(crate) async fn run(mut self) {
        self.admit();
        if !facts::is_terminal(&self.desired.borrow().pod) {
            Box::pin(self.live()).await;
        }
        self.probes.terminating();
        Box::pin(self.stop()).await;
        self.probes.stop();
        Box::pin(self.finish()).await;
    }

    fn pod(&self) -> Arc<Pod> {
        self.desired.borrow().pod.clone()
    }

    /// Refuses a pod this node cannot run; such a pod fails without a container.
    fn admit(&mut self) {
        let pod = self.pod();
        let never_started = pod.status.as_ref().is_none_or(|s| s.start_time.is_none());
        if let Some((reason, message)) = admit::refusal(&self.node, &pod).filter(|_| never_started) {
            self.node.events.pod(&pod, None, "Warning", &reason, &message);
            self.refused = Some((reason, message));
        }
    }

    /// Keeps the pod running until it is to end or has run its course.
    async fn live(&mut self) {
        if self.refused.is_some() {
            return;
        }
        let mut ends = self.desired.clone();
        loop {
            // Seen before the look, so that a change during the look is news after it.
            self.desired.mark_unchanged();
            let next = tokio::select! {
                biased;
                _ = ends.wait_for(Desired::ends) => return,
                // Boxed: an idle pod of a large node holds no more memory than its wait needs.
                next = Box::pin(self.sync()) => next,
            };
            let wait = match next {
                Next::Over => return,
                Next::Now => continue,
                Next::News => RESYNC,
                Next::After(wait) => wait,
                Next::At(time) => until(time, self.node.now()).min(RESYNC),
            };
            tokio::select! {
                changed = self.desired.changed() => if changed.is_err() { return },
                () = self.news.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// One look and the steps that follow from it.
    async fn sync(&mut self) -> Next {
        let pod = self.pod();
        let observed = match observed::observe(&*self.node.cri, &self.uid).await {
            Ok(observed) => observed,
            Err(error) => return self.runtime_failed("look at pod", &error),
        };
        self.runtime_retry = RUNTIME_RETRY.0;
        let started = self.last.as_ref().and_then(|s| s.start_time.as_ref()).map(|time| time.0);
        let deadline = facts::deadline(&pod, started);
        if deadline.is_some_and(|at| at <= self.node.now()) {
            return self.overdue(&pod, &observed);
        }
        self.probes.follow(&pod, &observed);
        let verdicts = self.probes.verdicts(&observed);
        let plan = self.plan(&pod, &observed, &verdicts);
        let status = self.report(&pod, &observed, &verdicts, Stage::Running);
        if matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
            return Next::Over;
        }
        let next = self.act(&pod, &observed, &plan).await;
        match (next, plan.look_again.into_iter().chain(deadline).min()) {
            (Next::News, Some(time)) => Next::At(time),
            (next, _) => next,
        }
    }

    /// Ends a pod that has been active for longer than it may.
    fn overdue(&mut self, pod: &Pod, observed: &Observed) -> Next {
        let text = "Pod was active on the node longer than the specified deadline";
        self.node.events.pod(pod, None, "Normal", "DeadlineExceeded", text);
        self.refused = Some(("DeadlineExceeded".into(), text.into()));
        let verdicts = self.probes.verdicts(observed);
        self.report(pod, observed, &verdicts, Stage::Running);
        Next::Over
    }

    fn runtime_failed(&mut self, what: &str, error: &tonic::Status) -> Next {
        tracing::warn!(node = self.node.name, pod = self.uid, error = crate::cri::describe(error), "{what}");
        let wait = self.runtime_retry;
        self.runtime_retry = (wait * 2).min(RUNTIME_RETRY.1);
        Next::After(wait)
    }

    fn plan(&mut self, pod: &Pod, observed: &Observed, verdicts: &Verdicts) -> Plan {
        let now = self.node.now();
        let plan = plan::plan(&View { pod, observed, verdicts, backoff: &self.backoff, now });
        for waiting in &plan.waiting {
            let told = self.reasons.get(&waiting.name).is_some_and(|(reason, _)| reason == waiting.reason);
            if !told {
                let text = format!("Back-off restarting failed container {} in pod {}", waiting.name, facts::full_name(pod));
                self.node.events.pod(pod, Some(&waiting.name), "Warning", "BackOff", &text);
            }
            self.reasons.insert(waiting.name.clone(), (waiting.reason.to_owned(), waiting.message.clone()));
        }
        plan
    }

    /// Does the plan's steps in order; a container that fails to start does not keep the others from starting.
    async fn act(&mut self, pod: &Arc<Pod>, observed: &Observed, plan: &Plan) -> Next {
        if plan.actions.is_empty() {
            return self.refresh_volumes(pod).await;
        }
        if let Err(wait) = self.node.volumes.ensure(pod).await {
            return Next::After(wait);
        }
        let mut failed = false;
        for action in &plan.actions {
            match action {
                Action::StopPod => kill::everything(&self.node, pod, observed, facts::grace_seconds(pod)).await,
                Action::Stop { id, name, why } => kill::one(&self.node, pod, (id, name), why, facts::grace_seconds(pod)).await,
                Action::CreateSandbox { attempt } => {
                    if let Err(error) = start::sandbox(&self.node, pod, *attempt).await {
                        return self.runtime_failed("create sandbox", &error);
                    }
                }
                Action::Start { which, restart_count } => {
                    failed |= self.start(pod, observed, *which, *restart_count).await.is_err();
                }
            }
        }
        if failed { Next::After(RETRY) } else { Next::Now }
    }

    /// Brings changed config maps, secrets and tokens to a running pod, once per [`RESYNC`].
    async fn refresh_volumes(&mut self, pod: &Pod) -> Next {
        if self.refreshed.is_some_and(|at| at.elapsed() < RESYNC) {
            return Next::News;
        }
        match self.node.volumes.ensure(pod).await {
            Ok(()) => {
                self.refreshed = Some(Instant::now());
                Next::News
            }
            Err(wait) => Next::After(wait),
        }
    }

    async fn start(&mut self, pod: &Arc<Pod>, observed: &Observed, which: plan::Which, restarts: i32) -> Result<(), ()> {
        let Some(container) = pod.spec.as_ref().and_then(|spec| plan::container(spec, which)) else { return Err(()) };
        if let Some(ended) = observed.last_exit(&container.name) {
            self.backoff.next(&plan::backoff_key(pod, container), ended, self.node.now());
        }
        match Box::pin(start::container(&self.node, pod, container, restarts)).await {
            Ok(()) => {
                self.reasons.remove(&container.name);
                Ok(())
            }
            Err(error) => {
                self.reasons.insert(container.name.clone(), (error.reason.to_owned(), error.message));
                self.report_again(pod).await;
                Err(())
            }
        }
    }

    /// Reports what changed while acting, without waiting for the next look.
    async fn report_again(&mut self, pod: &Pod) {
        if let Ok(observed) = observed::observe(&*self.node.cri, &self.uid).await {
            let verdicts = self.probes.verdicts(&observed);
            self.report(pod, &observed, &verdicts, Stage::Running);
        }
    }

    /// Computes the status and hands it to the status manager; returns it.
    fn report(&mut self, pod: &Pod, observed: &Observed, verdicts: &Verdicts, stage: Stage) -> PodStatus {
        let refused = self.refused.as_ref().map(|(reason, message)| (reason.as_str(), message.as_str()));
        let status = status::status(&Known {
            pod,
            old: self.last.as_ref(),
            observed,
            verdicts,
            reasons: &self.reasons,
            stage,
            host_ips: &self.node.host_ips,
            runtime: &self.node.runtime,
            refused,
            now: self.node.now(),
        });
        self.node.statuses.set(pod, &status);
        self.last = Some(status.clone());
        status
    }
}

fn until(time: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(time.duration_since(now)).unwrap_or(Duration::from_millis(10)).max(Duration::from_millis(10))
}
