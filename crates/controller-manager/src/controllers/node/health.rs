//! When a node counts as gone. Pure.
//!
//! A node shows that it lives by renewing its Lease or its status. What counts is when *this* process saw that change, on
//! its own monotonic clock: no node's clock is ever believed.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{Node, NodeCondition},
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use tokio::time::Instant;

use super::condition;

const READY: &str = "Ready";
/// Conditions that only the kubelet can vouch for.
const VOUCHED: [&str; 4] = [READY, "MemoryPressure", "DiskPressure", "PIDPressure"];

/// How long a node may be silent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) running: Duration,
    pub(super) starting: Duration,
}

/// What was last seen of one node.
#[derive(Clone, Debug)]
struct Seen {
    sign_of_life: Instant,
    /// Version of the lease in the cache.
    lease: Option<String>,
    /// Version of the lease when the API server was last asked.
    asked: Option<String>,
    heartbeat: Option<Timestamp>,
}

/// What was last seen of all nodes.
#[derive(Debug, Default)]
pub(super) struct Health {
    nodes: BTreeMap<String, Seen>,
}

impl Health {
    /// Takes in a node and its lease as the caches show them at `now`; whether it has been silent for too long.
    pub(super) fn observe(&mut self, node: &Node, lease: Option<&Lease>, patience: Patience, now: Instant) -> bool {
        let name = node.metadata.name.clone().unwrap_or_default();
        let ready = condition(node, READY);
        // Any change of the lease object is a renewal; its times are not read.
        let lease = lease.and_then(|lease| lease.metadata.resource_version.clone());
        let heartbeat = ready.and_then(|ready| ready.last_heartbeat_time.as_ref()).map(|time| time.0);
        let silent = Seen { sign_of_life: now, lease: lease.clone(), asked: None, heartbeat };
        let seen = self.nodes.entry(name).or_insert(silent);
        let renewed = lease.is_some() && lease != seen.lease && lease != seen.asked;
        if renewed || (heartbeat.is_some() && heartbeat != seen.heartbeat && is_reported(ready)) {
            seen.sign_of_life = now;
        }
        (seen.lease, seen.heartbeat) = (lease, heartbeat);
        let allowed = if ready.is_some() { patience.running } else { patience.starting };
        now.duration_since(seen.sign_of_life) > allowed
    }

    /// Takes in a node's lease as the API server has it, which the cache may lag behind after an outage.
    pub(super) fn ask(&mut self, node: &str, lease: &Lease, now: Instant) {
        let Some(seen) = self.nodes.get_mut(node) else { return };
        let lease = lease.metadata.resource_version.clone();
        if lease.is_some() && lease != seen.asked && lease != seen.lease {
            seen.sign_of_life = now;
        }
        seen.asked = lease;
    }

    /// Gives every node its full patience anew: for a while nobody could report, or nobody could be heard.
    pub(super) fn forgive(&mut self, now: Instant) {
        self.nodes.values_mut().for_each(|seen| seen.sign_of_life = now);
    }

    /// Forgets nodes that are gone.
    pub(super) fn retain(&mut self, exists: impl Fn(&str) -> bool) {
        self.nodes.retain(|name, _| exists(name));
    }
}

/// Whether the kubelet wrote the condition, and not this controller in its stead.
fn is_reported(condition: Option<&NodeCondition>) -> bool {
    condition.is_some_and(|condition| condition.status != "Unknown")
}

