//! Flow schemas and priority levels.

use apimachinery::{
    Object,
    field::{Error, ErrorList},
};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    registry::{
        Column, Generation, Strategy,
        check::{At, internal_form},
        edit::{default_to, default_zero, ensure_object, object},
        print::{age, count, or_none},
        small::Small,
        strategy::SPEC,
    },
    request::RequestContext,
};

/// The rules of flow schemas.
pub(crate) struct FlowSchema;

const VERBS: [&str; 9] = ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
const LAST: i64 = 10_000;

#[async_trait]
impl Strategy for FlowSchema {
    fn default(&self, obj: &mut Object) {
        default_zero(ensure_object(&mut obj.0, "spec"), "matchingPrecedence", 1000);
    }

    fn prepare_for_create(&self, _ctx: &RequestContext, obj: &mut Object) {
        obj.0.insert("status".into(), json!({}));
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let spec = At::field(obj, "spec");
        let precedence = spec.get("matchingPrecedence");
        match precedence.int().unwrap_or(0) {
            n if n <= 0 => errs.push(precedence.invalid("must be a positive value")),
            n if n > LAST => errs.push(precedence.invalid(format!("must not be greater than {LAST}"))),
            1 if obj.name() != "exempt" => errs.push(precedence.invalid("only the schema named 'exempt' may have matchingPrecedence 1")),
            _ => {}
        }
        let method = spec.get("distinguisherMethod");
        if method.is_set() && !["ByNamespace", "ByUser"].contains(&method.get("type").str()) {
            errs.push(Error::not_supported(&method.get("type").path, internal_form(method.value), &["ByNamespace", "ByUser"]));
        }
        spec.get("priorityLevelConfiguration").get("name").require_str("must reference a priority level", &mut errs);
        spec.get("rules").items().iter().for_each(|rule| self::rule(rule, &mut errs));
        errs
    }

    fn kept_by_status(&self) -> &'static [&'static str] {
        &["metadata"]
    }

    fn generation(&self) -> Generation {
        SPEC
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::object_name("Name of the schema."),
            Column::new("PriorityLevel", "string", "The level its requests go to."),
            Column::new("MatchingPrecedence", "string", "Its place in the order of schemas."),
            Column::new("DistinguisherMethod", "string", "What tells its flows apart."),
            Column::new("Age", "string", "Time since creation."),
            Column::new("MissingPL", "string", "Whether the level does not exist."),
        ]
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let spec = At::field(obj, "spec");
        let conditions = At::field(obj, "status").get("conditions").items();
        let dangling = conditions.iter().find(|c| c.get("type").str() == "Dangling").map(|c| c.get("status").str());
        vec![
            obj.name().into(),
            spec.get("priorityLevelConfiguration").get("name").str().into(),
            count(&spec.get("matchingPrecedence")),
            or_none(spec.get("distinguisherMethod").get("type").str()),
            age(obj, now),
            dangling.unwrap_or("?").into(),
        ]
    }
}

fn rule(rule: &At<'_>, errs: &mut ErrorList) {
    let (subjects, resources, urls) = (rule.get("subjects"), rule.get("resourceRules"), rule.get("nonResourceRules"));
    if subjects.size() == 0 {
        errs.push(subjects.required("subjects must contain at least one value"));
    }
    subjects.items().iter().for_each(|at| subject(at, errs));
    if resources.size() + urls.size() == 0 {
        errs.push(rule.required("at least one of resourceRules and nonResourceRules has to be non-empty"));
    }
    for resource in resources.items() {
        verbs(&resource.get("verbs"), errs);
        for (field, what) in [("apiGroups", "api group"), ("resources", "resource")] {
            if resource.get(field).size() == 0 {
                errs.push(resource.get(field).required(&format!("resource rules must supply at least one {what}")));
            }
        }
        let namespaces = resource.get("namespaces");
        if namespaces.size() == 0 && !resource.get("clusterScope").is_true() {
            errs.push(namespaces.required("resource rules that are not cluster scoped must supply at least one namespace"));
        }
    }
    for url in urls.items() {
        verbs(&url.get("verbs"), errs);
        let list = url.get("nonResourceURLs");
        if list.size() == 0 {
            errs.push(list.required("nonResourceURLs must contain at least one value"));
        }
        for path in list.items().iter().filter(|path| path.str() != "*" && !path.str().starts_with('/')) {
            errs.push(path.invalid("must start with slash"));
        }
    }
}

