//! Documents of version 2 that API servers behind this one write: the part that is theirs, put into ours.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

const DEFINITIONS: &str = "#/definitions/";

/// Of a whole document, the paths at `root` and below, and the definitions they need.
pub(crate) fn part(document: &Value, root: &str) -> Value {
    let below = format!("{root}/");
    let all = |field: &str| document.get(field).and_then(Value::as_object);
    let theirs = all("paths").into_iter().flatten().filter(|(path, _)| *path == root || path.starts_with(&below));
    let paths: Map<String, Value> = theirs.map(|(path, item)| (path.clone(), item.clone())).collect();
    let mut found: BTreeMap<String, &Value> = BTreeMap::new();
    let mut open: Vec<String> = names(paths.values());
    while let Some(name) = open.pop() {
        let Some(definition) = all("definitions").and_then(|all| all.get(&name)).filter(|_| !found.contains_key(&name)) else { continue };
        open.extend(names([definition].into_iter()));
        found.insert(name, definition);
    }
    json!({"paths": paths, "definitions": found})
}

/// Adds a part to a document. A definition that the document has otherwise under the same name gets another one, as upstream
/// names it: `NAME_v2`.
pub(super) fn merge(document: &mut Value, part: &Value) {
    let all = |part: &Value, field: &str| part.get(field).and_then(Value::as_object).cloned().unwrap_or_default();
    let (known, theirs) = (all(document, "definitions"), all(part, "definitions"));
    let differ = theirs.iter().filter(|(name, definition)| known.get(*name).is_some_and(|known| known != *definition));
    let renamed: BTreeMap<&str, String> = differ.map(|(name, _)| (name.as_str(), free_name(name, &known, &theirs))).collect();
    let definitions = theirs
        .iter()
        .map(|(name, definition)| (renamed.get(name.as_str()).cloned().unwrap_or_else(|| name.clone()), rewritten(definition, &renamed)));
    let paths = all(part, "paths").into_iter().map(|(path, item)| (path, rewritten(&item, &renamed)));
    let (definitions, paths): (Vec<_>, Vec<_>) = (definitions.collect(), paths.collect());
    for (field, entries) in [("definitions", definitions), ("paths", paths)] {
        if let Some(Value::Object(fields)) = document.get_mut(field) {
            fields.extend(entries);
        }
    }
}

fn free_name(name: &str, known: &Map<String, Value>, theirs: &Map<String, Value>) -> String {
    let candidates = (2..).map(|number| format!("{name}_v{number}"));
    let mut free = candidates.filter(|candidate| !known.contains_key(candidate) && !theirs.contains_key(candidate));
    free.next().unwrap_or_default()
}

/// The definition a reference is to.
fn referenced(value: &Value) -> Option<String> {
    let name = value.get("$ref")?.as_str()?.strip_prefix(DEFINITIONS)?;
    Some(name.replace("~1", "/").replace("~0", "~"))
}

/// The definitions that values refer to.
fn names<'a>(values: impl Iterator<Item = &'a Value>) -> Vec<String> {
    let mut names = BTreeSet::new();
    let mut open: Vec<&Value> = values.collect();
    while let Some(value) = open.pop() {
        names.extend(referenced(value));
        match value {
            Value::Object(fields) => open.extend(fields.values()),
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    names.into_iter().collect()
}

/// The value with references to the new names.
fn rewritten(value: &Value, renamed: &BTreeMap<&str, String>) -> Value {
    if let Some(new) = referenced(value).and_then(|name| renamed.get(name.as_str())) {
        return json!({"$ref": format!("{DEFINITIONS}{new}")});
    }
    match value {
        Value::Object(fields) => fields.iter().map(|(name, field)| (name.clone(), rewritten(field, renamed))).collect(),
        Value::Array(items) => items.iter().map(|item| rewritten(item, renamed)).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(name: &str) -> Value {
        json!({"$ref": format!("{DEFINITIONS}{name}")})
    }

    #[test]
    fn only_what_belongs_to_the_group_and_version_is_taken() {
        let document = json!({
            "paths": {"/apis/g/v1/things": {"get": {"schema": reference("Thing")}}, "/apis/g/v10/things": {}, "/healthz": {}},
            "definitions": {"Thing": {"properties": {"meta": reference("Meta")}}, "Meta": {"x": reference("Thing")}, "Other": {}},
        });
        let part = part(&document, "/apis/g/v1");
        let keys = |field: &str| part[field].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(
            (keys("paths"), keys("definitions")),
            (vec!["/apis/g/v1/things".to_owned()], vec!["Meta".to_owned(), "Thing".to_owned()])
        );
    }

    #[test]
    fn a_definition_that_differs_from_ours_gets_a_name_of_its_own() {
        let mut document = json!({"paths": {}, "definitions": {"Meta": {"description": "ours"}, "Time": {"type": "string"}}});
        let thing = json!({"properties": {"meta": reference("Meta"), "time": reference("Time")}});
        let part = json!({
            "paths": {"/p": {"schema": reference("Meta")}},
            "definitions": {"Thing": thing, "Meta": {"description": "theirs"}, "Time": {"type": "string"}},
        });
        merge(&mut document, &part);
        let definitions = &document["definitions"];
        assert_eq!((&definitions["Meta"]["description"], &definitions["Meta_v2"]["description"]), (&json!("ours"), &json!("theirs")));
        assert_eq!(definitions["Thing"]["properties"], json!({"meta": reference("Meta_v2"), "time": reference("Time")}));
        assert_eq!(document["paths"]["/p"]["schema"], reference("Meta_v2"));
    }
}
