//! port-forward from end to end: over SPDY, over SPDY in a WebSocket, and over the channels of a WebSocket.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use futures::{SinkExt, StreamExt};
use http::{Response, header, request::Parts};
use hyper_util::rt::TokioIo;
use streaming::{
    Limits,
    port_forward::{TUNNEL, accept, request_headers},
    spdy::{Connection, Headers, Options, Role, Stream},
    websocket,
};
use support::{ask, channels, client, send};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio_tungstenite::tungstenite::Message;

/// Answers as a pod that listens on port 7 and says again what it hears.
fn answer(request: &mut Parts, ports: &[u16]) -> Response<String> {
    let (response, opening) = match accept(request, ports, Limits::default()) {
        Ok(accepted) => accepted,
        Err(refused) => return *refused,
    };
    tokio::spawn(async move {
        let mut forwards = opening.await.unwrap();
        while let Some(mut forward) = forwards.next().await {
            tokio::spawn(async move {
                if forward.port != 7 {
                    return forward.finish(Err("connection refused".into())).await;
                }
                let mut heard = [0; 5];
                forward.data.read_exact(&mut heard).await.unwrap();
                forward.data.write_all(&heard).await.unwrap();
                forward.finish(Ok(())).await
            });
        }
    });
    response.map(|()| String::new())
}

async fn open(connection: &Connection, request: u32, port: u16) -> (Stream, Stream) {
    let (port, request) = (port.to_string(), request.to_string());
    let headers = |kind| Headers::new([("streamType", kind), ("port", port.as_str()), ("requestID", request.as_str())]);
    let mut error = connection.open(headers("error")).await.unwrap();
    error.shutdown().await.unwrap();
    (connection.open(headers("data")).await.unwrap(), error)
}

/// Forwards several connections, one of them to a port nobody listens on.
async fn forward_some(connection: Connection) {
    let (mut refused, mut refused_error) = open(&connection, 0, 8).await;
    let mut open_ones = Vec::new();
    for request in 1..20 {
        open_ones.push(open(&connection, request, 7).await);
    }
    for (data, _) in &mut open_ones {
        data.write_all(b"hello").await.unwrap();
    }
    for (mut data, mut error) in open_ones {
        let (mut heard, mut text) = (String::new(), String::new());
        data.read_to_string(&mut heard).await.unwrap();
        error.read_to_string(&mut text).await.unwrap();
        assert_eq!((heard.as_str(), text.as_str()), ("hello", ""));
    }
    let (mut heard, mut text) = (String::new(), String::new());
    refused.read_to_string(&mut heard).await.unwrap();
    refused_error.read_to_string(&mut text).await.unwrap();
    assert_eq!((heard.as_str(), text.as_str()), ("", "connection refused"));
    connection.close().await;
}

#[tokio::test]
async fn many_connections_share_one_of_spdy() {
    let (response, io) = ask(request_headers(), |request| answer(request, &[])).await;
    assert_eq!(response.headers()["x-stream-protocol-version"], "portforward.k8s.io");
    forward_some(Connection::new(io.unwrap(), Role::Client, Options::default())).await;
}

#[tokio::test]
async fn a_stream_that_makes_no_sense_is_reset() {
    let (_, io) = ask(request_headers(), |request| answer(request, &[])).await;
    let connection = Connection::new(io.unwrap(), Role::Client, Options::default());
    for headers in [vec![("port", "7")], vec![("port", "0"), ("streamType", "data")], vec![("port", "7"), ("streamType", "x")]] {
        let mut stream = connection.open(Headers::new(headers)).await.unwrap();
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    }
    let (mut data, _error) = open(&connection, 1, 7).await;
    data.write_all(b"hello").await.unwrap();
    assert_eq!(data.read_exact(&mut [0; 5]).await.unwrap(), 5);
}

/// A pod behind an API server that unwraps the tunnel.
fn tunnelled(request: &mut Parts) -> Response<String> {
    let (response, _) = websocket::accept(&request.headers, &[TUNNEL]).unwrap();
    let switching = request.extensions.remove::<hyper::upgrade::OnUpgrade>().unwrap();
    tokio::spawn(async move {
        let mut tunnel = websocket::tunnel(TokioIo::new(switching.await.unwrap())).await;
        let (_, pod) = ask(request_headers(), |request| answer(request, &[])).await;
        tokio::io::copy_bidirectional(&mut tunnel, &mut pod.unwrap()).await
    });
    response.map(|()| String::new())
}

#[tokio::test]
async fn a_websocket_carries_spdy_in_a_tunnel() {
    let (response, io) = ask(support::websocket(&[TUNNEL]), tunnelled).await;
    assert_eq!(response.headers()[header::SEC_WEBSOCKET_PROTOCOL], TUNNEL);
    let (mut to, mut from) = client(io.unwrap()).await.split();
    let (near, far) = duplex(64 * 1024);
    let (mut reader, mut writer) = tokio::io::split(far);
    tokio::spawn(async move {
        let mut piece = vec![0; 8 * 1024];
        while let Ok(length @ 1..) = reader.read(&mut piece).await {
            to.send(Message::binary(piece[..length].to_vec())).await.unwrap();
        }
        let _ = to.send(Message::Close(None)).await;
    });
    let back = tokio::spawn(async move {
        while let Some(Ok(Message::Binary(bytes))) = from.next().await {
            writer.write_all(&bytes).await.unwrap();
        }
    });
    forward_some(Connection::new(near, Role::Client, Options::default())).await;
    back.await.unwrap();
}

#[tokio::test]
async fn channels_of_a_websocket_begin_with_their_port() {
    let (_, io) = ask(support::websocket(&["v4.channel.k8s.io"]), |request| answer(request, &[7, 8])).await;
    let mut socket = client(io.unwrap()).await;
    send(&mut socket, b"\0hello").await;
    let mut said = channels(&mut socket).await;
    said.sort();
    let expected =
        [(0, b"\x07\0hello".to_vec()), (1, b"\x07\0".to_vec()), (2, b"\x08\0".to_vec()), (3, b"\x08\0connection refused".to_vec())];
    assert_eq!(said, expected);
}

#[tokio::test]
async fn a_websocket_must_name_its_ports() {
    let (response, _) = ask(support::websocket(&["v4.channel.k8s.io"]), |request| answer(request, &[])).await;
    assert_eq!((response.status().as_u16(), response.body().as_str()), (400, "query parameter \"port\" is required\n"));
}
