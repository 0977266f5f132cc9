//! Upstream's internal form of a definition's spec, which its error texts speak of: what all versions have alike stands at the top.

use serde_json::{Map, Value};

use crate::registry::apiextensions::view::text;

/// Fields of versions with their names at the top.
const SHARED: [(&str, &str); 4] = [
    ("schema", "validation"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

/// The spec in that form.
pub(super) fn spec(spec: &Value) -> Value {
    let mut out = spec.as_object().cloned().unwrap_or_default();
    let mut versions = out.get("versions").and_then(Value::as_array).cloned().unwrap_or_default();
    if let Some(first) = versions.first().cloned() {
        out.insert("version".into(), text(&first, "name").into());
        for (name, top) in SHARED {
            let shared = field(&first, name);
            if !versions.iter().all(|version| field(version, name) == shared) {
                continue;
            }
            versions.iter_mut().filter_map(Value::as_object_mut).for_each(|version| drop(version.remove(name)));
            if !shared.is_null() {
                out.insert(top.into(), shared);
            }
        }
    }
    out.insert("versions".into(), versions.into());
    if let Some(conversion) = out.get_mut("conversion").and_then(Value::as_object_mut) {
        flatten(conversion);
    }
    Value::Object(out)
}

/// A field of a version; an empty list is as good as none.
fn field(version: &Value, name: &str) -> Value {
    version.get(name).filter(|value| !value.as_array().is_some_and(Vec::is_empty)).cloned().unwrap_or_default()
}

fn flatten(conversion: &mut Map<String, Value>) {
    let Some(webhook) = conversion.remove("webhook") else { return };
    if let Some(config) = webhook.get("clientConfig").filter(|config| !config.is_null()) {
        conversion.insert("webhookClientConfig".into(), config.clone());
    }
    if let Some(versions) = webhook.get("conversionReviewVersions").filter(|versions| !versions.is_null()) {
        conversion.insert("conversionReviewVersions".into(), versions.clone());
    }
}

/// Shows `visit` a schema and all schemas in it.
pub(super) fn visit<'a>(schema: &'a Value, visit: &mut dyn FnMut(&'a Value)) {
    visit(schema);
    children(schema).into_iter().for_each(|(_, child)| self::visit(child, visit));
}

/// The schemas directly inside a schema, each with the name of the field that holds it.
fn children(schema: &Value) -> Vec<(&'static str, &Value)> {
    let mut out = Vec::new();
    for name in ["items", "not", "additionalProperties", "additionalItems"] {
        match schema.get(name) {
            Some(child @ Value::Object(_)) => out.push((name, child)),
            Some(Value::Array(list)) => out.extend(list.iter().map(|child| (name, child))),
            _ => {}
        }
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        out.extend(schema.get(name).and_then(Value::as_array).into_iter().flatten().map(|child| (name, child)));
    }
    for name in ["properties", "patternProperties", "definitions", "dependencies"] {
        let map = schema.get(name).and_then(Value::as_object).into_iter().flatten();
        out.extend(map.filter(|(_, child)| child.is_object()).map(|(_, child)| (name, child)));
    }
    out
}

/// Whether a schema, or one in it, satisfies this.
pub(super) fn any(schema: &Value, mut holds: impl FnMut(&Value) -> bool) -> bool {
    let mut found = false;
    visit(schema, &mut |schema| found = found || holds(schema));
    found
}

/// The schemas of a spec in this form: the one of all versions, or each one's own.
pub(super) fn schemas(spec: &Value) -> Vec<&Value> {
    let versions = spec.get("versions").and_then(Value::as_array).into_iter().flatten();
    let each = versions.filter_map(|version| version.pointer("/schema/openAPIV3Schema"));
    spec.pointer("/validation/openAPIV3Schema").into_iter().chain(each).filter(|schema| schema.is_object()).collect()
}
