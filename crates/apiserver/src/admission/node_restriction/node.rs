//! What a node may change about nodes: itself, and of its labels those that are a kubelet's.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::Object;
use serde_json::Value;

use super::super::{Attributes, Operation};
use super::{Verdict, name};

/// Labels kubelets set, although they lie in Kubernetes' own domains.
const KUBELET_LABELS: [&str; 13] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.kubernetes.io/zone",
    "failure-domain.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];
/// Domains whose labels are all a kubelet's.
const KUBELET_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];
/// A domain whose labels are never a kubelet's.
const RESTRICTED_DOMAIN: &str = "node-restriction.kubernetes.io";

pub(super) fn check(node: &str, attributes: &Attributes) -> Verdict {
    let requested = name(attributes);
    let nothing = Object::default();
    let new = attributes.object.as_ref().unwrap_or(&nothing);
    match (attributes.operation, &attributes.old_object) {
        (Operation::Create, _) => {
            let labels = forbidden(&new.labels(), &BTreeMap::new());
            if !labels.is_empty() {
                return Err(format!("node {node:?} is not allowed to set the following labels: {labels}"));
            }
        }
        (Operation::Update, Some(old)) if requested == node => check_change(node, new, old)?,
        _ => {}
    }
    if requested == node { Ok(()) } else { Err(format!("node {node:?} is not allowed to modify node {requested:?}")) }
}

fn check_change(node: &str, new: &Object, old: &Object) -> Verdict {
    let taints = |object: &Object| object.pointer("/spec/taints").and_then(Value::as_array).cloned().unwrap_or_default();
    if taints(new) != taints(old) {
        return Err(format!("node {node:?} is not allowed to modify taints"));
    }
    if new.owner_references() != old.owner_references() {
        return Err(format!("node {node:?} is not allowed to modify ownerReferences"));
    }
    let labels = forbidden(&new.labels(), &old.labels());
    if labels.is_empty() { Ok(()) } else { Err(format!("is not allowed to modify labels: {labels}")) }
}

/// The labels that changed and are not a kubelet's, joined.
fn forbidden(new: &BTreeMap<String, String>, old: &BTreeMap<String, String>) -> String {
    let changed: BTreeSet<&String> = new.keys().chain(old.keys()).filter(|key| new.get(*key) != old.get(*key)).collect();
    let forbidden: Vec<&str> = changed.into_iter().map(String::as_str).filter(|label| !allowed(label)).collect();
    forbidden.join(", ")
}

fn allowed(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    let within = |parent: &str| domain == parent || domain.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'));
    let kubernetes = within("kubernetes.io") || within("k8s.io");
    if within(RESTRICTED_DOMAIN) {
        return false;
    }
    !kubernetes || KUBELET_LABELS.contains(&label) || KUBELET_DOMAINS.into_iter().any(within)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kubelets_set_their_own_labels_and_anybodys() {
        for (label, expected) in [
            ("app", true),
            ("example.com/x", true),
            ("kubernetes.io/hostname", true),
            ("node.kubernetes.io/anything", true),
            ("foo.kubelet.kubernetes.io/x", true),
            ("kubernetes.io/role", false),
            ("foo.k8s.io/x", false),
            ("node-restriction.kubernetes.io/x", false),
            ("a.node-restriction.kubernetes.io/x", false),
            ("notkubernetes.io/x", true),
        ] {
            assert_eq!(allowed(label), expected, "{label}");
        }
    }

    #[test]
    fn a_node_keeps_its_hands_off_its_taints() {
        let node = |value: Value| Object::from_value(value).unwrap();
        let (new, old) = (node(json!({"spec": {}})), node(json!({"spec": {"taints": [{"key": "k"}]}})));
        assert_eq!(check_change("a", &new, &old), Err(r#"node "a" is not allowed to modify taints"#.to_owned()));
        assert_eq!(check_change("a", &old, &old), Ok(()));
    }
}
