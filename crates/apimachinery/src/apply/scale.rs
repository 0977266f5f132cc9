//! Managed fields of a Scale: those of the object behind it, as far as they are about its number of replicas.

use super::managers::{Managed, Managers};
use super::set::{FieldSet, PathElement};
use super::write;
use crate::object::Object;

const SCALE: &str = "autoscaling/v1";

fn replicas(pointer: &str) -> FieldSet {
    let mut set = FieldSet::default();
    set.insert(pointer.split('/').filter(|name| !name.is_empty()).map(|name| PathElement::Field(name.into())));
    set
}

fn owns(managed: &Managed, api_version: &str, path: &FieldSet) -> bool {
    managed.api_version == api_version && managed.set.intersection(path) == *path
}

/// Writes into `scale` who manages the replicas of `parent`. `pointer` is where it keeps them, in `api_version`.
pub fn to_scale(parent: &Object, scale: &mut Object, api_version: &str, pointer: &str) {
    let path = replicas(pointer);
    let managers = Managers::read(parent.meta()).unwrap_or_default().0.into_iter();
    let owners = managers.filter(|(_, managed)| owns(managed, api_version, &path));
    let set = replicas("/spec/replicas");
    let entries = owners.map(|(manager, managed)| (manager, Managed { set: set.clone(), api_version: SCALE.into(), time: managed.time }));
    write(&Managers(entries.collect()), scale);
}

/// Writes into `parent` who manages its replicas after `scale` was written.
pub fn from_scale(parent: &mut Object, scale: &Object, api_version: &str, pointer: &str) {
    let path = replicas(pointer);
    let mut of_parent = Managers::read(parent.meta()).unwrap_or_default();
    let mut of_scale = Managers::read(scale.meta()).unwrap_or_default().0;
    for manager in of_parent.0.keys().cloned().collect::<Vec<_>>() {
        let owned = of_parent.0.get(&manager).is_some_and(|managed| owns(managed, api_version, &path));
        if owned && of_scale.remove(&manager).is_none() {
            of_parent.take(&manager, &path);
        }
    }
    for (manager, _) in of_scale {
        let managed = Managed { set: path.clone(), api_version: api_version.into(), time: None };
        of_parent.0.insert(manager, managed);
    }
    write(&of_parent, parent);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn object(entries: Value) -> Object {
        Object::from_value(json!({"metadata": {"managedFields": entries}})).unwrap()
    }

    fn entry(manager: &str, version: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": "Apply", "apiVersion": version, "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    #[test]
    fn who_scales_takes_the_replicas_from_who_had_them() {
        let mut parent = object(json!([entry("m", "apps/v1", json!({"f:spec": {"f:replicas": {}, "f:paused": {}}}))]));
        let mut scale = object(json!([]));
        to_scale(&parent, &mut scale, "apps/v1", "/spec/replicas");
        assert_eq!(scale.meta()["managedFields"], json!([entry("m", SCALE, json!({"f:spec": {"f:replicas": {}}}))]));

        let scaled = object(json!([entry("s", SCALE, json!({"f:spec": {"f:replicas": {}}}))]));
        from_scale(&mut parent, &scaled, "apps/v1", "/spec/replicas");
        let left = entry("m", "apps/v1", json!({"f:spec": {"f:paused": {}}}));
        let taken = entry("s", "apps/v1", json!({"f:spec": {"f:replicas": {}}}));
        assert_eq!(parent.meta()["managedFields"], json!([left, taken]));
    }
}
