//! Volume attachments and volume attributes classes.

use apimachinery::{Object, field::ErrorList, names};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    registry::{
        Column, Strategy,
        check::{At, internal_form},
        print::age,
        small::Small,
    },
    request::RequestContext,
};

/// The rules of volume attachments.
pub(crate) struct VolumeAttachment;

#[async_trait]
impl Strategy for VolumeAttachment {
    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let spec = At::field(obj, "spec");
        spec.get("attacher").require_str("", &mut errs);
        spec.get("nodeName").required_name(names::is_dns1123_subdomain, &mut errs);
        let source = spec.get("source");
        let (volume, inline) = (source.get("persistentVolumeName"), source.get("inlineVolumeSpec"));
        match (volume.is_set(), inline.is_set()) {
            (false, false) => errs.push(source.required("must specify exactly one of inlineVolumeSpec and persistentVolumeName")),
            (true, true) => errs.push(source.forbidden("must specify exactly one of inlineVolumeSpec and persistentVolumeName")),
            (true, false) => volume.required_name(names::is_dns1123_subdomain, &mut errs),
            (false, true) => {}
        }
        errs
    }

    fn validate_update(&self, _ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let (spec, was) = (At::field(obj, "spec"), At::field(old, "spec"));
        if spec.value == was.value {
            return ErrorList::new();
        }
        vec![apimachinery::field::Error::invalid(&spec.path, internal_form(spec.value), "field is immutable")]
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn kept_by_status(&self) -> &'static [&'static str] {
        &["metadata"]
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::object_name("Name of the attachment."),
            Column { format: "name".into(), ..Column::new("Attacher", "string", "The driver that attaches.") },
            Column::new("PV", "string", "The volume."),
            Column::new("Node", "string", "The node it is attached to."),
            Column::new("Attached", "boolean", "Whether it is attached."),
            Column::new("Age", "string", "Time since creation."),
        ]
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let attached = At::field(obj, "status").get("attached").is_true();
        vec![
            obj.name().into(),
            obj.str_at("/spec/attacher").into(),
            obj.str_at("/spec/source/persistentVolumeName").into(),
            obj.str_at("/spec/nodeName").into(),
            attached.into(),
            age(obj, now),
        ]
    }
}

/// The rules of volume attributes classes.
pub(crate) const ATTRIBUTES: Small = Small {
    validate: validate_attributes,
    validate_update: |obj, old| {
        let mut errs = ErrorList::new();
        for field in ["driverName", "parameters"] {
            At::field(obj, field).immutable(&At::field(old, field), &mut errs);
        }
        errs
    },
    columns: &[("DriverName", "string", "The driver it is for.", |obj| obj.str_at("/driverName").into())],
    ..Small::PLAIN
};

fn validate_attributes(obj: &Object) -> ErrorList {
    let mut errs = ErrorList::new();
    crate::registry::core::pod_spec::volume_sources::driver_name(&At::field(obj, "driverName"), &mut errs);
    let parameters = At::field(obj, "parameters");
    if parameters.size() == 0 {
        errs.push(parameters.required("must contain at least one key/value pair"));
    }
    errs
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_attachment_names_one_volume() {
        let obj = Object::from_value(json!({"spec": {"attacher": "a", "nodeName": "n", "source": {}}})).unwrap();
        let errs = VolumeAttachment.validate(&RequestContext::for_tests(), &obj);
        assert_eq!(
            errs[0].to_string(),
            "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName"
        );
    }
}
