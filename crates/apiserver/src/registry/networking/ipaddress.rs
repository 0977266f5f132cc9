//! IP addresses: each one is an address of a service range given to its parent.

use apimachinery::{Object, field::ErrorList, names};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    registry::{Column, Strategy, addresses, check::At, print::age},
    request::RequestContext,
};

/// The rules of IP addresses.
pub(crate) struct IpAddress;

#[async_trait]
impl Strategy for IpAddress {
    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let parent = At::field(obj, "spec").get("parentRef");
        if !parent.is_set() {
            errs.push(parent.required(""));
            return errs;
        }
        parent.get("group").name_if_set(names::is_dns1123_subdomain, &mut errs);
        for field in ["resource", "name"] {
            parent.get(field).required_name(names::is_path_segment_name, &mut errs);
        }
        parent.get("namespace").name_if_set(names::is_path_segment_name, &mut errs);
        errs
    }

    fn validate_update(&self, _ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let parent = |obj| At::field(obj, "spec").get("parentRef");
        parent(obj).immutable(&parent(old), &mut errs);
        errs
    }

    /// The name is the address in its canonical form.
    fn validate_name(&self, name: &str, _prefix: bool) -> Vec<String> {
        match name.parse::<std::net::IpAddr>() {
            Ok(ip) if ip.to_string() != name => vec![format!("must be in canonical form ({:?})", ip.to_string())],
            Ok(_) => Vec::new(),
            Err(_) => addresses::is_ip(name),
        }
    }

    fn columns(&self) -> Vec<Column> {
        vec![Column::object_name("The address."), Column::new("ParentRef", "string", "What has the address.")]
    }

    /// Upstream prints an age beyond its columns; clients cut it off.
    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let parent = At::field(obj, "spec").get("parentRef");
        let parts = ["group", "resource", "namespace", "name"].map(|field| parent.get(field).str());
        let shown: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        vec![obj.name().into(), shown.join("/").into(), age(obj, now)]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_canonical_addresses() {
        assert!(IpAddress.validate_name("10.96.0.1", false).is_empty());
        assert_eq!(IpAddress.validate_name("2001:DB8::1", false), [r#"must be in canonical form ("2001:db8::1")"#]);
        assert_eq!(IpAddress.validate_name("x", false).len(), 1);
    }

    #[test]
    fn a_row_names_the_parent() {
        let obj = json!({"metadata": {"name": "10.96.0.1"}, "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "kubernetes"}}});
        let cells = IpAddress.cells(&Object::from_value(obj).unwrap(), Timestamp::UNIX_EPOCH);
        assert_eq!(cells[1], "services/default/kubernetes");
    }
}
