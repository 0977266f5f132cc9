//! Config maps.

use apimachinery::{
    Object,
    field::{Error, ErrorList},
    names,
};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use super::immutable;
use crate::{
    registry::{Column, Strategy, check::At, edit::drop_zero, print::age},
    request::RequestContext,
};

/// Most bytes of data a config map or secret holds.
pub(crate) const MAX_BYTES: usize = 1024 * 1024;

/// The rules of config maps.
pub(crate) struct ConfigMap;

#[async_trait]
impl Strategy for ConfigMap {
    fn default(&self, obj: &mut Object) {
        for field in ["data", "binaryData"] {
            drop_zero(&mut obj.0, field);
        }
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let (data, binary) = (At::field(obj, "data"), At::field(obj, "binaryData"));
        let mut size = 0;
        for (key, value) in data.entries() {
            key_name(key, &value, &mut errs);
            if binary.key(key).is_set() {
                let detail = format!("duplicate of key present in {}", binary.path);
                errs.push(Error::invalid(&value.path, key, detail));
            }
            size += value.str().len();
        }
        for (key, value) in binary.entries() {
            key_name(key, &value, &mut errs);
            size += value.str().len() / 4 * 3;
        }
        if size > MAX_BYTES {
            errs.push(Error::too_long(&apimachinery::field::Path::root(), "", MAX_BYTES));
        }
        errs
    }

    fn validate_update(&self, ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        immutable::check(obj, old, &["data", "binaryData"], &mut errs);
        errs.extend(self.validate(ctx, obj));
        errs
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::object_name("Name of the config map."),
            Column::new("Data", "string", "Number of entries."),
            Column::new("Age", "string", "Time since creation."),
        ]
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let entries = At::field(obj, "data").size() + At::field(obj, "binaryData").size();
        vec![obj.name().into(), entries.into(), age(obj, now)]
    }
}

/// Keys of config maps and secrets.
pub(crate) fn key_name(key: &str, value: &At<'_>, errs: &mut ErrorList) {
    errs.extend(names::is_config_map_key(key).into_iter().map(|m| Error::invalid(&value.path, key, m)));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_immutable_map_refuses_new_data_and_to_become_mutable() {
        let old = Object::from_value(json!({"immutable": true, "data": {"a": "b"}})).unwrap();
        let texts = |new: Value| {
            let new = Object::from_value(new).unwrap();
            let errs = ConfigMap.validate_update(&RequestContext::for_tests(), &new, &old);
            errs.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(texts(json!({"immutable": true, "data": {"a": "c"}})), ["data: Forbidden: field is immutable when `immutable` is set"]);
        assert_eq!(
            texts(json!({"immutable": false, "data": {"a": "b"}})),
            ["immutable: Forbidden: field is immutable when `immutable` is set"]
        );
        assert!(texts(json!({"immutable": true, "data": {"a": "b"}, "metadata": {"labels": {"x": "y"}}})).is_empty());
    }
}
