//! Definitions, written as OpenAPI schemas.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::{
    gvk::{GroupVersion, GroupVersionKind},
    schema::{Arena, Field, Id, Kind, ListType, Node, Union},
};
use serde_json::{Map, Value, json};

use super::{Api, Descriptions, Item, Version, custom, definition_of, describe, reference};
use crate::schema::{Definitions, OBJECT_META, Served};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
/// What operations speak besides their own kind.
const SHARED: [&str; 4] = ["DeleteOptions", "Patch", "Status", "WatchEvent"];

/// Whether a definition is that kind.
pub(super) fn is_kind(name: &str, gvk: &GroupVersionKind) -> bool {
    let same = |served: &GroupVersion| served.group == gvk.group && served.version == gvk.version;
    matches!(Definitions::builtin().served(name), Some(Served::In(versions)) if versions.iter().any(same))
}

/// The definitions of a document about `apis`.
pub(super) fn of(apis: &[Api], version: Version) -> Map<String, Value> {
    let mut names: BTreeSet<String> = SHARED.iter().map(|name| format!("{META}{name}")).collect();
    names.insert(format!("{META}APIResourceList"));
    let items = || apis.iter().flat_map(|api| &api.resources);
    for item in items() {
        if item.custom.is_some() {
            names.extend([OBJECT_META.to_owned(), format!("{META}ListMeta")]);
        } else {
            names.insert(item.definition.clone());
            names.insert(format!("{}List", item.definition));
        }
        names.extend(item.subresources.iter().filter_map(|sub| sub.gvk.as_ref()).filter_map(definition_of));
    }
    let mut schemas = write(&names, apis, version);
    for item in items() {
        schemas.extend(of_custom(item, version));
    }
    schemas
}

/// The definitions of a document about discovery paths only.
pub(super) fn roots(apis: &[Api], version: Version) -> Map<String, Value> {
    let names = ["APIGroup", "APIGroupList", "APIVersions"].iter().map(|name| format!("{META}{name}")).collect();
    write(&names, apis, version)
}

fn write(names: &BTreeSet<String>, apis: &[Api], version: Version) -> Map<String, Value> {
    let definitions = Definitions::builtin();
    let arena = definitions.arena();
    let reached = reach(arena, names);
    let described = describe::of(&reached.iter().map(|id| arena.node(*id).name.clone()).collect());
    let writer = Writer { definitions, arena, version, apis, described };
    reached.iter().map(|id| (arena.node(*id).name.clone(), writer.definition(*id))).collect()
}

/// The named definitions and all they refer to.
fn reach(arena: &Arena, names: &BTreeSet<String>) -> Vec<Id> {
    let mut found = BTreeMap::new();
    let mut open: Vec<Id> = names.iter().filter_map(|name| arena.find(name)).collect();
    while let Some(id) = open.pop() {
        if found.insert(id, ()).is_some() {
            continue;
        }
        match &arena.node(id).kind {
            Kind::Object(fields) => open.extend(fields.iter().map(|field| field.node)),
            Kind::Map(inner) | Kind::Array(inner) | Kind::ObjectOr(inner) => open.push(*inner),
            _ => {}
        }
    }
    found.into_keys().filter(|id| !arena.node(*id).name.is_empty()).collect()
}

struct Writer<'a> {
    definitions: &'a Definitions,
    arena: &'a Arena,
    version: Version,
    apis: &'a [Api],
    described: Descriptions,
}

