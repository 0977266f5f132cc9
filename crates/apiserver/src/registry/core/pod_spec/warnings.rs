//! What is accepted in a pod spec but deserves a warning.

use std::collections::BTreeSet;

use crate::registry::check::At;

/// Node labels with a successor.
const OLD_NODE_LABELS: [(&str, &str); 5] = [
    ("beta.kubernetes.io/arch", r#"deprecated since v1.14; use "kubernetes.io/arch" instead"#),
    ("beta.kubernetes.io/os", r#"deprecated since v1.14; use "kubernetes.io/os" instead"#),
    ("failure-domain.beta.kubernetes.io/region", r#"deprecated since v1.17; use "topology.kubernetes.io/region" instead"#),
    ("failure-domain.beta.kubernetes.io/zone", r#"deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#),
    ("beta.kubernetes.io/instance-type", r#"deprecated since v1.17; use "node.kubernetes.io/instance-type" instead"#),
];

/// Warnings for a pod spec at its path.
pub(crate) fn collect(spec: &At<'_>) -> Vec<String> {
    let mut out = Vec::new();
    for (key, _) in spec.get("nodeSelector").entries() {
        if let Some((_, text)) = OLD_NODE_LABELS.iter().find(|(label, _)| *label == key) {
            out.push(format!("{}: {text}", spec.get("nodeSelector").path.key(key)));
        }
    }
    for volume in spec.get("volumes").items() {
        if volume.get("gitRepo").is_set() {
            out.push(format!("{}: deprecated in v1.11", volume.get("gitRepo").path));
        }
    }
    for secret in spec.get("imagePullSecrets").items() {
        if secret.get("name").is_empty() {
            out.push(format!("{}: invalid empty name \"\"", secret.get("name").path));
        }
    }
    if spec.get("terminationGracePeriodSeconds").int().is_some_and(|n| n < 0) {
        let path = spec.get("terminationGracePeriodSeconds").path;
        out.push(format!("{path}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    for list in ["initContainers", "containers"] {
        spec.get(list).items().iter().for_each(|container| of_container(container, &mut out));
    }
    out
}

fn of_container(container: &At<'_>, out: &mut Vec<String>) {
    for list in ["limits", "requests"] {
        for name in ["memory", "ephemeral-storage"] {
            let at = container.get("resources").get(list).key(name);
            if let Some(quantity) = at.quantity().filter(|q| q.milli_value() % 1000 != 0) {
                out.push(format!("{}: fractional byte value \"{quantity}\" is invalid, must be an integer", at.path));
            }
        }
    }
    let mut seen = BTreeSet::new();
    for variable in container.get("env").items() {
        let name = variable.get("name").str();
        if !seen.insert(name) {
            let text = "hides previous definition of";
            out.push(format!("{}: {text} \"{name}\", which may be dropped when using apply", variable.path));
        }
    }
}

#[cfg(test)]
mod tests {
    use apimachinery::field::Path;
    use serde_json::json;

    use super::*;

    #[test]
    fn fractional_bytes_and_hidden_variables_are_told() {
        let spec = json!({"containers": [{"resources": {"requests": {"memory": "100m"}},
            "env": [{"name": "A"}, {"name": "A"}]}]});
        assert_eq!(
            collect(&At::new(Path::new("spec"), &spec)),
            [
                r#"spec.containers[0].resources.requests[memory]: fractional byte value "100m" is invalid, must be an integer"#,
                r#"spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply"#,
            ]
        );
    }
}
