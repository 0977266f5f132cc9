//! Hands requests on to whom an APIService names. Upstream: `handler_proxy`.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::status::Status;
use axum::body::{Body, BodyDataStream};
use bytes::Bytes;
use component::serve::Peer;
use futures::stream::{self, Stream, StreamExt as _};
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode, header};
use percent_encoding::percent_decode_str;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::priorities::OWN_GROUP;
use super::service::{ApiService, Backend, name_of};
use super::transport::Trust;
use super::{Aggregator, headers};
use crate::negotiate::{Negotiated, status_response};
use crate::pipeline::EXCEEDED;
use crate::registry::core::forward;
use crate::request::{RequestInfo, UserInfo};

/// Below which OpenAPI documents of version 3 lie.
const OPENAPI_V3: &str = "/openapi/v3";
/// What a group and version serves is told within this time.
const DISCOVERY: Duration = Duration::from_secs(5);

impl Aggregator {
    /// The APIService whose server a path belongs to; `None` where this server answers itself.
    pub(crate) fn behind(&self, path: &str) -> Option<Arc<ApiService>> {
        let document = path.strip_prefix(OPENAPI_V3);
        let (group, version) = group_version(document.unwrap_or(path)).filter(|(group, _)| *group != OWN_GROUP)?;
        let name = name_of(group, version);
        // Several groups and versions make the same name: `io` with `v1.g` that of `g.io` with `v1`.
        let service = self.services.get("", &name).filter(|service| service.group == group && service.version == version);
        let service = service.filter(|service| service.backend.is_some())?;
        match document {
            Some(document) if !self.library.has_v3(&name, document.trim_matches('/')) => None,
            _ => Some(service),
        }
    }

