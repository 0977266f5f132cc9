//! One operation of a path.

use apimachinery::gvk::GroupVersionKind;
use serde_json::{Map, Value, json};

use super::{Version, parameters, reference};

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const STREAMS: [&str; 2] = ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Reads one object.
    Get,
    /// Lists or watches.
    List,
    /// Creates.
    Post,
    /// Replaces.
    Put,
    /// Patches.
    Patch,
    /// Deletes one object.
    Delete,
    /// Deletes all.
    DeleteCollection,
    /// Speaks another protocol than objects (exec, proxy).
    Connect,
}

/// All that is said about one operation.
pub(super) struct Operation<'a> {
    pub(super) action: Action,
    /// `readAppsV1NamespacedDeployment`.
    pub(super) id: String,
    pub(super) description: String,
    /// `apps_v1`.
    pub(super) tag: &'a str,
    pub(super) gvk: &'a GroupVersionKind,
    /// Definition of what is read and written; `None` where that is no object.
    pub(super) definition: Option<&'a str>,
    /// The media types a patch may have beyond JSON patch and merge patch.
    pub(super) strategic: bool,
}

impl Action {
    fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Post => "post",
            Self::Put => "put",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Connect => "connect",
        }
    }
}

impl Operation<'_> {
    /// The operation as the version writes it.
    pub(super) fn write(&self, version: Version) -> Value {
        let mut out = Map::from_iter([
            ("description".to_owned(), Value::from(self.description.clone())),
            ("operationId".to_owned(), self.id.clone().into()),
            ("tags".to_owned(), json!([self.tag])),
            ("x-kubernetes-action".to_owned(), self.action.name().into()),
            (
                "x-kubernetes-group-version-kind".to_owned(),
                json!({"group": self.gvk.group, "version": self.gvk.version, "kind": self.gvk.kind}),
            ),
        ]);
        let mut queries = self.queries(version);
        let body = self.body(version);
        if version == Version::V2 {
            queries.extend(body.map(|schema| json!({"name": "body", "in": "body", "required": true, "schema": schema})));
            self.media_v2(&mut out);
        } else if let Some(schema) = body {
            out.insert("requestBody".into(), self.request_v3(&schema));
        }
        if !queries.is_empty() {
            out.insert("parameters".into(), queries.into());
        }
        out.insert("responses".into(), self.responses(version));
        Value::Object(out)
    }

    fn queries(&self, version: Version) -> Vec<Value> {
        let table: &[&[_]] = match self.action {
            Action::Get | Action::Connect => &[],
            Action::List => &[parameters::LIST],
            Action::Post | Action::Put => &[parameters::WRITE],
            Action::Patch => &[parameters::PATCH],
            Action::Delete => &[parameters::DELETE],
            Action::DeleteCollection => &[parameters::DELETE, parameters::LIST],
        };
        let all = table.iter().flat_map(|part| part.iter());
        let all = all.filter(|(name, ..)| self.action != Action::DeleteCollection || !name.to_lowercase().contains("watch"));
        all.map(|query| parameters::query(query, version)).collect()
    }

    /// The schema of the body.
    fn body(&self, version: Version) -> Option<Value> {
        match self.action {
            Action::Post | Action::Put => self.definition.map(|name| reference(name, version)),
            Action::Patch => Some(reference(&format!("{META}Patch"), version)),
            Action::Delete | Action::DeleteCollection => Some(reference(&format!("{META}DeleteOptions"), version)),
            _ => None,
        }
    }

    fn patch_types(&self) -> Vec<&'static str> {
        let mut types = vec!["application/json-patch+json", "application/merge-patch+json"];
        if self.strategic {
            types.push("application/strategic-merge-patch+json");
        }
        types.push("application/apply-patch+yaml");
        types
    }

    fn request_v3(&self, schema: &Value) -> Value {
        let media = json!({"schema": schema});
        match self.action {
            Action::Patch => {
                let content: Map<String, Value> = self.patch_types().into_iter().map(|kind| (kind.into(), media.clone())).collect();
                json!({"content": content, "required": true})
            }
            Action::Delete | Action::DeleteCollection => json!({"content": {"*/*": media}}),
            _ => json!({"content": {"*/*": media}, "required": true}),
        }
    }

    fn answers(&self) -> Vec<&'static str> {
        let streams: &[_] = if self.action == Action::List { &STREAMS } else { &[] };
        [JSON, YAML, PROTOBUF].iter().chain(streams).copied().collect()
    }

    fn media_v2(&self, out: &mut Map<String, Value>) {
        let consumes = if self.action == Action::Patch { self.patch_types() } else { vec!["*/*"] };
        let produces = if self.action == Action::Connect { vec!["*/*"] } else { self.answers() };
        out.insert("consumes".into(), consumes.into());
        out.insert("produces".into(), produces.into());
        out.insert("schemes".into(), json!(["https"]));
    }

    fn responses(&self, version: Version) -> Value {
        let codes: &[(&str, &str)] = match self.action {
            Action::Post => &[("200", "OK"), ("201", "Created"), ("202", "Accepted")],
            Action::Put | Action::Patch => &[("200", "OK"), ("201", "Created")],
            Action::Delete => &[("200", "OK"), ("202", "Accepted")],
            _ => &[("200", "OK")],
        };
        let mut out = Map::new();
        for (code, text) in codes {
            out.insert((*code).to_owned(), self.response(text, version));
        }
        out.insert("401".into(), json!({"description": "Unauthorized"}));
        Value::Object(out)
    }

    fn response(&self, text: &str, version: Version) -> Value {
        let status = format!("{META}Status");
        let list;
        let definition = match (self.action, self.definition) {
            (Action::Connect, _) | (_, None) => None,
            (Action::DeleteCollection, _) => Some(status.as_str()),
            (Action::Delete, Some(_)) => Some(status.as_str()),
            (Action::List, Some(name)) => {
                list = format!("{name}List");
                Some(list.as_str())
            }
            (_, name) => name,
        };
        let schema = match definition {
            Some(name) => reference(name, version),
            None => json!({"type": "string"}),
        };
        match version {
            Version::V2 => json!({"description": text, "schema": schema}),
            Version::V3 => {
                let types = if definition.is_none() { vec!["*/*"] } else { self.answers() };
                let content: Map<String, Value> = types.into_iter().map(|kind| (kind.into(), json!({"schema": schema}))).collect();
                json!({"description": text, "content": content})
            }
        }
    }
}
