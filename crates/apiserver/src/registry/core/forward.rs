//! Hands a request on to a kubelet, pod or service, and connects both ends where protocols are switched.

use std::{pin::pin, time::Duration};

use apimachinery::status::Status;
use axum::body::Body;
use http::{HeaderMap, Request, Response, StatusCode, header, request::Parts};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, split};

use crate::registry::{Call, Streams};

/// Headers that are for this server and not for the one behind it.
const OURS: [header::HeaderName; 3] = [header::AUTHORIZATION, header::HOST, header::COOKIE];
/// After one direction of a joined stream has ended, the other gets this long.
const LINGER: Duration = Duration::from_secs(5);

/// The call as a request for another path; takes the call's body.
pub(crate) fn request(call: &mut Call, path_and_query: &str) -> Result<Request<Body>, Status> {
    let headers = without_ours(&call.parts.headers);
    let body = call.stream.take().unwrap_or_default();
    let mut request = Request::builder().method(call.method.clone()).uri(path_and_query).body(body).map_err(Status::internal)?;
    *request.headers_mut() = headers;
    Ok(request)
}

/// A body of others as a stream: none of our layers collects one, whatever size it says to have.
pub(crate) fn streamed(body: Body) -> Body {
    Body::from_stream(body.into_data_stream())
}

/// The answer for the client. Where protocols are switched, both connections are joined until one ends or the server stops.
pub(crate) fn answer(asked: &mut Parts, mut response: Response<Body>, streams: &Streams) -> Response<Body> {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return response.map(streamed);
    }
    let client = asked.extensions.remove::<OnUpgrade>();
    let server = hyper::upgrade::on(&mut response);
    let headers = response.headers().clone();
    let mut switched = Response::new(Body::empty());
    *switched.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *switched.headers_mut() = headers;
    if let Some(client) = client {
        let shutdown = streams.shutdown().clone();
        streams.run(&mut switched, async move {
            match tokio::try_join!(client, server) {
                Ok((client, server)) => {
                    shutdown.run_until_cancelled(join(TokioIo::new(client), TokioIo::new(server))).await;
                }
                Err(error) => tracing::debug!(%error, "a stream could not be joined"),
            }
        });
    }
    switched
}

/// Copies both ways until one direction ends, and the rest of the other for a moment.
pub(crate) async fn join(client: impl AsyncRead + AsyncWrite, server: impl AsyncRead + AsyncWrite) {
    let (mut from_client, mut to_client) = split(client);
    let (mut from_server, mut to_server) = split(server);
    let mut there = pin!(async {
        let copied = copy(&mut from_client, &mut to_server).await;
        let _ = to_server.shutdown().await;
        copied
    });
    let mut back = pin!(async {
        let copied = copy(&mut from_server, &mut to_client).await;
        let _ = to_client.shutdown().await;
        copied
    });
    let copied = tokio::select! {
        copied = &mut there => {
            let _ = tokio::time::timeout(LINGER, back).await;
            copied
        }
        copied = &mut back => {
            let _ = tokio::time::timeout(LINGER, there).await;
            copied
        }
    };
    if let Err(error) = copied {
        tracing::debug!(%error, "a joined stream broke");
    }
}

/// Takes out the headers a proxy must not hand on.
fn without_ours(headers: &HeaderMap) -> HeaderMap {
    let ours = |name: &header::HeaderName| OURS.contains(name) || name.as_str().starts_with("impersonate-");
    headers.iter().filter(|(name, _)| !ours(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_stay_here() {
        let (mut parts, ()) = Request::new(()).into_parts();
        for (name, value) in [("authorization", "Bearer x"), ("impersonate-user", "a"), ("upgrade", "websocket")] {
            parts.headers.insert(name, header::HeaderValue::from_static(value));
        }
        let mut call = Call { method: http::Method::GET, query: Vec::new(), name: "p".into(), body: None, parts, stream: None };
        let sent = request(&mut call, "/exec/n/p/c").unwrap();
        let names: Vec<&str> = sent.headers().keys().map(header::HeaderName::as_str).collect();
        assert_eq!((names, sent.uri().path()), (vec!["upgrade"], "/exec/n/p/c"));
    }

    #[tokio::test]
    async fn an_answer_of_others_has_no_size_for_which_it_would_be_collected() {
        let (mut parts, ()) = Request::new(()).into_parts();
        let answer = answer(&mut parts, Response::new(Body::from("large")), &Streams::default());
        assert_eq!(http_body::Body::size_hint(answer.body()).exact(), None);
        assert_eq!(axum::body::to_bytes(answer.into_body(), 5).await.unwrap(), "large");
    }
}
