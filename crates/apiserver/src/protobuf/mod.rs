//! The protobuf form of built-in kinds, which typed clients and kube-apiserver's store speak: `apimachinery`'s codec with the field
//! numbers of `fields.txt`.

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use apimachinery::{
    Object,
    gvk::GroupVersionKind,
    protobuf::{self, Forms},
    schema::Schema,
    status::{Status, reason},
};
use serde_json::Value;

pub(crate) use apimachinery::protobuf::{Error, FRAME_HEAD, event, is_sealed, open};

use crate::{registry::definition, schema::Definitions};

static FORMS: LazyLock<Forms> = LazyLock::new(|| Forms::read(Definitions::builtin().arena(), include_str!("fields.txt")));

const META: &str = "io.k8s.apimachinery.pkg.apis.meta";

/// Reads a message of the schema's kind; decode the outcome by the schema. Custom resources have none, however they are named.
pub(crate) fn decode(schema: &Schema, raw: &[u8]) -> Result<Value, Error> {
    if schema.is_custom() { Err(Error::NoForm("unstructured.Unstructured".to_owned())) } else { FORMS.decode(schema.name(), raw) }
}

/// Reads an object of any built-in kind, as kube-apiserver stores it.
pub(crate) fn read_stored(bytes: &[u8]) -> Result<Object, Error> {
    let unknown = open(bytes)?;
    let name = definition_of(unknown.api_version, unknown.kind);
    let none = || Error::NoForm(name.clone());
    let gvk = GroupVersionKind::from_api_version(unknown.api_version, unknown.kind).map_err(|_| none())?;
    let schema = Definitions::builtin().get(&name).ok_or_else(none)?;
    let wrong = |_| Error::Value { field: unknown.kind.to_owned(), wanted: "as its schema has it" };
    let value = schema.decode_value(&FORMS.decode(&name, unknown.raw)?).map_err(wrong)?.value;
    let mut object = Object::from_value(value).map_err(|_| none())?;
    object.set_gvk(&gvk);
    Ok(object)
}

/// Writes an object, a list, a Status or a discovery document, led by its own type. Errors: 406 for what has no such form.
pub(crate) fn encode(value: &Value) -> Result<Vec<u8>, Status> {
    let (api_version, kind) = type_of(value);
    let raw = message(api_version, kind, value).map_err(refused)?;
    Ok(protobuf::seal(api_version, kind, &raw))
}

/// Writes a list: `head` is the list without its items. One item is held at a time.
pub(crate) fn encode_list(head: &Value, items: impl Iterator<Item = Result<Object, Status>>) -> Result<Vec<u8>, Status> {
    let (api_version, kind) = type_of(head);
    let mut raw = message(api_version, kind, head).map_err(refused)?;
    for item in items {
        let item = item?.into_value();
        let (api_version, kind) = type_of(&item);
        protobuf::add_item(&mut raw, &message(api_version, kind, &item).map_err(refused)?);
    }
    Ok(protobuf::seal(api_version, kind, &raw))
}

/// `apiVersion` and `kind`.
pub(crate) fn type_of(value: &Value) -> (&str, &str) {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    (text("apiVersion"), text("kind"))
}

fn refused(error: Error) -> Status {
    match error {
        Error::NoForm(_) => Status::failure(406, reason::NOT_ACCEPTABLE, error.to_string()),
        error => Status::internal(error),
    }
}

fn message(api_version: &str, kind: &str, value: &Value) -> Result<Vec<u8>, Error> {
    FORMS.encode(&definition_of(api_version, kind), value)
}

/// The definition of a kind. The kinds of `meta.v1` go by a group of their own, or by the core group's version.
pub(crate) fn definition_of(api_version: &str, kind: &str) -> String {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let name = definition(group, version, kind);
    match group {
        "meta.k8s.io" => format!("{META}.{version}.{kind}"),
        "" if Definitions::builtin().arena().find(&name).is_none() => format!("{META}.v1.{kind}"),
        _ => name,
    }
}
