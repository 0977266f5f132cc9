//! API services.

use apimachinery::{
    Object,
    field::{Error, ErrorList, Path},
    names,
};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    registry::{
        Column, Strategy,
        apiextensions::definition::set_condition,
        check::At,
        edit::{default_to, ensure_object, object},
        small::Small,
    },
    request::RequestContext,
};

/// The rules of API services.
pub(crate) struct ApiService;

const TABLE: Small = Small {
    columns: &[("Service", "string", "The service that serves it.", service), ("Available", "string", "Whether it answers.", available)],
    ..Small::PLAIN
};

/// The condition of what this server serves itself.
pub(crate) fn local_condition() -> Value {
    json!({"type": "Available", "status": "True", "reason": "Local", "message": "Local APIServices are always available"})
}

#[async_trait]
impl Strategy for ApiService {
    fn default(&self, obj: &mut Object) {
        if let Some(service) = object(ensure_object(&mut obj.0, "spec"), "service") {
            default_to(service, "port", 443);
        }
        default_to(&mut obj.0, "status", json!({}));
    }

    fn prepare_for_create(&self, ctx: &RequestContext, obj: &mut Object) {
        if !At::field(obj, "spec").get("service").is_set() {
            set_condition(ensure_object(&mut obj.0, "status"), local_condition(), Some(ctx.now));
        }
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = name_and_group(obj);
        let spec = At::field(obj, "spec");
        for (field, most) in [("groupPriorityMinimum", 20000), ("versionPriority", 1000)] {
            let at = spec.get(field);
            if !at.int().is_some_and(|n| n > 0 && n <= most) {
                errs.push(Error::invalid(&at.path, at.int().unwrap_or(0), format!("must be positive and less than {most}")));
            }
        }
        errs.extend(reach(&spec));
        errs
    }

    /// The name of the core group's ends in a dot.
    fn validate_name(&self, name: &str, _prefix: bool) -> Vec<String> {
        names::is_path_segment_name(name)
    }

    fn kept_by_status(&self) -> &'static [&'static str] {
        &["metadata"]
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn validate_status_update(&self, _ctx: &RequestContext, obj: &Object, _old: &Object) -> ErrorList {
        let conditions = At::field(obj, "status").get("conditions").items();
        let statuses = conditions.iter().map(|condition| condition.get("status"));
        let known = ["True", "False", "Unknown"];
        statuses.filter(|at| !known.contains(&at.str())).map(|at| Error::not_supported(&at.path, at.str(), &known)).collect()
    }

    fn columns(&self) -> Vec<Column> {
        TABLE.columns()
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        TABLE.cells(obj, now)
    }
}

fn service(obj: &Object) -> Value {
    let service = At::field(obj, "spec").get("service");
    let named = format!("{}/{}", service.get("namespace").str(), service.get("name").str());
    if service.is_set() { named.into() } else { "Local".into() }
}

fn available(obj: &Object) -> Value {
    let conditions = At::field(obj, "status").get("conditions").items();
    match conditions.iter().find(|c| c.get("type").str() == "Available") {
        None => "Unknown".into(),
        Some(c) if c.get("status").str() == "True" => "True".into(),
        Some(c) => format!("{} ({})", c.get("status").str(), c.get("reason").str()).into(),
    }
}

fn name_and_group(obj: &Object) -> ErrorList {
    let mut errs = ErrorList::new();
    let spec = At::field(obj, "spec");
    let (group, version) = (spec.get("group"), spec.get("version"));
    let wanted = format!("{}.{}", version.str(), group.str());
    if obj.name() != wanted && names::is_path_segment_name(obj.name()).is_empty() {
        let detail = format!("must be `spec.version+\".\"+spec.group`: {wanted:?}");
        errs.push(Error::invalid(&Path::new("metadata").child("name"), obj.name(), detail));
    }
    if group.str().is_empty() {
        if version.str() != "v1" {
            errs.push(group.required("only v1 may have an empty group and it better be legacy kube"));
        }
    } else {
        errs.extend(names::is_dns1123_subdomain(group.str()).into_iter().map(|why| group.invalid(why)));
    }
    let complaints = names::is_dns1035_label(version.str());
    errs.extend(complaints.into_iter().map(|why| Error::invalid(&version.path, version.str(), why)));
    errs
}

