//! How many pods to create, or which to delete. Pure.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};

use super::rank;

/// The most pods created or deleted in one go (upstream: `BurstReplicas`).
const BURST: usize = 500;

#[derive(Debug, PartialEq)]
pub(super) enum Action {
    Nothing,
    Create(usize),
    Delete(Vec<Arc<Pod>>),
}

/// Compares `active` pods with what `set` asks for; `related` pods show how crowded nodes are.
pub(super) fn plan(set: &ReplicaSet, active: &[Arc<Pod>], related: &[Arc<Pod>], now: Timestamp) -> Action {
    let wanted = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let wanted = usize::try_from(wanted).unwrap_or(0);
    if active.len() < wanted {
        Action::Create((wanted - active.len()).min(BURST))
    } else if active.len() > wanted {
        Action::Delete(rank::doomed(active, related, (active.len() - wanted).min(BURST), now))
    } else {
        Action::Nothing
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
    use serde_json::json;

    use super::{Action, plan};

    fn set(replicas: i32) -> ReplicaSet {
        serde_json::from_value(json!({"spec": {"replicas": replicas, "selector": {}}})).unwrap()
    }

    fn pods(count: usize) -> Vec<Arc<Pod>> {
        (0..count).map(|_| Arc::new(Pod::default())).collect()
    }

    fn planned(replicas: i32, existing: usize) -> Action {
        plan(&set(replicas), &pods(existing), &[], Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn creates_what_is_missing_up_to_a_burst() {
        assert_eq!(planned(3, 1), Action::Create(2));
        assert_eq!(planned(2000, 0), Action::Create(500));
    }

    #[test]
    fn deletes_what_is_too_much() {
        assert!(matches!(planned(1, 3), Action::Delete(doomed) if doomed.len() == 2));
        assert_eq!(planned(2, 2), Action::Nothing);
    }
}
