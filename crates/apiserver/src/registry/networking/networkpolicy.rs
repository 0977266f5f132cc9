//! Network policies.

use apimachinery::{
    Object,
    field::{Error, ErrorList},
};
use async_trait::async_trait;
use ipnet::IpNet;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    registry::{
        Column, Generation, Strategy, addresses,
        check::At,
        edit::{default_to, each, ensure_object, is_zero},
        print::age,
        selectors,
        strategy::SPEC,
    },
    request::RequestContext,
};

/// The rules of network policies.
pub(crate) struct NetworkPolicy;

#[async_trait]
impl Strategy for NetworkPolicy {
    fn default(&self, obj: &mut Object) {
        let spec = ensure_object(&mut obj.0, "spec");
        for direction in ["ingress", "egress"] {
            for rule in each(spec, direction) {
                each(rule, "ports").for_each(|port| default_to(port, "protocol", "TCP"));
            }
        }
        if spec.get("policyTypes").is_none_or(is_zero) {
            let egress = spec.get("egress").is_some_and(|rules| !is_zero(rules));
            let types = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
            spec.insert("policyTypes".into(), types);
        }
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let spec = At::field(obj, "spec");
        selectors::label_selector(&spec.get("podSelector"), &mut errs);
        for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
            for rule in spec.get(direction).items() {
                rule.get("ports").items().iter().for_each(|at| port(at, &mut errs));
                rule.get(peers).items().iter().for_each(|at| peer(at, &mut errs));
            }
        }
        let types = spec.get("policyTypes");
        if types.size() > 2 {
            errs.push(types.invalid("may not specify more than two policyTypes"));
            return errs;
        }
        types.items().iter().for_each(|kind| kind.one_of(&["Egress", "Ingress"], &mut errs));
        errs
    }

    fn generation(&self) -> Generation {
        SPEC
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::object_name("Name of the policy."),
            Column::new("Pod-Selector", "string", "Pods it is about."),
            Column::new("Age", "string", "Time since creation."),
        ]
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let selector = At::field(obj, "spec").get("podSelector");
        vec![obj.name().into(), selectors::format(selector.value).into(), age(obj, now)]
    }
}

fn port(port: &At<'_>, errs: &mut ErrorList) {
    if port.get("protocol").is_set() {
        port.get("protocol").one_of(&["SCTP", "TCP", "UDP"], errs);
    }
    let (first, last) = (port.get("port"), port.get("endPort"));
    if first.is_set() {
        first.port_or_name(errs);
    }
    let Some(end) = last.int() else { return };
    match first.value {
        Value::Null => errs.push(last.required("must be specified when port is also specified")),
        Value::String(_) => errs.push(last.invalid("may not be specified when `port` is non-numeric")),
        _ if first.int().is_some_and(|start| end < start) => errs.push(last.invalid("must be greater than or equal to `port`")),
        _ => last.port_number(errs),
    }
}

fn peer(peer: &At<'_>, errs: &mut ErrorList) {
    let (block, pods, namespaces) = (peer.get("ipBlock"), peer.get("podSelector"), peer.get("namespaceSelector"));
    selectors::label_selector(&pods, errs);
    selectors::label_selector(&namespaces, errs);
    if block.is_set() {
        ip_block(&block, errs);
    }
    match (block.is_set(), pods.is_set() || namespaces.is_set()) {
        (false, false) => errs.push(peer.required("must specify a peer")),
        (true, true) => errs.push(peer.forbidden("may not specify both ipBlock and another peer")),
        _ => {}
    }
}

fn ip_block(block: &At<'_>, errs: &mut ErrorList) {
    let cidr = block.get("cidr");
    if !cidr.require_str("", errs) {
        return;
    }
    cidr.name(addresses::is_cidr, errs);
    let Ok(range) = cidr.str().parse::<IpNet>() else { return };
    for except in block.get("except").items() {
        match except.str().parse::<IpNet>() {
            Err(_) => except.name(addresses::is_cidr, errs),
            Ok(inner) if !range.contains(&inner) || range.prefix_len() >= inner.prefix_len() => {
                errs.push(Error::invalid(&except.path, except.str(), "must be a strict subset of `cidr`"));
            }
            Ok(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn egress_rules_add_the_egress_type_and_ports_default_to_tcp() {
        let mut obj = Object::from_value(json!({"spec": {"egress": [{"ports": [{"port": 80}]}], "podSelector": {}}})).unwrap();
        NetworkPolicy.default(&mut obj);
        assert_eq!(obj.0["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
        assert_eq!(obj.0["spec"]["egress"][0]["ports"][0]["protocol"], "TCP");
        assert!(NetworkPolicy.validate(&RequestContext::for_tests(), &obj).is_empty());
    }
}