fn verbs(list: &At<'_>, errs: &mut ErrorList) {
    if list.size() == 0 {
        errs.push(list.required("verbs must contain at least one value"));
    } else if !list.strs().contains(&"*") && !list.strs().iter().all(|verb| VERBS.contains(verb)) {
        errs.push(list.not_supported(&VERBS));
    }
}

fn subject(subject: &At<'_>, errs: &mut ErrorList) {
    let kind = subject.get("kind");
    let (field, words) = match kind.str() {
        "ServiceAccount" => ("serviceAccount", "serviceAccount is required when subject kind is 'ServiceAccount'"),
        "User" => ("user", "user is required when subject kind is 'User'"),
        "Group" => ("group", "group is required when subject kind is 'Group'"),
        _ => {
            errs.push(kind.not_supported(&["Group", "ServiceAccount", "User"]));
            return;
        }
    };
    if !subject.get(field).is_set() {
        errs.push(subject.get(field).required(words));
    }
}

/// The rules of priority levels.
pub(crate) const PRIORITY_LEVEL: Small = Small {
    default: default_level,
    validate: validate_level,
    generation: SPEC,
    kept_by_status: &["metadata"],
    columns: &[
        ("Type", "string", "Whether the level is limited.", |obj| obj.str_at("/spec/type").into()),
        ("NominalConcurrencyShares", "string", "Its share of requests in flight.", |obj| {
            number(obj, "/spec/limited/nominalConcurrencyShares")
        }),
        ("Queues", "string", "Number of queues.", |obj| number(obj, "/spec/limited/limitResponse/queuing/queues")),
        ("HandSize", "string", "Queues a flow may use.", |obj| number(obj, "/spec/limited/limitResponse/queuing/handSize")),
        ("QueueLengthLimit", "string", "Requests that may wait in a queue.", |obj| {
            number(obj, "/spec/limited/limitResponse/queuing/queueLengthLimit")
        }),
    ],
    ..Small::PLAIN
};

fn number(obj: &Object, pointer: &str) -> Value {
    obj.pointer(pointer).filter(|value| value.is_number()).cloned().unwrap_or_else(|| "<none>".into())
}

fn default_level(obj: &mut Object) {
    let spec = ensure_object(&mut obj.0, "spec");
    if let Some(limited) = object(spec, "limited") {
        default_to(limited, "nominalConcurrencyShares", 30);
        default_to(limited, "lendablePercent", 0);
        if let Some(queuing) = object(ensure_object(limited, "limitResponse"), "queuing") {
            for (key, value) in [("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)] {
                default_zero(queuing, key, value);
            }
        }
    }
    if let Some(exempt) = object(spec, "exempt") {
        default_to(exempt, "nominalConcurrencyShares", 0);
        default_to(exempt, "lendablePercent", 0);
    }
    default_to(&mut obj.0, "status", json!({}));
}

fn validate_level(obj: &Object) -> ErrorList {
    let mut errs = ErrorList::new();
    let spec = At::field(obj, "spec");
    let (kind, limited) = (spec.get("type"), spec.get("limited"));
    match kind.str() {
        "Limited" if !limited.is_set() => errs.push(limited.required("must not be empty when type is Limited")),
        "Limited" => {
            limited.get("nominalConcurrencyShares").non_negative(&mut errs);
            limited.get("limitResponse").get("type").one_of(&["Queue", "Reject"], &mut errs);
        }
        "Exempt" if limited.is_set() => errs.push(limited.forbidden("must be nil if the type is not Limited")),
        "Exempt" => {}
        _ => kind.one_of(&["Exempt", "Limited"], &mut errs),
    }
    errs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precedence_levels_and_rules_are_checked() {
        let check = |spec: Value| {
            let mut obj = Object::from_value(json!({"metadata": {"name": "x"}, "spec": spec})).unwrap();
            FlowSchema.default(&mut obj);
            FlowSchema.validate(&RequestContext::for_tests(), &obj).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            check(json!({"priorityLevelConfiguration": {"name": ""}})),
            ["spec.priorityLevelConfiguration.name: Required value: must reference a priority level"]
        );
        assert_eq!(
            check(json!({"priorityLevelConfiguration": {"name": "a"}, "rules": [{}]})),
            [
                "spec.rules[0].subjects: Required value: subjects must contain at least one value",
                "spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty"
            ]
        );
    }
}
