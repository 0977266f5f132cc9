//! Validation of services (`ValidateService`, `ValidateServiceUpdate`).

use std::collections::BTreeSet;

use apimachinery::{
    Object,
    field::{Error, ErrorList},
    names,
};
use serde_json::json;

use super::{addresses::cluster_ips, is_external, is_headless, needs_health_port};
use crate::registry::{
    addresses,
    check::{self, At, internal_form},
};

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const FOR_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";

/// A whole service.
pub(crate) fn service(obj: &Object) -> ErrorList {
    let mut errs = ErrorList::new();
    let spec = At::field(obj, "spec");
    let (kind, ports, headless) = (spec.get("type"), spec.get("ports"), is_headless(obj));
    if ports.size() == 0 && !headless && kind.str() != "ExternalName" {
        errs.push(ports.required(""));
    }
    by_type(&spec, headless, &mut errs);
    self::ports(&ports, &mut errs);
    check::labels(&spec.get("selector"), &mut errs);
    affinity(&spec, &mut errs);
    cluster_ips(&spec, &mut errs);
    for ip in spec.get("externalIPs").items() {
        ip.name(addresses::is_endpoint_ip, &mut errs);
    }
    kind.one_of(&TYPES, &mut errs);
    node_ports(&kind, &ports, &mut errs);
    duplicate_ports(&ports, &mut errs);
    balancer_fields(&spec, &mut errs);
    traffic(obj, &spec, &mut errs);
    errs
}

fn by_type(spec: &At<'_>, headless: bool, errs: &mut ErrorList) {
    match spec.get("type").str() {
        kind @ ("LoadBalancer" | "NodePort") if headless => {
            let first = spec.get("clusterIPs").path.index(0);
            errs.push(Error::invalid(&first, "None", format!("may not be set to 'None' for {kind} services")));
        }
        "ExternalName" => external_name(spec, errs),
        _ => {}
    }
}

fn external_name(spec: &At<'_>, errs: &mut ErrorList) {
    for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        let field = spec.get(field);
        if !field.is_empty() {
            errs.push(field.forbidden("may not be set for ExternalName services"));
        }
    }
    let name = spec.get("externalName");
    let bare = name.str().strip_suffix('.').unwrap_or(name.str());
    if bare.is_empty() {
        errs.push(name.required(""));
    } else {
        errs.extend(names::is_dns1123_subdomain(bare).into_iter().map(|m| Error::invalid(&name.path, bare, m)));
    }
}

fn ports(list: &At<'_>, errs: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for port in list.items() {
        let name = port.get("name");
        if list.size() > 1 && name.is_empty() {
            errs.push(name.required(""));
        } else if !name.is_empty() {
            name.name(names::is_dns1123_label, errs);
            if !seen.insert(name.str()) {
                errs.push(name.duplicate());
            }
        }
        port.get("port").port_number(errs);
        port.get("protocol").one_of(&["SCTP", "TCP", "UDP"], errs);
        port.get("targetPort").port_or_name(errs);
        port.get("appProtocol").name_if_set(names::is_qualified_name, errs);
    }
}

fn affinity(spec: &At<'_>, errs: &mut ErrorList) {
    const MOST: i64 = 86400;
    let (affinity, config) = (spec.get("sessionAffinity"), spec.get("sessionAffinityConfig"));
    affinity.one_of(&["ClientIP", "None"], errs);
    match affinity.str() {
        "ClientIP" => {
            let timeout = config.get("clientIP").get("timeoutSeconds");
            if !timeout.int().is_some_and(|n| (1..=MOST).contains(&n)) {
                errs.push(timeout.invalid(format!("must be greater than 0 and less than {MOST}")));
            }
        }
        "None" if config.is_set() => errs.push(config.forbidden("must not be set when session affinity is None")),
        _ => {}
    }
}

fn node_ports(kind: &At<'_>, ports: &At<'_>, errs: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for port in ports.items() {
        let node_port = port.get("nodePort");
        let Some(number) = node_port.int().filter(|n| *n != 0) else { continue };
        if kind.str() == "ClusterIP" {
            errs.push(node_port.forbidden("may not be used when `type` is 'ClusterIP'"));
        }
        if !seen.insert((port.get("protocol").str(), number)) {
            errs.push(node_port.duplicate());
        }
    }
}

fn duplicate_ports(ports: &At<'_>, errs: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for port in ports.items() {
        let (protocol, number) = (port.get("protocol").str(), port.get("port").int());
        if !seen.insert((protocol, number)) {
            let shown = json!({"protocol": protocol, "port": number});
            errs.push(Error::duplicate(&port.path, internal_form(&shown)));
        }
    }
}

