//! Watch events into cache and queue.

use std::sync::Arc;

use client::informer::{Change, Informer};
use k8s_openapi::api::core::v1::{Node, Pod};
use parking_lot::Mutex;

use crate::cache::Cache;
use crate::framework::ClusterEvent;
use crate::plugins::Entry;
use crate::queue::Queue;

/// What the handlers write to.
#[derive(Clone)]
pub(crate) struct Feed {
    pub(crate) cache: Arc<Mutex<Cache>>,
    pub(crate) queue: Queue,
    pub(crate) plugins: Arc<Vec<Entry>>,
    pub(crate) scheduler_name: String,
}

impl Feed {
    /// Registers the handlers.
    pub(crate) fn connect(&self, nodes: &Informer<Node>, pods: &Informer<Pod>) {
        let feed = self.clone();
        nodes.on_change(move |change| feed.node(change));
        let feed = self.clone();
        pods.on_change(move |change| feed.pod(change));
    }

    fn wake(&self, event: ClusterEvent) {
        let helps = |name: &'static str, event| self.plugins.iter().any(|(plugin, _)| plugin.name() == name && plugin.may_help(event));
        self.queue.wake(event, helps);
    }

    fn node(&self, change: Change<'_, Node>) {
        match change {
            Change::Added(node) => {
                self.cache.lock().set_node(node);
                self.wake(ClusterEvent::NodeAdded);
            }
            Change::Updated { old, new } => {
                self.cache.lock().set_node(new);
                if matters(old, new) {
                    self.wake(ClusterEvent::NodeUpdated);
                }
            }
            Change::Deleted(node) => self.cache.lock().remove_node(node.metadata.name.as_deref().unwrap_or_default()),
        }
    }

    fn pod(&self, change: Change<'_, Pod>) {
        let gone = matches!(change, Change::Deleted(_));
        let pod = change.object();
        if gone && !is_bound(pod) {
            self.vanished(pod);
        }
        if is_bound(pod) {
            self.bound(pod, gone || is_finished(pod));
        } else if gone || pod.metadata.deletion_timestamp.is_some() {
            self.queue.remove(pod);
        } else if self.is_ours(pod) && !self.cache.lock().holds(pod) {
            let gated = self.plugins.iter().find(|(plugin, _)| plugin.as_pre_enqueue().is_some_and(|gate| gate.admit(pod).is_err()));
            self.queue.set(pod, gated.map(|(plugin, _)| plugin.name()));
        }
    }

    /// A pod not seen bound may still be assumed: its place is free again.
    fn vanished(&self, pod: &Pod) {
        let assumed = {
            let mut cache = self.cache.lock();
            let assumed = cache.holds(pod);
            cache.remove_pod(pod);
            assumed
        };
        if assumed {
            self.wake(ClusterEvent::AssignedPodFreed);
        }
    }

    fn bound(&self, pod: &Arc<Pod>, over: bool) {
        if over {
            self.cache.lock().remove_pod(pod);
            self.wake(ClusterEvent::AssignedPodFreed);
        } else {
            self.cache.lock().set_pod(pod);
        }
        self.queue.remove(pod);
    }

    fn is_ours(&self, pod: &Pod) -> bool {
        let name = pod.spec.as_ref().and_then(|spec| spec.scheduler_name.as_deref());
        name.unwrap_or(crate::config_file::DEFAULT_NAME) == self.scheduler_name && !is_finished(pod)
    }
}

fn is_bound(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).is_some_and(|name| !name.is_empty())
}

fn is_finished(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Heartbeats change nothing that a filter looks at.
fn matters(old: &Node, new: &Node) -> bool {
    let allocatable = |node: &Node| node.status.as_ref().and_then(|status| status.allocatable.clone());
    old.spec != new.spec || old.metadata.labels != new.metadata.labels || allocatable(old) != allocatable(new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::PodInfo;
    use crate::testing::named_pod;
    use serde_json::json;

    #[test]
    fn a_pod_deleted_while_assumed_gives_its_place_back() {
        let feed = Feed {
            cache: Arc::default(),
            queue: Queue::default(),
            plugins: Arc::new(crate::plugins::all()),
            scheduler_name: crate::config_file::DEFAULT_NAME.into(),
        };
        let pod = Arc::new(named_pod("p", json!({})));
        feed.cache.lock().assume(&PodInfo::new(Arc::clone(&pod)), "a");
        feed.pod(Change::Deleted(&pod));
        assert!(!feed.cache.lock().holds(&pod));
    }
}
