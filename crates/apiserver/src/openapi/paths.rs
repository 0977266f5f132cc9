//! The paths of a group and version, with their operations.

use apimachinery::gvk::GroupVersionKind;
use serde_json::{Map, Value, json};

use super::{
    Api, Item, Sub, Version, definition_of,
    operation::{Action, Operation},
    parameters, reference,
};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// All paths of a group and version.
pub(super) fn of(api: &Api, version: Version) -> Map<String, Value> {
    let writer = Writer { api, version, root: format!("/{}", api.path()), tag: tag(&api.group, &api.version), title: title(api) };
    let mut out = Map::new();
    out.insert(format!("{}/", writer.root), writer.discovery());
    for item in &api.resources {
        writer.resource(item, &mut out);
    }
    out
}

/// The path of a document that describes discovery only.
pub(super) fn root(path: &str, version: Version) -> Map<String, Value> {
    let described = path == "api" || path == "apis" || path.starts_with("apis/");
    let definition = match path {
        "api" => "APIVersions",
        "apis" => "APIGroupList",
        _ => "APIGroup",
    };
    let url = if described { format!("/{path}/") } else { format!("/{path}") };
    let definition = described.then(|| format!("{META}{definition}"));
    let gvk = GroupVersionKind::default();
    let operation = Operation {
        action: Action::Get,
        id: format!("get{}", camel(path)),
        description: format!("get what is at /{path}"),
        tag: path.rsplit('/').next().unwrap_or(path),
        gvk: &gvk,
        definition: definition.as_deref(),
        strategic: false,
    };
    let mut get = operation.write(version);
    if let Some(get) = get.as_object_mut() {
        get.remove("x-kubernetes-action");
        get.remove("x-kubernetes-group-version-kind");
    }
    Map::from_iter([(url, json!({"get": get}))])
}

/// `apps_v1`, `core_v1`, `rbacAuthorization_v1`.
fn tag(group: &str, version: &str) -> String {
    let name = camel(&group_name(group));
    let mut chars = name.chars();
    let first = chars.next().map(|c| c.to_ascii_lowercase());
    format!("{}{}_{version}", first.map(String::from).unwrap_or_default(), chars.as_str())
}

/// The group without the part all of Kubernetes' own share.
fn group_name(group: &str) -> String {
    match group {
        "" => "core".into(),
        _ => group.strip_suffix(".k8s.io").unwrap_or(group).to_owned(),
    }
}

/// `AppsV1`, `RbacAuthorizationV1`.
fn title(api: &Api) -> String {
    format!("{}{}", camel(&group_name(&api.group)), camel(&api.version))
}

fn camel(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(|word| format!("{}{}", word[..1].to_ascii_uppercase(), &word[1..])).collect()
}

struct Writer<'a> {
    api: &'a Api,
    version: Version,
    root: String,
    tag: String,
    title: String,
}

/// Where in the tree of paths an operation is.
#[derive(Clone, Copy)]
struct Place<'a> {
    item: &'a Item,
    sub: Option<&'a Sub>,
    scoped: bool,
}

