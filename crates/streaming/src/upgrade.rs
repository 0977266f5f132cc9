//! What a request to switch protocols asks for, and how it is answered or refused.

use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header, request::Parts};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;

use crate::{Error, Refusal, spdy};

/// Protocols a SPDY client offers, and the one a server chose.
pub(crate) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("x-stream-protocol-version");
/// Protocols a server accepts, told with a refusal.
const ACCEPTED_VERSIONS: HeaderName = HeaderName::from_static("x-accepted-stream-protocol-versions");

/// A refusal: what Go's `http.Error` writes.
pub(crate) fn refuse(code: StatusCode, text: &str) -> Refusal {
    let mut response = Response::new(format!("{text}\n"));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Box::new(response)
}

/// An answer that switches to `protocol`.
pub(crate) fn switch(protocol: &'static str) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static(protocol));
    response
}

/// Takes the connection behind a request.
pub(crate) fn connection(request: &mut Parts) -> Result<OnUpgrade, Refusal> {
    let refused = || refuse(StatusCode::INTERNAL_SERVER_ERROR, "unable to upgrade: unable to hijack response");
    request.extensions.remove::<OnUpgrade>().ok_or_else(refused)
}

/// The connection, once the answer is sent.
pub(crate) async fn switched(switching: OnUpgrade) -> Result<TokioIo<Upgraded>, Error> {
    Ok(TokioIo::new(switching.await.map_err(Error::Upgrade)?))
}

/// Whether a request asks to switch protocols.
pub fn is_upgrade(headers: &HeaderMap) -> bool {
    headers.get_all(header::CONNECTION).iter().any(|value| contains(value, "upgrade"))
}

/// Whether a request asks for a WebSocket.
pub fn is_websocket(headers: &HeaderMap) -> bool {
    is_upgrade(headers) && headers.get(header::UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// Answers a request for SPDY with the first of the client's protocols that is one of `accepted`. Refusals: upstream's.
pub(crate) fn accept_spdy(headers: &HeaderMap, accepted: &[&'static str]) -> Result<(Response<()>, &'static str), Refusal> {
    let bad = |text: &str| Err(refuse(StatusCode::BAD_REQUEST, text));
    if !headers.contains_key(PROTOCOL_VERSION) {
        let count = headers.keys_len();
        return bad(&format!("unable to upgrade: header X-Stream-Protocol-Version does not exist in request with {count} headers"));
    }
    let offered = listed(headers, &PROTOCOL_VERSION);
    if offered.is_empty() {
        return bad("unable to upgrade: header X-Stream-Protocol-Version contains [], but no valid protocols");
    }
    let Some(chosen) = offered.iter().find_map(|name| accepted.iter().find(|accepted| *accepted == name)) else {
        let (offered, all) = (offered.join(" "), accepted.join(" "));
        let text = format!("unable to upgrade: unable to negotiate protocol: client supports [{offered}], server accepts [{all}]");
        let mut refused = refuse(StatusCode::FORBIDDEN, &text);
        for name in accepted {
            refused.headers_mut().append(ACCEPTED_VERSIONS, HeaderValue::from_static(name));
        }
        return Err(refused);
    };
    let spdy = headers.get(header::UPGRADE).is_some_and(|value| contains(value, &spdy::PROTOCOL.to_ascii_lowercase()));
    if !spdy || !is_upgrade(headers) {
        return bad("unable to upgrade: missing upgrade headers in request");
    }
    let mut response = switch(spdy::PROTOCOL);
    response.headers_mut().insert(PROTOCOL_VERSION, HeaderValue::from_static(chosen));
    Ok((response, chosen))
}

/// The items of a header that is a list.
pub(crate) fn listed<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Vec<&'a str> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|item| !item.is_empty()).collect()
}

fn contains(value: &HeaderValue, word: &str) -> bool {
    value.to_str().is_ok_and(|value| value.to_ascii_lowercase().contains(word))
}
