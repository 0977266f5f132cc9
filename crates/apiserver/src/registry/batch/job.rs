//! Jobs.

use std::borrow::Cow;

use apimachinery::{
    Object,
    field::{Error, ErrorList},
    time,
};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::spec;
use crate::{
    registry::{
        Column, DeleteOptions, Dependents, Generation, Strategy,
        apps::workload,
        check::{At, internal_form},
        edit::{ensure_object, is_zero},
        selectors,
        strategy::SPEC,
    },
    request::RequestContext,
};

/// The rules of jobs.
pub(crate) struct Job;

/// Said to who deletes a job and not what is to become of its pods.
const ORPHANS_PODS: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or \
     set propagationPolicy=Orphan to suppress this warning";
/// The label the selector goes by.
const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
/// Labels of the job's pods, and where their values come from: the uid, or else the name.
const POD_LABELS: [(&str, bool); 4] =
    [(CONTROLLER_UID, true), ("controller-uid", true), ("batch.kubernetes.io/job-name", false), ("job-name", false)];

#[async_trait]
impl Strategy for Job {
    fn default(&self, obj: &mut Object) {
        spec::default_job(ensure_object(&mut obj.0, "spec"));
        let labels = obj.pointer("/spec/template/metadata/labels").filter(|labels| !is_zero(labels)).cloned();
        if let Some(labels) = labels.filter(|_| obj.meta().get("labels").is_none_or(is_zero)) {
            obj.meta_mut().insert("labels".into(), labels);
        }
    }

    fn prepare_for_create(&self, _ctx: &RequestContext, obj: &mut Object) {
        obj.0.insert("status".into(), json!({}));
        // A job without labels of its own took its template's, and goes on with them.
        let own = obj.meta().get("labels").filter(|labels| !is_zero(labels));
        let taken = own == obj.pointer("/spec/template/metadata/labels").filter(|labels| !is_zero(labels));
        if obj.pointer("/spec/manualSelector") != Some(&json!(true)) {
            generate_selector(obj);
        }
        if let Some(labels) = obj.pointer("/spec/template/metadata/labels").cloned().filter(|_| taken) {
            obj.meta_mut().insert("labels".into(), labels);
        }
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let job = At::field(obj, "spec");
        let selector = job.get("selector");
        if selector.is_set() {
            selectors::label_selector(&selector, &mut errs);
        } else {
            errs.push(selector.required(""));
        }
        spec::validate_job(&job, &mut errs);
        let labels = job.get("template").get("metadata").get("labels");
        let selected = labels.map().is_some_and(|labels| selectors::matches(selector.value, labels));
        if selector.is_set() && !selected {
            errs.push(labels.invalid("`selector` does not match template `labels`"));
        }
        errs
    }

    fn validate_update(&self, ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let mut errs = self.validate(ctx, obj);
        let (new, was) = (At::field(obj, "spec"), At::field(old, "spec"));
        // Upstream checks the spec once for the job and once for the update; clients see both causes.
        spec::validate_job(&new, &mut errs);
        // A suspended job that never ran may still be given other scheduling directives.
        let unstarted = was.get("suspend").is_true() && !At::field(old, "status").get("startTime").is_set();
        let elastic = new.get("completionMode").str() == "Indexed" && new.get("completions").int() == new.get("parallelism").int();
        if !elastic {
            new.get("completions").immutable(&was.get("completions"), &mut errs);
        }
        for field in ["selector", "template"] {
            let (now, before) = (new.get(field), was.get(field));
            if now.value != before.value && !(field == "template" && unstarted) {
                errs.push(Error::invalid(&now.path, internal_form(now.value), "field is immutable"));
            }
        }
        for field in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "successPolicy", "managedBy"] {
            new.get(field).immutable(&was.get(field), &mut errs);
        }
        errs
    }

    fn warnings_on_create(&self, _ctx: &RequestContext, obj: &Object) -> Vec<String> {
        workload::warnings(obj)
    }

    fn dependents(&self) -> Dependents {
        Dependents::Orphan
    }

    fn warnings_on_delete(&self, _ctx: &RequestContext, _obj: &Object, options: &DeleteOptions) -> Vec<String> {
        let said = options.propagation_policy.is_some() || options.orphan_dependents.is_some();
        if said { Vec::new() } else { vec![ORPHANS_PODS.to_owned()] }
    }

    fn generation(&self) -> Generation {
        SPEC
    }

    fn field_labels(&self) -> Vec<Cow<'static, str>> {
        vec!["status.successful".into()]
    }

    fn selectable_fields(&self, obj: &Object) -> Vec<(Cow<'static, str>, String)> {
        vec![("status.successful".into(), At::field(obj, "status").get("succeeded").int().unwrap_or(0).to_string())]
    }

    fn columns(&self) -> Vec<Column> {
        workload::columns(vec![
            Column::object_name("Name of the job."),
            Column::new("Status", "string", "Running, Complete, Failed, Suspended …"),
            Column::new("Completions", "string", "Succeeded pods of wanted ones."),
            Column::new("Duration", "string", "How long it has run."),
        ])
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let (spec, status) = (At::field(obj, "spec"), At::field(obj, "status"));
        let own = vec![state(obj, &status).into(), completions(&spec, &status).into(), duration(&status, now).into()];
        workload::cells(obj, now, own)
    }
}

