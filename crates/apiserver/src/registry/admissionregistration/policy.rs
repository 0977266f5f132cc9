//! Admission policies and their bindings. Expressions are compiled where they are evaluated, not here.

use apimachinery::{Object, field::ErrorList, names};
use serde_json::{Value, json};

use super::webhook::rule;
use crate::registry::{
    check::{At, unique_by},
    edit::{default_to, each, ensure_object, object},
    selectors,
    small::{Cells, Small},
    strategy::SPEC,
};

/// The rules of validating policies.
pub(crate) const VALIDATING: Small = Small {
    default: |obj| {
        defaults(obj);
        default_to(&mut obj.0, "status", json!({}));
    },
    validate: validating,
    generation: SPEC,
    unconditional_update: false,
    kept_by_status: &["metadata"],
    columns: &[("Validations", "integer", "Number of validations.", |obj| count(obj, "validations")), PARAM_KIND],
    ..Small::PLAIN
};

/// The rules of mutating policies.
pub(crate) const MUTATING: Small = Small {
    default: defaults,
    validate: mutating,
    generation: SPEC,
    unconditional_update: false,
    columns: &[("Mutations", "integer", "Number of mutations.", |obj| count(obj, "mutations")), PARAM_KIND],
    ..Small::PLAIN
};

/// The rules of bindings of both.
pub(crate) const BINDING: Small = Small {
    default: |obj| {
        if let Some(resources) = object(ensure_object(&mut obj.0, "spec"), "matchResources") {
            match_resources(resources);
        }
    },
    validate: binding,
    generation: SPEC,
    unconditional_update: false,
    columns: &[
        ("PolicyName", "string", "The policy it binds.", |obj| obj.str_at("/spec/policyName").into()),
        ("ParamRef", "string", "The policy's parameters.", param_ref),
    ],
    ..Small::PLAIN
};

const PARAM_KIND: Cells = ("ParamKind", "string", "The kind of its parameters.", param_kind);

fn count(obj: &Object, list: &str) -> Value {
    At::field(obj, "spec").get(list).size().into()
}

fn param_kind(obj: &Object) -> Value {
    let kind = At::field(obj, "spec").get("paramKind");
    let shown = format!("{}/{}", kind.get("apiVersion").str(), kind.get("kind").str());
    if kind.is_set() { shown.into() } else { "<unset>".into() }
}

fn param_ref(obj: &Object) -> Value {
    let reference = At::field(obj, "spec").get("paramRef");
    let (namespace, name) = (reference.get("namespace").str(), reference.get("name").str());
    match (reference.is_set(), name.is_empty(), namespace.is_empty()) {
        (false, ..) => "<unset>".into(),
        (true, true, _) => selectors::format(reference.get("selector").value).into(),
        (true, false, true) => name.into(),
        (true, false, false) => format!("{namespace}/{name}").into(),
    }
}

fn defaults(obj: &mut Object) {
    let spec = ensure_object(&mut obj.0, "spec");
    default_to(spec, "failurePolicy", "Fail");
    if let Some(resources) = object(spec, "matchConstraints") {
        match_resources(resources);
    }
}

fn match_resources(resources: &mut crate::registry::edit::Fields) {
    default_to(resources, "matchPolicy", "Equivalent");
    default_to(resources, "namespaceSelector", json!({}));
    default_to(resources, "objectSelector", json!({}));
    for list in ["resourceRules", "excludeResourceRules"] {
        each(resources, list).for_each(|rule| default_to(rule, "scope", "*"));
    }
}

fn common(spec: &At<'_>, errs: &mut ErrorList) {
    let kind = spec.get("paramKind");
    if kind.is_set() {
        for field in ["apiVersion", "kind"] {
            kind.get(field).require_str("", errs);
        }
    }
    let constraints = spec.get("matchConstraints");
    if constraints.is_set() {
        if constraints.get("resourceRules").size() == 0 {
            errs.push(constraints.get("resourceRules").required(""));
        }
        self::constraints(&constraints, errs);
    } else {
        errs.push(constraints.required(""));
    }
    unique_by(&spec.get("matchConditions"), "name", errs);
    spec.get("failurePolicy").one_of_if_set(&["Fail", "Ignore"], errs);
}

