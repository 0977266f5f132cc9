//! Leases.

use apimachinery::{Object, field::ErrorList};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    registry::{Column, Strategy, check::At, print::age},
    request::RequestContext,
};

/// The rules of leases.
pub(crate) struct Lease;

#[async_trait]
impl Strategy for Lease {
    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let spec = At::field(obj, "spec");
        let duration = spec.get("leaseDurationSeconds");
        if duration.int().is_some_and(|seconds| seconds <= 0) {
            errs.push(duration.invalid("must be greater than 0"));
        }
        spec.get("leaseTransitions").non_negative(&mut errs);
        let (preferred, strategy) = (spec.get("preferredHolder"), spec.get("strategy"));
        if !preferred.is_empty() && strategy.is_empty() {
            errs.push(preferred.forbidden("may only be specified when `strategy` is defined"));
        }
        errs
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::object_name("Name of the lease."),
            Column::new("Holder", "string", "Who holds it."),
            Column::new("Age", "string", "Time since creation."),
        ]
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        vec![obj.name().into(), obj.str_at("/spec/holderIdentity").into(), age(obj, now)]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lease_lasts_more_than_no_time() {
        let lease = Object::from_value(json!({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}})).unwrap();
        let errs = Lease.validate(&RequestContext::for_tests(), &lease);
        assert_eq!(
            errs.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [
                "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
                "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"
            ]
        );
    }
}
