//! Ingress classes.

use apimachinery::{Object, field::ErrorList, names};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    registry::{
        Column, Generation, Strategy,
        check::At,
        edit::{default_zero, object_at},
        print::{age, or_none},
        strategy::SPEC,
    },
    request::RequestContext,
};

/// The rules of ingress classes.
pub(crate) struct IngressClass;

#[async_trait]
impl Strategy for IngressClass {
    fn default(&self, obj: &mut Object) {
        if let Some(parameters) = object_at(&mut obj.0, &["spec", "parameters"]) {
            default_zero(parameters, "scope", "Cluster");
        }
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let spec = At::field(obj, "spec");
        let controller = spec.get("controller");
        if controller.str().len() > 250 {
            errs.push(apimachinery::field::Error::too_long(&controller.path, "", 250));
        }
        domain_path(&controller, &mut errs);
        if spec.get("parameters").is_set() {
            parameters(&spec.get("parameters"), &mut errs);
        }
        errs
    }

    fn validate_update(&self, _ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let controller = |obj| At::field(obj, "spec").get("controller");
        controller(obj).immutable(&controller(old), &mut errs);
        errs
    }

    fn generation(&self) -> Generation {
        SPEC
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::object_name("Name of the class."),
            Column::new("Controller", "string", "The controller that serves it."),
            Column::new("Parameters", "string", "Where its parameters are."),
            Column::new("Age", "string", "Time since creation."),
        ]
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let parameters = At::field(obj, "spec").get("parameters");
        let [group, kind, name] = ["apiGroup", "kind", "name"].map(|field| parameters.get(field).str());
        let shown = match (parameters.is_set(), group) {
            (false, _) => String::new(),
            (true, "") => format!("{kind}/{name}"),
            (true, group) => format!("{kind}.{group}/{name}"),
        };
        vec![obj.name().into(), obj.str_at("/spec/controller").into(), or_none(&shown), age(obj, now)]
    }
}

/// A domain and a path, `example.com/foo`.
fn domain_path(at: &At<'_>, errs: &mut ErrorList) {
    if !at.require_str("", errs) {
        return;
    }
    match at.str().split_once('/') {
        Some((domain, path)) if !domain.is_empty() && !path.is_empty() => at.each_of(names::is_dns1123_subdomain(domain), errs),
        _ => errs.push(at.invalid("must be a domain-prefixed path (such as \"acme.io/foo\")")),
    }
}

fn parameters(at: &At<'_>, errs: &mut ErrorList) {
    let (group, scope, namespace) = (at.get("apiGroup"), at.get("scope"), at.get("namespace"));
    group.name_if_set(names::is_dns1123_subdomain, errs);
    for field in ["kind", "name"] {
        at.get(field).required_name(names::is_path_segment_name, errs);
    }
    match scope.str() {
        "Namespace" if namespace.is_empty() => errs.push(namespace.required("`parameters.scope` is set to 'Namespace'")),
        "Namespace" => namespace.name(names::is_dns1123_label, errs),
        "Cluster" if namespace.is_set() => errs.push(namespace.forbidden("`parameters.scope` is set to 'Cluster'")),
        "Cluster" => {}
        _ => scope.one_of(&["Cluster", "Namespace"], errs),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn controllers_have_domains_and_parameters_a_scope() {
        let check = |spec: Value| {
            let obj = Object::from_value(json!({"spec": spec})).unwrap();
            IngressClass.validate(&RequestContext::for_tests(), &obj).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            check(json!({"controller": "no-slash"})),
            [r#"spec.controller: Invalid value: "no-slash": must be a domain-prefixed path (such as "acme.io/foo")"#]
        );
        assert_eq!(
            check(json!({"controller": "a.b/c", "parameters": {"kind": "K", "name": "n", "scope": "Namespace"}})),
            ["spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"]
        );
    }
}
