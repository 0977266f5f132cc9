//! What a schema of a custom resource may say at all, and the rules for extensions of Kubernetes.

use apimachinery::field::{Error, ErrorList, Path};
use serde_json::Value;

use crate::registry::{
    apiextensions::view::{flag, text, texts},
    check::At,
};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const META: [&str; 3] = ["metadata", "kind", "apiVersion"];

/// How strict to be: what a stored definition does wrong already it may go on doing.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    /// Types must be known.
    pub(super) types: bool,
    /// Items of sets must be atomic.
    pub(super) atomic_sets: bool,
    /// Keys of map lists must be there in every item.
    pub(super) keys: bool,
    /// There may be no rules in the expression language, which nobody would evaluate.
    pub(super) no_expressions: bool,
}

/// What the place of a schema means for it.
#[derive(Clone, Copy, Default)]
struct Place {
    root: bool,
    /// Inside of type or metadata of a resource.
    meta: bool,
    /// Why there may be no default.
    no_default: Option<&'static str>,
}

/// Checks the schema of a version.
pub(super) fn check(schema: &At<'_>, rules: Rules, errs: &mut ErrorList) {
    walk(schema, rules, Place { root: true, ..Place::default() }, errs);
}

fn walk(at: &At<'_>, rules: Rules, place: Place, errs: &mut ErrorList) {
    if at.map().is_none() {
        return;
    }
    supported(at, rules, place, errs);
    let inner = Place { root: false, ..place };
    additional(at, rules, inner, errs);
    let resource = place.root || flag(at.value, "x-kubernetes-embedded-resource");
    for (name, property) in at.get("properties").entries() {
        let mut inside = inner;
        if resource && META.contains(&name) {
            inside.meta = true;
            inside.no_default = if place.root { Some(top_level(name)) } else { inside.no_default };
        }
        walk(&property, rules, inside, errs);
    }
    walk(&at.get("not"), rules, inner, errs);
    for name in ["allOf", "oneOf", "anyOf"] {
        at.get(name).items().iter().for_each(|part| walk(part, rules, inner, errs));
    }
    at.get("definitions").entries().iter().for_each(|(_, part)| walk(part, rules, inner, errs));
    let items = at.get("items");
    walk(&items, rules, inner, errs);
    items.items().iter().for_each(|part| walk(part, rules, inner, errs));
    at.get("dependencies").entries().iter().for_each(|(_, part)| walk(part, rules, inner, errs));
    extensions(at, rules, errs);
}

fn top_level(name: &str) -> &'static str {
    match name {
        "metadata" => " in top-level metadata",
        "kind" => " in top-level kind",
        _ => " in top-level apiVersion",
    }
}

fn supported(at: &At<'_>, rules: Rules, place: Place, errs: &mut ErrorList) {
    let kind = at.get("type");
    if rules.types && !kind.is_empty() {
        kind.one_of(&TYPES, errs);
    }
    if let Some(why) = place.no_default.filter(|_| at.get("default").is_set()) {
        errs.push(at.get("default").forbidden(format!("must not be set{why}")));
    }
    for name in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        let field = at.get(name);
        if field.is_set() && !(field.is_empty() && name != "additionalItems") {
            errs.push(field.forbidden(format!("{name} is not supported")));
        }
    }
    if kind.str() == "null" {
        errs.push(kind.forbidden("type cannot be set to null, use nullable as an alternative"));
    }
    if at.get("items").size() > 0 && at.get("items").map().is_none() {
        errs.push(at.get("items").forbidden("items must be a schema object and not an array"));
    }
    let embedded = at.get("x-kubernetes-embedded-resource");
    if place.meta && embedded.is_true() {
        errs.push(embedded.forbidden("must not be used inside of resource meta"));
    }
    let unique = at.get("uniqueItems");
    if unique.is_true() {
        errs.push(unique.forbidden("uniqueItems cannot be set to true since the runtime complexity becomes quadratic"));
    }
}

fn additional(at: &At<'_>, rules: Rules, place: Place, errs: &mut ErrorList) {
    let additional = at.get("additionalProperties");
    if additional.is_set() && !additional.is_true() && at.get("properties").size() > 0 {
        errs.push(additional.forbidden("additionalProperties and properties are mutual exclusive"));
    }
    let why = " inside additionalProperties applying to object metadata";
    walk(&additional, rules, Place { no_default: if place.meta { Some(why) } else { place.no_default }, ..place }, errs);
}

fn extensions(at: &At<'_>, rules: Rules, errs: &mut ErrorList) {
    let preserve = at.get("x-kubernetes-preserve-unknown-fields");
    if *preserve.value == Value::Bool(false) {
        errs.push(preserve.invalid("must be true or undefined"));
    }
    let map_type = at.get("x-kubernetes-map-type");
    if map_type.is_set() {
        wants_type(at, "object", "x-kubernetes-map-type", errs);
        map_type.one_of(&["atomic", "granular"], errs);
    }
    list_type(at, rules, errs);
    let expressions = at.get("x-kubernetes-validations");
    if rules.no_expressions && expressions.size() > 0 {
        let detail = "rules cannot be evaluated by this server, and what they forbid would be stored";
        errs.push(expressions.forbidden(detail));
    }
}

