//! Pod disruption budgets.

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
        apps::workload,
        check::{At, internal_form},
        print::{age, count},
        selectors,
        strategy::SPEC,
    },
    request::RequestContext,
};

/// The rules of disruption budgets.
pub(crate) struct PodDisruptionBudget;

const COUNTS: [&str; 4] = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];

#[async_trait]
impl Strategy for PodDisruptionBudget {
    fn prepare_for_create(&self, _ctx: &RequestContext, obj: &mut Object) {
        let zeroes = COUNTS.iter().map(|field| ((*field).to_owned(), json!(0)));
        obj.0.insert("status".into(), Value::Object(zeroes.collect()));
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let spec = At::field(obj, "spec");
        let bounds = [spec.get("minAvailable"), spec.get("maxUnavailable")];
        if bounds.iter().all(At::is_set) {
            let shown = internal_form(spec.value);
            errs.push(Error::invalid(&spec.path, shown, "minAvailable and maxUnavailable cannot be both set"));
        }
        for bound in bounds.iter().filter(|bound| bound.is_set()) {
            workload::int_or_percent(bound, &mut errs);
            workload::at_most_all(bound, &mut errs);
        }
        selectors::label_selector(&spec.get("selector"), &mut errs);
        spec.get("unhealthyPodEvictionPolicy").one_of_if_set(&["AlwaysAllow", "IfHealthyBudget"], &mut errs);
        errs
    }

    fn validate_status_update(&self, _ctx: &RequestContext, obj: &Object, _old: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        workload::status_counts(&At::field(obj, "status"), &COUNTS, &mut errs);
        errs
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn generation(&self) -> Generation {
        SPEC
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::object_name("Name of the budget."),
            Column::new("Min Available", "string", "Pods that must stay."),
            Column::new("Max Unavailable", "string", "Pods that may go."),
            Column::new("Allowed Disruptions", "integer", "Pods that may go now."),
            Column::new("Age", "string", "Time since creation."),
        ]
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let spec = At::field(obj, "spec");
        let bound = |field: &str| match spec.get(field).value {
            Value::Null => Value::from("N/A"),
            Value::String(percent) => Value::from(percent.as_str()),
            number => Value::from(number.to_string()),
        };
        let allowed = count(&At::field(obj, "status").get("disruptionsAllowed"));
        vec![obj.name().into(), bound("minAvailable"), bound("maxUnavailable"), allowed, age(obj, now)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bound_is_enough() {
        let obj = Object::from_value(json!({"metadata": {"name": "a"}, "spec": {"minAvailable": "150%", "maxUnavailable": 1}})).unwrap();
        let errs = PodDisruptionBudget.validate(&RequestContext::for_tests(), &obj);
        let texts: Vec<String> = errs.iter().map(ToString::to_string).collect();
        assert!(texts[0].ends_with("minAvailable and maxUnavailable cannot be both set"));
        assert_eq!(texts[1], r#"spec.minAvailable: Invalid value: "150%": must not be greater than 100%"#);
        assert_eq!(PodDisruptionBudget.cells(&obj, Timestamp::UNIX_EPOCH)[1..4], [json!("150%"), json!("1"), json!(0)]);
    }
}
