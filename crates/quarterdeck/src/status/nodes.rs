//! How far the nodes are.

use std::fmt;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;

/// The nodes of a cluster, as seen at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Nodes {
    ready: usize,
    expected: usize,
    /// What the others lack, by name.
    waiting: Vec<String>,
}

impl Nodes {
    /// Of nodes whose Lease was not renewed after `since`, nobody knows: what they said is from before.
    pub(super) fn of(nodes: &[Node], leases: &[Lease], since: Option<Timestamp>, expected: usize) -> Self {
        let stale = |node: &Node| since.is_some_and(|since| renewed(node, leases).is_none_or(|renewed| renewed < since));
        let silent = |node: &Node| stale(node).then(|| format!("{} has not reported yet", name(node)));
        let waiting: Vec<_> = nodes.iter().filter_map(|node| silent(node).or_else(|| lack(node))).collect();
        Self { ready: nodes.len() - waiting.len(), expected, waiting }
    }

    pub(super) fn all_ready(&self) -> bool {
        self.waiting.is_empty() && self.ready >= self.expected
    }
}

impl fmt::Display for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ready, {} of {} nodes Ready", self.ready, self.expected)?;
        // Thousands of hollow nodes all lack the same.
        match self.waiting.as_slice() {
            [] => Ok(()),
            few if few.len() <= 3 => write!(f, "; {}", few.join("; ")),
            [first, rest @ ..] => write!(f, "; {first}; and {} more", rest.len()),
        }
    }
}

fn name(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}

fn renewed(node: &Node, leases: &[Lease]) -> Option<Timestamp> {
    let lease = leases.iter().find(|lease| lease.metadata.name == node.metadata.name)?;
    lease.spec.as_ref()?.renew_time.as_ref().map(|time| time.0)
}

/// Why a node is not Ready; `None` when it is.
fn lack(node: &Node) -> Option<String> {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    match conditions.iter().find(|condition| condition.type_ == "Ready") {
        Some(ready) if ready.status == "True" => None,
        Some(ready) => Some(format!("{}: {}", name(node), ready.message.as_deref().unwrap_or(&ready.status))),
        None => Some(format!("{} has not reported yet", name(node))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, status: &str, message: &str) -> Node {
        let conditions = json!([{"type": "Ready", "status": status, "message": message}]);
        serde_json::from_value(json!({"metadata": {"name": name}, "status": {"conditions": conditions}})).unwrap()
    }

    #[test]
    fn a_node_that_is_not_ready_says_why() {
        let nodes = Nodes::of(&[node("node-1", "True", "fine"), node("node-2", "False", "no network")], &[], None, 2);
        assert_eq!(nodes.to_string(), "ready, 1 of 2 nodes Ready; node-2: no network");
        assert!(!nodes.all_ready());
    }

    #[test]
    fn nodes_that_have_not_registered_are_waited_for() {
        let nodes = |count| Nodes::of(&vec![node("n", "True", ""); count], &[], None, 2);
        assert!(!nodes(0).all_ready() && !nodes(1).all_ready() && nodes(2).all_ready() && nodes(3).all_ready());
        assert_eq!(nodes(1).to_string(), "ready, 1 of 2 nodes Ready");
    }

    #[test]
    fn what_a_node_said_before_it_started_does_not_count() {
        let lease = |seconds: i64| {
            let renewed = Timestamp::from_second(seconds).unwrap().to_string();
            serde_json::from_value(json!({"metadata": {"name": "node-1"}, "spec": {"renewTime": renewed}})).unwrap()
        };
        let since = Timestamp::from_second(100).unwrap();
        let with = |leases: &[Lease]| Nodes::of(&[node("node-1", "True", "")], leases, Some(since), 1);
        assert_eq!(with(&[lease(99)]).to_string(), "ready, 0 of 1 nodes Ready; node-1 has not reported yet");
        assert!(!with(&[lease(99)]).all_ready() && !with(&[]).all_ready() && with(&[lease(101)]).all_ready());
    }

    #[test]
    fn many_are_summed_up() {
        let nodes = Nodes::of(&vec![node("n", "Unknown", "gone"); 5], &[], None, 5);
        assert_eq!(nodes.to_string(), "ready, 0 of 5 nodes Ready; n: gone; and 4 more");
    }
}
