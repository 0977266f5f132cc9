//! The side that runs the command.

use std::time::Duration;

use http::request::Parts;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::{Outcome, STREAM_TYPE, Streams, V1, V2, V3, V4};
use crate::{
    Accepted, Error, Limits, PING, Reader, Refusal, Writer,
    spdy::{Connection, Options, Role, SendHalf},
    upgrade::{accept_spdy, connection, switched},
    websocket::{self, Channels, Codec, is_websocket},
};

const SPDY: &[&str] = &[V4, V3, V2, V1];
/// WebSocket protocols: how messages are written, and whether the outcome is a Status.
const WEBSOCKET: &[(&str, Codec, bool)] = &[
    ("v5.channel.k8s.io", Codec::Closing, true),
    (V4, Codec::Binary, true),
    ("v4.base64.channel.k8s.io", Codec::Base64, true),
    (V1, Codec::Binary, false),
    ("base64.channel.k8s.io", Codec::Base64, false),
    ("", Codec::Binary, false),
];

/// Channels of the WebSocket protocols.
mod channel {
    pub(super) const STDIN: u8 = 0;
    pub(super) const STDOUT: u8 = 1;
    pub(super) const STDERR: u8 = 2;
    pub(super) const ERROR: u8 = 3;
    pub(super) const RESIZE: u8 = 4;
}

/// A client's end of a command.
pub struct Session {
    /// What it sends, to the end of its half.
    pub stdin: Option<Reader>,
    /// What it is to see.
    pub stdout: Option<Writer>,
    /// What it is to see apart.
    pub stderr: Option<Writer>,
    /// Sizes of its terminal, for [`super::Resizes`].
    pub resize: Option<Reader>,
    /// The client itself.
    pub client: Client,
}

/// A client that waits for its command to end. Dropped, it is left without an outcome.
pub struct Client {
    link: Link,
    /// Whether it reads the outcome as a Status; else as text.
    reads_status: bool,
}

enum Link {
    Spdy { connection: Connection, error: SendHalf },
    WebSocket(Channels),
}

impl Client {
    /// Returns when it is gone.
    pub async fn gone(&self) {
        match &self.link {
            Link::Spdy { connection, .. } => connection.ended().await,
            Link::WebSocket(channels) => channels.ended().await,
        }
    }

    /// Tells how the command ended and closes, after all that was written. Errors: it is gone already.
    pub async fn finish(self, outcome: Outcome) -> Result<(), Error> {
        let said = if self.reads_status { outcome.status().to_string() } else { outcome.text() };
        match self.link {
            Link::Spdy { connection, mut error } => {
                error.write_all(said.as_bytes()).await?;
                error.shutdown().await?;
                connection.close().await;
            }
            Link::WebSocket(channels) => {
                if !said.is_empty() {
                    channels.send(channel::ERROR, said.as_bytes()).await?;
                }
                channels.close().await;
            }
        }
        Ok(())
    }
}

/// Answers a request for exec or attach, over SPDY or a WebSocket. The session opens once the answer is sent and the client has
/// opened its streams. Refusals: 400 and 403 in upstream's words.
pub fn accept(request: &mut Parts, streams: Streams, limits: Limits) -> Result<Accepted<Session>, Refusal> {
    let streams = streams.with_one_output_on_a_terminal();
    let (response, protocol) = if is_websocket(&request.headers) {
        let names: Vec<_> = WEBSOCKET.iter().map(|(name, _, _)| *name).collect();
        websocket::accept(&request.headers, &names)?
    } else {
        accept_spdy(&request.headers, SPDY)?
    };
    let websocket = is_websocket(&request.headers);
    let switching = connection(request)?;
    let opening = async move {
        let io = switched(switching).await?;
        match WEBSOCKET.iter().find(|(name, _, _)| websocket && *name == protocol) {
            Some((_, codec, reads_status)) => open_channels(io, streams, *codec, *reads_status, limits.idle).await,
            None => {
                let opening = open_streams(io, streams, protocol, limits.idle);
                let late = |_| Error::Late("the client to create streams");
                tokio::time::timeout(limits.creation, opening).await.map_err(late)?
            }
        }
    };
    Ok((response, Box::pin(opening)))
}

async fn open_channels<I>(io: I, streams: Streams, codec: Codec, reads_status: bool, idle: Option<Duration>) -> Result<Session, Error>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let incoming = [streams.stdin, false, false, false, streams.tty];
    let (channels, mut inboxes) = websocket::open(io, codec, &incoming, idle);
    // As upstream: an empty message tells that the connection stands.
    let first = match streams {
        Streams { stdout: true, .. } => channel::STDOUT,
        Streams { stderr: true, .. } => channel::STDERR,
        _ => channel::ERROR,
    };
    channels.send(first, &[]).await?;
    let mut reader = |channel: u8| Some(Box::new(inboxes[usize::from(channel)].take()?) as Reader);
    let writer = |wanted: bool, channel: u8| wanted.then(|| Box::new(channels.writer(channel)) as Writer);
    Ok(Session {
        stdin: reader(channel::STDIN),
        stdout: writer(streams.stdout, channel::STDOUT),
        stderr: writer(streams.stderr, channel::STDERR),
        resize: reader(channel::RESIZE),
        client: Client { link: Link::WebSocket(channels), reads_status },
    })
}

/// Waits for as many streams as the client asked for.
async fn open_streams<I>(io: I, streams: Streams, protocol: &str, idle: Option<Duration>) -> Result<Session, Error>
where
    I: AsyncRead + AsyncWrite + Send + 'static,
{
    let mut connection = Connection::new(io, Role::Server, Options { idle, ping: Some(PING) });
    let resizes = streams.tty && matches!(protocol, V4 | V3);
    let (mut error, mut stdin, mut stdout, mut stderr, mut resize) = (None, None, None, None, None);
    let done = |given: bool, wanted: bool| given || !wanted;
    loop {
        let complete = error.is_some()
            && done(stdin.is_some(), streams.stdin)
            && done(stdout.is_some(), streams.stdout)
            && done(stderr.is_some(), streams.stderr)
            && done(resize.is_some(), resizes);
        if complete {
            break;
        }
        let stream = connection.accept().await.ok_or(Error::Closed)?;
        match stream.headers().get(STREAM_TYPE) {
            Some("error") => error = Some(stream.into_split().1),
            Some("stdin") => stdin = Some(stream),
            Some("stdout") => stdout = Some(stream.into_split().1),
            Some("stderr") => stderr = Some(stream.into_split().1),
            Some("resize") => resize = Some(stream.into_split().0),
            other => tracing::debug!(kind = other, "a stream of unknown type"),
        }
    }
    connection.refuse_more();
    let error = error.ok_or(Error::Closed)?;
    Ok(Session {
        stdin: stdin.map(|stream| Box::new(stream) as Reader),
        stdout: stdout.map(|half| Box::new(half) as Writer),
        stderr: stderr.map(|half| Box::new(half) as Writer),
        resize: resize.map(|half| Box::new(half) as Reader),
        client: Client { link: Link::Spdy { connection, error }, reads_status: protocol == V4 },
    })
}
