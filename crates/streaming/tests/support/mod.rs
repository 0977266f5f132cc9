//! One request over a connection in memory, switched to another protocol on both ends.

use std::convert::Infallible;

use futures::{SinkExt, StreamExt};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header, request::Parts};
use hyper::{body::Incoming, service::service_fn, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::duplex;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, protocol::Role},
};

pub(crate) type Io = TokioIo<Upgraded>;
pub(crate) type WebSocket = WebSocketStream<Io>;

/// Sends a request with `headers` to `serve`; yields the answer's head and, where it switches, the connection.
pub(crate) async fn ask<F>(headers: HeaderMap, serve: F) -> (Response<String>, Option<Io>)
where
    F: Fn(&mut Parts) -> Response<String> + Clone + Send + 'static,
{
    let (near, far) = duplex(64 * 1024);
    tokio::spawn(async move {
        let service = service_fn(move |request: Request<Incoming>| {
            let serve = serve.clone();
            async move { Ok::<_, Infallible>(serve(&mut request.into_parts().0)) }
        });
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(far), service).with_upgrades().await
    });
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(near)).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    let mut request = Request::post("/exec").header(header::HOST, "test").body(String::new()).unwrap();
    request.headers_mut().extend(headers);
    let mut response = sender.send_request(request).await.unwrap();
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let io = hyper::upgrade::on(&mut response).await.unwrap();
        return (response.map(|_| String::new()), Some(TokioIo::new(io)));
    }
    let (parts, body) = response.into_parts();
    let text = text(body).await;
    (Response::from_parts(parts, text), None)
}

async fn text(mut body: Incoming) -> String {
    let mut bytes = Vec::new();
    while let Some(frame) = std::future::poll_fn(|cx| hyper::body::Body::poll_frame(std::pin::Pin::new(&mut body), cx)).await {
        bytes.extend(frame.unwrap().into_data().unwrap());
    }
    String::from_utf8(bytes).unwrap()
}

/// The headers of a WebSocket request.
pub(crate) fn websocket(protocols: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::from_iter([
        (header::CONNECTION, HeaderValue::from_static("keep-alive, Upgrade")),
        (header::UPGRADE, HeaderValue::from_static("websocket")),
        (header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13")),
        (header::SEC_WEBSOCKET_KEY, HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ==")),
    ]);
    if !protocols.is_empty() {
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::try_from(protocols.join(", ")).unwrap());
    }
    headers
}

/// The client's end of a WebSocket.
pub(crate) async fn client(io: Io) -> WebSocket {
    WebSocketStream::from_raw_socket(io, Role::Client, None).await
}

pub(crate) async fn send(socket: &mut WebSocket, bytes: &[u8]) {
    socket.send(Message::binary(bytes.to_vec())).await.unwrap();
}

/// All messages to the orderly end, those of a channel put together: `(number, bytes)` in order of appearance.
pub(crate) async fn channels(socket: &mut WebSocket) -> Vec<(u8, Vec<u8>)> {
    let mut channels: Vec<(u8, Vec<u8>)> = Vec::new();
    while let Some(message) = socket.next().await {
        let bytes = match message.unwrap() {
            Message::Close(frame) => {
                assert_eq!(frame.map(|frame| u16::from(frame.code)), Some(1000));
                continue;
            }
            message => message.into_data(),
        };
        let (channel, rest) = bytes.split_first().unwrap();
        match channels.iter_mut().find(|(known, _)| known == channel) {
            Some((_, bytes)) => bytes.extend(rest),
            None => channels.push((*channel, rest.to_vec())),
        }
    }
    channels
}