fn wants_type(at: &At<'_>, wanted: &str, extension: &str, errs: &mut ErrorList) -> bool {
    let kind = at.get("type");
    if kind.str() == wanted {
        return true;
    }
    let detail = format!("must be {wanted} if {extension} is specified");
    errs.push(if kind.is_empty() { kind.required(&detail) } else { kind.invalid(detail) });
    false
}

fn list_type(at: &At<'_>, rules: Rules, errs: &mut ErrorList) {
    let (list, keys, items) = (at.get("x-kubernetes-list-type"), at.get("x-kubernetes-list-map-keys"), at.get("items"));
    if list.is_set() {
        if wants_type(at, "array", "x-kubernetes-list-type", errs) && rules.atomic_sets && list.str() == "set" {
            atomic_items(&items, errs);
        }
        list.one_of(&["atomic", "set", "map"], errs);
    }
    if keys.size() > 0 && list.str() != "map" {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        errs.push(if list.is_set() { list.invalid(detail) } else { list.required(detail) });
    }
    if list.str() == "map" {
        map_items(&items, &keys, errs);
    }
    if rules.keys {
        errs.extend(key_errors(at));
    }
}

/// Whether the items of a set are compared as wholes.
pub(super) fn is_atomic(items: &Value) -> bool {
    match text(items, "type") {
        "array" => matches!(text(items, "x-kubernetes-list-type"), "" | "atomic"),
        "object" => text(items, "x-kubernetes-map-type") == "atomic",
        _ => true,
    }
}

fn atomic_items(items: &At<'_>, errs: &mut ErrorList) {
    if is_atomic(items.value) {
        return;
    }
    let extension = if text(items.value, "type") == "array" { "x-kubernetes-list-type" } else { "x-kubernetes-map-type" };
    let shown = items.value.get("x-kubernetes-list-type").cloned().unwrap_or_default();
    let path = items.path.child(extension);
    errs.push(Error::invalid(&path, shown, "must be atomic as item of a list with x-kubernetes-list-type=set"));
}

fn map_items(items: &At<'_>, keys: &At<'_>, errs: &mut ErrorList) {
    if keys.size() == 0 {
        errs.push(keys.required("must not be empty if x-kubernetes-list-type is map"));
    }
    if !items.is_set() {
        return errs.push(items.required("must have a schema if x-kubernetes-list-type is map"));
    }
    if items.map().is_none() {
        return errs.push(items.invalid("must only have a single schema if x-kubernetes-list-type is map"));
    }
    let kind = text(items.value, "type");
    if kind != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        return errs.push(Error::invalid(&items.path.child("type"), kind, detail));
    }
    let names = keys.strs();
    for (index, name) in names.iter().enumerate() {
        let property = items.get("properties").key(name);
        if !property.is_set() {
            errs.push(keys.invalid("entries must all be names of item properties"));
        } else if matches!(text(property.value, "type"), "array" | "object") {
            let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            errs.push(Error::invalid(&property.path.child("type"), kind, detail));
        }
        if names[..index].contains(name) {
            errs.push(keys.invalid("must not contain duplicate entries"));
        }
    }
}

/// What is wrong with the items of a set or map list: they may not be null, and must have their keys.
pub(super) fn key_errors(at: &At<'_>) -> ErrorList {
    let (mut errs, items, kind) = (ErrorList::new(), at.get("items"), text(at.value, "x-kubernetes-list-type"));
    if items.map().is_none() || !matches!(kind, "set" | "map") {
        return errs;
    }
    if flag(items.value, "nullable") {
        errs.push(items.get("nullable").forbidden(format!("cannot be nullable when x-kubernetes-list-type is {kind}")));
    }
    let (keys, required) = (texts(at.value, "x-kubernetes-list-map-keys"), texts(items.value, "required"));
    for key in keys.into_iter().filter(|_| kind == "map") {
        let property = items.get("properties").key(key);
        if !property.is_set() {
            continue;
        }
        let role = "this property is in x-kubernetes-list-map-keys, so it";
        if !required.contains(&key) && !property.get("default").is_set() {
            errs.push(property.get("default").required(&format!("{role} must have a default or be a required property")));
        }
        if flag(property.value, "nullable") {
            errs.push(property.get("nullable").forbidden(format!("{role} cannot be nullable")));
        }
    }
    errs
}

/// Whether a schema has a type that nobody knows.
pub(super) fn has_unknown_type(schema: &Value) -> bool {
    let kind = text(schema, "type");
    !kind.is_empty() && !TYPES.contains(&kind)
}

/// The path to nowhere, for checks of which only the outcome matters.
pub(super) fn nowhere(schema: &Value) -> At<'_> {
    At::new(Path::root(), schema)
}
