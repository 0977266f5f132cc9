//! OpenAPI documents: one of version 3 per group and version, and one of version 2 for everything.
//!
//! All functions are pure: what is served, as [`Api`]s, in; bytes out. Documents are built when first asked for; their hashes, which the
//! index needs at once, are taken from what goes into them.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{Arc, OnceLock},
};

use apimachinery::gvk::GroupVersionKind;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::schema::{Definitions, Written};

mod custom;
pub(crate) mod describe;
pub(crate) mod foreign;
mod operation;
mod parameters;
mod paths;
pub(crate) mod proto;
mod schemas;

/// Which version of OpenAPI a document is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// Swagger 2.0.
    V2,
    /// OpenAPI 3.0.
    V3,
}

/// One group and version with its resources, as documents need it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Api {
    /// Group; empty for core.
    pub(crate) group: String,
    /// Version.
    pub(crate) version: String,
    /// Its resources, in any order.
    pub(crate) resources: Vec<Item>,
    /// The hash, once somebody has asked for it.
    pub(crate) hash: OnceLock<String>,
}

/// One resource.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    /// Path segment.
    pub(crate) plural: String,
    /// Kind, with its group and version.
    pub(crate) gvk: GroupVersionKind,
    /// Definition of the kind.
    pub(crate) definition: String,
    /// Whether objects live in namespaces.
    pub(crate) namespaced: bool,
    /// Verbs.
    pub(crate) verbs: Vec<String>,
    /// What hangs below objects.
    pub(crate) subresources: Vec<Sub>,
    /// The schema as its author wrote it, of a custom resource.
    pub(crate) custom: Option<Arc<Written>>,
}

/// One subresource.
#[derive(Debug, Clone)]
pub(crate) struct Sub {
    /// Path segment.
    pub(crate) name: String,
    /// Verbs.
    pub(crate) verbs: Vec<String>,
    /// Kind that is read and written; `None` for the parent's.
    pub(crate) gvk: Option<GroupVersionKind>,
}

impl Api {
    /// The document's path below `/openapi/v3/`: `apis/apps/v1`, `api/v1`.
    pub(crate) fn path(&self) -> String {
        if self.group.is_empty() { format!("api/{}", self.version) } else { format!("apis/{}/{}", self.group, self.version) }
    }

    /// A hash of all that goes into the document. Upper-case hex, as upstream writes them.
    pub(crate) fn hash(&self) -> String {
        let find_out = || {
            let mut hasher = Sha256::new();
            hasher.update(env!("CARGO_PKG_VERSION"));
            hasher.update(format!("{} {} {:?}", self.group, self.version, self.resources));
            hex(&hasher.finalize())
        };
        self.hash.get_or_init(find_out).clone()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        _ = write!(out, "{byte:02X}");
        out
    })
}

/// Documents of version 3 that describe a discovery path only, by their path below `/openapi/v3/`.
fn root_paths(apis: &[Api]) -> Vec<String> {
    let mut paths: Vec<String> = ["api", "apis", "version", ".well-known/openid-configuration", "openid/v1/jwks"].map(Into::into).into();
    let groups: std::collections::BTreeSet<_> = apis.iter().map(|api| &api.group).filter(|group| !group.is_empty()).collect();
    paths.extend(groups.into_iter().map(|group| format!("apis/{group}")));
    paths
}

/// `/openapi/v3`: where each document is, with a hash that changes with it; `others` are entries about documents of others.
pub(crate) fn index(apis: &[Api], others: Vec<(String, Value)>) -> Vec<u8> {
    let mut paths = Map::new();
    let mut add = |path: String, hash: String| {
        paths.insert(path.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")}));
    };
    for path in root_paths(apis) {
        let hash = hex(&Sha256::digest(format!("{} {path}", env!("CARGO_PKG_VERSION"))));
        add(path, hash);
    }
    for api in apis {
        add(api.path(), api.hash());
    }
    paths.extend(others);
    json!({"paths": paths}).to_string().into_bytes()
}

/// `/openapi/v3/PATH`: one document, with its hash; `None` if there is none of that path.
pub(crate) fn document(apis: &[Api], path: &str) -> Option<(Vec<u8>, String)> {
    if let Some(api) = apis.iter().find(|api| api.path() == path) {
        return Some((group_version(api), api.hash()));
    }
    let root = root_paths(apis).into_iter().find(|root| root == path)?;
    let document = assemble_v3(paths::root(&root, Version::V3), schemas::roots(&[], Version::V3));
    let hash = hex(&Sha256::digest(format!("{} {path}", env!("CARGO_PKG_VERSION"))));
    Some((document.to_string().into_bytes(), hash))
}

fn group_version(api: &Api) -> Vec<u8> {
    let paths = paths::of(api, Version::V3);
    let schemas = schemas::of(std::slice::from_ref(api), Version::V3);
    assemble_v3(paths, schemas).to_string().into_bytes()
}

fn assemble_v3(paths: Map<String, Value>, schemas: Map<String, Value>) -> Value {
    json!({
        "openapi": "3.0.0",
        "info": info(),
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"BearerToken": bearer_token()}},
    })
}

fn info() -> Value {
    json!({"title": "Kubernetes", "version": "v1.36.2"})
}

fn bearer_token() -> Value {
    json!({"description": "Bearer Token authentication", "type": "apiKey", "name": "authorization", "in": "header"})
}

/// `/openapi/v2`: everything in one document of version 2, with the parts that others have written.
pub(crate) fn swagger(apis: &[Api], others: &[&Value]) -> Vec<u8> {
    everything(apis, others).to_string().into_bytes()
}

/// [`swagger`] as protobuf, of type [`proto::CONTENT_TYPE`].
pub(crate) fn swagger_proto(apis: &[Api], others: &[&Value]) -> Vec<u8> {
    proto::write(&everything(apis, others))
}

fn everything(apis: &[Api], others: &[&Value]) -> Value {
    let mut paths = Map::new();
    for api in apis {
        paths.extend(paths::of(api, Version::V2));
    }
    for path in root_paths(apis) {
        paths.extend(paths::root(&path, Version::V2));
    }
    let mut definitions = schemas::of(apis, Version::V2);
    definitions.extend(schemas::roots(apis, Version::V2));
    let mut document = json!({
        "swagger": "2.0",
        "info": info(),
        "paths": paths,
        "definitions": definitions,
        "securityDefinitions": {"BearerToken": bearer_token()},
        "security": [{"BearerToken": []}],
    });
    others.iter().for_each(|part| foreign::merge(&mut document, part));
    document
}

/// The definition of a kind that a subresource speaks: one of this server's tables.
fn definition_of(gvk: &GroupVersionKind) -> Option<String> {
    let definitions = Definitions::builtin();
    let ending = format!(".{}.{}", gvk.version, gvk.kind);
    definitions.arena().names().find(|name| name.ends_with(&ending) && schemas::is_kind(name, gvk)).map(str::to_owned)
}

/// A reference to a definition, as the version writes it.
fn reference(name: &str, version: Version) -> Value {
    let place = if version == Version::V2 { "#/definitions/" } else { "#/components/schemas/" };
    json!({"$ref": format!("{place}{name}")})
}

/// Descriptions by definition, and by field there.
type Descriptions = BTreeMap<String, (String, BTreeMap<String, String>)>;

#[cfg(test)]
mod tests;
