//! Watches over nodes: silent ones become Unknown, their pods not ready, and taints follow from conditions.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use client::{
    Key,
    informer::{Change, Informer},
    queue::{self, Outcome},
    retry,
};
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{Node, Pod, Taint},
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Api, Resource as _,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use super::{
    BY_NODE, condition,
    health::{self, Health, Patience},
    node_of, taints,
    zones::{self, Limits, Rates, Turn},
};
use crate::{context::Context, pods};

/// Namespace of node leases.
const LEASES: &str = "kube-node-lease";

struct Controller {
    context: Context,
    nodes: Informer<Node>,
    pods: Informer<Pod>,
    leases: Informer<Lease>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    health: Health,
    limits: Limits,
    /// Nodes seen before, whose pods were marked when they stopped being ready.
    ready: BTreeMap<String, bool>,
    /// Pods still to be marked as not ready, by node.
    unmarked: BTreeSet<String>,
    /// Whether the API server did not answer when it was asked about silent nodes.
    deaf: bool,
}

pub(crate) fn run(context: Context) -> BoxFuture<'static, ()> {
    async move {
        let source: Api<Lease> = Api::namespaced(context.informers.client().clone(), LEASES);
        let leases = Informer::new("leases", source);
        tokio::spawn(leases.clone().run(context.shutdown.clone()));
        let controller = Arc::new(Controller {
            nodes: context.informers.of(),
            pods: context.informers.of::<Pod>().with_index(BY_NODE, node_of),
            leases,
            state: Mutex::default(),
            context,
        });
        let queue = controller.context.queue("node_lifecycle_controller");
        let sink = queue.clone();
        controller.nodes.on_change(move |change| {
            if !matches!(change, Change::Deleted(_)) {
                sink.add(Key::of(&change.object().metadata));
            }
        });
        controller.nodes.synced().await;
        controller.pods.synced().await;
        controller.leases.synced().await;
        let shutdown = controller.context.shutdown.clone();
        let monitor = shutdown.run_until_cancelled(Arc::clone(&controller).monitor());
        let tainting = queue::work(queue, 8, shutdown.clone(), move |key: Key| Arc::clone(&controller).taint(key));
        tokio::join!(monitor, tainting);
    }
    .boxed()
}

impl Controller {
    async fn monitor(self: Arc<Self>) {
        loop {
            tokio::time::sleep(self.context.options.node_monitor_period).await;
            let nodes = self.nodes.list();
            if !self.can_hear(&nodes).await {
                continue;
            }
            for node in &nodes {
                if let Err(error) = self.check(node).await {
                    tracing::warn!(node = node.metadata.name, %error, "cannot update node status");
                }
            }
            self.evict(&nodes).await;
        }
    }

    /// Whether silence of nodes means anything: not while the API server cannot be asked, nor right after, as nodes could
    /// not report to it either. Takes in what it answers: this controller's own cache may be the one that is silent.
    async fn can_hear(&self, nodes: &[Arc<Node>]) -> bool {
        let news = nodes.iter().filter(|node| self.is_silent(node) && health::unknown(node, component::clock::now()).is_some());
        if news.count() == 0 {
            return true;
        }
        let leases: Api<Lease> = Api::namespaced(self.context.informers.client().clone(), LEASES);
        let answered = leases.list(&ListParams::default()).await;
        let mut state = self.state.lock();
        match answered {
            Err(error) => {
                tracing::warn!(%error, "nodes are silent, but so is the API server");
                state.deaf = true;
                false
            }
            Ok(_) if state.deaf => {
                state.deaf = false;
                state.health.forgive(Instant::now());
                false
            }
            Ok(listed) => {
                for lease in &listed.items {
                    state.health.ask(lease.metadata.name.as_deref().unwrap_or_default(), lease, Instant::now());
                }
                true
            }
        }
    }

    fn is_silent(&self, node: &Node) -> bool {
        let lease = self.leases.get(&Key::new(LEASES, node.metadata.name.as_deref().unwrap_or_default()));
        let options = &self.context.options;
        let patience = Patience { running: options.node_monitor_grace_period, starting: options.node_startup_grace_period };
        self.state.lock().health.observe(node, lease.as_deref(), patience, Instant::now())
    }

    /// Judges one node and writes what follows: Unknown conditions, and unready pods.
    async fn check(&self, node: &Node) -> kube::Result<()> {
        let name = node.metadata.name.clone().unwrap_or_default();
        let silent = self.is_silent(node);
        let mut ready = is_ready(node);
        if silent && let Some(conditions) = health::unknown(node, component::clock::now()) {
            let mut node = node.clone();
            node.status.get_or_insert_default().conditions = Some(conditions);
            let nodes: Api<Node> = Api::all(self.context.client.clone());
            retry::optional(nodes.replace_status(&name, &PostParams::default(), &node).await)?;
            ready = false;
        }
        let was_ready = self.state.lock().ready.insert(name.clone(), ready);
        if was_ready == Some(true) && !ready {
            let message = format!("Node {name} status is now: NodeNotReady");
            self.context.recorder.normal(&node.object_ref(&()), "NodeNotReady", message);
        }
        if !ready && was_ready != Some(false) {
            self.state.lock().unmarked.insert(name.clone());
        } else if ready {
            self.state.lock().unmarked.remove(&name);
        }
        if self.state.lock().unmarked.contains(&name) && self.mark_pods(&name).await {
            self.state.lock().unmarked.remove(&name);
        }
        Ok(())
    }

