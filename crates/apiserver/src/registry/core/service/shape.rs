//! Keeps a service's fields consistent with its type and with what it was before.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::Object;
use serde_json::{Value, json};

use super::{is_external, needs_cluster_ip, needs_health_port, needs_node_ports};
use crate::registry::{
    check::At,
    edit::{self, Fields, copy, each, ensure_object, strings, text},
};

/// Brings `clusterIP` and `clusterIPs` into step: a client of either field speaks for both.
pub(crate) fn normalize_cluster_ips(obj: &mut Object, old: Option<&Object>) {
    let was = old.and_then(|old| old.0.get("spec")).and_then(Value::as_object);
    let spec = ensure_object(&mut obj.0, "spec");
    let (one, many) = (text(spec, "clusterIP").to_owned(), strings(spec, "clusterIPs"));
    let Some(was) = was else {
        if !one.is_empty() && many.is_empty() {
            spec.insert("clusterIPs".into(), json!([one]));
        }
        return;
    };
    let (same_one, same_many) = (one == text(was, "clusterIP"), many == strings(was, "clusterIPs"));
    if !same_one && same_many {
        if one.is_empty() {
            spec.remove("clusterIPs");
        } else {
            spec.insert("clusterIPs".into(), json!([one]));
        }
    } else if same_one && !same_many && many.is_empty() {
        spec.remove("clusterIP");
    }
}

/// Puts back what was allocated for the old service where an update does not mention it.
pub(crate) fn patch_allocated(obj: &mut Object, old: &Object) {
    let both = |needs: fn(&Object) -> bool| needs(obj) && needs(old);
    let (ips, ports, health) = (both(needs_cluster_ip), both(needs_node_ports), both(needs_health_port));
    let was = old.0.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
    let spec = ensure_object(&mut obj.0, "spec");
    if ips {
        if text(spec, "clusterIP").is_empty() {
            copy(spec, &was, "clusterIP");
        }
        if strings(spec, "clusterIPs").is_empty() && text(spec, "clusterIP") == text(&was, "clusterIP") {
            copy(spec, &was, "clusterIPs");
        }
    }
    if ports {
        patch_node_ports(spec, was.clone());
    }
    if health && spec.get("healthCheckNodePort").is_none_or(edit::is_zero) {
        copy(spec, &was, "healthCheckNodePort");
    }
}

/// A port keeps its node port by name, unless another port has taken it.
fn patch_node_ports(spec: &mut Fields, mut was: Fields) {
    let node_port = |port: &Fields| port.get("nodePort").and_then(Value::as_i64).unwrap_or(0);
    let by_name: BTreeMap<String, i64> = each(&mut was, "ports").map(|port| (text(port, "name").to_owned(), node_port(port))).collect();
    let mut used: BTreeSet<i64> = each(spec, "ports").map(|port| node_port(port)).filter(|n| *n != 0).collect();
    for port in each(spec, "ports") {
        let known = by_name.get(text(port, "name")).copied().unwrap_or(0);
        if node_port(port) == 0 && known != 0 && used.insert(known) {
            port.insert("nodePort".into(), known.into());
        }
    }
}

/// Clears what only the old type used, unless the client changed it in the same write.
pub(crate) fn drop_unused(obj: &mut Object, old: &Object) {
    let lost = |needs: fn(&Object) -> bool| needs(old) && !needs(obj);
    let same = |field: &str| At::field(obj, "spec").get(field).value == At::field(old, "spec").get(field).value;
    let mut gone: Vec<&str> = Vec::new();
    if lost(needs_cluster_ip) {
        let ips_same = same("clusterIP") && same("clusterIPs");
        gone.extend(["clusterIP", "clusterIPs"].into_iter().filter(|_| ips_same));
        gone.extend(["ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"].into_iter().filter(|field| same(field)));
    }
    if lost(needs_health_port) && same("healthCheckNodePort") {
        gone.push("healthCheckNodePort");
    }
    if lost(|obj| obj.str_at("/spec/type") == "LoadBalancer") {
        gone.extend(["allocateLoadBalancerNodePorts", "loadBalancerClass"].into_iter().filter(|field| same(field)));
    }
    if lost(is_external) && same("externalTrafficPolicy") {
        gone.push("externalTrafficPolicy");
    }
    let no_node_ports = lost(needs_node_ports) && node_ports(obj) == node_ports(old);
    let spec = ensure_object(&mut obj.0, "spec");
    gone.into_iter().for_each(|field| drop(spec.remove(field)));
    if no_node_ports {
        each(spec, "ports").for_each(|port| drop(port.remove("nodePort")));
    }
}

fn node_ports(obj: &Object) -> Vec<i64> {
    let ports = At::field(obj, "spec").get("ports").items();
    ports.iter().map(|port| port.get("nodePort").int().unwrap_or(0)).collect()
}
