//! Service ranges.

use apimachinery::{
    Object,
    field::{Error, ErrorList},
};
use async_trait::async_trait;
use ipnet::IpNet;
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    registry::{Column, Strategy, addresses, check::At, print::age},
    request::RequestContext,
};

/// The rules of service ranges.
pub(crate) struct ServiceCidr;

#[async_trait]
impl Strategy for ServiceCidr {
    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let list = At::field(obj, "spec").get("cidrs");
        if list.size() == 0 {
            errs.push(list.required("at least one CIDR required"));
        } else if list.size() > 2 {
            errs.push(list.invalid("may only hold up to 2 values"));
        }
        for cidr in list.items() {
            match cidr.str().parse::<IpNet>() {
                Ok(range) if range.trunc().to_string() != cidr.str() => {
                    errs.push(cidr.invalid(format!("must be in canonical form ({:?})", range.trunc().to_string())));
                }
                Ok(_) => {}
                Err(_) => cidr.name(addresses::is_cidr, &mut errs),
            }
        }
        let families: Vec<bool> = list.strs().iter().filter_map(|c| c.parse::<IpNet>().ok()).map(|c| c.addr().is_ipv4()).collect();
        if let [first, second] = families[..]
            && first == second
        {
            errs.push(Error::invalid(
                &list.path,
                list.value.clone(),
                "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/96",
            ));
        }
        errs
    }

    fn validate_update(&self, ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let mut errs = self.validate(ctx, obj);
        let cidrs = |obj| At::field(obj, "spec").get("cidrs");
        cidrs(obj).immutable(&cidrs(old), &mut errs);
        errs
    }

    fn kept_by_status(&self) -> &'static [&'static str] {
        &["metadata"]
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::object_name("Name of the range."),
            Column::new("CIDRs", "string", "Its address ranges."),
            Column::new("Age", "string", "Time since creation."),
        ]
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let cidrs = At::field(obj, "spec").get("cidrs").strs().join(",");
        vec![obj.name().into(), cidrs.into(), age(obj, now)]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ranges_are_canonical_and_fixed() {
        let range = |cidrs: Value| Object::from_value(json!({"spec": {"cidrs": cidrs}})).unwrap();
        let ctx = RequestContext::for_tests();
        let errs = ServiceCidr.validate(&ctx, &range(json!(["10.96.0.1/16"])));
        assert_eq!(errs[0].to_string(), r#"spec.cidrs[0]: Invalid value: "10.96.0.1/16": must be in canonical form ("10.96.0.0/16")"#);
        let errs = ServiceCidr.validate_update(&ctx, &range(json!(["10.97.0.0/16"])), &range(json!(["10.96.0.0/16"])));
        assert_eq!(errs[0].to_string(), r#"spec.cidrs: Invalid value: ["10.97.0.0/16"]: field is immutable"#);
    }
}
