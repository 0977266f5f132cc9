//! The job spec, which jobs and cron jobs share.

use apimachinery::field::{Error, ErrorList};
use serde_json::json;

use crate::registry::{
    check::At,
    core::pod_spec::{self, defaults},
    edit::{Fields, default_to, default_zero, each, ensure_object, object},
};

const MOST_PARALLEL: i64 = 100_000;

/// Fills in a job's spec.
pub(crate) fn default_job(spec: &mut Fields) {
    let set = |spec: &Fields, key: &str| spec.get(key).is_some_and(|value| !value.is_null());
    if !set(spec, "completions") && !set(spec, "parallelism") {
        spec.insert("completions".into(), json!(1));
    }
    default_to(spec, "parallelism", 1);
    let limit = if set(spec, "backoffLimitPerIndex") { i32::MAX } else { 6 };
    default_to(spec, "backoffLimit", limit);
    default_to(spec, "completionMode", "NonIndexed");
    default_to(spec, "suspend", false);
    default_to(spec, "manualSelector", false);
    let replacement = if set(spec, "podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    default_to(spec, "podReplacementPolicy", replacement);
    if let Some(policy) = object(spec, "podFailurePolicy") {
        for rule in each(policy, "rules") {
            each(rule, "onPodConditions").for_each(|condition| default_zero(condition, "status", "True"));
        }
    }
    defaults::template(ensure_object(spec, "template"));
}

/// A job's spec but its selector.
pub(crate) fn validate_job(spec: &At<'_>, errs: &mut ErrorList) {
    let counts = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    for field in counts {
        spec.get(field).non_negative(errs);
    }
    let (per_index, failed) = (spec.get("backoffLimitPerIndex"), spec.get("maxFailedIndexes"));
    if failed.is_set() && !per_index.is_set() {
        errs.push(per_index.required("when maxFailedIndexes is specified"));
    }
    completion_mode(spec, errs);
    let template = spec.get("template");
    pod_spec::validate_template(&template, errs);
    let policy = template.get("spec").get("restartPolicy");
    if policy.str() == "Always" {
        errs.push(policy.required(r#"valid values: "OnFailure", "Never""#));
    }
    failure_policy(spec, errs);
}

fn completion_mode(spec: &At<'_>, errs: &mut ErrorList) {
    let (mode, parallelism) = (spec.get("completionMode"), spec.get("parallelism"));
    if mode.is_set() {
        mode.one_of(&["NonIndexed", "Indexed"], errs);
    }
    if mode.str() == "Indexed" {
        if !spec.get("completions").is_set() {
            errs.push(spec.get("completions").required("when completion mode is Indexed"));
        }
        if parallelism.int().is_some_and(|n| n > MOST_PARALLEL) {
            errs.push(parallelism.invalid(format!("must be less than or equal to {MOST_PARALLEL} when completion mode is Indexed")));
        }
        return;
    }
    for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
        let field = spec.get(field);
        if field.is_set() {
            errs.push(field.invalid("requires indexed completion mode"));
        }
    }
}

fn failure_policy(spec: &At<'_>, errs: &mut ErrorList) {
    let policy = spec.get("podFailurePolicy");
    if !policy.is_set() {
        return;
    }
    let restart = spec.get("template").get("spec").get("restartPolicy");
    if restart.str() != "Never" {
        errs.push(Error::invalid(&restart.path, restart.value.clone(), "only \"Never\" is supported when podFailurePolicy is specified"));
    }
    for rule in policy.get("rules").items() {
        rule.get("action").one_of(&["Count", "FailIndex", "FailJob", "Ignore"], errs);
        let codes = rule.get("onExitCodes");
        if codes.is_set() {
            codes.get("operator").one_of(&["In", "NotIn"], errs);
            if codes.get("values").size() == 0 {
                errs.push(codes.get("values").invalid("at least one value is required"));
            }
        }
    }
}
