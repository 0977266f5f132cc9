//! Limit ranges.

use std::collections::BTreeSet;

use apimachinery::{
    Object,
    field::{Error, ErrorList},
};
use async_trait::async_trait;
use serde_json::{Value, json};

use super::pod_spec::resources;
use crate::{
    registry::{
        Strategy,
        check::At,
        edit::{Fields, default_to, each, ensure_object, is_zero, object},
    },
    request::RequestContext,
};

/// The rules of limit ranges.
pub(crate) struct LimitRange;

const LISTS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];

#[async_trait]
impl Strategy for LimitRange {
    fn default(&self, obj: &mut Object) {
        for limit in each(ensure_object(&mut obj.0, "spec"), "limits") {
            for list in LISTS {
                if let Some(list) = object(limit, list) {
                    resources::round_up(list);
                }
            }
            if limit.get("type") == Some(&json!("Container")) {
                container_defaults(limit);
            }
        }
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let mut seen = BTreeSet::new();
        for limit in At::field(obj, "spec").get("limits").items() {
            let kind = limit.get("type");
            if kind.require_str("", &mut errs) && !seen.insert(kind.str()) {
                errs.push(kind.duplicate());
            }
            self::limit(&limit, &mut errs);
        }
        errs
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }
}

/// A container's default is its maximum, its default request its default or else its minimum.
fn container_defaults(limit: &mut Fields) {
    let list = |limit: &Fields, name: &str| limit.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
    let (max, min) = (list(limit, "max"), list(limit, "min"));
    let fill = |limit: &mut Fields, name: &str, from: Fields| {
        if !from.is_empty() {
            default_to(limit, name, json!({}));
            let target = ensure_object(limit, name);
            for (key, value) in from {
                target.entry(key).or_insert(value);
            }
        }
    };
    fill(limit, "default", max);
    let default = list(limit, "default");
    fill(limit, "defaultRequest", default);
    fill(limit, "defaultRequest", min);
    for name in ["default", "defaultRequest"] {
        if limit.get(name).is_some_and(is_zero) {
            limit.remove(name);
        }
    }
}

fn limit(limit: &At<'_>, errs: &mut ErrorList) {
    let mut names = BTreeSet::new();
    for list in LISTS {
        for (name, quantity) in limit.get(list).entries() {
            resources::resource_name(&quantity, name, errs);
            names.insert(name);
        }
    }
    if limit.get("type").str() == "Pod" {
        for list in ["default", "defaultRequest"].map(|list| limit.get(list)).iter().filter(|list| list.size() > 0) {
            errs.push(list.forbidden("may not be specified when `type` is 'Pod'"));
        }
    }
    for name in names {
        // Each bound may not exceed the next one up.
        for (low, high) in [
            ("min", "max"),
            ("min", "defaultRequest"),
            ("defaultRequest", "max"),
            ("defaultRequest", "default"),
            ("min", "default"),
            ("default", "max"),
        ] {
            ordered(limit, name, low, high, errs);
        }
    }
}

fn ordered(limit: &At<'_>, name: &str, low: &str, high: &str, errs: &mut ErrorList) {
    let (small, large) = (limit.get(low).key(name), limit.get(high).key(name));
    if let (Some(a), Some(b)) = (small.quantity(), large.quantity())
        && a > b
    {
        let words = |list: &str| if list == "defaultRequest" { "default request".to_owned() } else { list.to_owned() };
        errs.push(Error::invalid(&small.path, small.str(), format!("{} value {a} is greater than {} value {b}", words(low), words(high))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_containers_defaults_follow_from_its_bounds() {
        let given = json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Gi"}}]}});
        let mut obj = Object::from_value(given).unwrap();
        LimitRange.default(&mut obj);
        let limit = &obj.0["spec"]["limits"][0];
        assert_eq!((&limit["default"], &limit["defaultRequest"]), (&json!({"cpu": "2"}), &json!({"cpu": "2", "memory": "1Gi"})));
        assert!(LimitRange.validate(&RequestContext::for_tests(), &obj).is_empty());
    }

    #[test]
    fn a_minimum_over_the_maximum_is_refused() {
        let given = json!({"spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}, "min": {"cpu": "2"}}]}});
        let errs = LimitRange.validate(&RequestContext::for_tests(), &Object::from_value(given).unwrap());
        assert_eq!(errs[0].to_string(), r#"spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1"#);
    }
}
