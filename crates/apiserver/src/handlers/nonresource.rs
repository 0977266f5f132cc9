//! Paths that are no resources: discovery, version, health, metrics, OpenAPI, the issuer's keys.

use std::sync::Arc;

use apimachinery::status::Status;
use axum::{body::Body, response::Response};
use http::{HeaderValue, Method, Request, StatusCode, header};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{
    discovery, is_incomplete,
    shown::{self, ShownGroup, Ties},
    too_early,
};
use crate::{
    negotiate::{Format, Negotiated, Offer, for_errors, negotiate, status_response, value_response},
    registry::catalog::Catalog,
    request::{RequestInfo, parse_query},
    server::Server,
};

pub(super) async fn serve(server: Arc<Server>, request: Request<Body>, info: &RequestInfo) -> Response {
    let path = info.path.as_str();
    let errors = for_errors(request.headers(), &[], server.cbor);
    if is_probe(path) {
        return match *request.method() {
            Method::GET | Method::HEAD => probe(&server, request).await,
            _ => status_response(errors, &Status::method_not_allowed()),
        };
    }
    let Some(answer) = find(&server, &request, path) else {
        let early = path.starts_with("/apis/") && is_incomplete(&server);
        return if early { status_response(errors, &too_early()) } else { page_not_found() };
    };
    if *request.method() != Method::GET {
        return status_response(errors, &Status::method_not_allowed());
    }
    answer.unwrap_or_else(|status| status_response(errors, &status))
}

fn is_probe(path: &str) -> bool {
    ["/healthz", "/livez", "/readyz"].iter().any(|p| path == *p || path.strip_prefix(p).is_some_and(|rest| rest.starts_with('/')))
        || path == "/metrics"
}

async fn probe(server: &Server, request: Request<Body>) -> Response {
    match server.probes.clone().oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// `None` where nothing lives at the path.
fn find(server: &Arc<Server>, request: &Request<Body>, path: &str) -> Option<Result<Response, Status>> {
    let catalog = server.hub.catalog.load();
    let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
    let value = match parts.as_slice() {
        [] => discovery::root_paths(&shown(server, &catalog, Ties::ByService), &server.probe_paths()),
        ["api" | "apis"] => return Some(top(server, request, parts[0])),
        ["version"] => version(),
        ["api", v] => match catalog.group("").and_then(|g| Some(discovery::resources(g, g.version(v)?))) {
            Some(value) => value,
            None => return Some(Err(Status::not_found_path())),
        },
        ["apis", name] => discovery::group(shown(server, &catalog, Ties::ByService).iter().find(|group| group.name == *name)?),
        ["apis", name, v] => {
            let group = catalog.group(name)?;
            match group.version(v) {
                Some(version) => discovery::resources(group, version),
                None if group.custom => return None,
                None => return Some(Err(Status::not_found_path())),
            }
        }
        ["openapi", ..] => return server.documents.serve(&catalog, &server.aggregator, request),
        [".well-known", "openid-configuration"] | ["openid", "v1", "jwks"] => return keys(server, path),
        _ => return None,
    };
    Some(plain(server, request, &value))
}

fn plain(server: &Server, request: &Request<Body>, value: &Value) -> Result<Response, Status> {
    let query = parse_query(request.uri().query().unwrap_or_default());
    let mut negotiated = negotiate(request.headers(), &query, Offer::plain(server.cbor))?;
    // The version and the list of paths are no objects: upstream writes them in JSON whatever is asked for.
    if matches!(negotiated.format, Format::Protobuf | Format::Cbor) && value.get("kind").is_none() {
        negotiated = Negotiated::PLAIN;
    }
    Ok(value_response(StatusCode::OK, negotiated, value))
}

fn top(server: &Server, request: &Request<Body>, which: &str) -> Result<Response, Status> {
    let catalog = server.hub.catalog.load();
    if let Some(version) = discovery::wants_aggregated(request.headers()) {
        let value = discovery::aggregated(&shown(server, &catalog, Ties::ByGroup), which == "api", version);
        return Ok(discovery::aggregated_response(&value, version, request.headers()));
    }
    let groups = shown(server, &catalog, Ties::ByService);
    let value = if which == "api" { discovery::core_versions(&groups, &server.advertised) } else { discovery::groups(&groups) };
    plain(server, request, &value)
}

fn shown<'a>(server: &Server, catalog: &'a Catalog, ties: Ties) -> Vec<ShownGroup<'a>> {
    shown::groups(catalog, &server.aggregator.services(), server.aggregator.library(), ties)
}

fn keys(server: &Server, path: &str) -> Option<Result<Response, Status>> {
    let keys = server.issuer_documents.as_ref()?;
    let (value, content_type) =
        if path.ends_with("jwks") { (&keys.jwks, "application/jwk-set+json") } else { (&keys.configuration, "application/json") };
    let mut response = value_response(StatusCode::OK, Negotiated::PLAIN, value);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
    Some(Ok(response))
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "35", "gitVersion": crate::VERSION,
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "rustc", "platform": format!("{}/{}", std::env::consts::OS, platform()),
    })
}

fn platform() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// What a path nobody knows answers.
pub(crate) fn page_not_found() -> Response {
    let mut response = Response::new(Body::from("404 page not found\n"));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
