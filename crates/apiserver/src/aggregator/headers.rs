//! What a request is handed on with, and its answer back. Pure.

use apimachinery::status::Status;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, request::Parts};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::network::Address;
use crate::request::UserInfo;

const USER: HeaderName = HeaderName::from_static("x-remote-user");
const UID: HeaderName = HeaderName::from_static("x-remote-uid");
const GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const EXTRA: &str = "x-remote-extra-";
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Headers about one connection and not about the request.
const HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// Set by this server for every client, whoever answers.
const CORS: [&str; 4] =
    ["access-control-allow-credentials", "access-control-allow-headers", "access-control-allow-methods", "access-control-allow-origin"];
/// All that may stand in a header's name (RFC 9110's token).
const TOKEN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'*')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// What the header `Connection` lists.
fn tokens(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// Whether a client wants to switch protocols. Upstream: `httpstream.IsUpgradeRequest`.
pub(super) fn is_upgrade(headers: &HeaderMap) -> bool {
    tokens(headers).any(|token| token.eq_ignore_ascii_case("upgrade"))
}

/// The headers without those of the connection, also such as the header `Connection` names.
fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let named: Vec<String> = tokens(headers).map(|token| token.to_ascii_lowercase()).collect();
    let kept = headers.iter().filter(|(name, _)| !HOP.contains(&name.as_str()) && !named.iter().any(|other| other == name.as_str()));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Whether a header is a word about who asks, which only this server may give.
fn is_identity(name: &HeaderName) -> bool {
    [USER, UID, GROUP, header::AUTHORIZATION].contains(name)
        || name.as_str().starts_with(EXTRA)
        || name.as_str().starts_with("impersonate-")
}

/// The headers of a request handed on to `address` in the name of `user`. Errors: a user whom no header can name.
pub(super) fn request(parts: &Parts, user: &UserInfo, address: &Address, client: Option<std::net::IpAddr>) -> Result<HeaderMap, Status> {
    let mut headers: HeaderMap = HeaderMap::new();
    for (name, value) in &end_to_end(&parts.headers) {
        if !is_identity(name) && *name != header::HOST {
            headers.append(name.clone(), value.clone());
        }
    }
    if is_upgrade(&parts.headers) {
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        for protocol in parts.headers.get_all(header::UPGRADE) {
            headers.append(header::UPGRADE, protocol.clone());
        }
    }
    identify(&mut headers, user)?;
    let known = headers.get(FORWARDED_FOR).and_then(|value| value.to_str().ok());
    let chain = known.map(str::to_owned).into_iter().chain(client.map(|client| client.to_string())).collect::<Vec<_>>().join(", ");
    let host = address.to_string();
    let forwarded: [(&'static str, &str); 4] =
        [("x-forwarded-uri", parts.uri.path()), ("x-forwarded-host", &host), ("x-forwarded-proto", "https"), ("x-forwarded-for", &chain)];
    for (name, value) in forwarded.into_iter().filter(|(_, value)| !value.is_empty()) {
        headers.insert(HeaderName::from_static(name), value_of(value)?);
    }
    Ok(headers)
}

/// Names the user. Upstream: `transport.SetAuthProxyHeaders`.
pub(super) fn identify(headers: &mut HeaderMap, user: &UserInfo) -> Result<(), Status> {
    headers.insert(USER, value_of(&user.name)?);
    if !user.uid.is_empty() {
        headers.insert(UID, value_of(&user.uid)?);
    }
    for group in &user.groups {
        headers.append(GROUP, value_of(group)?);
    }
    for (key, values) in &user.extra {
        let name = format!("{EXTRA}{}", utf8_percent_encode(&key.to_lowercase(), TOKEN)).to_lowercase();
        let name = HeaderName::try_from(name).map_err(Status::internal)?;
        for value in values {
            headers.append(name.clone(), value_of(value)?);
        }
    }
    Ok(())
}

fn value_of(text: &str) -> Result<HeaderValue, Status> {
    HeaderValue::from_bytes(text.as_bytes()).map_err(|_| Status::internal(format!("no header can hold {text:?}")))
}

/// The headers of an answer. One that switches protocols keeps those that say so.
pub(super) fn response(headers: &HeaderMap, switches: bool) -> HeaderMap {
    if switches {
        return headers.clone();
    }
    let mut headers = end_to_end(headers);
    CORS.iter().for_each(|name| drop(headers.remove(*name)));
    headers
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn handed_on(given: &[(&'static str, &'static str)], user: &UserInfo) -> HeaderMap {
        let (mut parts, ()) = http::Request::get("/apis/g/v1/things?a=b").body(()).unwrap().into_parts();
        for (name, value) in given {
            parts.headers.append(*name, HeaderValue::from_static(value));
        }
        request(&parts, user, &Address { host: "fd00::1".into(), port: 443 }, Some([10, 0, 0, 7].into())).unwrap()
    }

    #[test]
    fn who_asks_is_said_by_this_server_alone() {
        let mut user = UserInfo::new("alice", &["a", "b"]);
        user.extra = BTreeMap::from([("acme.com/project".to_owned(), vec!["p".to_owned(), "q".to_owned()])]);
        let forged = [
            ("authorization", "Bearer x"),
            ("x-remote-user", "admin"),
            ("x-remote-group", "system:masters"),
            ("x-remote-uid", "1"),
            ("x-remote-extra-scope", "all"),
            ("impersonate-user", "admin"),
            ("accept", "application/json"),
        ];
        let headers = handed_on(&forged, &user);
        let all = |name: &str| headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect::<Vec<_>>();
        assert_eq!((all("x-remote-user"), all("x-remote-group")), (vec!["alice"], vec!["a", "b"]));
        assert_eq!(all("x-remote-extra-acme.com%2fproject"), ["p", "q"]);
        for gone in ["authorization", "x-remote-uid", "x-remote-extra-scope", "impersonate-user"] {
            assert!(all(gone).is_empty(), "{gone}");
        }
        assert_eq!(all("accept"), ["application/json"]);
        assert_eq!((all("x-forwarded-for"), all("x-forwarded-host")), (vec!["10.0.0.7"], vec!["[fd00::1]:443"]));
    }

    #[test]
    fn headers_of_the_connection_stay_behind_but_for_a_switch_of_protocols() {
        let user = UserInfo::new("alice", &[]);
        let plain = handed_on(&[("connection", "close, X-Secret"), ("x-secret", "1"), ("te", "trailers"), ("upgrade", "h2c")], &user);
        assert!(["connection", "x-secret", "te", "upgrade"].iter().all(|name| !plain.contains_key(*name)), "{plain:?}");
        let switch = handed_on(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")], &user);
        assert!(switch["connection"] == "Upgrade" && switch["upgrade"] == "websocket", "{switch:?}");
    }

    #[test]
    fn an_answer_brings_no_rules_for_browsers_of_its_own() {
        let mut headers = HeaderMap::new();
        for name in ["access-control-allow-origin", "transfer-encoding", "content-type"] {
            headers.insert(name, HeaderValue::from_static("x"));
        }
        assert_eq!(response(&headers, false).keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["content-type"]);
    }
}
