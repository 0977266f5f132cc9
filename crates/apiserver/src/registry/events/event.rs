//! Events, of the core group and of `events.k8s.io`: one storage, two spellings of the same fields.

use std::{borrow::Cow, time::Duration};

use apimachinery::{Object, field::ErrorList, names, status::Status};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use super::rules;
use crate::{
    registry::{
        Column, Conversion, Dependents, Plain, Strategy,
        check::At,
        edit::{Fields, default_to, drop_zero},
        print,
    },
    request::RequestContext,
};

/// The rules of events. `new_form` is `events.k8s.io`.
pub(crate) struct Event {
    /// Whether objects are spelled as `events.k8s.io` spells them.
    pub(crate) new_form: bool,
    /// How long events are kept after their last write.
    pub(crate) ttl: Duration,
}

/// Field names: core group, `events.k8s.io`.
const SPELLINGS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Turns the core group's spelling into that of `events.k8s.io` and back.
pub(crate) struct Respell;

impl Conversion for Respell {
    fn to_served(&self, mut obj: Object) -> Result<Object, Status> {
        rename(&mut obj.0, |(core, new)| (core, new));
        for field in ["reportingController", "reportingInstance"] {
            drop_zero(&mut obj.0, field);
        }
        obj.set_api_version("events.k8s.io/v1");
        Ok(obj)
    }

    fn to_stored(&self, mut obj: Object) -> Result<Object, Status> {
        rename(&mut obj.0, |(core, new)| (new, core));
        // The core group writes these also where they are empty.
        for field in ["reportingComponent", "reportingInstance"] {
            default_to(&mut obj.0, field, "");
        }
        obj.set_api_version("v1");
        Ok(obj)
    }
}

fn rename(fields: &mut Fields, pair: impl Fn((&'static str, &'static str)) -> (&'static str, &'static str)) {
    for spelling in SPELLINGS {
        let (from, to) = pair(spelling);
        if let Some(value) = fields.remove(from) {
            fields.insert(to.into(), value);
        }
    }
}

/// Field labels of the core group, and where the values are; objects are stored that way.
const FIELDS: [(&str, &str); 11] = [
    ("involvedObject.kind", "/involvedObject/kind"),
    ("involvedObject.namespace", "/involvedObject/namespace"),
    ("involvedObject.name", "/involvedObject/name"),
    ("involvedObject.uid", "/involvedObject/uid"),
    ("involvedObject.apiVersion", "/involvedObject/apiVersion"),
    ("involvedObject.resourceVersion", "/involvedObject/resourceVersion"),
    ("involvedObject.fieldPath", "/involvedObject/fieldPath"),
    ("reason", "/reason"),
    ("reportingComponent", "/reportingComponent"),
    ("source", "/source/component"),
    ("type", "/type"),
];

impl Event {
    fn name<'a>(&self, core: &'a str) -> &'a str {
        let spelled = SPELLINGS.iter().find(|(name, _)| *name == core);
        spelled.filter(|_| self.new_form).map_or(core, |(_, new)| new)
    }

    fn at<'a>(&self, obj: &'a Object, core: &str) -> At<'a> {
        At::field(obj, self.name(core))
    }

    /// The event as the core group spells it.
    fn core<'a>(&self, obj: &'a Object) -> Cow<'a, Object> {
        if !self.new_form {
            return Cow::Borrowed(obj);
        }
        let mut respelled = obj.clone();
        rename(&mut respelled.0, |(core, new)| (new, core));
        Cow::Owned(respelled)
    }
}

#[async_trait]
impl Strategy for Event {
    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let event = self.core(obj);
        let mut errs = rules::any(&event);
        if self.new_form {
            errs.extend(rules::new(&event));
        }
        errs
    }

    fn validate_update(&self, _ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let event = self.core(obj);
        let mut errs = rules::any(&event);
        if self.new_form {
            errs.extend(rules::change(&event, &self.core(old)));
        }
        errs
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        match self.new_form {
            true => Plain.validate_name(name, prefix),
            false => names::is_path_segment_name(name),
        }
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn ttl(&self) -> Option<Duration> {
        Some(self.ttl)
    }

    fn dependents(&self) -> Dependents {
        Dependents::Unsupported
    }

    fn field_labels(&self) -> Vec<Cow<'static, str>> {
        let labels = FIELDS.iter().map(|(label, _)| *label);
        match self.new_form {
            true => labels.filter(|label| *label != "source").map(new_label).collect(),
            false => labels.map(Cow::Borrowed).collect(),
        }
    }

    fn stored_field(&self, label: &str) -> String {
        let core = FIELDS.iter().find(|(core, _)| self.new_form && new_label(core) == label);
        core.map_or(label, |(core, _)| *core).to_owned()
    }

    fn selectable_fields(&self, stored: &Object) -> Vec<(Cow<'static, str>, String)> {
        let value = |pointer: &str| match (pointer, stored.str_at(pointer)) {
            ("/source/component", "") => stored.str_at("/reportingComponent").to_owned(),
            (_, found) => found.to_owned(),
        };
        FIELDS.iter().map(|(label, pointer)| (Cow::Borrowed(*label), value(pointer))).collect()
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::new("Last Seen", "string", "Time since it happened last."),
            Column::new("Type", "string", "Normal or Warning."),
            Column::new("Reason", "string", "Why it happened, in a word."),
            Column::new("Object", "string", "What it is about."),
            Column::wide("Subobject", "string", "The part of the object it is about."),
            Column::wide("Source", "string", "Who reported it."),
            Column::new("Message", "string", "What happened."),
            Column::wide("First Seen", "string", "Time since it happened first."),
            Column::wide("Count", "string", "How often it happened."),
            Column { priority: 1, ..Column::object_name("Name of the event.") },
        ]
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let about = self.at(obj, "involvedObject");
        let (first, last, count) = self.times(obj, now);
        let kind = about.get("kind").str().to_lowercase();
        let name = about.get("name").str();
        vec![
            last.into(),
            obj.str_at("/type").into(),
            obj.str_at("/reason").into(),
            if name.is_empty() { kind } else { format!("{kind}/{name}") }.into(),
            about.get("fieldPath").str().into(),
            self.source(obj).into(),
            self.at(obj, "message").str().trim().into(),
            first.into(),
            count.into(),
            obj.name().into(),
        ]
    }
}

