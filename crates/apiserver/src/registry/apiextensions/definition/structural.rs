//! Structural schemas: the shape of a value is said outside of `allOf`, `anyOf`, `oneOf` and `not`, which may only restrict it.

use apimachinery::field::{ErrorList, Path};
use regex::Regex;
use serde_json::{Value, json};

use crate::registry::{
    apiextensions::view::{flag, text, texts},
    check::At,
};

/// Where in a schema a schema stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// How a schema breaks the rules, sorted. Errors: what it uses that no structural schema can have.
pub(crate) fn violations(schema: &Value, path: &Path) -> Result<ErrorList, String> {
    let mut unsupported = None;
    super::internal::visit(schema, &mut |schema| unsupported = unsupported.take().or_else(|| self::unsupported(schema)));
    if let Some(why) = unsupported {
        return Err(why);
    }
    let (at, mut errs) = (At::new(path.clone(), schema), ErrorList::new());
    invariants(&at, Level::Root, &mut errs);
    completeness(&at, Some(&at), path, &mut errs);
    errs.sort_by_key(ToString::to_string);
    Ok(errs)
}

fn unsupported(schema: &Value) -> Option<String> {
    let set = |name: &str| schema.get(name).is_some_and(|value| !value.is_null() && value.as_str() != Some(""));
    for (name, shown) in [("id", "id"), ("$schema", "schema"), ("$ref", "$ref")] {
        if set(name) {
            return Some(format!("OpenAPIV3Schema '{shown}' is not supported"));
        }
    }
    for name in ["patternProperties", "dependencies", "additionalItems", "definitions"] {
        if set(name) {
            return Some(format!("OpenAPIV3Schema '{name}' is not supported"));
        }
    }
    if schema.get("items").is_some_and(Value::is_array) {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".into());
    }
    let preserve = schema.get("x-kubernetes-preserve-unknown-fields");
    let refused = preserve == Some(&Value::Bool(false));
    refused.then(|| "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined".into())
}

fn invariants(at: &At<'_>, level: Level, errs: &mut ErrorList) {
    let (kind, items) = (at.get("type"), at.get("items"));
    if kind.str() == "array" && !items.is_set() {
        errs.push(items.required("must be specified"));
    }
    if items.is_set() {
        invariants(&items, Level::Item, errs);
    }
    for (_, property) in at.get("properties").entries() {
        invariants(&property, Level::Field, errs);
    }
    let additional = at.get("additionalProperties");
    if additional.is_set() && level == Level::Root {
        errs.push(additional.forbidden("must not be used at the root"));
    }
    if additional.map().is_some() {
        invariants(&additional, Level::Field, errs);
    }
    extensions(at, errs);
    validations(at, level, errs);
    check_type(at, level, errs);
    resource(at, level, errs);
}

fn extensions(at: &At<'_>, errs: &mut ErrorList) {
    if !flag(at.value, "x-kubernetes-int-or-string") {
        return;
    }
    for name in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        let extension = at.get(name);
        if extension.is_true() {
            errs.push(extension.invalid("must be false if x-kubernetes-int-or-string is true"));
        }
    }
}

fn check_type(at: &At<'_>, level: Level, errs: &mut ErrorList) {
    let kind = at.get("type");
    let embedded = flag(at.value, "x-kubernetes-embedded-resource");
    let untyped = ["x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"].iter().any(|name| flag(at.value, name));
    if embedded && kind.str() != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errs.push(if kind.is_empty() { kind.required(detail) } else { kind.invalid(detail) });
    } else if kind.is_empty() && !untyped {
        errs.push(kind.required(match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        }));
    }
    if level == Level::Root && !kind.is_empty() && kind.str() != "object" {
        errs.push(kind.invalid("must be object at the root"));
    }
}

/// What holds for resources: the root, and embedded ones.
fn resource(at: &At<'_>, level: Level, errs: &mut ErrorList) {
    let embedded = flag(at.value, "x-kubernetes-embedded-resource");
    let properties = at.get("properties");
    let additional = at.get("additionalProperties");
    if embedded && additional.is_set() {
        errs.push(additional.forbidden("must not be used if x-kubernetes-embedded-resource is set"));
    }
    if embedded || level == Level::Root {
        for name in ["kind", "apiVersion"] {
            let kind = properties.key(name).get("type");
            if properties.key(name).is_set() && kind.str() != "string" {
                errs.push(At { value: shown(&kind), path: kind.path.clone() }.invalid("must be string"));
            }
        }
        let metadata = properties.key("metadata");
        if metadata.is_set() && text(metadata.value, "type") != "object" {
            let kind = metadata.get("type");
            errs.push(At { value: shown(&kind), path: kind.path.clone() }.invalid("must be object"));
        }
    }
    if level == Level::Root {
        root_metadata(&properties.key("metadata"), errs);
    }
    if embedded && !flag(at.value, "x-kubernetes-preserve-unknown-fields") && properties.size() == 0 {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errs.push(properties.required(detail));
    }
}

static EMPTY: Value = Value::String(String::new());

/// A type that is absent shows as an empty text.
fn shown<'a>(kind: &At<'a>) -> &'a Value {
    if kind.is_set() { kind.value } else { &EMPTY }
}

/// The metadata of the root is given; its schema may restrict names and nothing else.
fn root_metadata(metadata: &At<'_>, errs: &mut ErrorList) {
    let Some(members) = metadata.map() else { return };
    let names_only = metadata.get("properties").entries().iter().all(|(name, _)| matches!(*name, "name" | "generateName"));
    if !names_only || members.keys().any(|key| !matches!(key.as_str(), "type" | "default" | "properties")) {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errs.push(metadata.forbidden(detail));
    }
}