impl Writer<'_> {
    fn discovery(&self) -> Value {
        let list = reference(&format!("{META}APIResourceList"), self.version);
        let response = match self.version {
            Version::V2 => json!({"description": "OK", "schema": list}),
            Version::V3 => {
                json!({"description": "OK", "content": {"application/json": {"schema": list}}})
            }
        };
        json!({"get": {
            "description": "get available resources",
            "operationId": format!("get{}APIResources", self.title),
            "tags": [self.tag],
            "responses": {"200": response, "401": {"description": "Unauthorized"}},
        }})
    }

    fn resource(&self, item: &Item, out: &mut Map<String, Value>) {
        let place = Place { item, sub: None, scoped: item.namespaced };
        let collection = self.collection_path(item);
        let verbs = verbs(&item.verbs, &[("list", Action::List), ("create", Action::Post), ("deletecollection", Action::DeleteCollection)]);
        self.add(collection.clone(), place, &verbs, out);
        let verbs = [("get", Action::Get), ("update", Action::Put), ("patch", Action::Patch), ("delete", Action::Delete)];
        self.add(format!("{collection}/{{name}}"), place, &self::verbs(&item.verbs, &verbs), out);
        if item.namespaced {
            let everywhere = Place { scoped: false, ..place };
            self.add(format!("{}/{}", self.root, item.plural), everywhere, &self::verbs(&item.verbs, &[("list", Action::List)]), out);
        }
        for sub in &item.subresources {
            let connects = definition(item, Some(sub)).is_none() && sub.verbs.iter().any(|verb| verb == "get" || verb == "create");
            let actions: &[_] = if connects {
                &[("get", Action::Connect), ("create", Action::Connect)]
            } else {
                &[("get", Action::Get), ("create", Action::Post), ("update", Action::Put), ("patch", Action::Patch)]
            };
            let place = Place { sub: Some(sub), ..place };
            let path = format!("{collection}/{{name}}/{}", sub.name);
            self.add(path, place, &self::verbs(&sub.verbs, actions), out);
        }
    }

    fn collection_path(&self, item: &Item) -> String {
        let scope = if item.namespaced { "/namespaces/{namespace}" } else { "" };
        format!("{}{scope}/{}", self.root, item.plural)
    }

    fn add(&self, path: String, place: Place<'_>, actions: &[(&str, Action)], out: &mut Map<String, Value>) {
        if actions.is_empty() {
            return;
        }
        let mut operations = Map::new();
        for (verb, action) in actions {
            operations.insert(method(verb).to_owned(), self.operation(place, verb, *action));
        }
        operations.insert("parameters".into(), self.parameters(&path, place).into());
        out.insert(path, Value::Object(operations));
    }

    fn parameters(&self, path: &str, place: Place<'_>) -> Vec<Value> {
        let mut parameters = Vec::new();
        if path.contains("{name}") {
            parameters.push(parameters::path("name", &format!("name of the {}", place.item.gvk.kind), self.version));
        }
        if path.contains("{namespace}") {
            parameters.push(parameters::path("namespace", "namespace of the object", self.version));
        }
        parameters.extend(parameters::COMMON.iter().map(|query| parameters::query(query, self.version)));
        parameters
    }

    fn operation(&self, place: Place<'_>, verb: &str, action: Action) -> Value {
        let item = place.item;
        let kind = &item.gvk.kind;
        let sub = place.sub.map(|sub| camel(&sub.name)).unwrap_or_default();
        let scope = if place.scoped { "Namespaced" } else { "" };
        let everywhere = if item.namespaced && !place.scoped { "ForAllNamespaces" } else { "" };
        let (word, collection) = match verb {
            "get" if action == Action::Connect => ("connectGet", ""),
            "create" if action == Action::Connect => ("connectPost", ""),
            "get" => ("read", ""),
            "update" => ("replace", ""),
            "deletecollection" => ("delete", "Collection"),
            other => (other, ""),
        };
        let gvk = place.sub.and_then(|sub| sub.gvk.as_ref()).unwrap_or(&item.gvk);
        let definition = definition(item, place.sub);
        let operation = Operation {
            action,
            id: format!("{word}{}{collection}{scope}{kind}{sub}{everywhere}", self.title),
            description: description(verb, kind, place.sub),
            tag: &self.tag,
            gvk,
            definition: definition.as_deref(),
            strategic: item.custom.is_none(),
        };
        debug_assert_eq!(item.gvk.version, self.api.version);
        operation.write(self.version)
    }
}

fn verbs<'a>(served: &[String], wanted: &[(&'a str, Action)]) -> Vec<(&'a str, Action)> {
    wanted.iter().filter(|(verb, _)| served.iter().any(|other| other == verb)).copied().collect()
}

fn method(verb: &str) -> &'static str {
    match verb {
        "create" => "post",
        "update" => "put",
        "patch" => "patch",
        "delete" | "deletecollection" => "delete",
        _ => "get",
    }
}

/// The definition a path speaks; `None` where a subresource speaks no object.
fn definition(item: &Item, sub: Option<&Sub>) -> Option<String> {
    match sub.and_then(|sub| sub.gvk.as_ref()) {
        None => Some(item.definition.clone()),
        Some(gvk) if *gvk == item.gvk => Some(item.definition.clone()),
        Some(gvk) => definition_of(gvk),
    }
}

fn description(verb: &str, kind: &str, sub: Option<&Sub>) -> String {
    let of = sub.map(|sub| format!("{} of ", sub.name)).unwrap_or_default();
    match verb {
        "list" => format!("list or watch objects of kind {kind}"),
        "create" => format!("create {of}a {kind}"),
        "update" => format!("replace {of}the specified {kind}"),
        "patch" => format!("partially update {of}the specified {kind}"),
        "delete" => format!("delete a {kind}"),
        "deletecollection" => format!("delete collection of {kind}"),
        _ => format!("read {of}the specified {kind}"),
    }
}