/// The conditions of a silent node, if they do not say so yet.
pub(super) fn unknown(node: &Node, now: Timestamp) -> Option<Vec<NodeCondition>> {
    let mut conditions = node.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let mut changed = false;
    for kind in VOUCHED {
        match conditions.iter_mut().find(|condition| condition.type_ == kind) {
            None => {
                changed = true;
                conditions.push(NodeCondition {
                    type_: kind.into(),
                    status: "Unknown".into(),
                    reason: Some("NodeStatusNeverUpdated".into()),
                    message: Some("Kubelet never posted node status.".into()),
                    last_heartbeat_time: node.metadata.creation_timestamp.clone(),
                    last_transition_time: Some(Time(now)),
                });
            }
            Some(condition) if condition.status != "Unknown" => {
                changed = true;
                condition.status = "Unknown".into();
                condition.reason = Some("NodeStatusUnknown".into());
                condition.message = Some("Kubelet stopped posting node status.".into());
                condition.last_transition_time = Some(Time(now));
            }
            Some(_) => {}
        }
    }
    changed.then_some(conditions)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node};
    use serde_json::json;
    use tokio::time::Instant;

    use super::{Health, Patience, unknown};

    const PATIENCE: Patience = Patience { running: Duration::from_secs(50), starting: Duration::from_secs(60) };

    fn node(heartbeat: &str) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": "n"},
            "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat}]},
        }))
        .unwrap()
    }

    fn lease(version: &str) -> Lease {
        let mut lease = Lease::default();
        lease.metadata.resource_version = Some(version.into());
        lease
    }

    const OLD: &str = "2020-01-01T00:00:00Z";

    #[test]
    fn a_renewed_lease_keeps_a_node_alive_however_old_its_status_is() {
        let (mut health, start) = (Health::default(), Instant::now());
        for beat in 0..10 {
            let now = start + Duration::from_secs(beat * 40);
            assert!(!health.observe(&node(OLD), Some(&lease(&beat.to_string())), PATIENCE, now));
        }
    }

    #[test]
    fn silence_counts_from_the_last_change_seen_here() {
        let (mut health, start) = (Health::default(), Instant::now());
        // Its heartbeat may be years old or in the future: only that it changes counts.
        assert!(!health.observe(&node(OLD), Some(&lease("1")), PATIENCE, start));
        assert!(!health.observe(&node(OLD), Some(&lease("1")), PATIENCE, start + Duration::from_secs(50)));
        assert!(health.observe(&node(OLD), Some(&lease("1")), PATIENCE, start + Duration::from_secs(51)));
        assert!(!health.observe(&node("2030-01-01T00:00:00Z"), Some(&lease("1")), PATIENCE, start + Duration::from_secs(52)));
    }

    #[test]
    fn a_renewal_that_the_cache_has_not_seen_counts_once() {
        let (mut health, start) = (Health::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        health.observe(&node(OLD), Some(&lease("1")), PATIENCE, start);
        assert!(health.observe(&node(OLD), Some(&lease("1")), PATIENCE, at(51)));
        health.ask("n", &lease("5"), at(51));
        assert!(!health.observe(&node(OLD), Some(&lease("1")), PATIENCE, at(51)));
        // Neither asking again nor the cache catching up is news of the node.
        health.ask("n", &lease("5"), at(90));
        assert!(health.observe(&node(OLD), Some(&lease("5")), PATIENCE, at(102)));
    }

    #[test]
    fn a_lost_lease_alone_is_no_sign_of_life() {
        let (mut health, start) = (Health::default(), Instant::now());
        health.observe(&node(OLD), Some(&lease("1")), PATIENCE, start);
        assert!(health.observe(&node(OLD), None, PATIENCE, start + Duration::from_secs(51)));
    }

    #[test]
    fn forgiven_nodes_have_their_full_patience_again() {
        let (mut health, start) = (Health::default(), Instant::now());
        health.observe(&node(OLD), None, PATIENCE, start);
        health.forgive(start + Duration::from_secs(100));
        assert!(!health.observe(&node(OLD), None, PATIENCE, start + Duration::from_secs(120)));
    }

    #[test]
    fn a_silent_node_gets_unknown_conditions_once() {
        let mut silent = node(OLD);
        let conditions = unknown(&silent, jiff::Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(conditions[0].reason.as_deref(), Some("NodeStatusUnknown"));
        assert_eq!(conditions[1].reason.as_deref(), Some("NodeStatusNeverUpdated"));
        silent.status.as_mut().unwrap().conditions = Some(conditions);
        assert_eq!(unknown(&silent, jiff::Timestamp::UNIX_EPOCH), None);
    }
}
