//! Values of the downward API: `fieldRef` and `resourceFieldRef`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};

use super::facts;
use crate::quantity;

/// What a pod may ask about its node, and its own address, which the API server may not know yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeFacts {
    pub(crate) pod_ips: Vec<String>,
    pub(crate) host_ips: Vec<String>,
    /// Allocatable cpu in thousandths and memory in bytes: the default of absent limits.
    pub(crate) cpu_milli: i64,
    pub(crate) memory: i64,
}

/// The value of a field path.
pub(crate) fn field(pod: &Pod, path: &str, node: &NodeFacts) -> Result<String, String> {
    let spec = pod.spec.as_ref();
    let owned = |text: Option<&String>| text.cloned().unwrap_or_default();
    let first = |list: &[String]| list.first().cloned().unwrap_or_default();
    Ok(match path {
        "metadata.name" => owned(pod.metadata.name.as_ref()),
        "metadata.namespace" => owned(pod.metadata.namespace.as_ref()),
        "metadata.uid" => owned(pod.metadata.uid.as_ref()),
        "metadata.labels" => lines(pod.metadata.labels.as_ref()),
        "metadata.annotations" => lines(pod.metadata.annotations.as_ref()),
        "spec.nodeName" => owned(spec.and_then(|s| s.node_name.as_ref())),
        "spec.serviceAccountName" => owned(spec.and_then(|s| s.service_account_name.as_ref())),
        "status.hostIP" => first(&node.host_ips),
        "status.hostIPs" => node.host_ips.join(","),
        "status.podIP" if facts::host_network(pod) => first(&node.host_ips),
        "status.podIP" => first(&node.pod_ips),
        "status.podIPs" if facts::host_network(pod) => node.host_ips.join(","),
        "status.podIPs" => node.pod_ips.join(","),
        _ => return subscript(pod, path).ok_or_else(|| format!("unsupported fieldPath: {path}")),
    })
}

/// `metadata.labels['key']` and `metadata.annotations['key']`; an absent key is empty.
fn subscript(pod: &Pod, path: &str) -> Option<String> {
    let (map, key) = path.strip_suffix("']")?.split_once("['")?;
    let map = match map {
        "metadata.labels" => pod.metadata.labels.as_ref(),
        "metadata.annotations" => pod.metadata.annotations.as_ref(),
        _ => return None,
    };
    Some(map.and_then(|m| m.get(key)).cloned().unwrap_or_default())
}

/// One `key="value"` a line, as the downward API writes maps.
fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    let lines: Vec<String> = map.into_iter().flatten().map(|(k, v)| format!("{k}={}", crate::text::quote(v))).collect();
    lines.join("\n")
}

/// The value of a resource field, divided by its divisor and rounded up.
pub(crate) fn resource(
    pod: &Pod,
    container: Option<&Container>,
    selector: &ResourceFieldSelector,
    node: &NodeFacts,
) -> Result<String, String> {
    let named = selector.container_name.as_deref().filter(|n| !n.is_empty());
    let found = named.and_then(|name| pod.spec.iter().flat_map(facts::all_containers).find(|c| c.name == name));
    let container = found.or(container).ok_or("resourceFieldRef names no container of the pod")?;
    let resources = container.resources.as_ref();
    let (list, name) = selector.resource.split_once('.').ok_or("resource is not of the form limits.cpu")?;
    let limits = resources.and_then(|r| r.limits.as_ref()).and_then(|l| l.get(name));
    let requests = resources.and_then(|r| r.requests.as_ref()).and_then(|l| l.get(name));
    let quantity = match list {
        "limits" => limits,
        "requests" => requests.or(limits),
        _ => return Err(format!("unsupported container resource : {}", selector.resource)),
    };
    let milli = match (quantity.and_then(|q| quantity::milli(&q.0)), list, name) {
        (Some(milli), ..) => milli,
        (None, "limits", "cpu") => node.cpu_milli,
        (None, "limits", "memory") => node.memory.saturating_mul(1000),
        _ => 0,
    };
    let divisor = selector.divisor.as_ref().and_then(|q| quantity::milli(&q.0)).filter(|d| *d > 0).unwrap_or(1000);
    Ok((milli.div_euclid(divisor) + i64::from(milli.rem_euclid(divisor) > 0)).to_string())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{api::core::v1::ResourceRequirements, apimachinery::pkg::api::resource::Quantity};

    use super::*;

    #[test]
    fn reads_metadata_and_subscripts() {
        let mut pod = Pod::default();
        pod.metadata.name = Some("web-0".into());
        pod.metadata.labels = Some(BTreeMap::from([("app".into(), "web".into()), ("tier".into(), "a\"b".into())]));
        let node = NodeFacts::default();
        assert_eq!(field(&pod, "metadata.name", &node).unwrap(), "web-0");
        assert_eq!(field(&pod, "metadata.labels['app']", &node).unwrap(), "web");
        assert_eq!(field(&pod, "metadata.labels", &node).unwrap(), "app=\"web\"\ntier=\"a\\\"b\"");
        assert!(field(&pod, "spec.nope", &node).is_err());
    }

    #[test]
    fn an_absent_limit_is_what_the_node_has() {
        let limits = BTreeMap::from([("memory".to_owned(), Quantity("1.5Mi".into()))]);
        let resources = ResourceRequirements { limits: Some(limits), ..Default::default() };
        let container = Container { resources: Some(resources), ..Default::default() };
        let node = NodeFacts { cpu_milli: 1500, ..Default::default() };
        let ask = |name: &str, divisor: &str| {
            let divisor = Some(Quantity(divisor.into()));
            let selector = ResourceFieldSelector { resource: name.into(), divisor, ..Default::default() };
            resource(&Pod::default(), Some(&container), &selector, &node).unwrap()
        };
        assert_eq!(ask("limits.cpu", "1"), "2");
        assert_eq!(ask("limits.cpu", "1m"), "1500");
        assert_eq!(ask("limits.memory", "1Mi"), "2");
    }
}
