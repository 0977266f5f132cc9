//! Resources inside of custom resources (`x-kubernetes-embedded-resource`): their metadata is read as metadata is.

use serde_json::Value;

use super::{Arena, Id, Kind, Schema, field};
use crate::field::{Error, Path};

impl Schema {
    /// Brings the metadata of embedded resources into their canonical form, in place, and tells the paths of what was unknown there.
    /// Errors: type or metadata that cannot be read.
    pub fn coerce(&self, value: &mut Value) -> Result<Vec<String>, Error> {
        let mut unknown = Vec::new();
        coerce(self.arena(), self.id(), value, &Path::root(), &mut unknown)?;
        Ok(unknown)
    }
}

fn coerce(arena: &Arena, id: Id, value: &mut Value, path: &Path, unknown: &mut Vec<String>) -> Result<(), Error> {
    let node = arena.node(id);
    match (&node.kind, value) {
        (Kind::Object(_), Value::Object(members)) => {
            for (name, member) in members.iter_mut() {
                let Some(field) = field(node, name) else { continue };
                match name.as_str() {
                    "metadata" if node.embedded => metadata(arena, field.node, member, &path.child(name), unknown)?,
                    "apiVersion" | "kind" if node.embedded && !member.is_string() => {
                        return Err(Error::invalid(&path.child(name), member.clone(), "must be a string"));
                    }
                    // The root's own metadata is read by its decoder.
                    "metadata" if arena.custom == Some(id) => {}
                    _ => coerce(arena, field.node, member, &path.child(name), unknown)?,
                }
            }
        }
        (Kind::Map(inner), Value::Object(members)) => {
            for (name, member) in members.iter_mut() {
                coerce(arena, *inner, member, &path.key(name), unknown)?;
            }
        }
        (Kind::Array(inner), Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                coerce(arena, *inner, item, &path.index(index), unknown)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn metadata(arena: &Arena, id: Id, value: &mut Value, path: &Path, unknown: &mut Vec<String>) -> Result<(), Error> {
    let decoded = super::decode::decode_part(arena, id, value).map_err(|error| Error::invalid(path, value.clone(), error.to_string()))?;
    let paths = decoded.strict.iter().filter_map(|text| text.strip_prefix("unknown field \"")?.strip_suffix('"'));
    unknown.extend(paths.map(|inside| format!("{}.{inside}", path.as_str())));
    *value = decoded.value;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{sample, structural};
    use serde_json::{Value, json};

    fn coerced(value: Value) -> Result<(Value, Vec<String>), String> {
        let meta = sample::pod().member("metadata").unwrap();
        let template = json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
        let list = json!({"type": "array", "items": template});
        let schema = structural("com.test.v1.Widget", &json!({"type": "object", "properties": {"templates": list}}), &meta);
        let mut value = json!({"templates": [value]});
        let unknown = schema.coerce(&mut value).map_err(|error| error.to_string())?;
        Ok((value["templates"][0].take(), unknown))
    }

    #[test]
    fn metadata_of_embedded_resources_loses_what_metadata_does_not_have() {
        let (value, unknown) =
            coerced(json!({"kind": "A", "metadata": {"name": "x", "bogus": 1, "labels": {}}, "spec": {"any": 1}})).unwrap();
        assert_eq!(value, json!({"kind": "A", "metadata": {"name": "x"}, "spec": {"any": 1}}));
        assert_eq!(unknown, ["templates[0].metadata.bogus"]);
    }

    #[test]
    fn type_and_metadata_that_cannot_be_read_are_errors_at_their_place() {
        assert_eq!(coerced(json!({"kind": 1})).unwrap_err(), "templates[0].kind: Invalid value: 1: must be a string");
        let error = coerced(json!({"metadata": {"labels": {"a": 1}}})).unwrap_err();
        assert!(
            error.starts_with("templates[0].metadata: Invalid value: {\"labels\":{\"a\":1}}: json: cannot unmarshal number"),
            "{error}"
        );
    }
}
