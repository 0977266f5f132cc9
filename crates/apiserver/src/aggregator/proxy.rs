//! Hands requests on to whom an APIService names. Upstream: `handler_proxy`.

use std::sync::Arc;

use apimachinery::status::Status;
use axum::body::Body;
use component::serve::Peer;
use futures::StreamExt as _;
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode, header};

use super::priorities::OWN_GROUP;
use super::service::{ApiService, Backend, name_of};
use super::transport::Trust;
use super::{Aggregator, headers};
use crate::negotiate::{Negotiated, status_response};
use crate::registry::core::forward;
use crate::request::{RequestInfo, UserInfo};

/// Below which OpenAPI documents of version 3 lie.
const OPENAPI_V3: &str = "/openapi/v3";

impl Aggregator {
    /// The APIService whose server a path belongs to; `None` where this server answers itself.
    pub(crate) fn behind(&self, path: &str) -> Option<Arc<ApiService>> {
        let document = path.strip_prefix(OPENAPI_V3);
        let (group, version) = group_version(document.unwrap_or(path)).filter(|(group, _)| *group != OWN_GROUP)?;
        let name = name_of(group, version);
        let service = self.services.get("", &name).filter(|service| service.backend.is_some())?;
        match document {
            Some(document) if !self.library.has_v3(&name, document.trim_matches('/')) => None,
            _ => Some(service),
        }
    }

    /// Has the server behind an APIService answer.
    pub(crate) async fn hand_on(&self, service: &ApiService, request: Request<Body>) -> Response<Body> {
        let (mut parts, body) = request.into_parts();
        let Some(backend) = service.backend.as_ref().filter(|_| service.available) else { return unavailable() };
        let address = match self.network.resolve(backend) {
            Ok(address) => address,
            Err(error) => {
                tracing::warn!(apiservice = service.name(), error, "resolving an API service failed");
                return unavailable();
            }
        };
        let request = match self.request(&parts, body, &address) {
            Ok(request) => request,
            Err(status) => return status_response(Negotiated::PLAIN, &status),
        };
        match self.transport.send(&address, &backend.host_name(), Trust::Backend(backend), request).await {
            Ok(response) => self.answer(&mut parts, backend, response),
            Err(error) if headers::is_upgrade(&parts.headers) => {
                plain(StatusCode::SERVICE_UNAVAILABLE, format!("error dialing backend: {error}\n"))
            }
            Err(error) => plain(StatusCode::SERVICE_UNAVAILABLE, format!("error trying to reach service: {error}\n")),
        }
    }

    fn request(&self, parts: &Parts, body: Body, address: &super::network::Address) -> Result<Request<Body>, Status> {
        let user = parts.extensions.get::<UserInfo>().cloned().unwrap_or_else(UserInfo::anonymous);
        let client = parts.extensions.get::<Peer>().map(|peer| peer.addr.ip());
        let path = parts.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        let mut request = Request::builder().method(parts.method.clone()).uri(path).body(body).map_err(Status::internal)?;
        *request.headers_mut() = headers::request(parts, &user, address, client)?;
        Ok(request)
    }

    fn answer(&self, parts: &mut Parts, backend: &Backend, mut response: Response<Body>) -> Response<Body> {
        if response.status().is_redirection() && response.headers().contains_key(header::LOCATION) {
            // Whoever follows would bring what they use to prove themselves to wherever the backend likes.
            tracing::warn!(namespace = backend.namespace, service = backend.name, "an API server behind this one redirects");
            let text = "the backend attempted to redirect this request, which is not permitted";
            return plain(StatusCode::BAD_GATEWAY, text.to_owned());
        }
        let switches = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        *response.headers_mut() = headers::response(response.headers(), switches);
        if switches {
            return forward::answer(parts, response, &self.streams);
        }
        let long = parts.extensions.get::<RequestInfo>().is_some_and(RequestInfo::is_long_running);
        let shutdown = self.streams.shutdown().clone();
        // As a stream, which no layer of ours collects.
        response.map(|body| match body.into_data_stream() {
            // What has no end by itself ends with this server.
            stream if long => Body::from_stream(stream.take_until(shutdown.cancelled_owned())),
            stream => Body::from_stream(stream),
        })
    }
}

/// The group and version a path belongs to: `/apis/GROUP/VERSION` and below, and the core group's.
fn group_version(path: &str) -> Option<(&str, &str)> {
    let mut segments = path.strip_prefix('/')?.split('/');
    let (group, version) = match segments.next()? {
        "apis" => (segments.next()?, segments.next()?),
        "api" => ("", segments.next()?),
        _ => return None,
    };
    (!version.is_empty()).then_some((group, version))
}

fn unavailable() -> Response<Body> {
    plain(StatusCode::SERVICE_UNAVAILABLE, "service unavailable\n".to_owned())
}

/// An error as Go's `http.Error` writes it.
fn plain(code: StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_belongs_to_the_group_and_version_it_names() {
        for (path, wanted) in [
            ("/apis/g.io/v1", Some(("g.io", "v1"))),
            ("/apis/g.io/v1/namespaces/a/things", Some(("g.io", "v1"))),
            ("/api/v1/pods", Some(("", "v1"))),
            ("/apis/g.io", None),
            ("/apis/g.io/", None),
            ("//apis/g.io/v1", None),
            ("/healthz", None),
        ] {
            assert_eq!(group_version(path), wanted, "{path}");
        }
    }
}
