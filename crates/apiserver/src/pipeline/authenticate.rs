//! Finds the caller; 401 for bad credentials, and for none where anonymous requests are off.

use std::sync::Arc;

use apimachinery::status::Status;
use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use http::header;

use crate::{
    authn::{Error, subprotocol},
    loopback::InProcess,
    negotiate::{for_errors, status_response},
    request::UserInfo,
    server::Server,
};

pub(super) async fn layer(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let user = match parts.extensions.get::<InProcess>() {
        Some(InProcess(user)) => Some(user.clone()),
        None => match server.authenticator.authenticate(&parts).await {
            Ok(found) => found.or_else(|| server.anonymous.then(UserInfo::anonymous)),
            Err(Error::Undecided(status)) => {
                tracing::warn!(error = status.message, "unable to authenticate the request");
                return status_response(for_errors(&parts.headers, &[], server.cbor), &status);
            }
            Err(error) => {
                tracing::debug!(%error, "authentication failed");
                None
            }
        },
    };
    let Some(user) = user else {
        return status_response(for_errors(&parts.headers, &[], server.cbor), &Status::unauthorized("Unauthorized"));
    };
    // Nothing below needs the credentials, and logs must not see them.
    parts.headers.remove(header::AUTHORIZATION);
    subprotocol::strip(&mut parts.headers);
    // Nor may anybody believe of this server what only its client says.
    server.claims.strip(&mut parts.headers);
    parts.extensions.insert(user);
    next.run(Request::from_parts(parts, body)).await
}

#[cfg(test)]
mod tests {
    use axum::{Router, body::Body, middleware::from_fn_with_state, routing::get};
    use http::HeaderMap;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    use super::*;
    use crate::{
        admission::Chain,
        authn::front_proxy::{Claims, Headers},
        handlers::tests::{hub, server},
    };

    #[tokio::test]
    async fn what_a_client_says_of_itself_reaches_nobody_behind() {
        let own = Headers { username: vec!["X-Forwarded-User".into()], ..Headers::default() };
        let server = Server { claims: Claims::new(&own), ..server(hub(Chain::default(), Default::default())) };
        let names = |headers: HeaderMap| async move { headers.keys().map(|name| name.as_str()).collect::<Vec<_>>().join(" ") };
        let behind = Router::new().route("/", get(names)).layer(from_fn_with_state(Arc::new(server), layer));
        let mut request = http::Request::get("/");
        for name in ["x-forwarded-user", "X-Remote-Group", "x-remote-extra-team", "accept"] {
            request = request.header(name, "a");
        }
        let response = behind.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "accept");
    }
}
