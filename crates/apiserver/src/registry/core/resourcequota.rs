//! Resource quotas.

use apimachinery::{
    Object,
    field::{Error, ErrorList},
};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::pod_spec::resources;
use crate::{
    registry::{
        Column, Strategy,
        check::At,
        edit::{copy, ensure_object, object},
        print::age,
    },
    request::RequestContext,
};

/// The rules of quotas.
pub(crate) struct ResourceQuota;

const SCOPES: [&str; 6] = ["Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity"];
const CONFLICTING: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];
const COMPUTE: [&str; 6] = ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

#[async_trait]
impl Strategy for ResourceQuota {
    fn default(&self, obj: &mut Object) {
        for part in ["spec", "status"] {
            for list in ["hard", "used"] {
                if let Some(list) = object(ensure_object(&mut obj.0, part), list) {
                    resources::round_up(list);
                }
            }
        }
    }

    fn prepare_for_create(&self, _ctx: &RequestContext, obj: &mut Object) {
        obj.0.insert("status".into(), json!({}));
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let spec = At::field(obj, "spec");
        amounts(&spec.get("hard"), &mut errs);
        scopes(&spec, &mut errs);
        for term in spec.get("scopeSelector").get("matchExpressions").items() {
            selector(&spec, &term, &mut errs);
        }
        errs
    }

    fn validate_update(&self, ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let mut errs = self.validate(ctx, obj);
        let scopes = |obj| At::field(obj, "spec").get("scopes");
        let sorted = |at: &At<'_>| {
            let mut list: Vec<String> = at.strs().into_iter().map(str::to_owned).collect();
            list.sort();
            list
        };
        if sorted(&scopes(obj)) != sorted(&scopes(old)) {
            errs.push(scopes(obj).invalid("field is immutable"));
        }
        errs
    }

    fn prepare_for_status_update(&self, _ctx: &RequestContext, obj: &mut Object, old: &Object) {
        copy(&mut obj.0, &old.0, "spec");
    }

    fn validate_status_update(&self, _ctx: &RequestContext, obj: &Object, _old: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        for list in ["hard", "used"] {
            amounts(&At::field(obj, "status").get(list), &mut errs);
        }
        errs
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::object_name("Name of the quota."),
            Column::new("Request", "string", "Used and allowed requests and counts."),
            Column::new("Limit", "string", "Used and allowed limits."),
            Column::new("Age", "string", "Time since creation."),
        ]
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let status = At::field(obj, "status");
        let (mut requests, mut limits) = (Vec::new(), Vec::new());
        for (name, hard) in status.get("hard").entries() {
            let used = status.get("used").key(name);
            let used = if used.str().is_empty() { "0" } else { used.str() };
            let shown = format!("{name}: {used}/{}", hard.str());
            if name.starts_with("limits") { limits.push(shown) } else { requests.push(shown) }
        }
        vec![obj.name().into(), requests.join(", ").into(), limits.join(", ").into(), age(obj, now)]
    }
}

fn amounts(list: &At<'_>, errs: &mut ErrorList) {
    for (name, quantity) in list.entries() {
        resources::resource_name(&quantity, name, errs);
        let known = resources::is_standard(name) || name.starts_with("requests.hugepages-") || name.starts_with("hugepages-");
        if !name.contains('/') && !known {
            errs.push(Error::invalid(&quantity.path, name, "must be a standard resource for quota"));
        }
        quantity.non_negative_quantity(errs);
        let counted = !["cpu", "memory", "storage", "hugepages"].iter().any(|part| name.contains(part));
        if counted && quantity.quantity().is_some_and(|q| q.milli_value() % 1000 != 0) {
            errs.push(quantity.invalid("must be an integer"));
        }
    }
}

fn scopes(spec: &At<'_>, errs: &mut ErrorList) {
    let list = spec.get("scopes");
    let given = list.strs();
    for scope in &given {
        if !SCOPES.contains(scope) {
            errs.push(list.invalid("unsupported scope"));
        } else if !spec.get("hard").entries().iter().all(|(name, _)| covers(scope, name)) {
            errs.push(list.invalid("unsupported scope applied to resource"));
        }
    }
    if CONFLICTING.iter().any(|pair| pair.iter().all(|scope| given.contains(scope))) {
        errs.push(list.invalid("conflicting scopes"));
    }
}

/// Whether a scope can be told for what counts this resource.
fn covers(scope: &str, resource: &str) -> bool {
    match scope {
        "BestEffort" => resource == "pods",
        _ => resource == "pods" || COMPUTE.contains(&resource),
    }
}

fn selector(spec: &At<'_>, term: &At<'_>, errs: &mut ErrorList) {
    let at = spec.get("scopeSelector").path.child("matchExpressions");
    let (name, operator, values) = (term.get("scopeName"), term.get("operator"), term.get("values"));
    if !SCOPES.contains(&name.str()) {
        errs.push(Error::invalid(&at.child("scopeName"), name.str(), "unsupported scope"));
    }
    match operator.str() {
        "In" | "NotIn" if values.size() == 0 => {
            errs.push(Error::required(
                &at.child("values"),
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            ));
        }
        "Exists" | "DoesNotExist" if values.size() > 0 => {
            errs.push(Error::invalid(
                &at.child("values"),
                values.value.clone(),
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            ));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errs.push(Error::invalid(&at.child("operator"), other, "not a valid selector operator")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(spec: Value) -> Vec<String> {
        let mut obj = Object::from_value(json!({"spec": spec})).unwrap();
        ResourceQuota.default(&mut obj);
        ResourceQuota.validate(&RequestContext::for_tests(), &obj).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_values_and_scopes_are_checked() {
        assert!(complaints(json!({"hard": {"cpu": "1", "pods": "1", "count/jobs.batch": "3"}})).is_empty());
        assert_eq!(
            complaints(json!({"hard": {"bogus": "1"}})),
            [
                r#"spec.hard[bogus]: Invalid value: "bogus": must be a standard resource type or fully qualified"#,
                r#"spec.hard[bogus]: Invalid value: "bogus": must be a standard resource for quota"#
            ]
        );
        assert_eq!(complaints(json!({"hard": {"pods": "1.5"}})), [r#"spec.hard[pods]: Invalid value: "1500m": must be an integer"#]);
        assert_eq!(
            complaints(json!({"hard": {"services": "1"}, "scopes": ["BestEffort"]})),
            [r#"spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource"#]
        );
        assert_eq!(
            complaints(json!({"hard": {"pods": "1"}, "scopes": ["BestEffort", "NotBestEffort"]})),
            [r#"spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes"#]
        );
    }
}
