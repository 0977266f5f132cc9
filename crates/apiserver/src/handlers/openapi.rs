//! `/openapi/v2` and `/openapi/v3`: documents over the catalog, built when first asked for and kept while they hold.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::status::Status;
use axum::{body::Body, response::Response};
use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, header};
use parking_lot::Mutex;

use crate::{
    aggregator::{Aggregator, Spec},
    negotiate::{Negotiated, bytes_response},
    openapi::{Api, Item, Sub, document, index, proto, swagger, swagger_proto},
    registry::{
        Resource,
        catalog::{Catalog, GroupEntry, VersionEntry},
    },
    request::parse_query,
};

/// Documents built so far, by path, each with the hash of what it was built from.
#[derive(Default)]
pub(crate) struct Documents(Mutex<BTreeMap<String, (String, Bytes)>>);

impl Documents {
    /// Serves a path below `/openapi`; `None` where nothing lives there.
    pub(crate) fn serve(&self, catalog: &Catalog, others: &Aggregator, request: &Request<Body>) -> Option<Result<Response, Status>> {
        let mut apis = apis(catalog);
        apis.retain(|api| others.behind(&format!("/{}", api.path())).is_none());
        let path = request.uri().path();
        match path.strip_prefix("/openapi/")?.trim_end_matches('/') {
            "v3" => Some(Ok(bytes_response(StatusCode::OK, Negotiated::PLAIN, index(&apis, others.library().index()).into()))),
            "v2" => Some(Ok(self.swagger(&apis, &others.library().specs(), request))),
            rest => {
                let document_path = rest.strip_prefix("v3/")?;
                let hash = apis.iter().find(|api| api.path() == document_path).map(Api::hash);
                let (bytes, hash) = match hash {
                    Some(hash) => {
                        (self.built(document_path, &hash, || document(&apis, document_path).map(|d| d.0).unwrap_or_default()), hash)
                    }
                    None => document(&apis, document_path).map(|(bytes, hash)| (bytes.into(), hash))?,
                };
                Some(Ok(moved(request, document_path, &hash).unwrap_or_else(|| answer(request, &hash, bytes))))
            }
        }
    }

    fn swagger(&self, apis: &[Api], others: &[Arc<Spec>], request: &Request<Body>) -> Response {
        let hashes = others.iter().map(|spec| spec.hash.clone());
        let hash = apis.iter().map(Api::hash).chain(hashes).collect::<String>();
        let parts: Vec<_> = others.iter().map(|spec| &spec.part).collect();
        if accepts(request, proto::ACCEPTED) {
            let bytes = self.built("v2.proto", &hash, || swagger_proto(apis, &parts));
            let mut response = answer(request, &short(&format!("{hash} proto")), bytes);
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(proto::CONTENT_TYPE));
            return response;
        }
        let bytes = self.built("v2", &hash, || swagger(apis, &parts));
        answer(request, &short(&hash), bytes)
    }

    fn built(&self, path: &str, hash: &str, build: impl FnOnce() -> Vec<u8>) -> Bytes {
        if let Some((_, bytes)) = self.0.lock().get(path).filter(|(known, _)| known == hash) {
            return bytes.clone();
        }
        let bytes: Bytes = build().into();
        self.0.lock().insert(path.to_owned(), (hash.to_owned(), bytes.clone()));
        bytes
    }
}

fn accepts(request: &Request<Body>, media_type: &str) -> bool {
    let accept = request.headers().get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    accept.split(',').any(|part| part.split(';').next().unwrap_or_default().trim() == media_type)
}

fn short(hashes: &str) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(hashes).iter().map(|b| format!("{b:02X}")).collect()
}

/// A client that names an outdated hash is sent to the present one.
fn moved(request: &Request<Body>, path: &str, hash: &str) -> Option<Response> {
    let query = parse_query(request.uri().query().unwrap_or_default());
    let (_, named) = query.into_iter().find(|(k, v)| k == "hash" && !v.is_empty())?;
    if named == hash {
        return None;
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_str(&format!("/openapi/v3/{path}?hash={hash}")).ok()?);
    Some(response)
}

fn answer(request: &Request<Body>, hash: &str, bytes: Bytes) -> Response {
    let tag = format!("\"{hash}\"");
    if request.headers().get(header::IF_NONE_MATCH).and_then(|v| v.to_str().ok()) == Some(tag.as_str()) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return response;
    }
    let immutable = request.uri().query().is_some_and(|q| q.contains("hash="));
    let mut response = bytes_response(StatusCode::OK, Negotiated::PLAIN, bytes);
    let headers = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    if immutable {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
    }
    response
}

/// What the catalog serves, as documents need it.
pub(crate) fn apis(catalog: &Catalog) -> Vec<Api> {
    let of = |group: &GroupEntry| group.versions.iter().map(|version| api(&group.name, version).clone()).collect::<Vec<_>>();
    catalog.groups().iter().flat_map(|group| of(group)).collect()
}

/// Found out once for each version of a group, not with each request: there may be thousands of resources.
fn api<'a>(group: &str, version: &'a VersionEntry) -> &'a Api {
    version.described.get_or_init(|| {
        let resources = version.resources.iter().map(|served| item(&served.resource)).collect();
        let api = Api { group: group.to_owned(), version: version.version.clone(), resources, ..Api::default() };
        // Copies bring it along.
        api.hash();
        api
    })
}

fn item(resource: &Resource) -> Item {
    let subs = resource.shown_subresources().map(|s| Sub {
        name: s.name.to_owned(),
        verbs: s.verbs.iter().map(|v| (*v).to_owned()).collect(),
        gvk: s.kind.clone(),
    });
    Item {
        plural: resource.plural.clone(),
        gvk: resource.gvk(),
        definition: resource.definition.clone(),
        namespaced: resource.namespaced,
        verbs: resource.verbs.iter().map(|v| (*v).to_owned()).collect(),
        subresources: subs.collect(),
        custom: resource.custom_schema.clone(),
    }
}
