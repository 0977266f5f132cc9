//! The patches a client can send: JSON patch, JSON merge patch, strategic merge patch.
//!
//! Each `apply` takes the object as JSON and the patch as it was sent. What comes out still has to be decoded by the kind's schema.

use serde_json::Value;

use crate::raw::{self, Node};
use crate::status::{Details, Status, reason};

pub mod json;
pub mod merge;
#[cfg(test)]
mod properties;
pub mod strategic;

/// A patched object, and what a strict reader objects to in the patch itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Patched {
    /// The object after the patch.
    pub value: Value,
    /// The patch as it was read; upstream shows it in errors about strategic merge patches.
    pub patch: Value,
    /// `duplicate field "spec.replicas"`, `json patch unknown field "[0].foo"`.
    pub strict: Vec<String>,
}

/// A patch that cannot be read or applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The patch is malformed: 400.
    #[error("{0}")]
    Malformed(String),
    /// The patch does not fit the object: 422, whose message to the client is a general one.
    #[error("{0}")]
    Unprocessable(String),
    /// The patch asks for too much: 413.
    #[error("{0}")]
    TooLarge(String),
    /// Anything else: 500 without a reason, as upstream answers.
    #[error("{0}")]
    Failed(String),
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        match error {
            Error::Malformed(message) => Self::bad_request(message),
            Error::Unprocessable(_) => {
                let message = "the server rejected our request due to an error in our request";
                Self::failure(422, reason::INVALID, message).with_details(Details::default())
            }
            Error::TooLarge(message) => Self::too_large(message),
            Error::Failed(message) => Self::failure(500, "", message),
        }
    }
}

/// A patched built-in object as error messages show it: metadata in the order of Go's struct, all else sorted.
pub fn print(value: &Value) -> String {
    const META: &str = "name generateName namespace selfLink uid resourceVersion generation creationTimestamp deletionTimestamp \
         deletionGracePeriodSeconds labels annotations ownerReferences finalizers managedFields";
    const MANAGED: &str = "manager operation apiVersion time fieldsType fieldsV1 subresource";
    let managed = |entries: &Value| {
        let entries = entries.as_array().map(Vec::as_slice).unwrap_or_default();
        let entries: Vec<_> = entries.iter().map(|entry| ordered(entry, MANAGED, &crate::go::json)).collect();
        format!("[{}]", entries.join(","))
    };
    let Value::Object(fields) = value else {
        return crate::go::json(value);
    };
    let fields = fields.iter().map(|(name, field)| {
        let text = match name.as_str() {
            "metadata" => ordered(field, META, &|value| {
                if value.is_array() && value.get(0).is_some_and(|item| item.get("fieldsType").is_some()) {
                    managed(value)
                } else {
                    crate::go::json(value)
                }
            }),
            _ => crate::go::json(field),
        };
        format!("{}:{text}", Value::from(name.as_str()))
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

/// The members of an object in a given order, what is not named there last.
fn ordered(value: &Value, order: &str, print: &dyn Fn(&Value) -> String) -> String {
    let Value::Object(fields) = value else {
        return crate::go::json(value);
    };
    let place = |name: &str| order.split_whitespace().position(|known| known == name).unwrap_or(usize::MAX);
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_by_key(|(name, _)| place(name));
    let fields: Vec<_> = fields.into_iter().map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), print(value))).collect();
    format!("{{{}}}", fields.join(","))
}

/// Reads a patch that must be a JSON object, with the duplicates in it.
fn read_object(patch: &[u8], prefix: &str) -> Result<(Value, Vec<String>), Error> {
    let node = raw::parse_json(patch).map_err(|error| Error::Malformed(format!("{prefix}{error}")))?;
    if !matches!(node, Node::Object(_) | Node::Null) {
        let words = "into Go value of type map[string]interface {}";
        return Err(Error::Malformed(format!("{prefix}json: cannot unmarshal {} {words}", node.type_name())));
    }
    let strict = raw::duplicates(&node).into_iter().map(|path| format!("duplicate field \"{path}\"")).collect();
    Ok((node.to_value(), strict))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn patched_objects_print_with_metadata_in_gos_order() {
        let entry = json!({"apiVersion": "v1", "fieldsType": "FieldsV1", "manager": "m"});
        let object =
            json!({"kind": "K", "apiVersion": "v1", "metadata": {"labels": {"b": "1"}, "uid": "u", "name": "n", "managedFields": [entry]}});
        assert_eq!(
            print(&object),
            r#"{"apiVersion":"v1","kind":"K","metadata":{"name":"n","uid":"u","labels":{"b":"1"},"managedFields":[{"manager":"m","apiVersion":"v1","fieldsType":"FieldsV1"}]}}"#
        );
    }
}