impl Writer<'_> {
    fn definition(&self, id: Id) -> Value {
        let node = self.arena.node(id);
        let mut out = self.body(node);
        let description = self.described.get(&node.name).map(|(text, _)| text.clone()).unwrap_or_default();
        let description = if description.is_empty() { fallback(&node.name) } else { description };
        if !description.is_empty() {
            out.insert("description".into(), description.into());
        }
        if node.atomic {
            out.insert("x-kubernetes-map-type".into(), "atomic".into());
        }
        if !node.unions.is_empty() {
            out.insert("x-kubernetes-unions".into(), node.unions.iter().map(union).collect());
        }
        if let Some(kinds) = self.kinds(&node.name) {
            out.insert("x-kubernetes-group-version-kind".into(), kinds);
        }
        Value::Object(out)
    }

    /// The groups and versions the definition is a kind of, as far as this document is about them.
    fn kinds(&self, name: &str) -> Option<Value> {
        let kind = name.rsplit('.').next().unwrap_or_default();
        let one = |group: &str, version: &str| json!({"group": group, "kind": kind, "version": version});
        match self.definitions.served(name)? {
            Served::In(versions) => Some(versions.iter().map(|served| one(&served.group, &served.version)).collect()),
            Served::Everywhere => {
                let mut versions = BTreeSet::from([("", "v1")]);
                versions.extend(self.apis.iter().map(|api| (&*api.group, &*api.version)));
                Some(versions.into_iter().map(|(group, version)| one(group, version)).collect())
            }
        }
    }

    /// The schema of a type, without what belongs to the place where it is used.
    fn body(&self, node: &Node) -> Map<String, Value> {
        let v2 = self.version == Version::V2;
        let body = match &node.kind {
            Kind::Any | Kind::ObjectOr(_) => json!({}),
            Kind::AnyObject => json!({"type": "object"}),
            Kind::Object(fields) => self.object(&node.name, fields),
            Kind::Map(inner) => {
                json!({"type": "object", "additionalProperties": self.inline(*inner)})
            }
            Kind::Array(inner) => json!({"type": "array", "items": self.inline(*inner)}),
            Kind::String => json!({"type": "string"}),
            Kind::Int32 => json!({"type": "integer", "format": "int32"}),
            Kind::Int64 => json!({"type": "integer", "format": "int64"}),
            Kind::Number => json!({"type": "number", "format": "double"}),
            Kind::Boolean => json!({"type": "boolean"}),
            Kind::IntOrString if v2 => json!({"type": "string", "format": "int-or-string"}),
            Kind::IntOrString => {
                json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
            }
            Kind::Quantity if v2 => json!({"type": "string"}),
            Kind::Quantity => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
            Kind::Time | Kind::MicroTime => json!({"type": "string", "format": "date-time"}),
            Kind::Bytes => json!({"type": "string", "format": "byte"}),
        };
        match body {
            Value::Object(body) => body,
            _ => Map::new(),
        }
    }

    /// A type where it is used: a reference if it has a name.
    fn inline(&self, id: Id) -> Value {
        let node = self.arena.node(id);
        if node.name.is_empty() { Value::Object(self.body(node)) } else { reference(&node.name, self.version) }
    }

    fn object(&self, name: &str, fields: &[Field]) -> Value {
        let mut out = Map::from_iter([("type".to_owned(), Value::from("object"))]);
        if !fields.is_empty() {
            let properties = fields.iter().map(|field| (field.name.clone(), self.field(name, field)));
            out.insert("properties".into(), Value::Object(properties.collect()));
        }
        let required = match self.definitions.required_order(name) {
            Some(order) => order.to_vec(),
            None => fields.iter().filter(|field| field.required).map(|field| field.name.clone()).collect(),
        };
        if !required.is_empty() {
            out.insert("required".into(), required.into());
        }
        Value::Object(out)
    }

    fn field(&self, owner: &str, field: &Field) -> Value {
        let node = self.arena.node(field.node);
        let described = self.described.get(owner).and_then(|(_, fields)| fields.get(&field.name));
        let description = described.filter(|text| !text.is_empty());
        let mut out = match (node.name.is_empty(), self.version) {
            (true, _) => self.body(node),
            (false, Version::V2) => Map::from_iter([("$ref".to_owned(), reference(&node.name, Version::V2)["$ref"].clone())]),
            // A reference takes no siblings in version 3.
            (false, Version::V3) => Map::from_iter([("allOf".to_owned(), json!([reference(&node.name, Version::V3)]))]),
        };
        if let Some(text) = description {
            out.insert("description".into(), text.clone().into());
        }
        if let Some(default) = field.default.clone().filter(|_| self.version == Version::V3) {
            out.insert("default".into(), default);
        }
        allow(&mut out, &field.allowed);
        extend(&mut out, node, field);
        Value::Object(out)
    }
}

