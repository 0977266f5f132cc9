//! Takes the next pod, decides, assumes, and binds off the scheduling thread.

use std::sync::Arc;
use std::time::Duration;

use client::informer::{Informer, Selected};
use component::Shutdown;
use k8s_openapi::api::core::v1::{Binding, Node, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::cache::{Cache, PodInfo, Snapshot};
use crate::events::Recorder;
use crate::feed::Feed;
use crate::metrics::Metrics;
use crate::plugins::{self, Entry};
use crate::queue::{Attempt, Queue};
use crate::schedule::{Unfit, schedule};

/// Bindings under way at once.
const BINDINGS: usize = 64;
/// One binding or status write may take so long.
const DEADLINE: Duration = Duration::from_secs(30);

/// Schedules until `shutdown`.
pub(crate) async fn lead(client: Client, scheduler_name: String, metrics: Metrics, shutdown: Shutdown) {
    let (cache, queue, plugins) = (Arc::<Mutex<Cache>>::default(), Queue::default(), Arc::new(plugins::all()));
    let nodes = Informer::new("nodes", Api::<Node>::all(client.clone()));
    let unfinished = "status.phase!=Succeeded,status.phase!=Failed".to_owned();
    let pods = Selected { source: Api::<Pod>::all(client.clone()), labels: String::new(), fields: unfinished };
    let pods = Informer::new("pods", pods);
    let feed = Feed { cache: cache.clone(), queue: queue.clone(), plugins: plugins.clone(), scheduler_name: scheduler_name.clone() };
    feed.connect(&nodes, &pods);
    for run in [tokio::spawn(nodes.clone().run(shutdown.clone())), tokio::spawn(pods.clone().run(shutdown.clone()))] {
        drop(run);
    }
    let recorder = Recorder::start(client.clone(), scheduler_name, shutdown.clone());
    let actor = Actor { client, cache, queue, recorder, metrics, bindings: Arc::new(Semaphore::new(BINDINGS)) };
    let running = async {
        nodes.synced().await;
        pods.synced().await;
        tracing::info!(nodes = nodes.len(), "caches are filled, scheduling");
        actor.run(&plugins).await;
    };
    shutdown.run_until_cancelled(running).await;
}

#[derive(Clone)]
struct Actor {
    client: Client,
    cache: Arc<Mutex<Cache>>,
    queue: Queue,
    recorder: Recorder,
    metrics: Metrics,
    bindings: Arc<Semaphore>,
}

impl Actor {
    async fn run(&self, plugins: &[Entry]) {
        let (mut snapshot, mut start) = (Snapshot::default(), 0);
        // Dropped with this future, and no binding goes on: another instance may lead by then.
        let mut writes = JoinSet::new();
        loop {
            while writes.try_join_next().is_some() {}
            let attempt = self.queue.next().await;
            self.metrics.pending(self.queue.counts());
            let Ok(place) = self.bindings.clone().acquire_owned().await else { return };
            let began = Instant::now();
            let pod = PodInfo::new(Arc::clone(&attempt.pod));
            self.cache.lock().refresh(&mut snapshot);
            let decision = schedule(plugins, &pod, &snapshot, start);
            if let Ok(decision) = &decision {
                self.cache.lock().assume(&pod, &decision.node);
                start = (start + decision.looked_at) % snapshot.nodes.len().max(1);
            }
            let actor = self.clone();
            writes.spawn(async move {
                match decision {
                    Ok(decision) => actor.bind(attempt, &decision.node, began).await,
                    Err(unfit) => actor.refuse(attempt, unfit, began).await,
                }
                drop(place);
            });
        }
    }

    async fn bind(&self, attempt: Attempt, node: &str, began: Instant) {
        let outcome = tokio::time::timeout(DEADLINE, self.write_binding(&attempt.pod, node)).await;
        let outcome =
            outcome.map_err(|_| format!("no answer within {DEADLINE:?}")).and_then(|written| written.map_err(|error| error.to_string()));
        match outcome {
            Ok(()) => {
                self.metrics.attempt("scheduled", began.elapsed().as_secs_f64());
                tracing::info!(pod = %attempt.key, node, attempts = attempt.number, waited = ?attempt.since.elapsed(), "bound pod");
                self.recorder.scheduled(&attempt.pod, node);
                self.queue.done(&attempt);
            }
            Err(error) => {
                self.metrics.attempt("error", began.elapsed().as_secs_f64());
                tracing::warn!(pod = %attempt.key, node, %error, "bind pod");
                self.cache.lock().forget(&attempt.pod);
                self.recorder.failed(&attempt.pod, format!("running Bind plugin \"DefaultBinder\": {error}"));
                self.queue.give_back(&attempt, Vec::new());
            }
        }
    }

    async fn write_binding(&self, pod: &Pod, node: &str) -> kube::Result<()> {
        let (name, namespace) = names(pod);
        let binding = Binding {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(namespace.to_owned()),
                uid: pod.metadata.uid.clone(),
                ..ObjectMeta::default()
            },
            target: ObjectReference { kind: Some("Node".into()), name: Some(node.to_owned()), ..ObjectReference::default() },
        };
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        pods.create_subresource::<_, serde_json::Value>("binding", name, &PostParams::default(), &binding).await.map(drop)
    }

    async fn refuse(&self, attempt: Attempt, unfit: Unfit, began: Instant) {
        self.metrics.attempt("unschedulable", began.elapsed().as_secs_f64());
        let message = unfit.to_string();
        tracing::info!(pod = %attempt.key, attempts = attempt.number, reason = message, "pod does not fit");
        self.recorder.failed(&attempt.pod, message.clone());
        self.queue.give_back(&attempt, unfit.plugins());
        match tokio::time::timeout(DEADLINE, self.write_condition(&attempt.pod, &message)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) if client::retry::is_not_found(&error) => {}
            Ok(Err(error)) => tracing::warn!(%error, "write PodScheduled condition"),
            Err(_) => tracing::warn!("write PodScheduled condition: no answer within {DEADLINE:?}"),
        }
    }

    async fn write_condition(&self, pod: &Pod, message: &str) -> kube::Result<()> {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let scheduled = conditions.iter().find(|condition| condition.type_ == "PodScheduled");
        if scheduled.is_some_and(|condition| condition.status == "False" && condition.message.as_deref() == Some(message)) {
            return Ok(());
        }
        let since = scheduled.filter(|condition| condition.status == "False").and_then(|condition| condition.last_transition_time.clone());
        let condition = json!({
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastProbeTime": null,
            "lastTransitionTime": since.unwrap_or_else(|| Time(component::clock::now())),
            "observedGeneration": pod.metadata.generation,
        });
        let (name, namespace) = names(pod);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        // The UID keeps the patch off a pod of the same name that came later.
        let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}});
        pods.patch_status(name, &PatchParams::default(), &Patch::Strategic(patch)).await.map(drop)
    }
}

fn names(pod: &Pod) -> (&str, &str) {
    (pod.metadata.name.as_deref().unwrap_or_default(), pod.metadata.namespace.as_deref().unwrap_or("default"))
}