/// The one use of types under `anyOf`: a number or a text.
fn is_int_or_string(any_of: &At<'_>) -> bool {
    *any_of.value == json!([{"type": "integer"}, {"type": "string"}])
}

/// The restrictions of a schema. Patterns must be patterns; what is nested may not say what only structure says.
fn validations(at: &At<'_>, level: Level, errs: &mut ErrorList) {
    let (any_of, all_of) = (at.get("anyOf"), at.get("allOf"));
    if !is_int_or_string(&any_of) {
        any_of.items().iter().for_each(|part| nested(part, false, level, errs));
    }
    for (index, part) in all_of.items().iter().enumerate() {
        nested(part, index == 0 && is_int_or_string(&part.get("anyOf")), level, errs);
    }
    at.get("oneOf").items().iter().for_each(|part| nested(part, false, level, errs));
    if at.get("not").is_set() {
        nested(&at.get("not"), false, level, errs);
    }
    pattern(at, errs);
}

fn pattern(at: &At<'_>, errs: &mut ErrorList) {
    let pattern = at.get("pattern");
    if let Err(error) = Regex::new(pattern.str()) {
        let why = error.to_string();
        let why = in_gos_words(pattern.str(), why.lines().last().unwrap_or_default().trim_start_matches("error: "));
        errs.push(pattern.invalid(format!("must be a valid regular expression, but isn't: error parsing regexp: {why}")));
    }
}

/// What is wrong with a pattern as Go says it, for the common mistakes.
fn in_gos_words(pattern: &str, why: &str) -> String {
    let from = |mark: &str, length: usize| pattern.find(mark).map(|at| pattern[at..].chars().take(length).collect::<String>());
    let looks = ["(?=", "(?!", "(?<=", "(?<!"].into_iter().find_map(|mark| from(mark, 3));
    match why {
        "unclosed group" => format!("missing closing ): `{pattern}`"),
        "unopened group" => format!("unexpected ): `{pattern}`"),
        "unclosed character class" => format!("missing closing ]: `{}`", from("[", usize::MAX).unwrap_or_default()),
        _ if why.starts_with("look-around") => format!("invalid or unsupported Perl syntax: `{}`", looks.unwrap_or_default()),
        other => other.to_owned(),
    }
}

fn nested(at: &At<'_>, skip_any_of: bool, level: Level, errs: &mut ErrorList) {
    if skip_any_of {
        at.get("allOf").items().iter().for_each(|part| nested(part, false, level, errs));
        at.get("oneOf").items().iter().for_each(|part| nested(part, false, level, errs));
        if at.get("not").is_set() {
            nested(&at.get("not"), false, level, errs);
        }
        pattern(at, errs);
    } else {
        validations(at, level, errs);
    }
    if at.get("items").is_set() {
        nested(&at.get("items"), false, level, errs);
    }
    for (_, property) in at.get("properties").entries() {
        nested(&property, false, Level::Field, errs);
    }
    forbidden(at, errs);
}

/// What only structure may say.
fn forbidden(at: &At<'_>, errs: &mut ErrorList) {
    let mut refuse = |name: &str, refused: bool, how: &str| {
        if refused {
            errs.push(at.get(name).forbidden(format!("must be {how} to be structural")));
        }
    };
    let given = |name: &str| !at.get(name).is_empty();
    let set = |name: &str| at.get(name).is_set();
    let on = |name: &str| flag(at.value, name);
    refuse("type", given("type"), "empty");
    refuse("additionalProperties", at.get("additionalProperties").map().is_some() || on("additionalProperties"), "undefined");
    refuse("default", set("default"), "undefined");
    refuse("title", given("title"), "empty");
    refuse("description", given("description"), "empty");
    for name in ["nullable", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"] {
        refuse(name, on(name), "false");
    }
    refuse("x-kubernetes-list-map-keys", !texts(at.value, "x-kubernetes-list-map-keys").is_empty(), "empty");
    refuse("x-kubernetes-list-type", set("x-kubernetes-list-type"), "undefined");
    refuse("x-kubernetes-map-type", set("x-kubernetes-map-type"), "undefined");
    refuse("x-kubernetes-validations", given("x-kubernetes-validations"), "empty");
    let metadata = at.get("properties").key("metadata");
    if metadata.is_set() {
        errs.push(metadata.forbidden("must not be specified in a nested context"));
    }
}

/// Every field or item that is restricted must be there in the structure; `whole` is the structure at this place.
fn completeness(at: &At<'_>, whole: Option<&At<'_>>, place: &Path, errs: &mut ErrorList) {
    let parts = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|name| at.get(name).items());
    let not = Some(at.get("not")).filter(|not| not.is_set());
    for part in not.into_iter().chain(parts) {
        nested_completeness(&part, whole, place, errs);
    }
}

fn nested_completeness(part: &At<'_>, whole: Option<&At<'_>>, place: &Path, errs: &mut ErrorList) {
    let Some(whole) = whole else {
        let detail = format!("because it is defined in {}", part.path);
        return errs.push(apimachinery::field::Error::required(place, detail));
    };
    completeness(part, Some(whole), place, errs);
    let mut follow = |part: &At<'_>, whole: At<'_>| nested_completeness(part, whole.is_set().then_some(&whole), &whole.path, errs);
    if part.get("items").is_set() {
        follow(&part.get("items"), whole.get("items"));
    }
    for (name, property) in part.get("properties").entries() {
        follow(&property, whole.get("properties").key(name));
    }
}