fn balancer_fields(spec: &At<'_>, errs: &mut ErrorList) {
    let balancer = spec.get("type").str() == "LoadBalancer";
    let ranges = spec.get("loadBalancerSourceRanges");
    if ranges.size() > 0 && !balancer {
        errs.push(ranges.forbidden(FOR_BALANCERS));
    }
    for range in ranges.items().iter().filter(|_| balancer) {
        range.each_of(addresses::is_cidr(range.str().trim()), errs);
    }
    let allocate = spec.get("allocateLoadBalancerNodePorts");
    match (balancer, allocate.is_set()) {
        (true, false) => errs.push(allocate.required("")),
        (false, true) => errs.push(allocate.forbidden(FOR_BALANCERS)),
        _ => {}
    }
    let class = spec.get("loadBalancerClass");
    if balancer {
        class.name_if_set(names::is_qualified_name, errs);
    } else if class.is_set() {
        errs.push(class.forbidden(FOR_BALANCERS));
    }
}

fn traffic(obj: &Object, spec: &At<'_>, errs: &mut ErrorList) {
    let external = spec.get("externalTrafficPolicy");
    if !external.is_empty() && !is_external(obj) {
        errs.push(external.invalid("may only be set for externally-accessible services"));
    } else {
        external.one_of_if_set(&["Cluster", "Local"], errs);
    }
    let health = spec.get("healthCheckNodePort");
    if health.int().is_some_and(|n| n != 0) && !needs_health_port(obj) {
        errs.push(health.invalid("may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"));
    }
    spec.get("internalTrafficPolicy").one_of_if_set(&["Cluster", "Local"], errs);
    spec.get("trafficDistribution").one_of_if_set(&["PreferClose", "PreferSameZone", "PreferSameNode"], errs);
}

/// What may not change from the old service.
pub(crate) fn update(obj: &Object, old: &Object) -> ErrorList {
    let mut errs = ErrorList::new();
    let (spec, was) = (At::field(obj, "spec"), At::field(old, "spec"));
    let neither = |kind: &str| spec.get("type").str() != kind && was.get("type").str() != kind;
    let (ips, old_ips) = (spec.get("clusterIPs"), was.get("clusterIPs"));
    if neither("ExternalName") {
        for (index, ip) in old_ips.strs().into_iter().enumerate() {
            let now = ips.strs().get(index).copied();
            // The second address goes when a service leaves dual stack.
            let leaves = index == 1 && now.is_none();
            if now != Some(ip) && !leaves {
                errs.push(Error::invalid(&ips.path.index(index), ips.value.clone(), "may not change once set"));
            }
        }
    }
    let (class, old_class) = (spec.get("loadBalancerClass"), was.get("loadBalancerClass"));
    let stays = spec.get("type").str() == "LoadBalancer" && was.get("type").str() == "LoadBalancer";
    if stays && class.value != old_class.value {
        errs.push(class.invalid("may not change once set"));
    }
    errs
}

/// What a load balancer reported.
pub(crate) fn load_balancer_status(status: &At<'_>) -> ErrorList {
    let mut errs = ErrorList::new();
    for ingress in status.get("ingress").items() {
        let (ip, host) = (ingress.get("ip"), ingress.get("hostname"));
        ip.name_if_set(addresses::is_ip, &mut errs);
        ingress.get("ipMode").one_of_if_set(&["Proxy", "VIP"], &mut errs);
        if !host.is_empty() {
            host.name(names::is_dns1123_subdomain, &mut errs);
            if addresses::is_ip(host.str()).is_empty() {
                errs.push(host.invalid("must be a DNS name, not an IP address"));
            }
        }
    }
    errs
}

/// Warnings for a service.
pub(crate) fn warnings(obj: &Object) -> Vec<String> {
    let spec = At::field(obj, "spec");
    let headless = is_headless(obj);
    let told = [
        (spec.get("externalIPs").size() > 0, "spec.externalIPs is deprecated and may no longer be implemented in some clusters"),
        (headless && !spec.get("loadBalancerIP").is_empty(), "spec.loadBalancerIP is ignored for headless services"),
        (headless && spec.get("sessionAffinity").str() == "ClientIP", "spec.SessionAffinity is ignored for headless services"),
    ];
    told.into_iter().filter(|(holds, _)| *holds).map(|(_, text)| text.to_owned()).collect()
}
