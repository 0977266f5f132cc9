//! Whether a node is one a pod asks for, as far as controllers have to know. Pure.

use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration};

/// Whether the node fits `nodeName`, `nodeSelector` and required node affinity.
pub(crate) fn selects(spec: &PodSpec, node: &Node) -> bool {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    if spec.node_name.as_deref().is_some_and(|wanted| !wanted.is_empty() && wanted != name) {
        return false;
    }
    let label = |key: &str| node.metadata.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str);
    if !spec.node_selector.iter().flatten().all(|(key, value)| label(key) == Some(value)) {
        return false;
    }
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    match affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref()) {
        None => true,
        Some(required) => required.node_selector_terms.iter().any(|term| matches(term, node)),
    }
}

/// An empty term matches nothing.
fn matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let label = |key: &str| node.metadata.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str);
    let field = |key: &str| node.metadata.name.as_deref().filter(|_| key == "metadata.name");
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|requirement| holds(requirement, label(&requirement.key)))
        && fields.iter().all(|requirement| holds(requirement, field(&requirement.key)))
}

fn holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = |value: &str| values.iter().any(|listed| listed == value);
    let number = |text: &str| text.parse::<i64>().ok();
    let compared = || Some((number(value?)?, number(values.first()?)?));
    match requirement.operator.as_str() {
        "In" => value.is_some_and(listed),
        "NotIn" => !value.is_some_and(listed),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared().is_some_and(|(value, bound)| value > bound),
        "Lt" => compared().is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

/// Whether the toleration covers the taint.
pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let given = |value: &Option<String>| value.clone().unwrap_or_default();
    let (effect, key, operator) = (given(&toleration.effect), given(&toleration.key), given(&toleration.operator));
    if (!effect.is_empty() && effect != taint.effect) || (!key.is_empty() && key != taint.key) {
        return false;
    }
    match operator.as_str() {
        "" | "Equal" => given(&toleration.value) == given(&taint.value),
        "Exists" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, PodSpec};
    use serde_json::{Value, json};

    use super::selects;

    fn fits(terms: Value) -> bool {
        let node: Node = serde_json::from_value(json!({"metadata": {"name": "n1", "labels": {"disk": "ssd", "cpus": "8"}}})).unwrap();
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
        let spec: PodSpec = serde_json::from_value(json!({"containers": [], "affinity": affinity})).unwrap();
        selects(&spec, &node)
    }

    #[test]
    fn terms_are_alternatives_and_their_requirements_add_up() {
        let ssd = json!({"key": "disk", "operator": "In", "values": ["ssd", "nvme"]});
        let many = json!({"key": "cpus", "operator": "Gt", "values": ["16"]});
        assert!(fits(json!([{"matchExpressions": [ssd]}])));
        assert!(!fits(json!([{"matchExpressions": [ssd, many]}])));
        assert!(fits(
            json!([{"matchExpressions": [many]}, {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}])
        ));
        assert!(!fits(json!([{}])));
    }
}