fn constraints(at: &At<'_>, errs: &mut ErrorList) {
    at.get("matchPolicy").one_of_if_set(&["Equivalent", "Exact"], errs);
    for selector in ["namespaceSelector", "objectSelector"] {
        selectors::label_selector(&at.get(selector), errs);
    }
    for list in ["resourceRules", "excludeResourceRules"] {
        at.get(list).items().iter().for_each(|at| rule(at, errs));
    }
}

fn validating(obj: &Object) -> ErrorList {
    const ONE: &str = "validations or auditAnnotations must contain at least one item";
    let mut errs = ErrorList::new();
    let spec = At::field(obj, "spec");
    common(&spec, &mut errs);
    let (validations, annotations) = (spec.get("validations"), spec.get("auditAnnotations"));
    if validations.size() + annotations.size() == 0 {
        errs.push(validations.required(ONE));
        errs.push(annotations.required(ONE));
    }
    for validation in validations.items() {
        validation.get("expression").require_str("expression is not specified", &mut errs);
        let message = validation.get("message");
        if message.str().contains('\n') {
            errs.push(message.invalid("must not contain line breaks"));
        }
        validation.get("reason").one_of_if_set(&["Forbidden", "Invalid", "RequestEntityTooLarge"], &mut errs);
    }
    errs
}

fn mutating(obj: &Object) -> ErrorList {
    let mut errs = ErrorList::new();
    let spec = At::field(obj, "spec");
    common(&spec, &mut errs);
    let mutations = spec.get("mutations");
    if mutations.size() == 0 {
        errs.push(mutations.required("mutations must contain at least one item"));
    }
    for mutation in mutations.items() {
        self::mutation(&mutation, &mut errs);
    }
    spec.get("reinvocationPolicy").one_of(&["IfNeeded", "Never"], &mut errs);
    errs
}

fn mutation(mutation: &At<'_>, errs: &mut ErrorList) {
    let kind = mutation.get("patchType");
    kind.one_of(&["ApplyConfiguration", "JSONPatch"], errs);
    let parts = [("JSONPatch", "jsonPatch"), ("ApplyConfiguration", "applyConfiguration")];
    if let Some((kind, own)) = parts.iter().find(|(name, _)| *name == kind.str()) {
        if !mutation.get(own).is_set() {
            errs.push(mutation.get(own).required(&format!("must be specified when patchType is {kind}")));
        }
        for (_, other) in parts.iter().filter(|(_, field)| field != own) {
            let other_at = mutation.get(other);
            if other_at.is_set() {
                let detail = format!("must not be specified when patchType is {kind}");
                errs.push(apimachinery::field::Error::invalid(&other_at.path, format!("{{{other}}}"), detail));
            }
        }
    }
}

fn binding(obj: &Object) -> ErrorList {
    let mut errs = ErrorList::new();
    let spec = At::field(obj, "spec");
    spec.get("policyName").required_name(names::is_dns1123_subdomain, &mut errs);
    let actions = spec.get("validationActions");
    let validating = obj.kind().starts_with("Validating");
    if validating && actions.size() == 0 {
        errs.push(actions.required("at least one validation action is required"));
    }
    for action in actions.items() {
        action.one_of(&["Audit", "Deny", "Warn"], &mut errs);
    }
    constraints(&spec.get("matchResources"), &mut errs);
    errs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_matches_equivalents_and_has_validations() {
        let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]);
        let mut obj = Object::from_value(json!({"spec": {"matchConstraints": {"resourceRules": rules}}})).unwrap();
        (VALIDATING.default)(&mut obj);
        assert_eq!(obj.0["spec"]["matchConstraints"]["matchPolicy"], "Equivalent");
        assert_eq!(obj.0["spec"]["matchConstraints"]["resourceRules"][0]["scope"], "*");
        let texts: Vec<String> = (VALIDATING.validate)(&obj).iter().map(ToString::to_string).collect();
        assert_eq!(texts[0], "spec.validations: Required value: validations or auditAnnotations must contain at least one item");
    }
}
