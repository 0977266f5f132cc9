//! One decision: pod and snapshot in, node or reasons out. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::cache::{NodeInfo, PodInfo, Snapshot};
use crate::framework::{Refusal, Resolvable, State};
use crate::plugins::Entry;

/// Fewer nodes than this are all looked at; upstream's.
const MIN_FEASIBLE: usize = 100;

/// Where a pod goes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) node: String,
    /// How many nodes were looked at, for the next decision to begin after them.
    pub(crate) looked_at: usize,
}

/// Why a pod goes nowhere; displays as upstream's FitError.
#[derive(Debug)]
pub(crate) struct Unfit {
    nodes: usize,
    refusals: Vec<Refusal>,
    preempts: bool,
}

impl Unfit {
    /// The plugins that refused a node.
    pub(crate) fn plugins(&self) -> Vec<&'static str> {
        let mut plugins: Vec<_> = self.refusals.iter().map(|refusal| refusal.plugin).collect();
        plugins.sort_unstable();
        plugins.dedup();
        plugins
    }

    /// What upstream's preemption adds: whether other pods stand in the way at all.
    fn preemption(&self) -> String {
        if !self.preempts {
            return "not eligible due to preemptionPolicy=Never.".to_owned();
        }
        let text = |refusal: &Refusal| match refusal.resolvable {
            Resolvable::No => "Preemption is not helpful for scheduling",
            Resolvable::Yes => "No preemption victims found for incoming pod",
        };
        format!("0/{} nodes are available: {}", self.nodes, histogram(self.refusals.iter().map(text)))
    }
}

/// `2 reason, 1 other reason.` in the order of the texts.
fn histogram<'a>(reasons: impl Iterator<Item = &'a str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    reasons.for_each(|reason| *counts.entry(reason).or_default() += 1);
    let mut lines: Vec<_> = counts.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    lines.sort();
    format!("{}.", lines.join(", "))
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nodes == 0 {
            return f.write_str("no nodes available to schedule pods");
        }
        let reasons = self.refusals.iter().flat_map(|refusal| refusal.reasons.iter().map(String::as_str));
        write!(f, "0/{} nodes are available: {} ", self.nodes, histogram(reasons))?;
        write!(f, "no new claims to deallocate, preemption: {}", self.preemption())
    }
}

/// Finds the best node; `start` is where the round of nodes begins, so that all get their turn.
pub(crate) fn schedule(plugins: &[Entry], pod: &PodInfo, snapshot: &Snapshot, start: usize) -> Result<Decision, Unfit> {
    let prepared: Vec<_> =
        plugins.iter().filter_map(|(plugin, _)| plugin.as_filter()).map(|filter| (filter, filter.prepare(pod))).collect();
    let total = snapshot.nodes.len();
    let enough = feasible_enough(total);
    let (mut feasible, mut refusals, mut looked_at) = (Vec::new(), Vec::new(), 0);
    for offset in 0..total {
        let node = &snapshot.nodes[(start + offset) % total];
        looked_at += 1;
        match first_refusal(&prepared, pod, node) {
            Some(refusal) => refusals.push(refusal),
            None => feasible.push(node),
        }
        if feasible.len() >= enough {
            break;
        }
    }
    match best(plugins, pod, &feasible, snapshot) {
        Some(node) => Ok(Decision { node: node.name.clone(), looked_at }),
        None => {
            let preempts = pod.spec().preemption_policy.as_deref() != Some("Never");
            Err(Unfit { nodes: total, refusals, preempts })
        }
    }
}

fn first_refusal(prepared: &[(&dyn crate::framework::Filter, State)], pod: &PodInfo, node: &NodeInfo) -> Option<Refusal> {
    prepared.iter().find_map(|(filter, state)| filter.filter(pod, state, node).err())
}

/// In big clusters a good node is as good as the best one: upstream's adaptive share.
fn feasible_enough(nodes: usize) -> usize {
    if nodes < MIN_FEASIBLE {
        return nodes;
    }
    let percent = 50usize.saturating_sub(nodes / 125).max(5);
    (nodes * percent / 100).max(MIN_FEASIBLE)
}

/// The feasible node with the highest weighted score; the first of equals.
fn best<'a>(plugins: &[Entry], pod: &PodInfo, feasible: &[&'a Arc<NodeInfo>], snapshot: &Snapshot) -> Option<&'a Arc<NodeInfo>> {
    if feasible.len() < 2 {
        return feasible.first().copied();
    }
    let mut totals = vec![0; feasible.len()];
    for (plugin, weight) in plugins {
        let Some(score) = plugin.as_score().filter(|score| !score.skip(pod)) else { continue };
        let mut scores: Vec<_> = feasible.iter().map(|node| score.score(pod, node, snapshot)).collect();
        score.normalize(&mut scores);
        totals.iter_mut().zip(scores).for_each(|(total, score)| *total += score * weight);
    }
    let highest = totals.iter().max()?;
    let position = totals.iter().position(|total| total == highest)?;
    Some(feasible[position])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Cache;
    use crate::plugins;
    use crate::testing::{api_node, pod_info};
    use serde_json::{Value, json};

    fn snapshot(nodes: &[(&str, Value, Value)]) -> Snapshot {
        let (mut cache, mut snapshot) = (Cache::default(), Snapshot::default());
        for (name, spec, allocatable) in nodes {
            cache.set_node(&Arc::new(api_node(name, json!({}), spec.clone(), json!({"allocatable": allocatable}))));
        }
        cache.refresh(&mut snapshot);
        snapshot
    }

    fn room() -> Value {
        json!({"cpu": "1", "memory": "1Gi", "pods": "10"})
    }

    fn wants(cpu: &str) -> PodInfo {
        pod_info(json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}))
    }

    fn refuse(pod: &PodInfo, nodes: &[(&str, Value, Value)]) -> String {
        schedule(&plugins::all(), pod, &snapshot(nodes), 0).unwrap_err().to_string()
    }

    #[test]
    fn without_nodes_upstreams_words() {
        assert_eq!(refuse(&wants("1"), &[]), "no nodes available to schedule pods");
    }

    #[test]
    fn reasons_are_counted_and_sorted() {
        let cordoned = json!({"unschedulable": true});
        let nodes = [("a", json!({}), room()), ("b", cordoned, room())];
        assert_eq!(
            refuse(&wants("2"), &nodes),
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. no new claims to deallocate, \
             preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
        );
    }

    #[test]
    fn the_emptier_node_wins() {
        let nodes = [("a", json!({}), room()), ("b", json!({}), json!({"cpu": "4", "memory": "4Gi", "pods": "10"}))];
        let decision = schedule(&plugins::all(), &wants("500m"), &snapshot(&nodes), 0).unwrap();
        assert_eq!(decision, Decision { node: "b".into(), looked_at: 2 });
    }

    #[test]
    fn equals_take_turns() {
        let nodes = [("a", json!({}), room()), ("b", json!({}), room())];
        let decide = |start| schedule(&plugins::all(), &wants("100m"), &snapshot(&nodes), start).unwrap().node;
        assert_eq!((decide(0), decide(1)), ("a".to_owned(), "b".to_owned()));
    }

    #[test]
    fn big_clusters_are_not_searched_whole() {
        assert_eq!([99, 100, 1000, 10_000].map(feasible_enough), [99, 100, 420, 500]);
    }
}