impl Event {
    /// When it happened first and last, and how often.
    fn times(&self, obj: &Object, now: Timestamp) -> (String, String, i64) {
        let since = |at: At<'_>| print::since(&at, now);
        let (first, last) = (self.at(obj, "firstTimestamp"), self.at(obj, "lastTimestamp"));
        let first = since(if first.is_set() { first } else { At::field(obj, "eventTime") });
        let last = if last.is_set() { since(last) } else { first.clone() };
        let series = At::field(obj, "series");
        let count = self.at(obj, "count").int().filter(|n| *n != 0).unwrap_or(1);
        match series.is_set() {
            true => (first, since(series.get("lastObservedTime")), series.get("count").int().unwrap_or(0)),
            false => (first, last, count),
        }
    }

    fn source(&self, obj: &Object) -> String {
        let source = self.at(obj, "source");
        let pick = |own: At<'_>, other: At<'_>| if own.is_empty() { other } else { own }.str().to_owned();
        let component = pick(source.get("component"), self.at(obj, "reportingComponent"));
        let host = pick(source.get("host"), At::field(obj, "reportingInstance"));
        if host.is_empty() { component } else { format!("{component}, {host}") }
    }
}

/// A field label as `events.k8s.io` spells it.
fn new_label(core: &str) -> Cow<'_, str> {
    match core {
        "reportingComponent" => "reportingController".into(),
        _ => core.replace("involvedObject", "regarding").into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_spellings_are_one_event() {
        let core = json!({"apiVersion": "v1", "kind": "Event", "involvedObject": {"name": "p"}, "message": "m", "count": 2,
            "reportingComponent": "", "reportingInstance": ""});
        let new = Respell.to_served(Object::from_value(core.clone()).unwrap()).unwrap();
        assert_eq!(
            new.value(),
            json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "regarding": {"name": "p"}, "note": "m", "deprecatedCount": 2})
        );
        assert_eq!(Respell.to_stored(new).unwrap().value(), core);
    }

    #[test]
    fn both_groups_select_on_the_same_fields_by_their_own_names() {
        let form = |new_form| Event { new_form, ttl: Duration::ZERO };
        assert!(form(true).field_labels().contains(&"regarding.kind".into()) && !form(true).field_labels().contains(&"source".into()));
        assert_eq!(form(true).stored_field("regarding.kind"), "involvedObject.kind");
        assert_eq!(form(true).stored_field("reportingController"), "reportingComponent");
        assert_eq!(form(false).stored_field("involvedObject.kind"), "involvedObject.kind");
        let stored = Object::from_value(json!({"involvedObject": {"kind": "Pod"}, "reportingComponent": "c"})).unwrap();
        let fields = form(false).selectable_fields(&stored);
        assert!(fields.contains(&("involvedObject.kind".into(), "Pod".into())) && fields.contains(&("source".into(), "c".into())));
    }

    #[test]
    fn rows_show_the_last_time_and_the_object() {
        let event = json!({"metadata": {"name": "e"}, "type": "Warning", "reason": "BackOff", "message": " again\n",
            "involvedObject": {"kind": "Pod", "name": "p"}, "firstTimestamp": "2026-01-01T00:00:00Z",
            "lastTimestamp": "2026-01-01T00:00:50Z", "count": 3, "source": {"component": "kubelet", "host": "n"}});
        let event = Object::from_value(event).unwrap();
        let cells = Event { new_form: false, ttl: Duration::ZERO }.cells(&event, "2026-01-01T00:01:00Z".parse().unwrap());
        let expected = [
            json!("10s"),
            json!("Warning"),
            json!("BackOff"),
            json!("pod/p"),
            json!(""),
            json!("kubelet, n"),
            json!("again"),
            json!("60s"),
            json!(3),
            json!("e"),
        ];
        assert_eq!(cells, expected);
    }
}
