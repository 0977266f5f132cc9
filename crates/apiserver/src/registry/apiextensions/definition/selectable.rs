//! Selectable fields: each must lead to a scalar of the schema.

use apimachinery::field::{Error, ErrorList};
use serde_json::Value;

use crate::registry::check::At;

/// At most so many.
const MOST: usize = 8;

/// `selectableFields` of a version with that schema. `as_before`: they are those of the stored definition, which may be too many.
pub(super) fn check(fields: &At<'_>, schema: &Value, as_before: bool, errs: &mut ErrorList) {
    let mut seen: Vec<String> = Vec::new();
    for field in fields.items() {
        let path = field.get("jsonPath");
        if path.is_empty() {
            errs.push(path.required(""));
            continue;
        }
        match find(path.str(), schema) {
            Err(why) => errs.push(path.invalid(format!("is an invalid path: {why}"))),
            Ok((names, found)) => {
                if names.first().is_some_and(|first| first == "metadata") {
                    errs.push(path.invalid("must not point to fields in metadata"));
                }
                if !matches!(found.get("type").and_then(Value::as_str), Some("string" | "boolean" | "integer")) {
                    let kinds = "must point to a field of type string, boolean or integer.";
                    errs.push(path.invalid(format!("{kinds} Enum string fields and strings with formats are allowed.")));
                }
                let name = names.join(".");
                if seen.contains(&name) {
                    errs.push(path.duplicate());
                } else {
                    seen.push(name);
                }
            }
        }
    }
    if seen.len() > MOST && !as_before {
        errs.push(Error::too_many(&fields.path, seen.len(), MOST));
    }
}

/// The names on a path, and the schema it leads to. Errors: why it leads nowhere.
fn find<'a>(path: &str, schema: &'a Value) -> Result<(Vec<String>, &'a Value), String> {
    if path.contains('[') {
        return Err("array notation is not allowed".into());
    }
    let Some(rest) = path.strip_prefix('.') else {
        return Err(format!("expected [ or . but got: {}", path.split('.').next().unwrap_or_default()));
    };
    let (mut at, mut names) = (schema, Vec::new());
    for name in rest.split('.') {
        if name.is_empty() {
            return Err("unexpected end of JSON path".into());
        }
        let properties = at.get("properties").and_then(Value::as_object);
        let found = match properties {
            Some(properties) => properties.get(name),
            None => at.get("additionalProperties").filter(|values| values.is_object()),
        };
        at = found.ok_or("does not refer to a valid field")?;
        names.push(name.to_owned());
    }
    Ok((names, at))
}
