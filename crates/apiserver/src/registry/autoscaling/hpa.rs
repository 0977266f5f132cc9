//! Horizontal pod autoscalers: stored as `autoscaling/v2`, whose rules hold for both versions.

use apimachinery::{
    Object,
    field::{Error, ErrorList},
    names,
};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::convert;
use crate::{
    registry::{
        Column, Conversion, Strategy,
        check::At,
        edit::{Fields, default_to, ensure_object, is_zero, object},
        print::{age, count},
    },
    request::RequestContext,
};

/// The rules of autoscalers; `old_form` is `autoscaling/v1`.
pub(crate) struct Autoscaler {
    /// Whether objects are spelled as `autoscaling/v1` spells them.
    pub(crate) old_form: bool,
}

const LONGEST_WINDOW: i64 = 3600;
const LONGEST_PERIOD: i64 = 1800;

#[async_trait]
impl Strategy for Autoscaler {
    fn default(&self, obj: &mut Object) {
        let has_metrics = obj.annotation(convert::METRICS).is_some();
        let spec = ensure_object(&mut obj.0, "spec");
        default_to(spec, "minReplicas", 1);
        if self.old_form {
            if !has_metrics {
                default_to(spec, "targetCPUUtilizationPercentage", 80);
            }
            return;
        }
        if spec.get("metrics").is_none_or(is_zero) {
            spec.insert("metrics".into(), json!([convert::cpu_metric(80)]));
        }
        if let Some(behavior) = object(spec, "behavior") {
            default_behavior(behavior);
        }
        let status = ensure_object(&mut obj.0, "status");
        default_to(status, "desiredReplicas", 0);
        status.entry("currentMetrics").or_insert(Value::Null);
    }

    fn prepare_for_create(&self, _ctx: &RequestContext, obj: &mut Object) {
        let status = if self.old_form {
            json!({"currentReplicas": 0, "desiredReplicas": 0})
        } else {
            json!({"currentMetrics": null, "desiredReplicas": 0})
        };
        obj.0.insert("status".into(), status);
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        // The old form has fewer fields; the rules are those of the new one.
        match self.old_form {
            true => convert::V1.to_stored(obj.clone()).map(|stored| rules(&stored)).unwrap_or_default(),
            false => rules(obj),
        }
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::object_name("Name of the autoscaler."),
            Column::new("Reference", "string", "What it scales."),
            Column::new("Targets", "string", "Measured and wanted values."),
            Column::new("MinPods", "string", "Fewest pods."),
            Column::new("MaxPods", "string", "Most pods."),
            Column::new("Replicas", "string", "Pods there are."),
            Column::new("Age", "string", "Time since creation."),
        ]
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let stored = if self.old_form { convert::V1.to_stored(obj.clone()).unwrap_or_default() } else { obj.clone() };
        let (spec, status) = (At::field(&stored, "spec"), At::field(&stored, "status"));
        let target = spec.get("scaleTargetRef");
        let reference = format!("{}/{}", target.get("kind").str(), target.get("name").str());
        let least = spec.get("minReplicas").int().map_or("<unset>".to_owned(), |n| n.to_string());
        vec![
            obj.name().into(),
            reference.into(),
            super::targets::shown(&spec, &status).into(),
            least.into(),
            count(&spec.get("maxReplicas")),
            count(&status.get("currentReplicas")),
            age(obj, now),
        ]
    }
}

/// Rules of both directions, half filled in by the user.
fn default_behavior(behavior: &mut Fields) {
    let up = json!([{"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}]);
    let down = json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]);
    for (direction, policies) in [("scaleUp", up), ("scaleDown", down)] {
        let rules = ensure_object(behavior, direction);
        default_to(rules, "selectPolicy", "Max");
        default_to(rules, "policies", policies);
        if direction == "scaleUp" {
            default_to(rules, "stabilizationWindowSeconds", 0);
        }
    }
}

fn rules(obj: &Object) -> ErrorList {
    let mut errs = ErrorList::new();
    let spec = At::field(obj, "spec");
    let (least, most) = (spec.get("minReplicas"), spec.get("maxReplicas"));
    let (low, high) = (least.int().unwrap_or(1), most.int().unwrap_or(0));
    if least.is_set() && low < 1 {
        errs.push(least.invalid("must be greater than or equal to 1"));
    }
    if high < 1 {
        errs.push(most.required("must be set and greater than 0"));
    }
    if high < low {
        errs.push(Error::invalid(&most.path, high, "must be greater than or equal to `minReplicas`"));
    }
    target(&spec.get("scaleTargetRef"), &mut errs);
    metrics(&spec.get("metrics"), low, &mut errs);
    for direction in ["scaleUp", "scaleDown"] {
        behavior(&spec.get("behavior").get(direction), &mut errs);
    }
    errs
}

fn target(target: &At<'_>, errs: &mut ErrorList) {
    for field in ["kind", "name"] {
        target.get(field).required_name(names::is_path_segment_name, errs);
    }
}

fn metrics(list: &At<'_>, low: i64, errs: &mut ErrorList) {
    const TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];
    for metric in list.items() {
        metric.get("type").one_of(&TYPES, errs);
    }
    let external = list.items().iter().any(|metric| ["Object", "External"].contains(&metric.get("type").str()));
    if low == 0 && !external {
        errs.push(list.forbidden("must specify at least one Object or External metric to support scaling to zero replicas"));
    }
}

fn behavior(rules: &At<'_>, errs: &mut ErrorList) {
    if !rules.is_set() {
        return;
    }
    let (window, policies) = (rules.get("stabilizationWindowSeconds"), rules.get("policies"));
    window.non_negative(errs);
    if window.int().is_some_and(|n| n > LONGEST_WINDOW) {
        errs.push(window.invalid(format!("must be less than or equal to {LONGEST_WINDOW}")));
    }
    if rules.get("selectPolicy").is_set() {
        rules.get("selectPolicy").one_of(&["Disabled", "Max", "Min"], errs);
    }
    if policies.size() == 0 {
        errs.push(policies.required("must specify at least one Policy"));
    }
    for policy in policies.items() {
        policy.get("type").one_of(&["Percent", "Pods"], errs);
        for field in ["value", "periodSeconds"] {
            let number = policy.get(field);
            if number.int().unwrap_or(0) <= 0 {
                errs.push(number.invalid("must be greater than zero"));
            }
        }
        let period = policy.get("periodSeconds");
        if period.int().is_some_and(|n| n > LONGEST_PERIOD) {
            errs.push(period.invalid(format!("must be less than or equal to {LONGEST_PERIOD}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(patch: Value) -> Vec<String> {
        let mut spec = json!({"maxReplicas": 5, "scaleTargetRef": {"kind": "Deployment", "name": "d"}});
        spec.as_object_mut().unwrap().extend(patch.as_object().cloned().unwrap());
        let strategy = Autoscaler { old_form: false };
        let mut obj = Object::from_value(json!({"metadata": {"name": "x"}, "spec": spec})).unwrap();
        strategy.default(&mut obj);
        strategy.validate(&RequestContext::for_tests(), &obj).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn bounds_targets_and_policies_are_checked() {
        assert!(complaints(json!({})).is_empty());
        assert_eq!(
            complaints(json!({"maxReplicas": 0})),
            [
                "spec.maxReplicas: Required value: must be set and greater than 0",
                "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`"
            ]
        );
        assert_eq!(complaints(json!({"minReplicas": 0}))[0], "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1");
        assert_eq!(
            complaints(json!({"behavior": {"scaleUp": {"policies": []}}})),
            ["spec.behavior.scaleUp.policies: Required value: must specify at least one Policy"]
        );
    }
}
