//! From a definition to what the catalog serves.

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use apimachinery::{
    gvk::GroupVersionKind,
    schema::{Schema, Validator, structural},
    versions,
};
use serde_json::{Value, json};

use super::{
    Custom,
    columns::Columns,
    convert::{Schemas, Versions},
    fields::Fields,
    scale::Paths,
};
use crate::{
    lazy::Lazy,
    registry::{
        Conversion, Resource, Subresource,
        apiextensions::view::{Definition, flag, text, texts},
    },
    schema::{Definitions, OBJECT_META, Written, unstructured},
    storage::SelectableFields,
};

/// The order in which upstream lists the verbs of custom resources.
const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// One version of a custom resource, ready to be served.
pub(crate) struct Version {
    pub(crate) resource: Resource,
    pub(crate) schema: Lazy<Schema>,
}

/// What a version's author wrote, and the schema that is made of it once somebody asks for instances.
#[derive(Clone)]
struct Authored {
    written: Arc<Written>,
    schema: Lazy<Schema>,
}

/// The versions of a definition whose names are accepted that are served or stored, and the fields by which the stored objects can
/// be selected.
pub(crate) fn build(definition: Definition<'_>) -> (Vec<Version>, SelectableFields) {
    let authored = authored(definition);
    let read = Arc::new(Schemas::new(authored.iter().map(|(name, one)| (name.clone(), one.schema.clone())).collect()));
    let wanted = definition.versions().iter().filter(|version| flag(version, "served") || flag(version, "storage"));
    let made = wanted.filter_map(|version| Some(one(definition, version, authored.get(text(version, "name"))?, &read)));
    let all: Vec<Fields> = definition.versions().iter().map(fields).collect();
    (made.collect(), Fields::union(all.iter()).of_stored(read))
}

/// The schema of each version, by its name.
fn authored(definition: Definition<'_>) -> BTreeMap<String, Authored> {
    let read = |version: &Value| {
        let name = text(version, "name");
        let (written, full_name) = (Arc::new(Written::new(&written(version))), definition_name(definition, name));
        let source = written.clone();
        let schema = Lazy::new(move || schema(&full_name, &source.value()));
        (name.to_owned(), Authored { written, schema })
    };
    definition.versions().iter().map(read).collect()
}

fn schema(name: &str, written: &Value) -> Schema {
    match Definitions::builtin().get(OBJECT_META) {
        Some(meta) => structural(name, written, &meta),
        None => unstructured(name),
    }
}

/// The schema as its author wrote it; without one anything goes.
fn written(version: &Value) -> Value {
    let schema = version.pointer("/schema/openAPIV3Schema").filter(|schema| schema.is_object());
    schema.cloned().unwrap_or_else(|| json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}))
}

/// The OpenAPI name: `com.example.stable.v1.CronTab`.
fn definition_name(definition: Definition<'_>, version: &str) -> String {
    let package: Vec<&str> = definition.group().rsplit('.').collect();
    format!("{}.{version}.{}", package.join("."), text(definition.accepted(), "kind"))
}

fn fields(version: &Value) -> Fields {
    Fields::new(list(version, "selectableFields"))
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn one(definition: Definition<'_>, version: &Value, authored: &Authored, schemas: &Arc<Schemas>) -> Version {
    let (names, name) = (definition.accepted(), text(version, "name"));
    let owned = |texts: Vec<&str>| texts.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let subresources = version.get("subresources").unwrap_or(&Value::Null);
    let (written, terminating) = (written(version), definition.is("Terminating"));
    let (schema, source) = (authored.schema.clone(), authored.written.clone());
    let scale = subresources.get("scale").filter(|scale| scale.is_object()).map(Paths::new);
    let mut resource = Resource::new(definition.group(), name, text(names, "kind"), definition.plural(), definition.is_namespaced());
    if subresources.get("status").is_some_and(Value::is_object) {
        resource = resource.status();
    }
    if let Some(paths) = &scale {
        resource = resource.sub(Subresource::scale(paths.pointers()));
    }
    let stored = GroupVersionKind::new(definition.group(), definition.storage_version(), text(names, "kind"));
    let strategy = Custom {
        schema: schema.clone(),
        validator: Lazy::new(move || Validator::new(&source.value())),
        scale,
        columns: Columns::new(list(version, "additionalPrinterColumns")),
        fields: fields(version),
        terminating,
        has_rules: has_rules(&written),
    };
    let resource = Resource {
        list_kind: text(names, "listKind").to_owned(),
        singular: text(names, "singular").to_owned(),
        short_names: owned(texts(names, "shortNames")),
        categories: owned(texts(names, "categories")),
        verbs: if flag(version, "served") { VERBS.to_vec() } else { Vec::new() },
        definition: definition_name(definition, name),
        conversion: conversion(definition, name, &stored, &written, schemas),
        stored,
        storage_prefix: format!("{}/{}", definition.group(), definition.plural()),
        strategy: Arc::new(strategy),
        deprecation: deprecation(definition, version),
        custom_schema: Some(authored.written.clone()),
        terminating,
        ..resource
    };
    Version { resource, schema }
}

/// Nothing has to be done to an object of which everything is kept, if it can be stored in this version only.
fn conversion(
    definition: Definition<'_>,
    version: &str,
    stored: &GroupVersionKind,
    written: &Value,
    schemas: &Arc<Schemas>,
) -> Option<Arc<dyn Conversion>> {
    // What keeps nothing is not open: then no schema has to be made now.
    let open = || flag(written, "x-kubernetes-preserve-unknown-fields") && schema(version, written).is_open();
    if stored.version == version && definition.stored_versions() == [version] && open() {
        return None;
    }
    let served = GroupVersionKind::new(&stored.group, version, &stored.kind);
    let webhook = definition.is_converted_by_webhook();
    Some(Arc::new(Versions { served, stored: stored.clone(), schemas: schemas.clone(), webhook }))
}

/// The warning of a deprecated version: its own, or one that names the best version to use instead.
fn deprecation(definition: Definition<'_>, version: &Value) -> Option<String> {
    if !flag(version, "deprecated") {
        return None;
    }
    if let Some(own) = version.get("deprecationWarning").and_then(Value::as_str) {
        return Some(own.to_owned());
    }
    let (group, kind, name) = (definition.group(), text(definition.names(), "kind"), text(version, "name"));
    let better = |other: &&Value| {
        flag(other, "served") && !flag(other, "deprecated") && versions::compare(name, text(other, "name")) == Ordering::Less
    };
    let best = definition.versions().iter().filter(better).map(|other| text(other, "name")).max_by(|a, b| versions::compare(a, b));
    let instead = best.map(|best| format!("; use {group}/{best} {kind}")).unwrap_or_default();
    Some(format!("{group}/{name} {kind} is deprecated{instead}"))
}

/// Whether a schema has rules in the expression language anywhere.
fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => {
            let own = members.get("x-kubernetes-validations").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
            own || members.values().any(has_rules)
        }
        Value::Array(items) => items.iter().any(has_rules),
        _ => false,
    }
}
