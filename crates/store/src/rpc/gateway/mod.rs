//! The services as JSON over HTTP under `/v3/`, for who speaks no gRPC (etcd's grpc-gateway).
//!
//! A request becomes a gRPC call of the same process: it passes the very layers that others pass.

mod answer;
mod objects;
mod table;
mod transcode;

use std::{collections::HashMap, convert::Infallible, sync::Arc};

use anyhow::Context as _;
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    response::{IntoResponse, Response},
    routing::any,
};
use component::serve::Peer;
use futures::{Stream, StreamExt, stream};
use http::{HeaderMap, HeaderName, HeaderValue, Method as Verb, header};
use prost_reflect::{DescriptorPool, MessageDescriptor};
use tonic::{Code, Status};
use tower::ServiceExt as _;

use super::identity::GATEWAY;
use answer::failure;
use objects::{Next, Objects};

/// Headers that are handed on under their own names; others begin with the prefix below.
const HANDED_ON: [&str; 2] = ["authorization", "token"];
/// What is behind it is the name of the gRPC header.
const PREFIX: &str = "grpc-metadata-";
/// Base64 makes a message a third longer, and a client may write it as it likes.
const JSON_OVERHEAD: usize = 2;

/// A method and how its messages look.
struct Method {
    path: String,
    input: MessageDescriptor,
    output: MessageDescriptor,
    /// The client sends several messages.
    asks: bool,
    /// The server answers with several.
    answers: bool,
}

/// The gateway.
struct Gateway {
    methods: HashMap<&'static str, Method>,
    services: Router,
    largest: usize,
    /// Requests are checked, and certificates name who asks: the gateway's own would do so.
    refuses_names: Box<dyn Fn() -> bool + Send + Sync>,
}

/// Routes to `services`, for requests of at most so many bytes.
///
/// # Errors
/// The descriptors lack a method.
pub(crate) fn router(services: Router, largest: usize, refuses_names: impl Fn() -> bool + Send + Sync + 'static) -> anyhow::Result<Router> {
    let pool = DescriptorPool::decode(etcd::DESCRIPTORS).context("read the descriptors of the services")?;
    let methods = table::PATHS.iter().map(|&(path, service, name)| Ok((path, method(&pool, service, name)?)));
    let methods = methods.collect::<anyhow::Result<_>>()?;
    let gateway = Gateway { methods, services, largest: largest.saturating_mul(JSON_OVERHEAD), refuses_names: Box::new(refuses_names) };
    let gateway = Arc::new(gateway);
    Ok(Router::new().route("/v3/{*path}", any(call)).route("/v3beta/{*path}", any(call)).with_state(gateway))
}

fn method(pool: &DescriptorPool, service: &str, name: &str) -> anyhow::Result<Method> {
    let described = pool.get_service_by_name(service).and_then(|service| service.methods().find(|method| method.name() == name));
    let described = described.with_context(|| format!("there is no method {service}.{name}"))?;
    Ok(Method {
        path: format!("/{service}/{name}"),
        input: described.input(),
        output: described.output(),
        asks: described.is_client_streaming(),
        answers: described.is_server_streaming(),
    })
}

async fn call(State(gateway): State<Arc<Gateway>>, request: Request) -> Response {
    match gateway.call(request).await {
        Ok(response) => response,
        Err(status) => failure(&status),
    }
}

impl Gateway {
    async fn call(&self, request: Request) -> Result<Response, Status> {
        // A name from before 3.4.
        let path = request.uri().path().replacen("/v3beta/", "/v3/", 1);
        let method = self.methods.get(path.as_str()).ok_or_else(|| Status::not_found("Not Found"))?;
        if request.method() != Verb::POST {
            return Err(Status::unimplemented("Method Not Allowed"));
        }
        if names_somebody(&request) && (self.refuses_names)() {
            let text = "CommonName of client sending a request against gateway will be ignored and not used as expected\n";
            return Ok((http::StatusCode::BAD_REQUEST, text).into_response());
        }
        let call = self.translate(method, request).await?;
        let response = self.services.clone().oneshot(call).await.unwrap_or_else(|never: Infallible| match never {});
        match method.answers {
            true => Ok(answer::stream(method.output.clone(), response)),
            false => answer::unary(&method.output, response, usize::MAX).await,
        }
    }

    /// The call of gRPC that a request stands for.
    async fn translate(&self, method: &Method, request: Request) -> Result<Request, Status> {
        let (parts, body) = request.into_parts();
        let body = if method.asks {
            Body::from_stream(frames(method.input.clone(), body, self.largest))
        } else {
            let json = axum::body::to_bytes(body, self.largest).await;
            let json = json.map_err(|_| Status::resource_exhausted(format!("request body is larger than {}", self.largest)))?;
            Body::from(transcode::frame(&method.input, &json).map_err(|error| Status::invalid_argument(error.to_string()))?)
        };
        let mut call = Request::new(body);
        *call.method_mut() = Verb::POST;
        *call.version_mut() = http::Version::HTTP_2;
        *call.uri_mut() = method.path.parse().map_err(|_| Status::internal("the path of a method is none"))?;
        *call.headers_mut() = headers(&parts.headers);
        *call.extensions_mut() = parts.extensions;
        Ok(call)
    }
}

