//! What a plugin is: one trait an extension point, after upstream's scheduling framework (KEP-624).
//!
//! Filters and scores are pure: pod and node in, verdict out; neither clock nor randomness.

mod status;

use std::any::Any;

use k8s_openapi::api::core::v1::Pod;

use crate::cache::{NodeInfo, PodInfo, Snapshot};
pub(crate) use status::{Refusal, Resolvable};

/// The best score of a node for one plugin.
pub(crate) const MAX_SCORE: i64 = 100;

/// What a plugin computed once for a pod, handed back at each node.
pub(crate) type State = Option<Box<dyn Any + Send + Sync>>;

/// A change in the cluster that may make a refused pod schedulable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClusterEvent {
    NodeAdded,
    /// Labels, taints, allocatable or spec of a node changed.
    NodeUpdated,
    /// A pod left its node, or asks for less.
    AssignedPodFreed,
    /// The waiting pod itself changed.
    PodUpdated,
}

/// Every plugin: its name and which changes may help a pod that it refused (queueing hints).
pub(crate) trait Plugin: Send + Sync {
    fn name(&self) -> &'static str;

    fn may_help(&self, _event: ClusterEvent) -> bool {
        false
    }

    fn as_pre_enqueue(&self) -> Option<&dyn PreEnqueue> {
        None
    }
    fn as_filter(&self) -> Option<&dyn Filter> {
        None
    }
    fn as_score(&self) -> Option<&dyn Score> {
        None
    }
}

/// May hold a pod back from being tried at all.
pub(crate) trait PreEnqueue {
    fn admit(&self, pod: &Pod) -> Result<(), Refusal>;
}

/// May refuse a node.
pub(crate) trait Filter {
    /// What is the same for all nodes, computed once.
    fn prepare(&self, _pod: &PodInfo) -> State {
        None
    }

    fn filter(&self, pod: &PodInfo, state: &State, node: &NodeInfo) -> Result<(), Refusal>;
}

/// Prefers some nodes over others.
pub(crate) trait Score {
    /// Whether every node would score alike for this pod.
    fn skip(&self, _pod: &PodInfo) -> bool {
        false
    }

    fn score(&self, pod: &PodInfo, node: &NodeInfo, snapshot: &Snapshot) -> i64;

    /// Brings raw scores into 0..=[`MAX_SCORE`].
    fn normalize(&self, _scores: &mut [i64]) {}
}

/// Scales scores so that the highest becomes [`MAX_SCORE`]; `reverse` turns the order around.
pub(crate) fn scale_to_max(scores: &mut [i64], reverse: bool) {
    let most = scores.iter().copied().max().unwrap_or(0);
    for score in scores.iter_mut() {
        let share = if most == 0 { 0 } else { *score * MAX_SCORE / most };
        *score = if reverse { MAX_SCORE - share } else { share };
    }
}
