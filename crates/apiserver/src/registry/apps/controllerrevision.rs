//! Controller revisions.

use apimachinery::{Object, field::ErrorList};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    registry::{
        Column, Strategy,
        check::At,
        print::{age, count, or_none},
    },
    request::RequestContext,
};

/// The rules of controller revisions.
pub(crate) struct ControllerRevision;

#[async_trait]
impl Strategy for ControllerRevision {
    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let (revision, data) = (At::field(obj, "revision"), At::field(obj, "data"));
        if !data.is_set() {
            errs.push(data.required("data is mandatory"));
        }
        revision.non_negative(&mut errs);
        errs
    }

    fn validate_update(&self, ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let mut errs = self.validate(ctx, obj);
        At::field(obj, "data").immutable(&At::field(old, "data"), &mut errs);
        errs
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::object_name("Name of the revision."),
            Column::new("Controller", "string", "The object it is a revision of."),
            Column::new("Revision", "string", "Its number."),
            Column::new("Age", "string", "Time since creation."),
        ]
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let controller = obj.controller_of().map(|owner| {
            let (group, _) = owner.api_version.split_once('/').unwrap_or_default();
            let kind = owner.kind.to_lowercase();
            if group.is_empty() { format!("{kind}/{}", owner.name) } else { format!("{kind}.{group}/{}", owner.name) }
        });
        vec![obj.name().into(), or_none(&controller.unwrap_or_default()), count(&At::field(obj, "revision")), age(obj, now)]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_names_the_controller() {
        let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "u", "controller": true});
        let obj = Object::from_value(json!({"metadata": {"name": "a", "ownerReferences": [owner]}, "revision": 4, "data": {}})).unwrap();
        let cells = ControllerRevision.cells(&obj, Timestamp::UNIX_EPOCH);
        assert_eq!(cells[1..3], [json!("statefulset.apps/s"), json!(4)]);
    }
}
