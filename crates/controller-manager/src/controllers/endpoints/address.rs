//! What a pod amounts to as an endpoint of a service. Pure.

use k8s_openapi::{
    api::core::v1::{ContainerPort, ObjectReference, Pod, Service, ServicePort},
    apimachinery::pkg::util::intstr::IntOrString,
};

use crate::pods;

/// Node label that names the zone.
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";

/// Whether the service has a selector, and so its endpoints are ours to write.
pub(super) fn has_selector(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    let external = spec.and_then(|spec| spec.type_.as_deref()) == Some("ExternalName");
    !external && spec.and_then(|spec| spec.selector.as_ref()).is_some_and(|selector| !selector.is_empty())
}

/// Whether the service selects the pod.
pub(super) fn selects(service: &Service, pod: &Pod) -> bool {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let labels = pod.metadata.labels.as_ref();
    selector.is_some_and(|selector| {
        !selector.is_empty() && selector.iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
    })
}

/// Whether the service has no address of its own.
pub(super) fn is_headless(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()) == Some("None")
}

/// Whether pods count as ready even when they are not.
pub(super) fn publishes_not_ready(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.publish_not_ready_addresses) == Some(true)
}

/// Whether a change of the pod from `old` to `new` makes no difference to any endpoint.
pub(super) fn same_endpoint(old: &Pod, new: &Pod) -> bool {
    let view = |pod: &Pod| {
        let spec = pod.spec.as_ref();
        (
            pod.metadata.labels.clone(),
            pod.metadata.deletion_timestamp.is_some(),
            ips(pod),
            (pods::is_ready(pod), pods::is_finished(pod)),
            spec.and_then(|spec| spec.node_name.clone()),
            spec.and_then(|spec| spec.hostname.clone().zip(spec.subdomain.clone())),
        )
    };
    view(old) == view(new)
}

/// All addresses of the pod that an endpoint may have. The API refuses loopback ones, which pods of the process runtime
/// and host-network pods of a node on loopback have; with them a whole slice would be refused.
pub(super) fn ips(pod: &Pod) -> Vec<String> {
    let Some(status) = &pod.status else { return Vec::new() };
    let fits = |ip: &&String| ip.parse::<std::net::IpAddr>().is_ok_and(|ip| !ip.is_loopback());
    let several: Vec<String> = status.pod_ips.iter().flatten().map(|ip| &ip.ip).filter(fits).cloned().collect();
    if several.is_empty() { status.pod_ip.iter().filter(fits).cloned().collect() } else { several }
}

/// The pod's address of that family: `IPv4` or `IPv6`.
pub(super) fn ip_of_family(pod: &Pod, family: &str) -> Option<String> {
    ips(pod).into_iter().find(|ip| ip.contains(':') == (family == "IPv6"))
}

/// The families of the service's addresses, IPv4 where it says nothing.
pub(super) fn families(service: &Service) -> Vec<String> {
    let families = service.spec.as_ref().and_then(|spec| spec.ip_families.clone()).unwrap_or_default();
    if families.is_empty() { vec!["IPv4".to_owned()] } else { families }
}

/// The pod's host name, if the service governs its domain.
pub(super) fn hostname(service: &Service, pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let governed = spec.subdomain.as_ref() == service.metadata.name.as_ref();
    spec.hostname.clone().filter(|name| governed && !name.is_empty())
}

/// A reference to the pod.
pub(super) fn target(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".into()),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// The number behind a service port in this pod; `None` when the pod has no port of that name and protocol.
pub(super) fn port_number(port: &ServicePort, pod: &Pod) -> Option<i32> {
    match &port.target_port {
        None => Some(port.port),
        Some(IntOrString::Int(0)) => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => {
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            let named = |declared: &&ContainerPort| {
                declared.name.as_ref() == Some(name) && declared.protocol.as_deref().unwrap_or("TCP") == protocol
            };
            container_ports(pod).find(named).map(|declared| declared.container_port)
        }
    }
}

/// Ports of containers, and of init containers that keep running beside them.
fn container_ports(pod: &Pod) -> impl Iterator<Item = &ContainerPort> {
    let spec = pod.spec.as_ref();
    let containers = spec.into_iter().flat_map(|spec| &spec.containers);
    let sidecars = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
    containers.chain(sidecars).flat_map(|container| container.ports.iter().flatten())
}
