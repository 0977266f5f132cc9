//! Endpoint slices.

use std::collections::BTreeSet;

use apimachinery::{
    Object,
    field::{Error, ErrorList},
    names,
};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    registry::{
        Column, Generation, Strategy, addresses,
        check::At,
        edit::{default_to, each},
        print::{age, or_unset, shortened},
    },
    request::RequestContext,
};

/// The rules of endpoint slices.
pub(crate) struct EndpointSlice;

const MOST_ENDPOINTS: usize = 1000;
const MOST_ADDRESSES: usize = 100;
const MOST_PORTS: usize = 20000;

#[async_trait]
impl Strategy for EndpointSlice {
    fn default(&self, obj: &mut Object) {
        for port in each(&mut obj.0, "ports") {
            default_to(port, "name", "");
            default_to(port, "protocol", "TCP");
        }
        for endpoint in each(&mut obj.0, "endpoints") {
            default_to(endpoint, "conditions", json!({}));
        }
    }

    fn validate(&self, ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let kind = At::field(obj, "addressType");
        if kind.require_str("", &mut errs) {
            kind.one_of(&["FQDN", "IPv4", "IPv6"], &mut errs);
        }
        endpoints(&At::field(obj, "endpoints"), (kind.str(), addresses::endpoint_ip(ctx)), &mut errs);
        ports(&At::field(obj, "ports"), &mut errs);
        errs
    }

    fn validate_update(&self, ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let mut errs = self.validate(ctx, obj);
        At::field(obj, "addressType").immutable(&At::field(old, "addressType"), &mut errs);
        errs
    }

    fn generation(&self) -> Generation {
        Generation::Fields(&["addressType", "endpoints", "ports", "metadata.labels"])
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::object_name("Name of the slice."),
            Column::new("AddressType", "string", "IPv4, IPv6 or FQDN."),
            Column::new("Ports", "string", "Port numbers."),
            Column::new("Endpoints", "string", "Addresses."),
            Column::new("Age", "string", "Time since creation."),
        ]
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let number = |port: &At<'_>| port.get("port").int().map_or("*".to_owned(), |n| n.to_string());
        let ports: Vec<String> = At::field(obj, "ports").items().iter().map(number).collect();
        let endpoints = At::field(obj, "endpoints").items();
        let all: Vec<String> = endpoints.iter().flat_map(|e| e.get("addresses").strs()).map(str::to_owned).collect();
        vec![
            obj.name().into(),
            obj.str_at("/addressType").into(),
            or_unset(&shortened(&ports, 3)),
            or_unset(&shortened(&all, 3)),
            age(obj, now),
        ]
    }
}

/// What an address is, and what it has to be.
type Kind<'a> = (&'a str, fn(&str) -> Vec<String>);

fn endpoints(list: &At<'_>, kind: Kind<'_>, errs: &mut ErrorList) {
    if list.size() > MOST_ENDPOINTS {
        errs.push(Error::too_many(&list.path, list.size(), MOST_ENDPOINTS));
        return;
    }
    for endpoint in list.items() {
        let addresses = endpoint.get("addresses");
        if addresses.size() == 0 {
            errs.push(addresses.required("must contain at least 1 address"));
        } else if addresses.size() > MOST_ADDRESSES {
            errs.push(Error::too_many(&addresses.path, addresses.size(), MOST_ADDRESSES));
        }
        for address in addresses.items() {
            self::address(&addresses, &address, kind, errs);
        }
        endpoint.get("nodeName").name_if_set(names::is_dns1123_subdomain, errs);
        endpoint.get("hostname").name_if_set(names::is_dns1123_label, errs);
    }
}

/// An address of the wrong family is reported on the list, as upstream does.
fn address(list: &At<'_>, address: &At<'_>, (kind, is_ip): Kind<'_>, errs: &mut ErrorList) {
    let text = address.str();
    let parsed = text.parse::<std::net::IpAddr>().ok();
    match kind {
        "IPv4" | "IPv6" if parsed.is_none_or(|ip| addresses::family(ip) != kind) => {
            errs.push(Error::invalid(&list.path, text, format!("must be an {kind} address")));
        }
        "IPv4" | "IPv6" => address.each_of(is_ip(text), errs),
        "FQDN" => address.each_of(names::is_dns1123_subdomain(text), errs),
        _ => {}
    }
}

fn ports(list: &At<'_>, errs: &mut ErrorList) {
    if list.size() > MOST_PORTS {
        errs.push(Error::too_many(&list.path, list.size(), MOST_PORTS));
    }
    let mut seen = BTreeSet::new();
    for port in list.items() {
        let name = port.get("name");
        name.name_if_set(names::is_dns1123_label, errs);
        if !seen.insert(name.str()) {
            errs.push(Error::duplicate(&name.path, name.str()));
        }
        port.get("protocol").one_of(&["SCTP", "TCP", "UDP"], errs);
        port.get("appProtocol").name_if_set(names::is_qualified_name, errs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(obj: Value) -> Vec<String> {
        let mut obj = Object::from_value(obj).unwrap();
        EndpointSlice.default(&mut obj);
        EndpointSlice.validate(&RequestContext::for_tests(), &obj).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn addresses_and_ports_answer_with_upstreams_words() {
        assert_eq!(
            complaints(json!({"addressType": "X"})),
            [r#"addressType: Unsupported value: "X": supported values: "FQDN", "IPv4", "IPv6""#]
        );
        assert_eq!(
            complaints(json!({"addressType": "IPv4", "endpoints": [{"addresses": ["fd00::1"]}]})),
            [r#"endpoints[0].addresses: Invalid value: "fd00::1": must be an IPv4 address"#]
        );
        assert_eq!(
            complaints(json!({"addressType": "IPv4", "ports": [{"port": 1}, {"port": 2}]})),
            [r#"ports[1].name: Duplicate value: """#]
        );
    }

    #[test]
    fn rows_list_ports_and_addresses() {
        let obj = json!({"metadata": {"name": "s"}, "addressType": "IPv4", "ports": [{"port": 80}, {}],
            "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"]}]});
        let cells = EndpointSlice.cells(&Object::from_value(obj).unwrap(), Timestamp::UNIX_EPOCH);
        assert_eq!(cells[1..4], [json!("IPv4"), json!("80,*"), json!("10.0.0.1,10.0.0.2")]);
    }
}
