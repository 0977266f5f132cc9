//! Nodes with the pods on them, and the snapshot that a decision is made on.
//!
//! A pod whose binding is under way counts as placed (it is *assumed*), so that the next decision sees it.

mod node_info;
mod pod_info;
mod resources;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};

pub(crate) use node_info::NodeInfo;
pub(crate) use pod_info::PodInfo;
pub(crate) use resources::Resources;

/// The nodes as one decision sees them, in the order of their names.
#[derive(Default)]
pub(crate) struct Snapshot {
    pub(crate) nodes: Vec<Arc<NodeInfo>>,
    positions: HashMap<String, usize>,
}

/// What is known of a node name: pods may be seen before their node is.
#[derive(Default)]
struct Slot {
    info: Arc<NodeInfo>,
    exists: bool,
}

struct Placement {
    node: String,
    info: Arc<PodInfo>,
    assumed: bool,
}

/// The cache, kept up by watch events and by the scheduler's own assumptions.
#[derive(Default)]
pub(crate) struct Cache {
    slots: BTreeMap<String, Slot>,
    placements: HashMap<String, Placement>,
    dirty: BTreeSet<String>,
    /// Nodes came or went since the last snapshot.
    reordered: bool,
}

fn uid(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}

impl Cache {
    /// Adds or replaces a node; its pods stay.
    pub(crate) fn set_node(&mut self, node: &Arc<Node>) {
        let name = node.metadata.name.clone().unwrap_or_default();
        let slot = self.slots.entry(name.clone()).or_default();
        self.reordered |= !slot.exists;
        slot.exists = true;
        Arc::make_mut(&mut slot.info).set_node(Arc::clone(node));
        self.dirty.insert(name);
    }

    /// Removes a node; pods still bound to it are remembered until they go.
    pub(crate) fn remove_node(&mut self, name: &str) {
        if let Some(slot) = self.slots.get_mut(name) {
            slot.exists = false;
            self.reordered = true;
            if slot.info.pod_count() == 0 {
                self.slots.remove(name);
            }
        }
    }

    /// A pod is bound to a node, says the API server: this confirms an assumption or replaces it.
    pub(crate) fn set_pod(&mut self, pod: &Arc<Pod>) {
        self.place(Arc::new(PodInfo::new(Arc::clone(pod))), false);
    }

    /// Counts a pod as placed before the API server says so.
    pub(crate) fn assume(&mut self, info: &PodInfo, node: &str) {
        let mut pod = Pod::clone(&info.pod);
        pod.spec.get_or_insert_default().node_name = Some(node.to_owned());
        self.place(Arc::new(PodInfo::new(Arc::new(pod))), true);
    }

    /// Takes an assumption back, unless the API server confirmed it meanwhile.
    pub(crate) fn forget(&mut self, pod: &Pod) {
        if self.placements.get(&uid(pod)).is_some_and(|placement| placement.assumed) {
            self.remove_pod(pod);
        }
    }

    /// Whether the pod is placed or assumed.
    pub(crate) fn holds(&self, pod: &Pod) -> bool {
        self.placements.contains_key(&uid(pod))
    }

    pub(crate) fn remove_pod(&mut self, pod: &Pod) {
        let Some(placement) = self.placements.remove(&uid(pod)) else { return };
        let Some(slot) = self.slots.get_mut(&placement.node) else { return };
        Arc::make_mut(&mut slot.info).remove(&placement.info);
        if !slot.exists && slot.info.pod_count() == 0 {
            self.slots.remove(&placement.node);
        }
        self.dirty.insert(placement.node);
    }

    fn place(&mut self, info: Arc<PodInfo>, assumed: bool) {
        self.remove_pod(&info.pod);
        let node = info.spec().node_name.clone().unwrap_or_default();
        let slot = self.slots.entry(node.clone()).or_default();
        Arc::make_mut(&mut slot.info).add(Arc::clone(&info));
        self.dirty.insert(node.clone());
        self.placements.insert(uid(&info.pod), Placement { node, info, assumed });
    }

    /// Brings a snapshot up to date; the cost is that of the changed nodes, unless nodes came or went.
    pub(crate) fn refresh(&mut self, snapshot: &mut Snapshot) {
        if std::mem::take(&mut self.reordered) {
            let existing = self.slots.iter().filter(|(_, slot)| slot.exists);
            (snapshot.nodes, snapshot.positions) =
                existing.enumerate().map(|(position, (name, slot))| (Arc::clone(&slot.info), (name.clone(), position))).unzip();
        }
        for name in std::mem::take(&mut self.dirty) {
            if let (Some(position), Some(slot)) = (snapshot.positions.get(&name), self.slots.get(&name)) {
                snapshot.nodes[*position] = Arc::clone(&slot.info);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{api_node, named_pod, pod_info};
    use serde_json::json;

    fn pods_on(cache: &mut Cache, snapshot: &mut Snapshot) -> Vec<usize> {
        cache.refresh(snapshot);
        snapshot.nodes.iter().map(|node| node.pod_count()).collect()
    }

    fn node(name: &str) -> Arc<Node> {
        Arc::new(api_node(name, json!({}), json!({}), json!({})))
    }

    #[test]
    fn an_assumed_pod_counts_until_it_is_forgotten() {
        let (mut cache, mut snapshot) = (Cache::default(), Snapshot::default());
        cache.set_node(&node("a"));
        let pod = pod_info(json!({}));
        cache.assume(&pod, "a");
        assert_eq!(pods_on(&mut cache, &mut snapshot), [1]);
        cache.forget(&pod.pod);
        assert_eq!(pods_on(&mut cache, &mut snapshot), [0]);
    }

    #[test]
    fn a_confirmed_assumption_is_not_forgotten() {
        let (mut cache, mut snapshot) = (Cache::default(), Snapshot::default());
        cache.set_node(&node("a"));
        let pod = named_pod("p", json!({}));
        cache.assume(&PodInfo::new(Arc::new(pod.clone())), "a");
        cache.set_pod(&Arc::new(named_pod("p", json!({"nodeName": "a"}))));
        cache.forget(&pod);
        assert_eq!(pods_on(&mut cache, &mut snapshot), [1]);
    }

    #[test]
    fn pods_seen_before_their_node_count_once_it_comes() {
        let (mut cache, mut snapshot) = (Cache::default(), Snapshot::default());
        cache.set_pod(&Arc::new(named_pod("p", json!({"nodeName": "b"}))));
        cache.set_node(&node("a"));
        assert_eq!(pods_on(&mut cache, &mut snapshot), [0]);
        cache.set_node(&node("b"));
        assert_eq!(pods_on(&mut cache, &mut snapshot), [0, 1]);
        cache.remove_node("a");
        assert_eq!(pods_on(&mut cache, &mut snapshot), [1]);
    }
}
