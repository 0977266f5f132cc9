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
pub(crate) fn open<I>(io: I, codec: Codec, incoming: &[bool], idle: Option<Duration>) -> (Channels, Vec<Option<Inbox>>)
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
    idle: Option<Duration>,
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// A masked frame, as clients send them.
    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [1, 2, 3, 4];
        let length = u8::try_from(payload.len()).unwrap();
        let masked = payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
        [first, 0x80 | length].into_iter().chain(mask).chain(masked).collect()
    }

    /// A client that sends whatever it likes, some of it well formed.
    fn sent() -> impl Strategy<Value = Vec<u8>> {
        let garbage = proptest::collection::vec(any::<u8>(), 0..40);
        let sound = (prop::sample::select(vec![0x82, 0x81, 0x02, 0x80, 0x88, 0x89, 0x8a]), garbage.clone());
        let parts = prop_oneof![6 => sound.prop_map(|(first, payload)| frame(first, &payload)), 1 => garbage];
        proptest::collection::vec(parts, 0..20).prop_map(|parts| parts.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn no_client_makes_a_connection_panic_or_hang(bytes in sent(), codec in prop::sample::select(vec![Codec::Closing, Codec::Base64])) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (near, mut far) = duplex(16 * 1024);
                let (channels, inboxes) = open(near, codec, &[true, false, false, false, true], Some(Duration::from_secs(60)));
                let client = tokio::spawn(async move {
                    let _ = far.write_all(&bytes).await;
                    let _ = far.shutdown().await;
                    let _ = far.read_to_end(&mut Vec::new()).await;
                });
                for mut inbox in inboxes.into_iter().flatten() {
                    tokio::spawn(async move { inbox.read_to_end(&mut Vec::new()).await });
                }
                channels.ended().await;
                channels.close().await;
                client.await.unwrap();
            });
        }
    }

    #[tokio::test]
    async fn a_client_that_leaves_without_a_word_is_no_end_of_its_input() {
        let (near, mut far) = duplex(1024);
        let (_channels, mut inboxes) = open(near, Codec::Closing, &[true], None);
        far.write_all(&frame(0x82, b"\0some")).await.unwrap();
        drop(far);
        let (mut stdin, mut read) = (inboxes[0].take().unwrap(), Vec::new());
        let end = stdin.read_to_end(&mut read).await.unwrap_err();
        assert_eq!((read.as_slice(), end.kind()), (&b"some"[..], io::ErrorKind::UnexpectedEof));
    }

    #[tokio::test]
    async fn an_idle_connection_is_closed() {
        let (near, _far) = duplex(1024);
        let (channels, _) = open(near, Codec::Closing, &[true], Some(Duration::from_millis(20)));
        channels.ended().await;
    }
}
