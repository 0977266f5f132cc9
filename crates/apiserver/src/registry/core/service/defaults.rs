//! Defaults of services.

use apimachinery::Object;
use serde_json::{Value, json};

use super::is_external;
use crate::registry::edit::{Fields, default_to, default_zero, drop_zero, each, ensure_object, object, text};

/// Three hours.
const AFFINITY_SECONDS: i64 = 10800;

/// Fills in what upstream's `SetDefaults_Service` does.
pub(crate) fn apply(obj: &mut Object) {
    let spec = ensure_object(&mut obj.0, "spec");
    default_zero(spec, "sessionAffinity", "None");
    match text(spec, "sessionAffinity") {
        "None" => drop(spec.remove("sessionAffinityConfig")),
        "ClientIP" => {
            let client = ensure_object(ensure_object(spec, "sessionAffinityConfig"), "clientIP");
            default_to(client, "timeoutSeconds", AFFINITY_SECONDS);
        }
        _ => {}
    }
    default_zero(spec, "type", "ClusterIP");
    each(spec, "ports").for_each(port);
    for list in ["externalIPs", "loadBalancerSourceRanges"] {
        drop_zero(spec, list);
    }
    if text(spec, "type") == "LoadBalancer" {
        default_to(spec, "allocateLoadBalancerNodePorts", true);
    }
    if text(spec, "type") != "ExternalName" {
        default_to(spec, "internalTrafficPolicy", "Cluster");
    }
    if is_external(obj) {
        default_zero(ensure_object(&mut obj.0, "spec"), "externalTrafficPolicy", "Cluster");
    }
    let status = ensure_object(&mut obj.0, "status");
    default_to(status, "loadBalancer", json!({}));
    load_balancer_modes(status);
}

fn port(port: &mut Fields) {
    default_zero(port, "protocol", "TCP");
    if port.get("targetPort").is_none_or(|target| target.is_null() || *target == json!(0) || *target == json!("")) {
        let number = port.get("port").cloned().unwrap_or(json!(0));
        port.insert("targetPort".into(), number);
    }
}

/// An address given by a load balancer is a virtual one unless it says otherwise.
pub(crate) fn load_balancer_modes(status: &mut Fields) {
    let Some(balancer) = object(status, "loadBalancer") else { return };
    for ingress in each(balancer, "ingress") {
        if ingress.get("ip").and_then(Value::as_str).is_some_and(|ip| !ip.is_empty()) {
            default_to(ingress, "ipMode", "VIP");
        }
    }
}
