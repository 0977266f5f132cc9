//! Which nodes a DaemonSet's pods belong on, and the pod of one node. Pure.

use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{Affinity, Node, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Toleration},
};

use crate::{
    placement::{selects, tolerates},
    pod_control::from_template,
};

pub(super) const HASH: &str = "controller-revision-hash";
const GENERATION: &str = "pod-template-generation";
/// Annotation that records the generation of the template.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Taints every daemon tolerates: it belongs to the node whatever state that is in.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
const TOLERATED_ON_HOST_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

fn spec(set: &DaemonSet) -> PodSpec {
    set.spec.as_ref().and_then(|spec| spec.template.spec.clone()).unwrap_or_default()
}

fn tolerations(spec: &PodSpec) -> Vec<Toleration> {
    let host = (spec.host_network == Some(true)).then_some(TOLERATED_ON_HOST_NETWORK);
    let added = TOLERATED.into_iter().chain(host).map(|(key, effect)| Toleration {
        key: Some(key.into()),
        operator: Some("Exists".into()),
        effect: Some(effect.into()),
        ..Toleration::default()
    });
    let mut all = spec.tolerations.clone().unwrap_or_default();
    for toleration in added {
        if !all.contains(&toleration) {
            all.push(toleration);
        }
    }
    all
}

/// Whether a pod is to be started on the node, and whether one that runs there may go on.
pub(super) fn belongs(set: &DaemonSet, node: &Node) -> (bool, bool) {
    let spec = spec(set);
    if !selects(&spec, node) {
        return (false, false);
    }
    let tolerations = tolerations(&spec);
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let bothered = |effects: &[&str]| {
        let counted = taints.iter().filter(|taint| effects.contains(&taint.effect.as_str()));
        counted.filter(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint))).count() > 0
    };
    (!bothered(&["NoSchedule", "NoExecute"]), !bothered(&["NoExecute"]))
}

/// The node a pod runs on, or is meant for while it has not been scheduled.
pub(super) fn target(pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    if let Some(name) = spec.node_name.clone().filter(|name| !name.is_empty()) {
        return Some(name);
    }
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let terms = &affinity.required_during_scheduling_ignored_during_execution.as_ref()?.node_selector_terms;
    let fields = terms.iter().flat_map(|term| term.match_fields.iter().flatten());
    let mut names = fields.filter(|field| field.key == "metadata.name").filter_map(|field| field.values.as_ref()?.first().cloned());
    names.next()
}

/// The pod for one node: the scheduler places it, bound to that node by affinity.
pub(super) fn pod(set: &DaemonSet, node: &str, hash: &str) -> Pod {
    let mut pod = from_template(set, set.spec.as_ref().map(|spec| &spec.template));
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(HASH.into(), hash.into());
    if let Some(generation) = set.metadata.annotations.as_ref().and_then(|annotations| annotations.get(TEMPLATE_GENERATION)) {
        labels.insert(GENERATION.into(), generation.clone());
    }
    let spec = pod.spec.get_or_insert_default();
    spec.tolerations = Some(tolerations(spec));
    pin(spec.affinity.get_or_insert_default(), node);
    pod
}

fn pin(affinity: &mut Affinity, node: &str) {
    let requirement = NodeSelectorRequirement { key: "metadata.name".into(), operator: "In".into(), values: Some(vec![node.to_owned()]) };
    let node_affinity: &mut NodeAffinity = affinity.node_affinity.get_or_insert_default();
    let required: &mut NodeSelector = node_affinity.required_during_scheduling_ignored_during_execution.get_or_insert_default();
    if required.node_selector_terms.is_empty() {
        required.node_selector_terms.push(NodeSelectorTerm::default());
    }
    for term in &mut required.node_selector_terms {
        term.match_fields = Some(vec![requirement.clone()]);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{apps::v1::DaemonSet, core::v1::Node};
    use serde_json::{Value, json};

    use super::{belongs, pod, target};

    fn set(spec: Value) -> DaemonSet {
        serde_json::from_value(json!({"metadata": {"name": "ds"}, "spec": {"selector": {}, "template": {"spec": spec}}})).unwrap()
    }

    fn node(taints: Value) -> Node {
        serde_json::from_value(json!({"metadata": {"name": "n1"}, "spec": {"taints": taints}})).unwrap()
    }

    #[test]
    fn runs_on_nodes_in_trouble_but_not_on_reserved_ones() {
        let set = set(json!({"containers": []}));
        let trouble = json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]);
        assert_eq!(belongs(&set, &node(trouble)), (true, true));
        assert_eq!(belongs(&set, &node(json!([{"key": "gpu", "effect": "NoSchedule"}]))), (false, true));
        assert_eq!(belongs(&set, &node(json!([{"key": "gpu", "effect": "NoExecute"}]))), (false, false));
    }

    #[test]
    fn a_pod_knows_its_node_before_it_is_scheduled() {
        let terms = json!([{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]);
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
        let pod = pod(&set(json!({"containers": [], "affinity": affinity})), "n1", "h");
        assert_eq!(target(&pod).as_deref(), Some("n1"));
        assert_eq!(pod.metadata.labels.unwrap()["controller-revision-hash"], "h");
    }
}
