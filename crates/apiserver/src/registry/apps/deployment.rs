//! Deployments.

use apimachinery::{Object, field::ErrorList};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::workload;
use crate::{
    registry::{
        Column, Generation, Strategy,
        check::At,
        edit::{default_to, default_zero, ensure_object, text},
        print::count,
    },
    request::RequestContext,
};

/// The rules of deployments.
pub(crate) struct Deployment;

#[async_trait]
impl Strategy for Deployment {
    fn kept_by_status(&self) -> &'static [&'static str] {
        &["metadata.labels"]
    }

    fn default(&self, obj: &mut Object) {
        let spec = ensure_object(&mut obj.0, "spec");
        for (key, value) in [("replicas", 1), ("revisionHistoryLimit", 10), ("progressDeadlineSeconds", 600)] {
            default_to(spec, key, value);
        }
        let strategy = ensure_object(spec, "strategy");
        default_zero(strategy, "type", "RollingUpdate");
        if text(strategy, "type") == "RollingUpdate" {
            let rolling = ensure_object(strategy, "rollingUpdate");
            default_to(rolling, "maxSurge", "25%");
            default_to(rolling, "maxUnavailable", "25%");
        }
        workload::default_template(obj);
    }

    fn prepare_for_create(&self, _ctx: &RequestContext, obj: &mut Object) {
        obj.0.insert("status".into(), json!({}));
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let spec = At::field(obj, "spec");
        spec.get("replicas").non_negative(&mut errs);
        workload::selector_and_template(&spec, "deployment", &mut errs);
        workload::always_running(&spec, "ReplicaSet", &mut errs);
        rollout(&spec.get("strategy"), &mut errs);
        let (ready, deadline) = (spec.get("minReadySeconds"), spec.get("progressDeadlineSeconds"));
        ready.non_negative(&mut errs);
        spec.get("revisionHistoryLimit").non_negative(&mut errs);
        deadline.non_negative(&mut errs);
        if deadline.int().is_some_and(|seconds| seconds <= ready.int().unwrap_or(0)) {
            errs.push(deadline.invalid("must be greater than minReadySeconds"));
        }
        errs
    }

    fn validate_update(&self, ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let mut errs = self.validate(ctx, obj);
        workload::fixed_selector(obj, old, &mut errs);
        errs
    }

    fn warnings_on_create(&self, _ctx: &RequestContext, obj: &Object) -> Vec<String> {
        workload::warnings(obj)
    }

    fn validate_status_update(&self, _ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let status = At::field(obj, "status");
        let counts = [
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "collisionCount",
        ];
        workload::status_counts(&status, &counts, &mut errs);
        for field in ["updatedReplicas", "readyReplicas", "availableReplicas"] {
            workload::no_more_than(&status, field, "replicas", &mut errs);
        }
        workload::no_more_than(&status, "availableReplicas", "readyReplicas", &mut errs);
        let (count, was) = (status.get("collisionCount"), At::field(old, "status").get("collisionCount"));
        if count.int().unwrap_or(0) < was.int().unwrap_or(0) {
            errs.push(count.invalid("cannot be decremented"));
        }
        errs
    }

    /// Annotations count too: a rollout's change cause is one.
    fn generation(&self) -> Generation {
        Generation::Fields(&["spec", "metadata.annotations"])
    }

    fn columns(&self) -> Vec<Column> {
        workload::columns(vec![
            Column::object_name("Name of the deployment."),
            Column::new("Ready", "string", "Ready pods of wanted pods."),
            Column::new("Up-to-date", "string", "Pods of the current template."),
            Column::new("Available", "string", "Pods ready for at least minReadySeconds."),
        ])
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let status = At::field(obj, "status");
        let counts = ["updatedReplicas", "availableReplicas"].map(|field| count(&status.get(field)));
        workload::cells(obj, now, [vec![workload::ready_of_wanted(obj)], counts.to_vec()].concat())
    }
}

