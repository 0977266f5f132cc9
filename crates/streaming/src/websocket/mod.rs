//! WebSockets (RFC 6455) and what Kubernetes sends over them: channels, a tunnel, or events.

mod channels;
mod codec;
mod feed;
mod tunnel;

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        handshake::derive_accept_key,
        protocol::{Role, WebSocketConfig},
    },
};

pub(crate) use channels::{Channels, open};
pub(crate) use codec::Codec;
pub use feed::{Marking, feed};
pub use tunnel::tunnel;

pub use crate::upgrade::{is_upgrade, is_websocket};
use crate::{
    Refusal,
    upgrade::{listed, refuse, switch},
};

/// The longest message of a client; upstream's bound.
const MOST: usize = 32 << 20;
/// Bytes read from and written to the connection at once.
const BUFFER: usize = 32 << 10;

/// The subprotocols a client offers, in its order.
pub fn offered(headers: &HeaderMap) -> Vec<&str> {
    listed(headers, &header::SEC_WEBSOCKET_PROTOCOL)
}

/// Answers a WebSocket request with the first of the client's subprotocols that is one of `accepted`; to a client that offers none,
/// the protocol is the empty one, where that is accepted. Refusals: 400 for no handshake, 403 for no common protocol.
pub fn accept(headers: &HeaderMap, accepted: &[&'static str]) -> Result<(Response<()>, &'static str), Refusal> {
    let mut response = shake_hands(headers)?;
    let offered = offered(headers);
    let wanted: &[&str] = if offered.is_empty() { &[""] } else { &offered };
    let Some(chosen) = wanted.iter().find_map(|name| accepted.iter().find(|accepted| *accepted == name)) else {
        let text = format!("requested protocol(s) are not supported: [{}]; supports [{}]", offered.join(" "), accepted.join(" "));
        return Err(refuse(StatusCode::FORBIDDEN, &text));
    };
    if !chosen.is_empty() {
        response.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(chosen));
    }
    Ok((response, chosen))
}

/// Answers a WebSocket request whose messages follow no protocol that has a name: whatever the client offers is confirmed, if it is
/// one thing. Refusals: 400.
pub fn accept_any(headers: &HeaderMap) -> Result<Response<()>, Refusal> {
    let mut response = shake_hands(headers)?;
    match offered(headers)[..] {
        [] => {}
        [only] => {
            let only = HeaderValue::from_str(only).map_err(|_| refuse(StatusCode::BAD_REQUEST, "missing or bad WebSocket-Protocol"))?;
            response.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, only);
        }
        _ => return Err(refuse(StatusCode::BAD_REQUEST, "missing or bad WebSocket-Protocol")),
    }
    Ok(response)
}

/// The answer to a handshake, without a subprotocol.
fn shake_hands(headers: &HeaderMap) -> Result<Response<()>, Refusal> {
    let bad = |text| Err(refuse(StatusCode::BAD_REQUEST, text));
    if !is_websocket(headers) {
        return bad("not websocket protocol");
    }
    if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        let mut refused = refuse(StatusCode::BAD_REQUEST, "missing or bad WebSocket Version");
        refused.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        return Err(refused);
    }
    let Some(key) = headers.get(header::SEC_WEBSOCKET_KEY).filter(|key| !key.is_empty()) else {
        return bad("challenge response");
    };
    let mut response = switch("websocket");
    if let Ok(accept) = HeaderValue::try_from(derive_accept_key(key.as_bytes())) {
        response.headers_mut().insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    Ok(response)
}

/// The server's end of a WebSocket over a connection that was switched.
async fn server<I: AsyncRead + AsyncWrite + Unpin>(io: I) -> WebSocketStream<I> {
    let config = WebSocketConfig::default()
        .read_buffer_size(BUFFER)
        .write_buffer_size(BUFFER)
        .max_message_size(Some(MOST))
        .max_frame_size(Some(MOST));
    WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await
}
