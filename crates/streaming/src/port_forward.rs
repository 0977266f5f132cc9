//! port-forward: connections to ports of a pod, many over one connection of the client's.

mod pairs;

use std::{collections::VecDeque, iter::zip};

use http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts};
use tokio::{
    io::{AsyncWriteExt, join},
    sync::mpsc,
};

use crate::{
    Accepted, Duplex, Error, Limits, PING, Refusal, Writer, spdy,
    spdy::{Connection, Options, Role},
    upgrade::{PROTOCOL_VERSION, accept_spdy, connection, refuse, switched},
    websocket::{self, Channels, Codec, is_websocket},
};
use pairs::Pairs;

/// The protocol spoken over SPDY.
pub const PROTOCOL: &str = "portforward.k8s.io";
/// The WebSocket subprotocol in which that is tunnelled, SPDY and all: see [`websocket::tunnel`].
pub const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";

const WEBSOCKET: &[(&str, Codec)] =
    &[("v4.channel.k8s.io", Codec::Binary), ("v4.base64.channel.k8s.io", Codec::Base64), ("", Codec::Binary)];
/// Ports one WebSocket can carry: each takes two channels, numbered with a byte.
const MOST_PORTS: usize = 100;

/// The headers of a request that asks a kubelet or runtime for ports.
pub fn request_headers() -> HeaderMap {
    HeaderMap::from_iter([
        (header::CONNECTION, HeaderValue::from_static("Upgrade")),
        (header::UPGRADE, HeaderValue::from_static(spdy::PROTOCOL)),
        (PROTOCOL_VERSION, HeaderValue::from_static(PROTOCOL)),
    ])
}

/// One connection to a port.
pub struct Forward {
    /// The pod's port.
    pub port: u16,
    /// What goes there and comes from there.
    pub data: Box<dyn Duplex>,
    error: Writer,
    /// Gone when a WebSocket client's ports are all done.
    _open: Option<mpsc::Sender<()>>,
}

impl Forward {
    /// Ends the connection; a failure's text is what the client shows. Errors: the client is gone.
    pub async fn finish(mut self, result: Result<(), String>) -> Result<(), Error> {
        if let Err(text) = result {
            self.error.write_all(text.as_bytes()).await?;
        }
        self.data.shutdown().await?;
        self.error.shutdown().await?;
        Ok(())
    }
}

/// The connections a client opens. Dropped, all of them are closed.
pub struct Forwards(Link);

enum Link {
    Spdy(Pairs),
    WebSocket { channels: Channels, ready: VecDeque<Forward>, open: mpsc::Receiver<()> },
}

impl Forwards {
    /// The next connection; `None` when the client is gone.
    pub async fn next(&mut self) -> Option<Forward> {
        match &mut self.0 {
            Link::Spdy(pairs) => pairs.next().await,
            Link::WebSocket { channels, ready, open } => {
                let next = ready.pop_front();
                if next.is_none() {
                    tokio::select! { () = channels.ended() => {}, _ = open.recv() => {} }
                }
                next
            }
        }
    }
}

/// Answers a request for ports, over SPDY, where the client names them as it goes, or over a WebSocket, where they are `ports`.
/// Refusals: 400 and 403 in upstream's words.
pub fn accept(request: &mut Parts, ports: &[u16], limits: Limits) -> Result<Accepted<Forwards>, Refusal> {
    let mut codec = None;
    let response = if is_websocket(&request.headers) {
        if ports.is_empty() || ports.len() > MOST_PORTS {
            return Err(refuse(StatusCode::BAD_REQUEST, "query parameter \"port\" is required"));
        }
        let names: Vec<_> = WEBSOCKET.iter().map(|(name, _)| *name).collect();
        let (response, chosen) = websocket::accept(&request.headers, &names)?;
        codec = WEBSOCKET.iter().find(|(name, _)| *name == chosen).map(|(_, codec)| *codec);
        response
    } else {
        accept_spdy(&request.headers, &[PROTOCOL])?.0
    };
    let switching = connection(request)?;
    let ports = ports.to_vec();
    let opening = async move {
        let io = switched(switching).await?;
        let Some(codec) = codec else {
            let connection = Connection::new(io, Role::Server, Options { idle: limits.idle, ping: Some(PING) });
            return Ok(Forwards(Link::Spdy(Pairs::new(connection, limits.creation))));
        };
        let incoming = [true, false].repeat(ports.len());
        let (channels, mut inboxes) = websocket::open(io, codec, &incoming, limits.idle);
        let (held, open) = mpsc::channel(1);
        let mut ready = VecDeque::new();
        for (pair, port) in zip(0_u8.., ports) {
            let (data, error) = (pair * 2, pair * 2 + 1);
            // Each channel begins with its port.
            channels.send(data, &port.to_le_bytes()).await?;
            channels.send(error, &port.to_le_bytes()).await?;
            let inbox = inboxes[usize::from(data)].take().ok_or(Error::Closed)?;
            let data = Box::new(join(inbox, channels.writer(data)));
            ready.push_back(Forward { port, data, error: Box::new(channels.writer(error)), _open: Some(held.clone()) });
        }
        Ok(Forwards(Link::WebSocket { channels, ready, open }))
    };
    Ok((response, Box::pin(opening)))
}