fn rollout(strategy: &At<'_>, errs: &mut ErrorList) {
    let rolling = strategy.get("rollingUpdate");
    match strategy.get("type").str() {
        "Recreate" if rolling.is_set() => {
            errs.push(rolling.forbidden("may not be specified when strategy `type` is 'Recreate'"));
        }
        "Recreate" => {}
        "RollingUpdate" if !rolling.is_set() => errs.push(rolling.required("this should be defaulted and never be nil")),
        "RollingUpdate" => rolling_update(&rolling, errs),
        _ => errs.push(workload::internal_not_supported(strategy, &["Recreate", "RollingUpdate"])),
    }
}

fn rolling_update(rolling: &At<'_>, errs: &mut ErrorList) {
    let (unavailable, surge) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
    workload::int_or_percent(&unavailable, errs);
    workload::int_or_percent(&surge, errs);
    if workload::is_nothing(&unavailable) && workload::is_nothing(&surge) {
        errs.push(unavailable.invalid("may not be 0 when `maxSurge` is 0"));
    }
    workload::at_most_all(&unavailable, errs);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(patch: Value) -> Object {
        let mut spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "img"}]}}});
        spec.as_object_mut().unwrap().extend(patch.as_object().cloned().unwrap());
        let mut obj = Object::from_value(json!({"metadata": {"name": "x"}, "spec": spec})).unwrap();
        Deployment.default(&mut obj);
        obj
    }

    #[test]
    fn a_minimal_deployment_gets_replicas_strategy_and_limits() {
        let obj = deployment(json!({}));
        let spec = &obj.0["spec"];
        assert_eq!(
            (&spec["replicas"], &spec["revisionHistoryLimit"], &spec["progressDeadlineSeconds"]),
            (&json!(1), &json!(10), &json!(600))
        );
        assert_eq!(spec["strategy"], json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}));
        assert_eq!(spec["template"]["spec"]["restartPolicy"], "Always");
        assert_eq!(deployment(json!({"strategy": {"type": "Recreate"}})).0["spec"]["strategy"], json!({"type": "Recreate"}));
    }

    #[test]
    fn each_rule_answers_with_upstreams_words() {
        let cases: [(Value, &[&str]); 8] = [
            (json!({}), &[]),
            (
                json!({"replicas": -1, "revisionHistoryLimit": -1}),
                &[
                    "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                    "spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
                ],
            ),
            (
                json!({"strategy": {"type": "Recreate", "rollingUpdate": {}}}),
                &["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"],
            ),
            (
                json!({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}}),
                &["spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"],
            ),
            (
                json!({"strategy": {"rollingUpdate": {"maxSurge": "x%", "maxUnavailable": "120%"}}}),
                &[
                    r#"spec.strategy.rollingUpdate.maxSurge: Invalid value: "x%": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"#,
                    r#"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "120%": must not be greater than 100%"#,
                ],
            ),
            (
                json!({"progressDeadlineSeconds": 10, "minReadySeconds": 10}),
                &["spec.progressDeadlineSeconds: Invalid value: 10: must be greater than minReadySeconds"],
            ),
            (
                json!({"selector": null}),
                &[
                    "spec.selector: Required value",
                    r#"spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`"#,
                ],
            ),
            (json!({"selector": {}}), &["spec.selector: Invalid value: {}: empty selector is invalid for deployment"]),
        ];
        for (patch, expected) in cases {
            let errs = Deployment.validate(&RequestContext::for_tests(), &deployment(patch.clone()));
            assert_eq!(errs.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{patch}");
        }
    }

    #[test]
    fn rows_count_ready_of_wanted() {
        let mut obj = deployment(json!({"replicas": 3}));
        obj.0.insert("status".into(), json!({"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1}));
        let cells = Deployment.cells(&obj, Timestamp::UNIX_EPOCH);
        assert_eq!(cells[1..4], [json!("1/3"), json!(2), json!(1)]);
        assert_eq!(cells[5..], [json!("c"), json!("img"), json!("a=b")]);
    }
}