/// Puts the allowed values where texts are: at the field, or at a list's items.
fn allow(out: &mut Map<String, Value>, allowed: &[String]) {
    if allowed.is_empty() {
        return;
    }
    match out.get_mut("items").and_then(Value::as_object_mut) {
        Some(items) => items.insert("enum".into(), allowed.into()),
        None => out.insert("enum".into(), allowed.into()),
    };
}

fn extend(out: &mut Map<String, Value>, node: &Node, field: &Field) {
    if node.list_stated {
        let (list, keys) = match &node.list {
            ListType::Atomic => ("atomic", None),
            ListType::Set => ("set", None),
            ListType::Map(keys) => ("map", Some(keys)),
        };
        out.insert("x-kubernetes-list-type".into(), list.into());
        if let Some(keys) = keys {
            out.insert("x-kubernetes-list-map-keys".into(), keys.clone().into());
        }
    }
    if node.atomic && node.name.is_empty() {
        out.insert("x-kubernetes-map-type".into(), "atomic".into());
    }
    let patch = &field.patch;
    let strategies = [(patch.merge, "merge"), (patch.retain_keys, "retainKeys"), (patch.replace, "replace")];
    let strategies: Vec<_> = strategies.into_iter().filter(|(on, _)| *on).map(|(_, name)| name).collect();
    if !strategies.is_empty() {
        out.insert("x-kubernetes-patch-strategy".into(), strategies.join(",").into());
    }
    if !patch.merge_key.is_empty() {
        out.insert("x-kubernetes-patch-merge-key".into(), patch.merge_key.clone().into());
    }
}

fn union(union: &Union) -> Value {
    let fields: Map<String, Value> = union.fields.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
    let mut out = Map::from_iter([("fields-to-discriminateBy".to_owned(), Value::Object(fields))]);
    if !union.discriminator.is_empty() {
        out.insert("discriminator".into(), union.discriminator.clone().into());
    }
    Value::Object(out)
}

/// A description for what upstream's schema source leaves undescribed here.
fn fallback(definition: &str) -> String {
    let name = definition.rsplit('.').next().unwrap_or_default();
    match name.strip_suffix("List").filter(|_| Definitions::builtin().served(definition).is_some()) {
        Some(kind) => format!("{name} is a list of {kind} objects."),
        None => String::new(),
    }
}

/// The definitions of a custom resource and its list: the author's schema, with type and metadata.
fn of_custom(item: &Item, version: Version) -> Vec<(String, Value)> {
    let Some(written) = &item.custom else {
        return Vec::new();
    };
    let mut object = match version {
        Version::V2 => custom::v2(&written.value()),
        Version::V3 => written.value(),
    };
    let Some(object) = object.as_object_mut() else { return Vec::new() };
    object.insert("type".into(), "object".into());
    let properties = object.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        properties.insert("apiVersion".into(), json!({"type": "string", "description": "Version of the schema of this object."}));
        properties.insert("kind".into(), json!({"type": "string", "description": "Kind of this object."}));
        properties.insert("metadata".into(), referring(OBJECT_META, version));
    }
    object.insert("x-kubernetes-group-version-kind".into(), kind_of(item, &item.gvk.kind));
    let list_kind = format!("{}List", item.gvk.kind);
    let list = json!({
        "description": format!("{list_kind} is a list of {} objects.", item.gvk.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": referring(&format!("{META}ListMeta"), version),
            "items": {"type": "array", "items": reference(&item.definition, version)},
        },
        "x-kubernetes-group-version-kind": kind_of(item, &list_kind),
    });
    vec![(item.definition.clone(), Value::Object(object.clone())), (format!("{}List", item.definition), list)]
}

fn referring(name: &str, version: Version) -> Value {
    match version {
        Version::V2 => reference(name, version),
        Version::V3 => json!({"allOf": [reference(name, version)]}),
    }
}

fn kind_of(item: &Item, kind: &str) -> Value {
    json!([{"group": item.gvk.group, "version": item.gvk.version, "kind": kind}])
}