/// Labels the pods with the job's uid and name, and selects them by the uid.
fn generate_selector(obj: &mut Object) {
    let (uid, name) = (obj.uid().to_owned(), obj.name().to_owned());
    let spec = ensure_object(&mut obj.0, "spec");
    let labels = ensure_object(ensure_object(ensure_object(spec, "template"), "metadata"), "labels");
    for (label, by_uid) in POD_LABELS {
        labels.insert(label.into(), if by_uid { &uid } else { &name }.clone().into());
    }
    ensure_object(ensure_object(spec, "selector"), "matchLabels").insert(CONTROLLER_UID.into(), uid.into());
}

fn state(obj: &Object, status: &At<'_>) -> &'static str {
    let conditions = status.get("conditions").items();
    let holds = |kind: &str| conditions.iter().any(|c| c.get("type").str() == kind && c.get("status").str() == "True");
    let shown = ["Complete", "Failed"].into_iter().find(|kind| holds(kind));
    let deleted = obj.deletion_timestamp().is_some().then_some("Terminating");
    let other = ["Suspended", "FailureTarget", "SuccessCriteriaMet"].into_iter().find(|kind| holds(kind));
    shown.or(deleted).or(other).unwrap_or("Running")
}

fn completions(spec: &At<'_>, status: &At<'_>) -> String {
    let succeeded = status.get("succeeded").int().unwrap_or(0);
    match (spec.get("completions").int(), spec.get("parallelism").int().unwrap_or(0)) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn duration(status: &At<'_>, now: Timestamp) -> String {
    let instant = |field: &str| time::parse_rfc3339(status.get(field).str());
    match instant("startTime") {
        None => String::new(),
        Some(start) => time::age(Some(start), instant("completionTime").unwrap_or(now)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(patch: Value) -> Object {
        let mut spec = json!({"template": {"spec": {"containers": [{"name": "c", "image": "img"}], "restartPolicy": "Never"}}});
        spec.as_object_mut().unwrap().extend(patch.as_object().cloned().unwrap());
        let mut obj = Object::from_value(json!({"metadata": {"name": "x", "uid": "u"}, "spec": spec})).unwrap();
        Job.default(&mut obj);
        Job.prepare_for_create(&RequestContext::for_tests(), &mut obj);
        obj
    }

    fn complaints(patch: Value) -> Vec<String> {
        Job.validate(&RequestContext::for_tests(), &job(patch)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_job_selects_its_pods_by_uid() {
        let obj = job(json!({"completions": 3}));
        assert_eq!(obj.0["spec"]["selector"], json!({"matchLabels": {CONTROLLER_UID: "u"}}));
        assert_eq!(obj.0["metadata"]["labels"]["job-name"], "x");
        assert_eq!((&obj.0["spec"]["parallelism"], &obj.0["spec"]["backoffLimit"]), (&json!(1), &json!(6)));
    }

    #[test]
    fn modes_and_numbers_are_checked() {
        assert!(complaints(json!({})).is_empty());
        assert_eq!(
            complaints(json!({"completionMode": "X"})),
            [r#"spec.completionMode: Unsupported value: "X": supported values: "NonIndexed", "Indexed""#]
        );
        assert_eq!(
            complaints(json!({"maxFailedIndexes": 1})),
            [
                "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
                "spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode"
            ]
        );
        let always = json!({"spec": {"containers": [{"name": "c", "image": "img"}]}});
        assert_eq!(
            complaints(json!({"template": always})),
            [r#"spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never""#]
        );
    }

    #[test]
    fn the_template_is_fixed() {
        let old = job(json!({}));
        let mut new = old.clone();
        new.0["spec"]["template"]["spec"]["containers"][0]["image"] = json!("new");
        let errs = Job.validate_update(&RequestContext::for_tests(), &new, &old);
        assert!(errs[0].to_string().starts_with("spec.template: Invalid value: {"), "{errs:?}");
    }
}
