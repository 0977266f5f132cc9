//! Endpoints.

use apimachinery::{Object, field::ErrorList, names};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    registry::{
        Column, Strategy, addresses,
        check::At,
        edit::{default_zero, each},
        print::{age, or_none, shortened},
    },
    request::RequestContext,
};

/// The rules of endpoints.
pub(crate) struct Endpoints;

#[async_trait]
impl Strategy for Endpoints {
    fn default(&self, obj: &mut Object) {
        for subset in each(&mut obj.0, "subsets") {
            for port in each(subset, "ports") {
                default_zero(port, "protocol", "TCP");
            }
        }
    }

    fn validate(&self, ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        for subset in At::field(obj, "subsets").items() {
            self::subset(&subset, addresses::endpoint_ip(ctx), &mut errs);
        }
        errs
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::object_name("Name of the endpoints, which is the service's."),
            Column::new("Endpoints", "string", "Addresses with ports."),
            Column::new("Age", "string", "Time since creation."),
        ]
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let all: Vec<String> = At::field(obj, "subsets").items().iter().flat_map(pairs).collect();
        vec![obj.name().into(), or_none(&shortened(&all, 3)), age(obj, now)]
    }
}

fn pairs(subset: &At<'_>) -> Vec<String> {
    let (addresses, ports) = (subset.get("addresses").items(), subset.get("ports").items());
    let ip = |address: &At<'_>| address.get("ip").str().to_owned();
    if ports.is_empty() {
        return addresses.iter().map(ip).collect();
    }
    let join = |ip: String, port: i64| if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") };
    let of_port = |port: &At<'_>| {
        let number = port.get("port").int().unwrap_or(0);
        addresses.iter().map(|address| join(ip(address), number)).collect::<Vec<_>>()
    };
    ports.iter().flat_map(of_port).collect()
}

fn subset(subset: &At<'_>, is_ip: fn(&str) -> Vec<String>, errs: &mut ErrorList) {
    let (ready, not_ready, ports) = (subset.get("addresses"), subset.get("notReadyAddresses"), subset.get("ports"));
    if ready.size() + not_ready.size() == 0 {
        errs.push(subset.required("must specify `addresses` or `notReadyAddresses`"));
    }
    for address in ready.items().iter().chain(&not_ready.items()) {
        address.get("ip").name(is_ip, errs);
        address.get("hostname").name_if_set(names::is_dns1123_label, errs);
        address.get("nodeName").name_if_set(names::is_dns1123_subdomain, errs);
    }
    for port in ports.items() {
        let name = port.get("name");
        if ports.size() > 1 && name.is_empty() {
            errs.push(name.required(""));
        }
        name.name_if_set(names::is_dns1123_label, errs);
        port.get("port").port_number(errs);
        port.get("protocol").one_of(&["SCTP", "TCP", "UDP"], errs);
        port.get("appProtocol").name_if_set(names::is_qualified_name, errs);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn three_endpoints_are_shown_and_the_rest_counted() {
        let obj = Object::from_value(json!({"metadata": {"name": "a"}, "subsets": [{"addresses": [{"ip": "10.1.1.1"}, {"ip": "10.1.1.2"}],
            "ports": [{"name": "p", "port": 80}, {"name": "q", "port": 81}]}]}))
        .unwrap();
        assert_eq!(Endpoints.cells(&obj, Timestamp::UNIX_EPOCH)[1], "10.1.1.1:80,10.1.1.2:80,10.1.1.1:81 + 1 more...");
        let none = Object::from_value(json!({"metadata": {"name": "a"}})).unwrap();
        assert_eq!(Endpoints.cells(&none, Timestamp::UNIX_EPOCH)[1], "<none>");
    }
}