    /// Marks all pods of a node as not ready; whether none was left out.
    async fn mark_pods(&self, node: &str) -> bool {
        let mut complete = true;
        for pod in self.pods.by_index(BY_NODE, node).iter().filter(|pod| pods::is_ready(pod)) {
            if let Err(error) = self.mark_pod(pod).await {
                tracing::warn!(pod = %Key::of(&pod.metadata), %error, "cannot mark pod as not ready");
                complete = false;
            }
        }
        complete
    }

    async fn mark_pod(&self, pod: &Pod) -> kube::Result<()> {
        let api: Api<Pod> = Api::namespaced(self.context.client.clone(), pod.metadata.namespace.as_deref().unwrap_or_default());
        let condition = json!({"type": "Ready", "status": "False", "lastTransitionTime": Time(component::clock::now())});
        let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}});
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        if retry::optional(api.patch_status(name, &PatchParams::default(), &Patch::Strategic(patch)).await)?.is_some() {
            self.context.recorder.warning(&pod.object_ref(&()), "NodeNotReady", "Node is not ready");
        }
        Ok(())
    }

    /// Sets and removes the taints by which pods are evicted, as fast as each zone allows.
    async fn evict(&self, nodes: &[Arc<Node>]) {
        let rates = self.rates();
        let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for node in nodes {
            let (ready, not_ready) = counts.entry(zones::zone_of(node)).or_default();
            *(if is_ready(node) { ready } else { not_ready }) += 1;
        }
        let (turn, all_down) = {
            let mut state = self.state.lock();
            let State { health, limits, ready, .. } = &mut *state;
            let exists = |name: &str| nodes.iter().any(|node| node.metadata.name.as_deref() == Some(name));
            health.retain(exists);
            ready.retain(|name, _| exists(name));
            let turn = limits.update(&counts, &rates, Instant::now());
            if turn == Turn::Recovered {
                health.forgive(Instant::now());
            }
            (turn, limits.all_down())
        };
        match turn {
            Turn::AllDown => tracing::warn!("all nodes look dead, evicting nothing"),
            Turn::Recovered => tracing::info!("some node can be heard again, evictions may go on"),
            Turn::None => {}
        }
        for node in nodes {
            let wanted = eviction_taint(node).filter(|_| !all_down);
            let Some(taints) = taints::no_execute(node, wanted, component::clock::now()) else { continue };
            let swaps = has_eviction_taint(node);
            // A taint that goes or changes its name evicts nobody who was not to be evicted before.
            if wanted.is_none() || swaps || self.state.lock().limits.take(&zones::zone_of(node), Instant::now()) {
                self.write_taints(node, taints).await;
            }
        }
    }

    fn rates(&self) -> Rates {
        let options = &self.context.options;
        Rates {
            normal: options.node_eviction_rate,
            reduced: options.secondary_node_eviction_rate,
            large: options.large_cluster_size,
            unhealthy: options.unhealthy_zone_threshold,
        }
    }

    async fn write_taints(&self, node: &Node, taints: Vec<Taint>) {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        if let Err(error) = self.patch_taints(name, node, &taints).await
            && !retry::is_conflict(&error)
        {
            tracing::warn!(node = name, %error, "cannot write taints");
        }
    }

    async fn patch_taints(&self, name: &str, node: &Node, taints: &[Taint]) -> kube::Result<()> {
        let nodes: Api<Node> = Api::all(self.context.client.clone());
        // The version makes the write of a whole list safe.
        let patch = json!({"metadata": {"resourceVersion": node.metadata.resource_version}, "spec": {"taints": taints}});
        retry::optional(nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await).map(drop)
    }

    /// Brings the NoSchedule taints and derived labels of one node up to date.
    async fn taint(self: Arc<Self>, key: Key) -> anyhow::Result<Outcome> {
        let Some(node) = self.nodes.get(&key) else { return Ok(Outcome::Done) };
        if let Some(taints) = taints::no_schedule(&node, component::clock::now()) {
            match self.patch_taints(&key.name, &node, &taints).await {
                Err(error) if retry::is_conflict(&error) => return Ok(Outcome::Retry),
                result => result?,
            }
        }
        let labels = taints::labels(&node);
        if !labels.is_empty() {
            let nodes: Api<Node> = Api::all(self.context.client.clone());
            let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
            retry::optional(nodes.patch(&key.name, &PatchParams::default(), &patch).await)?;
        }
        Ok(Outcome::Done)
    }
}

fn is_ready(node: &Node) -> bool {
    condition(node, "Ready").is_some_and(|ready| ready.status == "True")
}

/// The NoExecute taint the Ready condition calls for.
fn eviction_taint(node: &Node) -> Option<&'static str> {
    match condition(node, "Ready")?.status.as_str() {
        "True" => None,
        "False" => Some(taints::NOT_READY),
        _ => Some(taints::UNREACHABLE),
    }
}

fn has_eviction_taint(node: &Node) -> bool {
    let current = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    current.iter().any(|taint| taint.effect == taints::NO_EXECUTE && [taints::NOT_READY, taints::UNREACHABLE].contains(&taint.key.as_str()))
}