/// How the server behind it is reached, if there is one.
fn reach(spec: &At<'_>) -> ErrorList {
    let mut errs = ErrorList::new();
    let (service, bundle, insecure) = (spec.get("service"), spec.get("caBundle"), spec.get("insecureSkipTLSVerify"));
    if !service.is_set() {
        if !bundle.is_empty() {
            let length = format!("{} bytes", decoded_length(bundle.str()));
            errs.push(Error::invalid(&bundle.path, length, "local APIServices may not have a caBundle"));
        }
        if insecure.is_true() {
            errs.push(insecure.invalid("local APIServices may not have insecureSkipTLSVerify"));
        }
        return errs;
    }
    errs.extend([service.get("namespace"), service.get("name")].iter().filter(|at| at.is_empty()).map(|at| at.required("")));
    if insecure.is_true() && !bundle.is_empty() {
        errs.push(insecure.invalid("may not be true if caBundle is present"));
    }
    errs
}

/// How many bytes a text of base64 stands for.
fn decoded_length(base64: &str) -> usize {
    let padding = base64.bytes().rev().take_while(|byte| *byte == b'=').count();
    (base64.len() / 4 * 3).saturating_sub(padding)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, mut spec: Value) -> Object {
        for (field, value) in [("version", json!("v1")), ("groupPriorityMinimum", json!(1)), ("versionPriority", json!(1))] {
            spec.as_object_mut().unwrap().entry(field).or_insert(value);
        }
        Object::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
    }

    fn complaints(name: &str, spec: Value) -> Vec<String> {
        ApiService.validate(&RequestContext::for_tests(), &read(name, spec)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_name_is_version_and_group() {
        assert_eq!(
            complaints("x", json!({"group": "g"})),
            [r#"metadata.name: Invalid value: "x": must be `spec.version+"."+spec.group`: "v1.g""#]
        );
        assert!(complaints("v1.g", json!({"group": "g"})).is_empty());
        assert!(complaints("v1.", json!({})).is_empty() && ApiService.validate_name("v1.", false).is_empty());
        let second = complaints("v2.", json!({"version": "v2"}));
        assert_eq!(second, ["spec.group: Required value: only v1 may have an empty group and it better be legacy kube"]);
    }

    #[test]
    fn how_to_reach_a_server_is_said_for_one_that_is_elsewhere_only() {
        assert_eq!(
            complaints("v1.g", json!({"group": "g", "caBundle": "UEVN", "insecureSkipTLSVerify": true})),
            [
                "spec.caBundle: Invalid value: \"3 bytes\": local APIServices may not have a caBundle",
                "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify",
            ]
        );
        let nameless = complaints("v1.g", json!({"group": "g", "service": {"namespace": "n"}}));
        assert_eq!(nameless, ["spec.service.name: Required value"]);
    }

    #[test]
    fn one_of_this_server_is_available_at_once() {
        let mut local = read("v1.g", json!({"group": "g"}));
        assert_eq!((service(&local), available(&local)), (json!("Local"), json!("Unknown")));
        ApiService.prepare_for_create(&RequestContext::for_tests(), &mut local);
        assert_eq!(available(&local), json!("True"));
        let mut remote = read("v1.g", json!({"group": "g", "service": {"namespace": "n", "name": "s"}}));
        ApiService.prepare_for_create(&RequestContext::for_tests(), &mut remote);
        assert_eq!((service(&remote), available(&remote)), (json!("n/s"), json!("Unknown")));
    }
}