/// What gRPC shall know of a request's headers.
fn headers(given: &HeaderMap) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        if let Some(name) = name.as_str().strip_prefix(PREFIX).and_then(|name| name.parse::<HeaderName>().ok()) {
            headers.append(name, value.clone());
        } else if HANDED_ON.contains(&name.as_str()) {
            headers.append(name, value.clone());
        }
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(header::TE, HeaderValue::from_static("trailers"));
    let accept = given.get(header::ACCEPT).cloned().unwrap_or_else(|| HeaderValue::from_static("*/*"));
    headers.insert(GATEWAY, accept);
    headers
}

/// It came with a certificate that has a common name.
fn names_somebody(request: &Request) -> bool {
    request.extensions().get::<Peer>().is_some_and(|peer| super::identity::common_name(peer).is_some())
}

/// The messages of a body in their frames, as they come in. What is no message ends them; so in etcd.
fn frames(kind: MessageDescriptor, body: Body, largest: usize) -> impl Stream<Item = Result<bytes::Bytes, Infallible>> {
    let state = (body.into_data_stream(), Objects::default());
    stream::unfold(state, move |(mut body, mut objects)| {
        let kind = kind.clone();
        async move {
            loop {
                match objects.next() {
                    Next::Object(json) => return transcode::frame(&kind, &json).ok().map(|frame| (Ok(frame), (body, objects))),
                    Next::More if objects.kept() <= largest => {}
                    Next::More | Next::Nonsense => return None,
                }
                objects.push(&body.next().await?.ok()?);
            }
        }
    })
}

/// The HTTP code of a failure (grpc-gateway v2).
fn http_code(code: Code) -> u16 {
    match code {
        Code::Ok => 200,
        Code::Cancelled => 499,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => 400,
        Code::DeadlineExceeded => 504,
        Code::NotFound => 404,
        Code::AlreadyExists | Code::Aborted => 409,
        Code::PermissionDenied => 403,
        Code::Unauthenticated => 401,
        Code::ResourceExhausted => 429,
        Code::Unimplemented => 501,
        Code::Unavailable => 503,
        Code::Unknown | Code::Internal | Code::DataLoss => 500,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_of_etcd_has_a_path() {
        let pool = DescriptorPool::decode(etcd::DESCRIPTORS).unwrap();
        let mapped: Vec<_> = table::PATHS.iter().map(|(_, service, name)| format!("{service}.{name}")).collect();
        let missing = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
        let missing: Vec<_> = missing.map(|method| method.full_name().to_owned()).filter(|name| !mapped.contains(name)).collect();
        assert_eq!(missing, ["etcdserverpb.KV.RangeStream"], "etcd 3.7 has no path for it either");
        assert!(router(Router::new(), 1, || false).is_ok());
    }

    #[test]
    fn headers_for_grpc_are_handed_on_and_those_of_the_connection_are_not() {
        let mut given = HeaderMap::new();
        given.insert("Grpc-Metadata-hasleader", HeaderValue::from_static("true"));
        given.insert("Authorization", HeaderValue::from_static("token"));
        given.insert("Connection", HeaderValue::from_static("close"));
        let headers = headers(&given);
        assert_eq!(headers["hasleader"], "true");
        assert_eq!(headers["authorization"], "token");
        assert!(!headers.contains_key("connection") && headers.contains_key(GATEWAY));
    }

    #[tokio::test]
    async fn a_body_may_hold_several_messages_and_ends_at_what_is_none() {
        let kind = DescriptorPool::decode(etcd::DESCRIPTORS).unwrap().get_message_by_name("etcdserverpb.LeaseKeepAliveRequest").unwrap();
        for text in [r#"{"ID":"1"}{"ID":2} nonsense {"ID":3}"#, r#"{"ID":"1"} {"ID":2}{"ID":]}{"ID":3}"#, r#"{"ID":"1"}{"ID":2}{"ID":3"#] {
            let pieces: Vec<_> = text.bytes().map(|byte| Ok::<_, Infallible>(vec![byte])).collect();
            for body in [Body::from(text), Body::from_stream(stream::iter(pieces))] {
                let frames: Vec<_> = frames(kind.clone(), body, 1000).collect().await;
                assert_eq!(frames.len(), 2, "{text}");
            }
        }
        let endless = Body::from_stream(stream::repeat_with(|| Ok::<_, Infallible>("{")));
        assert_eq!(frames(kind, endless, 1000).count().await, 0);
    }
}
