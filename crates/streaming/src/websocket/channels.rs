//! The server's end of a channel protocol.

use std::{
    io,
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::{SinkExt, Stream, StreamExt};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, interval_at},
};
use tokio_tungstenite::tungstenite::{
    self, Message,
    protocol::{CloseFrame, frame::coding::CloseCode},
};

use super::{
    codec::{Codec, Event},
    server,
};
use crate::{
    Error, Malformed, PING,
    idle::Activity,
    inbox::{Inbox, Inlet, inbox},
    outbox::{Outbox, Outlet, PIECE, Writer, outbox},
};

/// After one side has closed, the other gets this long to do so.
const LINGER: Duration = Duration::from_secs(5);

/// A connection of channels. Dropped, it sends what is queued and closes.
pub(crate) struct Channels {
    codec: Codec,
    outbox: Outbox<Message>,
    driver: Option<JoinHandle<()>>,
    /// Dropped by the driver at its end.
    ended: mpsc::Sender<()>,
}

/// Serves channels over a switched connection; must be called within a runtime. `incoming` tells which channels the client may
/// write; they come back as readers, in order.
pub(crate) fn open<I>(io: I, codec: Codec, incoming: &[bool], idle: Duration) -> (Channels, Vec<Option<Inbox>>)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let pairs = incoming.iter().map(|wanted| wanted.then(inbox).unzip());
    let (inlets, inboxes): (Vec<_>, Vec<_>) = pairs.unzip();
    let (outbox, outlet) = outbox();
    let (ended, alive) = mpsc::channel(1);
    let driver = tokio::spawn(drive(io, codec, inlets, outlet, idle, alive));
    (Channels { codec, outbox, driver: Some(driver), ended }, inboxes)
}

impl Channels {
    /// What is written goes to the client on that channel.
    pub(crate) fn writer(&self, channel: u8) -> ChannelWriter {
        ChannelWriter { channel, codec: self.codec, writer: self.outbox.writer(), shut: false }
    }

    /// Sends one message. Errors: the connection has ended.
    pub(crate) async fn send(&self, channel: u8, bytes: &[u8]) -> io::Result<()> {
        self.outbox.send(self.codec.encode(channel, bytes)).await
    }

    /// Returns when the client is gone.
    pub(crate) async fn ended(&self) {
        self.ended.closed().await;
    }

    /// Sends what is queued and closes; returns when the connection has ended.
    pub(crate) async fn close(mut self) {
        self.outbox.push(normal_close());
        if let Some(driver) = self.driver.take() {
            let _ = driver.await;
        }
    }
}

impl Drop for Channels {
    fn drop(&mut self) {
        self.outbox.push(normal_close());
    }
}

fn normal_close() -> Message {
    Message::Close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() }))
}

/// One channel to the client. There is no way to tell it that one ends.
pub(crate) struct ChannelWriter {
    channel: u8,
    codec: Codec,
    writer: Writer<Message>,
    shut: bool,
}

impl AsyncWrite for ChannelWriter {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.shut {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        this.writer.poll_write(cx, bytes, |piece| this.codec.encode(this.channel, piece))
    }

    /// The connection writes what is queued as soon as it can.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shut = true;
        Poll::Ready(Ok(()))
    }
}

async fn drive<I: AsyncRead + AsyncWrite + Unpin>(
    io: I,
    codec: Codec,
    mut inlets: Vec<Option<Inlet>>,
    outlet: Outlet<Message>,
    idle: Duration,
    alive: mpsc::Receiver<()>,
) {
    let activity = Activity::new();
    let (sink, stream) = server(io).await.split();
    let failure = {
        let mut reading = pin!(read(stream, codec, &mut inlets, &activity));
        let mut writing = pin!(write(sink, outlet, &activity));
        tokio::select! {
            end = &mut reading => end.err().map(|_| io::ErrorKind::UnexpectedEof),
            end = &mut writing => match end {
                Ok(()) => {
                    let _ = tokio::time::timeout(LINGER, reading).await;
                    None
                }
                Err(_) => Some(io::ErrorKind::BrokenPipe),
            },
            () = activity.ceased_for(idle) => Some(io::ErrorKind::TimedOut),
        }
    };
    if let Some(kind) = failure {
        inlets.iter().flatten().for_each(|inlet| inlet.fail(kind));
    }
    drop(alive);
}

/// Hands on what the client sends until it closes. Errors: it was cut off, or broke the protocol.
async fn read(
    mut stream: impl Stream<Item = tungstenite::Result<Message>> + Unpin,
    codec: Codec,
    inlets: &mut [Option<Inlet>],
    activity: &Activity,
) -> Result<(), Error> {
    while let Some(message) = stream.next().await {
        let bytes = match message.map_err(|_| io::Error::from(io::ErrorKind::UnexpectedEof))? {
            Message::Binary(bytes) => bytes,
            Message::Text(text) => text.into(),
            Message::Close(_) => {
                // Reading on sends the answer.
                let _ = tokio::time::timeout(LINGER, stream.next()).await;
                return Ok(());
            }
            _ => continue,
        };
        activity.seen();
        match codec.decode(bytes)? {
            Some(Event::Data(channel, mut bytes)) => {
                let Some(Some(inlet)) = inlets.get(usize::from(channel)) else { continue };
                while !bytes.is_empty() {
                    inlet.deliver(bytes.split_to(bytes.len().min(PIECE))).await;
                }
            }
            Some(Event::Close(channel)) => match inlets.get_mut(usize::from(channel)) {
                Some(inlet) => *inlet = None,
                None => return Err(Malformed("a close signal for a channel there is not").into()),
            },
            None => {}
        }
    }
    Err(io::Error::from(io::ErrorKind::UnexpectedEof).into())
}

/// Writes messages up to the one that closes.
async fn write<S>(mut sink: S, mut outlet: Outlet<Message>, activity: &Activity) -> tungstenite::Result<()>
where
    S: SinkExt<Message, Error = tungstenite::Error> + Unpin,
{
    let mut pings = interval_at(Instant::now() + PING, PING);
    loop {
        let (message, _place) = tokio::select! {
            next = outlet.next() => match next {
                Some(next) => next,
                None => return Ok(()),
            },
            _ = pings.tick() => (Message::Ping(Bytes::new()), None),
        };
        let last = matches!(message, Message::Close(_));
        if !message.is_ping() {
            activity.seen();
        }
        sink.feed(message).await?;
        if last || outlet.is_empty() {
            sink.flush().await?;
        }
        if last {
            return Ok(());
        }
    }
}
