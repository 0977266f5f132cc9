//! What is served: `/api`, `/apis` and below, in the old form and the aggregated one.

use axum::{body::Body, response::Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::shown::{By, ShownGroup, ShownVersion};
use crate::{
    negotiate::{Negotiated, bytes_response},
    registry::{
        Resource, Subresource,
        catalog::{GroupEntry, VersionEntry},
    },
};

/// `/api`: the core group's versions.
pub(crate) fn core_versions(groups: &[ShownGroup<'_>], advertise: &str) -> Value {
    let core = groups.iter().find(|group| group.name.is_empty());
    let versions: Vec<_> = core.into_iter().flat_map(|group| &group.versions).map(|version| version.version.as_str()).collect();
    json!({
        "kind": "APIVersions", "versions": versions,
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": advertise}],
    })
}

/// `/apis`: all groups.
pub(crate) fn groups(groups: &[ShownGroup<'_>]) -> Value {
    let groups: Vec<_> = groups.iter().filter(|group| !group.name.is_empty()).map(bare_group).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`.
pub(crate) fn group(group: &ShownGroup<'_>) -> Value {
    let mut value = bare_group(group);
    value["kind"] = "APIGroup".into();
    value["apiVersion"] = "v1".into();
    value
}

fn bare_group(group: &ShownGroup<'_>) -> Value {
    let version = |v: &ShownVersion<'_>| json!({"groupVersion": format!("{}/{}", group.name, v.version), "version": v.version});
    let versions: Vec<_> = group.versions.iter().map(version).collect();
    json!({"name": group.name, "versions": versions, "preferredVersion": versions.first()})
}

/// `/api/v1`, `/apis/GROUP/VERSION`.
pub(crate) fn resources(entry: &GroupEntry, version: &VersionEntry) -> Value {
    let group_version = if entry.name.is_empty() { version.version.clone() } else { format!("{}/{}", entry.name, version.version) };
    let mut resources: Vec<Value> = Vec::new();
    for served in &version.resources {
        resources.push(resource(&served.resource));
        resources.extend(served.resource.shown_subresources().map(|s| subresource(&served.resource, s)));
    }
    resources.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources})
}

fn resource(resource: &Resource) -> Value {
    let mut value = json!({
        "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": resource.kind, "verbs": resource.shown_verbs(),
    });
    add_names(&mut value, resource);
    if resource.serves("watch") {
        value["storageVersionHash"] = storage_hash(resource).into();
    }
    value
}

fn add_names(value: &mut Value, resource: &Resource) {
    if !resource.short_names.is_empty() {
        value["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        value["categories"] = json!(resource.categories);
    }
}

/// Changes whenever the stored version does.
fn storage_hash(resource: &Resource) -> String {
    use base64::Engine as _;
    let digest = Sha256::digest(resource.stored.to_string());
    base64::engine::general_purpose::STANDARD.encode(&digest[..8])
}

fn subresource(parent: &Resource, sub: &Subresource) -> Value {
    let mut value = json!({
        "name": format!("{}/{}", parent.plural, sub.name), "singularName": "", "namespaced": parent.namespaced,
        "kind": sub.kind.as_ref().map_or(&parent.kind, |k| &k.kind), "verbs": sub.verbs,
    });
    if let Some(kind) = foreign(parent, sub) {
        value["group"] = kind.group.as_str().into();
        value["version"] = kind.version.as_str().into();
    }
    value
}

/// The subresource's kind where it is of another group or version than the resource.
fn foreign<'a>(parent: &Resource, sub: &'a Subresource) -> Option<&'a apimachinery::gvk::GroupVersionKind> {
    sub.kind.as_ref().filter(|k| k.group_version() != parent.gvk().group_version())
}

/// The aggregated form of `/api` (the core group) or `/apis` (the others).
pub(crate) fn aggregated(groups: &[ShownGroup<'_>], core: bool, version: &str) -> Value {
    let items: Vec<_> = groups.iter().filter(|group| group.name.is_empty() == core).map(aggregated_group).collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"), "metadata": {}, "items": items})
}

fn aggregated_group(group: &ShownGroup<'_>) -> Value {
    let versions: Vec<_> = group.versions.iter().map(aggregated_version).collect();
    let metadata = if group.name.is_empty() { json!({}) } else { json!({"name": group.name}) };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_version(shown: &ShownVersion<'_>) -> Value {
    let ours = match &shown.by {
        By::Us(version) => version,
        By::Other(discovered) => return discovered.shown(&shown.version),
    };
    let mut resources: Vec<_> = ours.resources.iter().map(|s| aggregated_resource(&s.resource)).collect();
    resources.sort_by(|a, b| a["resource"].as_str().cmp(&b["resource"].as_str()));
    json!({"version": shown.version, "freshness": "Current", "resources": resources})
}

fn aggregated_resource(resource: &Resource) -> Value {
    let mut value = json!({
        "resource": resource.plural, "singularResource": resource.singular,
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "responseKind": response_kind(resource, None), "verbs": resource.shown_verbs(),
    });
    add_names(&mut value, resource);
    if resource.shown_subresources().next().is_some() {
        value["subresources"] = resource.shown_subresources().map(|s| aggregated_subresource(resource, s)).collect();
    }
    value
}

fn aggregated_subresource(parent: &Resource, sub: &Subresource) -> Value {
    json!({"subresource": sub.name, "responseKind": response_kind(parent, Some(sub)), "verbs": sub.verbs})
}

/// The kind answered: upstream leaves out the group and version of built-in kinds where they are the resource's own.
fn response_kind(parent: &Resource, sub: Option<&Subresource>) -> Value {
    let own = parent.gvk();
    let kind = sub.and_then(|sub| sub.kind.as_ref()).unwrap_or(&own);
    let named = parent.is_custom() || kind.group_version() != own.group_version();
    let (group, version) = if named { (kind.group.as_str(), kind.version.as_str()) } else { ("", "") };
    json!({"group": group, "version": version, "kind": kind.kind})
}

/// The version of the aggregated form a client accepts first, if it accepts it before the old one.
pub(crate) fn wants_aggregated(headers: &HeaderMap) -> Option<&'static str> {
    let accept = headers.get(header::ACCEPT)?.to_str().ok()?;
    for clause in accept.split(',') {
        let parts: Vec<_> = clause.split(';').map(str::trim).collect();
        let has = |p: &str| parts.contains(&p);
        if has("g=apidiscovery.k8s.io") && has("as=APIGroupDiscoveryList") && parts[0] == "application/json" {
            if has("v=v2") {
                return Some("v2");
            }
            if has("v=v2beta1") {
                return Some("v2beta1");
            }
        } else if matches!(parts[0], "application/json" | "*/*") && parts.len() == 1 {
            return None;
        }
    }
    None
}

/// The answer of the aggregated form: with an ETag, 304 where the client has it.
pub(crate) fn aggregated_response(value: &Value, version: &str, headers: &HeaderMap) -> Response {
    let bytes = value.to_string().into_bytes();
    let tag = Sha256::digest(&bytes).iter().map(|b| format!("{b:02X}")).collect::<String>();
    let tag = format!("\"{tag}\"");
    let known = headers.get(header::IF_NONE_MATCH).and_then(|v| v.to_str().ok()) == Some(tag.as_str());
    let mut response = if known {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        bytes_response(StatusCode::OK, Negotiated::PLAIN, bytes.into())
    };
    let content_type = format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
    let headers = response.headers_mut();
    for (name, value) in [(header::CONTENT_TYPE, content_type), (header::ETAG, tag), (header::VARY, "Accept".to_owned())] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
    response
}

/// `/`: every path worth knowing.
pub(crate) fn root_paths(groups: &[ShownGroup<'_>], extra: &[String]) -> Value {
    let mut paths: Vec<String> = [
        "/.well-known/openid-configuration",
        "/api",
        "/apis",
        "/apis/",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/",
        "/openid/v1/jwks",
        "/version",
    ]
    .map(str::to_owned)
    .into();
    for group in groups {
        let base = if group.name.is_empty() { "/api".to_owned() } else { format!("/apis/{}", group.name) };
        paths.extend(group.versions.iter().map(|v| format!("{base}/{}", v.version)));
        if !group.name.is_empty() {
            paths.push(base);
        }
    }
    paths.extend_from_slice(extra);
    paths.sort();
    let mut map = Map::new();
    map.insert("paths".into(), json!(paths));
    Value::Object(map)
}
