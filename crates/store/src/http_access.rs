//! Who may use HTTP from where: `--host-whitelist` keeps out pages of strangers that had a name of their own resolved to this
//! host (CVE-2018-5702), `--cors` lets in pages of others (etcd, `server/embed/serve.go`).

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header};

/// A request came over TLS; an extension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Secure(pub(crate) bool);

/// Hosts and origins that are let in; all where there are none, or `*`.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) hosts: Vec<String>,
    pub(crate) origins: Vec<String>,
}

fn allows(list: &[String], one: &str) -> bool {
    list.is_empty() || list.iter().any(|allowed| allowed == "*" || allowed == one)
}

/// Lets a request in, and says who else may read its answer.
pub(crate) async fn check(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let secure = request.extensions().get::<Secure>().is_some_and(|secure| secure.0);
    let host = host(&request);
    if !secure && !allows(&access.hosts, &host) {
        tracing::warn!(host, "refused an HTTP request: its host is not in --host-whitelist");
        let text = format!("the host {host:?} is not known here; allow it with --host-whitelist, or use TLS\n");
        return (StatusCode::MISDIRECTED_REQUEST, text).into_response();
    }
    let origin = if allows(&access.origins, "*") { Some(HeaderValue::from_static("*")) } else { named(&access, request.headers()) };
    let mut response = match *request.method() {
        Method::OPTIONS => StatusCode::OK.into_response(),
        _ => next.run(request).await,
    };
    if let Some(origin) = origin {
        let headers = response.headers_mut();
        headers.append(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("POST, GET, OPTIONS, PUT, DELETE"));
        headers.append(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.append(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("accept, content-type, authorization"));
    }
    response
}

/// Calls of gRPC come over HTTP/2 only, as in etcd: what a page makes a browser send must not pass by the check above.
pub(crate) async fn only_http2(request: Request, next: Next) -> Response {
    if request.version() < Version::HTTP_2 {
        return crate::http::no_page();
    }
    next.run(request).await
}

fn named(access: &Access, headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    allows(&access.origins, origin.to_str().ok()?).then(|| origin.clone())
}

/// The host a request means, without its port.
fn host(request: &Request) -> String {
    let named = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let authority = named.or_else(|| request.uri().authority().map(|authority| authority.as_str())).unwrap_or_default();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.chars().all(|digit| digit.is_ascii_digit()) => host,
        _ => authority,
    };
    host.trim_matches(['[', ']']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::{Router, body::Body, middleware::from_fn_with_state, routing::get};
    use tower::ServiceExt as _;

    async fn ask(access: &Access, secure: bool, method: &str, headers: &[(&str, &str)]) -> Response {
        let guarded = from_fn_with_state(Arc::new(access.clone()), check);
        let router = Router::new().route("/", get(|| async { "in" })).layer(guarded);
        let mut request = http::Request::builder().method(method).uri("/").extension(Secure(secure));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    fn access(hosts: &[&str], origins: &[&str]) -> Access {
        let owned = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect();
        Access { hosts: owned(hosts), origins: owned(origins) }
    }

    #[tokio::test]
    async fn strange_hosts_are_kept_out_unless_the_request_is_secure() {
        let listed = access(&["localhost", "::1"], &["*"]);
        for (secure, host, code) in
            [(false, "localhost:2379", 200), (false, "[::1]:2379", 200), (false, "evil.example", 421), (true, "evil.example", 200)]
        {
            assert_eq!(ask(&listed, secure, "GET", &[("host", host)]).await.status(), code, "{host}");
        }
        for open in [access(&[], &[]), access(&["*"], &["*"])] {
            assert_eq!(ask(&open, false, "GET", &[("host", "evil.example")]).await.status(), 200);
        }
    }

    #[tokio::test]
    async fn calls_of_grpc_are_not_found_below_http_2() {
        let router = Router::new().route("/", get(|| async { "in" })).route_layer(axum::middleware::from_fn(only_http2));
        for (version, code) in [(Version::HTTP_10, 404), (Version::HTTP_11, 404), (Version::HTTP_2, 200)] {
            let request = http::Request::builder().version(version).uri("/").body(Body::empty()).unwrap();
            assert_eq!(router.clone().oneshot(request).await.unwrap().status(), code, "{version:?}");
        }
    }

    #[tokio::test]
    async fn pages_of_allowed_origins_may_read_answers() {
        let listed = access(&["*"], &["http://a"]);
        let origin = async |access: &Access, origin: &str| {
            let response = ask(access, false, "OPTIONS", &[("origin", origin)]).await;
            assert_eq!(response.status(), 200);
            response.headers().get("access-control-allow-origin").map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(origin(&listed, "http://a").await.as_deref(), Some("http://a"));
        assert_eq!(origin(&listed, "http://b").await, None);
        assert_eq!(origin(&access(&["*"], &["*"]), "http://b").await.as_deref(), Some("*"));
    }
}
