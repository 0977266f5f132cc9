//! How fast nodes may be emptied, zone by zone. Pure.
//!
//! One dead node is a dead node; a whole zone of them is more likely a network that is down, and every node at once means
//! that it is the control plane which cannot hear. Nothing is evicted then.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use tokio::time::Instant;

/// From this many nodes not ready on, a fraction of a zone means something.
const FEW: usize = 2;

/// Rates and thresholds, as the flags give them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    /// Nodes per second.
    pub(super) normal: f64,
    /// Nodes per second in a large zone of which most nodes are not ready.
    pub(super) reduced: f64,
    pub(super) large: usize,
    pub(super) unhealthy: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Normal,
    PartialDisruption,
    FullDisruption,
}

/// The zone a node is in; empty when it says nothing.
pub(super) fn zone_of(node: &Node) -> String {
    let label = |name: &str| node.metadata.labels.as_ref().and_then(|labels| labels.get(name)).cloned().unwrap_or_default();
    let (region, zone) = (label("topology.kubernetes.io/region"), label("topology.kubernetes.io/zone"));
    if region.is_empty() && zone.is_empty() { String::new() } else { format!("{region}:\u{0}:{zone}") }
}

/// The state of a zone with that many nodes ready and not.
pub(super) fn state(ready: usize, not_ready: usize, rates: &Rates) -> State {
    #[allow(clippy::cast_precision_loss)]
    let fraction = not_ready as f64 / (ready + not_ready).max(1) as f64;
    if ready == 0 && not_ready > 0 {
        State::FullDisruption
    } else if not_ready > FEW && fraction >= rates.unhealthy {
        State::PartialDisruption
    } else {
        State::Normal
    }
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
    rate: f64,
}

/// The eviction budget of each zone.
#[derive(Debug, Default)]
pub(super) struct Limits {
    zones: BTreeMap<String, Bucket>,
    /// Whether every zone is fully disrupted.
    all_down: bool,
}

/// What changed for the cluster as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    None,
    /// Every node looks dead now.
    AllDown,
    /// Some node can be heard again after all looked dead.
    Recovered,
}

impl Limits {
    /// Takes in how many nodes are ready and not in each zone.
    pub(super) fn update(&mut self, counts: &BTreeMap<String, (usize, usize)>, rates: &Rates, now: Instant) -> Turn {
        self.zones.retain(|zone, _| counts.contains_key(zone));
        let states = counts.iter().map(|(zone, (ready, not_ready))| (zone, state(*ready, *not_ready, rates), ready + not_ready));
        let states: Vec<_> = states.collect();
        let all_down = !states.is_empty() && states.iter().all(|(_, state, _)| *state == State::FullDisruption);
        for (zone, state, size) in states {
            let rate = match state {
                _ if all_down => 0.0,
                State::PartialDisruption if size > rates.large => rates.reduced,
                State::PartialDisruption => 0.0,
                State::Normal | State::FullDisruption => rates.normal,
            };
            let bucket = self.zones.entry(zone.clone()).or_insert(Bucket { tokens: 1.0, at: now, rate });
            bucket.refill(now);
            bucket.rate = rate;
        }
        let turn = match (self.all_down, all_down) {
            (false, true) => Turn::AllDown,
            (true, false) => Turn::Recovered,
            _ => Turn::None,
        };
        self.all_down = all_down;
        turn
    }

    /// Takes one node's worth of a zone's budget, if there is any.
    pub(super) fn take(&mut self, zone: &str, now: Instant) -> bool {
        let Some(bucket) = self.zones.get_mut(zone) else { return false };
        bucket.refill(now);
        let allowed = bucket.rate > 0.0 && bucket.tokens >= 1.0;
        if allowed {
            bucket.tokens -= 1.0;
        }
        allowed
    }

    /// Whether every node looks dead.
    pub(super) fn all_down(&self) -> bool {
        self.all_down
    }
}

impl Bucket {
    fn refill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.at).as_secs_f64();
        self.tokens = (self.tokens + elapsed * self.rate).min(1.0);
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use tokio::time::Instant;

    use super::{Limits, Rates, State, Turn, state};

    const RATES: Rates = Rates { normal: 0.1, reduced: 0.01, large: 50, unhealthy: 0.55 };

    fn counts(zones: &[(&str, usize, usize)]) -> BTreeMap<String, (usize, usize)> {
        zones.iter().map(|(zone, ready, not_ready)| ((*zone).to_owned(), (*ready, *not_ready))).collect()
    }

    #[test]
    fn a_zone_is_judged_by_its_share_of_dead_nodes() {
        assert_eq!(state(1, 2, &RATES), State::Normal);
        assert_eq!(state(1, 3, &RATES), State::PartialDisruption);
        assert_eq!(state(0, 1, &RATES), State::FullDisruption);
    }

    #[test]
    fn nothing_is_evicted_while_every_node_looks_dead() {
        let (mut limits, now) = (Limits::default(), Instant::now());
        assert_eq!(limits.update(&counts(&[("a", 0, 3), ("b", 0, 2)]), &RATES, now), Turn::AllDown);
        assert!(!limits.take("a", now + Duration::from_secs(3600)));
        assert_eq!(limits.update(&counts(&[("a", 1, 2), ("b", 0, 2)]), &RATES, now), Turn::Recovered);
        assert!(limits.take("b", now + Duration::from_secs(10)));
    }

    #[test]
    fn one_node_in_ten_seconds_at_the_normal_rate() {
        let (mut limits, now) = (Limits::default(), Instant::now());
        limits.update(&counts(&[("a", 5, 2)]), &RATES, now);
        assert!(limits.take("a", now));
        assert!(!limits.take("a", now + Duration::from_secs(9)));
        assert!(limits.take("a", now + Duration::from_secs(11)));
    }

    #[test]
    fn a_small_zone_in_trouble_is_left_alone_and_a_large_one_slowly_emptied() {
        let (mut limits, now) = (Limits::default(), Instant::now());
        limits.update(&counts(&[("large", 20, 60), ("small", 2, 6)]), &RATES, now);
        assert!(limits.take("large", now));
        assert!(!limits.take("large", now + Duration::from_secs(50)));
        assert!(!limits.take("small", now));
    }
}
