//! The Endpoints object of a service. Pure.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Pod, Service};
use kube::api::ObjectMeta;

use super::address;
use crate::pods;

const HEADLESS: &str = "service.kubernetes.io/headless";
const MANAGED_BY: (&str, &str) = ("endpoints.kubernetes.io/managed-by", "endpoint-controller");
/// Beyond this many addresses the rest is left out, and an annotation says so.
const MOST: usize = 1000;
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// Whether this controller wrote the object.
pub(super) fn is_ours(endpoints: &Endpoints) -> bool {
    let labels = endpoints.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(MANAGED_BY.0)).is_some_and(|by| by == MANAGED_BY.1)
}

/// The object to write, if the `current` one says something else.
pub(super) fn plan(service: &Service, pods: &[Arc<Pod>], current: Option<&Endpoints>) -> Option<Endpoints> {
    let (subsets, truncated) = truncate(subsets(service, pods));
    let mut wanted = current.cloned().unwrap_or_else(|| Endpoints {
        metadata: ObjectMeta {
            name: service.metadata.name.clone(),
            namespace: service.metadata.namespace.clone(),
            ..ObjectMeta::default()
        },
        subsets: None,
    });
    wanted.metadata.labels = Some(labels(service));
    if truncated {
        wanted.metadata.annotations.get_or_insert_default().insert(OVER_CAPACITY.into(), "truncated".into());
    } else if let Some(annotations) = &mut wanted.metadata.annotations {
        annotations.remove(OVER_CAPACITY);
    }
    wanted.subsets = Some(subsets).filter(|subsets| !subsets.is_empty());
    (current != Some(&wanted)).then_some(wanted)
}

fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.remove(HEADLESS);
    if address::is_headless(service) {
        labels.insert(HEADLESS.into(), String::new());
    }
    labels.insert(MANAGED_BY.0.into(), MANAGED_BY.1.into());
    labels
}

/// Addresses grouped by the ports they serve, all in a stable order.
fn subsets(service: &Service, pods: &[Arc<Pod>]) -> Vec<EndpointSubset> {
    let published = address::publishes_not_ready(service);
    let family = address::families(service).swap_remove(0);
    let mut groups: BTreeMap<String, EndpointSubset> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !pods::is_finished(pod) && (published || pod.metadata.deletion_timestamp.is_none())) {
        let Some(ip) = address::ip_of_family(pod, &family) else { continue };
        let declared = service.spec.as_ref().and_then(|spec| spec.ports.as_ref()).is_some_and(|ports| !ports.is_empty());
        let ports = ports(service, pod);
        // A service with ports of which the pod has none has nothing to send it.
        if declared && ports.is_empty() {
            continue;
        }
        let key: Vec<String> = ports.iter().map(|port| format!("{port:?}")).collect();
        let group = groups
            .entry(key.join(";"))
            .or_insert_with(|| EndpointSubset { ports: Some(ports).filter(|ports| !ports.is_empty()), ..EndpointSubset::default() });
        let ready = published || pods::is_ready(pod);
        let list = if ready { &mut group.addresses } else { &mut group.not_ready_addresses };
        list.get_or_insert_default().push(EndpointAddress {
            ip,
            hostname: address::hostname(service, pod),
            node_name: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
            target_ref: Some(address::target(pod)),
        });
    }
    let mut subsets: Vec<_> = groups.into_values().collect();
    for subset in &mut subsets {
        for list in [&mut subset.addresses, &mut subset.not_ready_addresses].into_iter().flatten() {
            list.sort_by(|a, b| a.ip.cmp(&b.ip));
        }
    }
    subsets
}

fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_ref());
    let known = ports.into_iter().flatten().filter_map(|port| {
        Some(EndpointPort {
            name: port.name.clone().filter(|name| !name.is_empty()),
            port: address::port_number(port, pod)?,
            protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".into())),
            app_protocol: port.app_protocol.clone(),
        })
    });
    let mut known: Vec<_> = known.collect();
    known.sort_by(|a, b| (&a.name, a.port).cmp(&(&b.name, b.port)));
    known
}

/// Keeps ready addresses before unready ones when there are too many.
fn truncate(mut subsets: Vec<EndpointSubset>) -> (Vec<EndpointSubset>, bool) {
    let mut room = MOST;
    let mut truncated = false;
    let mut cut = |list: &mut Option<Vec<EndpointAddress>>| {
        let Some(addresses) = list else { return };
        truncated |= addresses.len() > room;
        addresses.truncate(room);
        room -= addresses.len();
        if addresses.is_empty() {
            *list = None;
        }
    };
    subsets.iter_mut().for_each(|subset| cut(&mut subset.addresses));
    subsets.iter_mut().for_each(|subset| cut(&mut subset.not_ready_addresses));
    subsets.retain(|subset| subset.addresses.is_some() || subset.not_ready_addresses.is_some());
    (subsets, truncated)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::{Pod, Service};
    use serde_json::json;

    use super::plan;

    fn service() -> Service {
        serde_json::from_value(json!({
            "metadata": {"name": "svc", "namespace": "default", "labels": {"team": "x"}},
            "spec": {"selector": {"a": "b"}, "ports": [{"port": 80, "targetPort": 8080}]},
        }))
        .unwrap()
    }

    fn pod(name: &str, ip: &str, ready: bool) -> Arc<Pod> {
        let ready = if ready { "True" } else { "False" };
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": name, "namespace": "default", "uid": name},
                "spec": {"nodeName": "n1", "containers": []},
                "status": {"phase": "Running", "podIP": ip, "conditions": [{"type": "Ready", "status": ready}]},
            }))
            .unwrap(),
        )
    }

    #[test]
    fn separates_ready_from_unready_addresses() {
        let pods = [pod("b", "10.0.0.2", true), pod("a", "10.0.0.1", true), pod("c", "10.0.0.3", false)];
        let wanted = plan(&service(), &pods, None).unwrap();
        let address = |ip: &str, name: &str| json!({"ip": ip, "nodeName": "n1", "targetRef": {"kind": "Pod", "namespace": "default", "name": name, "uid": name}});
        let expected = json!([{
            "addresses": [address("10.0.0.1", "a"), address("10.0.0.2", "b")],
            "notReadyAddresses": [address("10.0.0.3", "c")],
            "ports": [{"port": 8080, "protocol": "TCP"}],
        }]);
        assert_eq!(serde_json::to_value(&wanted.subsets).unwrap(), expected);
        assert_eq!(wanted.metadata.labels.as_ref().unwrap()["team"], "x");
        assert_eq!(plan(&service(), &pods, Some(&wanted)), None);
    }

    #[test]
    fn too_many_addresses_are_cut_and_said_so() {
        let pods: Vec<_> = (0..1200).map(|n| pod(&format!("p{n}"), &format!("10.0.{}.{}", n / 250, n % 250), true)).collect();
        let wanted = plan(&service(), &pods, None).unwrap();
        assert_eq!(wanted.subsets.unwrap()[0].addresses.as_ref().unwrap().len(), 1000);
        assert_eq!(wanted.metadata.annotations.unwrap()["endpoints.kubernetes.io/over-capacity"], "truncated");
    }
}
