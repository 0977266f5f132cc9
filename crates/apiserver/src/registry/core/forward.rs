//! Hands a request on to a kubelet, pod or service, and connects both ends where protocols are switched.

use apimachinery::status::Status;
use axum::body::Body;
use http::{HeaderMap, Request, Response, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use crate::registry::Call;

/// Headers that are for this server and not for the one behind it.
const OURS: [header::HeaderName; 3] = [header::AUTHORIZATION, header::HOST, header::COOKIE];

/// The call as a request for another path; takes the call's body.
pub(crate) fn request(call: &mut Call, path_and_query: &str) -> Result<Request<Body>, Status> {
    let headers = without_ours(&call.parts.headers);
    let body = call.stream.take().unwrap_or_default();
    let mut request = Request::builder().method(call.method.clone()).uri(path_and_query).body(body).map_err(Status::internal)?;
    *request.headers_mut() = headers;
    Ok(request)
}

/// The answer for the client. Where protocols are switched, both connections are joined until one ends.
pub(crate) fn answer(call: &mut Call, mut response: Response<Body>) -> Response<Body> {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return response;
    }
    let client = call.parts.extensions.remove::<OnUpgrade>();
    let server = hyper::upgrade::on(&mut response);
    if let Some(client) = client {
        tokio::spawn(async move {
            if let Err(error) = join(client, server).await {
                tracing::debug!(%error, "a proxied stream ended");
            }
        });
    }
    let headers = response.headers().clone();
    let mut switched = Response::new(Body::empty());
    *switched.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *switched.headers_mut() = headers;
    switched
}

async fn join(client: OnUpgrade, server: OnUpgrade) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let (client, server) = tokio::try_join!(client, server)?;
    tokio::io::copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(server)).await?;
    Ok(())
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
}
