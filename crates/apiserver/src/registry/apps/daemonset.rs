//! Daemon sets.

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
        print::{count, label_map},
        strategy::SPEC,
    },
    request::RequestContext,
};

/// The rules of daemon sets.
pub(crate) struct DaemonSet;

/// Counts the templates a daemon set had; kept for old clients.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
const COUNTS: [&str; 4] = ["currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"];

#[async_trait]
impl Strategy for DaemonSet {
    fn default(&self, obj: &mut Object) {
        let spec = ensure_object(&mut obj.0, "spec");
        default_to(spec, "revisionHistoryLimit", 10);
        let update = ensure_object(spec, "updateStrategy");
        default_zero(update, "type", "RollingUpdate");
        if text(update, "type") == "RollingUpdate" {
            let rolling = ensure_object(update, "rollingUpdate");
            default_to(rolling, "maxUnavailable", 1);
            default_to(rolling, "maxSurge", 0);
        }
        workload::default_template(obj);
        if obj.annotation(TEMPLATE_GENERATION).is_none() {
            obj.set_annotation(TEMPLATE_GENERATION, "0");
        }
    }

    fn prepare_for_create(&self, _ctx: &RequestContext, obj: &mut Object) {
        let zeroes = COUNTS.iter().map(|field| ((*field).to_owned(), json!(0)));
        obj.0.insert("status".into(), Value::Object(zeroes.collect()));
        obj.set_annotation(TEMPLATE_GENERATION, "1");
    }

    fn prepare_for_update(&self, _ctx: &RequestContext, obj: &mut Object, old: &Object) {
        let was = old.annotation(TEMPLATE_GENERATION).and_then(|n| n.parse::<i64>().ok()).unwrap_or(0);
        let changed = obj.pointer("/spec/template") != old.pointer("/spec/template");
        obj.set_annotation(TEMPLATE_GENERATION, &(was + i64::from(changed)).to_string());
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let spec = At::field(obj, "spec");
        workload::selector_and_template(&spec, "daemonset", &mut errs);
        workload::always_running(&spec, "DaemonSet", &mut errs);
        update_strategy(&spec.get("updateStrategy"), &mut errs);
        for field in ["minReadySeconds", "revisionHistoryLimit"] {
            spec.get(field).non_negative(&mut errs);
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

    fn validate_status_update(&self, _ctx: &RequestContext, obj: &Object, _old: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let more = ["observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable", "collisionCount"];
        workload::status_counts(&At::field(obj, "status"), &[&COUNTS[..], &more].concat(), &mut errs);
        errs
    }

    fn generation(&self) -> Generation {
        SPEC
    }

    fn columns(&self) -> Vec<Column> {
        workload::columns(vec![
            Column::object_name("Name of the daemon set."),
            Column::new("Desired", "integer", "Nodes that should run its pod."),
            Column::new("Current", "integer", "Nodes that run it."),
            Column::new("Ready", "integer", "Nodes where it is ready."),
            Column::new("Up-to-date", "integer", "Nodes with the current template."),
            Column::new("Available", "integer", "Nodes where it is ready for minReadySeconds."),
            Column::new("Node Selector", "string", "Labels of the nodes it runs on."),
        ])
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let (spec, status) = (At::field(obj, "spec"), At::field(obj, "status"));
        let shown = ["desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled", "numberAvailable"];
        let mut own = shown.map(|field| count(&status.get(field))).to_vec();
        own.push(label_map(&spec.get("template").get("spec").get("nodeSelector")));
        workload::cells(obj, now, own)
    }
}

fn update_strategy(strategy: &At<'_>, errs: &mut ErrorList) {
    let rolling = strategy.get("rollingUpdate");
    match strategy.get("type").str() {
        "OnDelete" => {}
        "RollingUpdate" if !rolling.is_set() => errs.push(rolling.required("")),
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
            for bound in [&unavailable, &surge] {
                workload::int_or_percent(bound, errs);
                workload::at_most_all(bound, errs);
            }
            match (workload::is_nothing(&unavailable), workload::is_nothing(&surge)) {
                (false, false) => errs.push(surge.invalid("may not be set when maxUnavailable is non-zero")),
                (true, true) => errs.push(unavailable.required("cannot be 0 when maxSurge is 0")),
                _ => {}
            }
        }
        _ => errs.push(strategy.get("type").not_supported(&["RollingUpdate", "OnDelete"])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(image: &str) -> Object {
        let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": image}]}}});
        let mut obj = Object::from_value(json!({"metadata": {"name": "x"}, "spec": spec})).unwrap();
        DaemonSet.default(&mut obj);
        obj
    }

    #[test]
    fn a_daemon_set_rolls_with_one_unavailable() {
        let obj = set("img");
        assert_eq!(
            obj.0["spec"]["updateStrategy"],
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}})
        );
        assert!(DaemonSet.validate(&RequestContext::for_tests(), &obj).is_empty());
    }

    #[test]
    fn the_template_generation_counts_templates() {
        let ctx = RequestContext::for_tests();
        let mut old = set("img:1");
        DaemonSet.prepare_for_create(&ctx, &mut old);
        let mut new = set("img:2");
        DaemonSet.prepare_for_update(&ctx, &mut new, &old);
        assert_eq!(new.annotation(TEMPLATE_GENERATION), Some("2"));
    }
}
