//! Events, of the core group and of `events.k8s.io`: one storage, two spellings of the same fields.

use std::{borrow::Cow, time::Duration};

use apimachinery::{
    Object,
    field::{Error, ErrorList, Path},
    status::Status,
};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    registry::{Column, Conversion, Dependents, Strategy, check::At, edit::Fields, print},
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
        obj.set_api_version("events.k8s.io/v1");
        Ok(obj)
    }

    fn to_stored(&self, mut obj: Object) -> Result<Object, Status> {
        rename(&mut obj.0, |(core, new)| (new, core));
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

/// Field labels by the core group's spelling, and where the values are.
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

    fn label(&self, core: &'static str) -> Cow<'static, str> {
        match (self.new_form, core) {
            (true, "reportingComponent") => "reportingController".into(),
            (true, _) => core.replace("involvedObject", "regarding").into(),
            _ => core.into(),
        }
    }

    fn value(&self, obj: &Object, pointer: &str) -> String {
        let mut parts = pointer.trim_start_matches('/').split('/');
        let first = self.at(obj, parts.next().unwrap_or_default());
        let found = parts.fold(first, |at, part| at.get(part)).str().to_owned();
        let of_source = pointer == "/source/component" && found.is_empty();
        if of_source { self.at(obj, "reportingComponent").str().to_owned() } else { found }
    }
}

#[async_trait]
impl Strategy for Event {
    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let at = Path::new("involvedObject").child("namespace");
        let about = self.at(obj, "involvedObject");
        let (namespace, kind) = (about.get("namespace").str(), about.get("kind").str());
        // Events about cluster-scoped objects live in the default namespace, old ones also elsewhere.
        let clusterwide = namespace.is_empty() && ["Node", "Namespace", "PersistentVolume"].contains(&kind);
        let default = namespace.is_empty() && obj.namespace() == "default";
        if namespace != obj.namespace() && !clusterwide && !default {
            errs.push(Error::invalid(&at, namespace, "does not match event.namespace"));
        }
        if self.new_form {
            new_rules(obj, &mut errs);
        }
        errs
    }

    fn validate_update(&self, ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let mut errs = self.validate(ctx, obj);
        if self.new_form {
            for field in
                ["regarding", "related", "reason", "action", "type", "eventTime", "reportingController", "reportingInstance", "note"]
            {
                At::field(obj, field).immutable(&At::field(old, field), &mut errs);
            }
        }
        errs
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
        FIELDS.iter().map(|(label, _)| self.label(label)).collect()
    }

    fn selectable_fields(&self, obj: &Object) -> Vec<(Cow<'static, str>, String)> {
        FIELDS.iter().map(|(label, pointer)| (self.label(label), self.value(obj, pointer))).collect()
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

/// What `events.k8s.io` asks of new events.
fn new_rules(obj: &Object, errs: &mut ErrorList) {
    let field = |name| At::field(obj, name);
    if !field("eventTime").is_set() {
        errs.push(field("eventTime").required(""));
    }
    let controller = field("reportingController");
    if controller.require_str("", errs) {
        controller.name(apimachinery::names::is_qualified_name, errs);
    }
    for (name, most) in [("reportingInstance", 128), ("action", 128), ("reason", 128)] {
        let at = field(name);
        if at.require_str("", errs) && at.str().len() > most {
            errs.push(at.invalid(format!("can have at most {most} characters")));
        }
    }
    if !["Normal", "Warning"].contains(&field("type").str()) {
        errs.push(field("type").invalid(format!("has invalid value: {}", field("type").str())));
    }
    if field("note").str().len() > 1024 {
        errs.push(field("note").invalid("can have at most 1024 characters"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_spellings_are_one_event() {
        let core = json!({"apiVersion": "v1", "kind": "Event", "involvedObject": {"name": "p"}, "message": "m", "count": 2});
        let new = Respell.to_served(Object::from_value(core.clone()).unwrap()).unwrap();
        assert_eq!(
            new.value(),
            json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "regarding": {"name": "p"}, "note": "m", "deprecatedCount": 2})
        );
        assert_eq!(Respell.to_stored(new).unwrap().value(), core);
    }

    #[test]
    fn the_namespace_must_be_the_objects() {
        let event =
            Object::from_value(json!({"metadata": {"namespace": "n"}, "involvedObject": {"kind": "Pod", "namespace": "other"}})).unwrap();
        let errs = Event { new_form: false, ttl: Duration::ZERO }.validate(&RequestContext::for_tests(), &event);
        assert_eq!(errs[0].to_string(), r#"involvedObject.namespace: Invalid value: "other": does not match event.namespace"#);
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