    /// Has the server behind an APIService answer; an answer that ends by itself within `limit`.
    pub(crate) async fn hand_on(&self, service: &ApiService, request: Request<Body>, limit: Duration) -> Response<Body> {
        let (mut parts, body) = request.into_parts();
        if is_ambiguous(parts.uri.path()) {
            let text = "the path may contain neither escaped slashes nor dot segments";
            return status_response(Negotiated::PLAIN, &Status::bad_request(text));
        }
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
        let end = end(&parts, limit);
        let host = backend.host_name();
        let sent = self.transport.send(&address, &host, Trust::Backend(backend), request);
        let answered = match end {
            Some(end) => timeout_at(end, sent).await.unwrap_or_else(|_| Err("context deadline exceeded".to_owned())),
            None => sent.await,
        };
        match answered {
            Ok(response) => self.answer(&mut parts, backend, response, end),
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

    /// `end` is none where the answer has none by itself.
    fn answer(&self, parts: &mut Parts, backend: &Backend, mut response: Response<Body>, end: Option<Instant>) -> Response<Body> {
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
        let shutdown = self.streams.shutdown().clone();
        // As a stream, which no layer of ours collects.
        response.map(|body| match end {
            Some(end) => Body::from_stream(until(end, body.into_data_stream())),
            // What has no end by itself ends with this server.
            None => Body::from_stream(body.into_data_stream().take_until(shutdown.cancelled_owned())),
        })
    }
}

/// When an answer has to be through; `None` for what goes on as long as its client wants. Groups and versions are asked for what they
/// serve by all clients, which one slow server must not hold up. Upstream: `aggregatedDiscoveryTimeout`.
fn end(parts: &Parts, limit: Duration) -> Option<Instant> {
    let info = parts.extensions.get::<RequestInfo>().filter(|info| !info.is_long_running())?;
    let discovery = !info.is_resource && info.path.trim_matches('/').split('/').count() == 3;
    Some(Instant::now() + if discovery { limit.min(DISCOVERY) } else { limit })
}

/// A body that breaks off at `end`.
fn until(end: Instant, body: BodyDataStream) -> impl Stream<Item = Result<Bytes, axum::Error>> {
    stream::try_unfold(body, move |mut body| async move {
        tokio::select! {
            // First, or what always has something to say would have no end.
            biased;
            () = sleep_until(end) => Err(axum::Error::new(EXCEEDED)),
            next = body.next() => Ok(next.transpose()?.map(|bytes| (bytes, body))),
        }
    })
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

/// Whether a path means another object to those who decode it before they take it apart: what is authorized would not be what is
/// read.
fn is_ambiguous(path: &str) -> bool {
    let ambiguous = |segment: &str| match percent_decode_str(segment).decode_utf8() {
        Ok(segment) => matches!(&*segment, "." | "..") || segment.contains('/'),
        Err(_) => true,
    };
    path.split('/').any(ambiguous)
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
    use super::super::AggregatorConfig;
    use super::*;
    use crate::informer::Sink as _;

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

    fn aggregator(service: serde_json::Value, group: &str, version: &str) -> Aggregator {
        let aggregator = Aggregator::new(AggregatorConfig::default(), Default::default(), &Default::default());
        let spec = serde_json::json!({"group": group, "version": version, "service": service});
        let status = serde_json::json!({"conditions": [{"type": "Available", "status": "True"}]});
        let object = serde_json::json!({"metadata": {"name": name_of(group, version)}, "spec": spec, "status": status});
        aggregator.services.upsert(apimachinery::Object::from_value(object).unwrap());
        aggregator
    }

    #[test]
    fn another_group_that_makes_the_same_name_is_not_behind_the_api_service() {
        let aggregator = aggregator(serde_json::json!({"namespace": "n", "name": "s"}), "g.io", "v1");
        assert!(aggregator.behind("/apis/g.io/v1/things").is_some());
        assert!(aggregator.behind("/apis/io/v1.g/things").is_none() && aggregator.behind("/openapi/v3/apis/io/v1.g").is_none());
    }

    #[tokio::test]
    async fn a_path_that_reads_otherwise_once_decoded_is_not_handed_on() {
        let aggregator = aggregator(serde_json::json!({"namespace": "n", "name": "s"}), "g.io", "v1");
        let service = aggregator.behind("/apis/g.io/v1").unwrap();
        for (rest, code) in [
            ("namespaces/a%2Fsecrets/x", 400),
            ("namespaces/a/things/%2e%2E/secrets", 400),
            ("namespaces/a/things/../secrets", 400),
            ("./things", 400),
            ("things/%ff", 400),
            // Nobody knows the Service.
            ("namespaces/a/things/x%20y..%252F", 503),
        ] {
            let request = Request::get(format!("/apis/g.io/v1/{rest}")).body(Body::empty()).unwrap();
            assert_eq!(aggregator.hand_on(&service, request, DISCOVERY).await.status().as_u16(), code, "{rest}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_without_end_breaks_off_in_time() {
        let endless = Body::from_stream(stream::repeat(Ok::<_, std::fmt::Error>(Bytes::from_static(b"x"))).then(|item| async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            item
        }));
        let body = until(Instant::now() + Duration::from_millis(3500), endless.into_data_stream());
        let sent: Vec<_> = body.map(|item| item.is_ok()).collect().await;
        assert_eq!(sent, [true, true, true, false]);
        let whole = until(Instant::now() + DISCOVERY, Body::from("x").into_data_stream());
        assert_eq!(whole.map(Result::unwrap).collect::<Vec<_>>().await, ["x"]);
    }

    #[tokio::test(start_paused = true)]
    async fn discovery_ends_sooner_than_other_answers_and_a_watch_never() {
        let patience = |url: &str| {
            let (mut parts, ()) = Request::get(url).body(()).unwrap().into_parts();
            parts.extensions.insert(RequestInfo::parse(&parts.method, parts.uri.path(), parts.uri.query().unwrap_or_default()));
            end(&parts, Duration::from_secs(60)).map(|end| (end - Instant::now()).as_secs())
        };
        assert_eq!(patience("/apis/g.io/v1/"), Some(5));
        assert_eq!((patience("/apis/g.io/v1/things"), patience("/openapi/v3/apis/g.io/v1")), (Some(60), Some(60)));
        assert_eq!(patience("/apis/g.io/v1/things?watch=1"), None);
    }
}
