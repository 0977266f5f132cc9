//! API services.

use apimachinery::{
    Object,
    field::{Error, ErrorList, Path},
};
use serde_json::{Value, json};

use crate::registry::{
    check::At,
    edit::{default_to, ensure_object, object},
    small::Small,
};

/// The rules of API services.
pub(crate) const API_SERVICE: Small = Small {
    default: |obj| {
        if let Some(service) = object(ensure_object(&mut obj.0, "spec"), "service") {
            default_to(service, "port", 443);
        }
        default_to(&mut obj.0, "status", json!({}));
    },
    validate,
    unconditional_update: false,
    kept_by_status: &["metadata"],
    columns: &[("Service", "string", "The service that serves it.", service), ("Available", "string", "Whether it answers.", available)],
    ..Small::PLAIN
};

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

fn validate(obj: &Object) -> ErrorList {
    let mut errs = ErrorList::new();
    let spec = At::field(obj, "spec");
    let (group, version) = (spec.get("group").str(), spec.get("version").str());
    let wanted = format!("{version}.{group}");
    if obj.name() != wanted {
        let detail = format!("must be `spec.version+\".\"+spec.group`: {wanted:?}");
        errs.push(Error::invalid(&Path::new("metadata").child("name"), obj.name(), detail));
    }
    for (field, most) in [("groupPriorityMinimum", 20000), ("versionPriority", 1000)] {
        let at = spec.get(field);
        if !at.int().is_some_and(|n| n > 0 && n <= most) {
            errs.push(Error::invalid(&at.path, at.int().unwrap_or(0), format!("must be positive and less than {most}")));
        }
    }
    if spec.get("insecureSkipTLSVerify").is_true() && !spec.get("caBundle").is_empty() {
        errs.push(spec.get("insecureSkipTLSVerify").invalid("may not be true if caBundle is present"));
    }
    errs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_version_and_group() {
        let obj = Object::from_value(
            json!({"metadata": {"name": "x"}, "spec": {"group": "g", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}}),
        )
        .unwrap();
        assert_eq!(validate(&obj)[0].to_string(), r#"metadata.name: Invalid value: "x": must be `spec.version+"."+spec.group`: "v1.g""#);
        assert_eq!((service(&obj), available(&obj)), (json!("Local"), json!("Unknown")));
    }
}
