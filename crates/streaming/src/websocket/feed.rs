//! Messages that go one way: the events of a watch.

use std::{pin::pin, time::Duration};

use bytes::Bytes;
use futures::{SinkExt, Stream, StreamExt};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::server;

/// A client that takes nothing for so long is given up.
const PATIENCE: Duration = Duration::from_secs(60);
/// After this side has closed, the client gets this long to do so.
const LINGER: Duration = Duration::from_secs(5);

/// How messages are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marking {
    /// As text, which has to be UTF-8.
    Text,
    /// As bytes.
    Binary,
}

impl Marking {
    fn message(self, bytes: Bytes) -> Message {
        match self {
            Self::Text => Utf8Bytes::try_from(bytes.clone()).map_or(Message::Binary(bytes), Message::Text),
            Self::Binary => Message::Binary(bytes),
        }
    }
}

/// Sends messages over a switched connection until they end or the client goes. What the client sends means nothing.
pub async fn feed<I>(io: I, marking: Marking, messages: impl Stream<Item = Bytes>)
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    let (mut sink, mut stream) = server(io).await.split();
    // Reading also answers pings.
    let mut gone = pin!(async { while let Some(Ok(_)) = stream.next().await {} });
    let sent = async {
        let mut messages = pin!(messages);
        while let Some(bytes) = messages.next().await {
            timeout(PATIENCE, sink.send(marking.message(bytes))).await.ok()?.ok()?;
        }
        timeout(LINGER, sink.close()).await.ok()?.ok()
    };
    let closed = tokio::select! {
        closed = sent => closed.is_some(),
        () = &mut gone => false,
    };
    if closed {
        let _ = timeout(LINGER, gone).await;
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use tokio_tungstenite::{WebSocketStream, tungstenite::protocol::Role};

    use super::*;

    async fn received(marking: Marking, messages: Vec<&'static [u8]>) -> Vec<Message> {
        let (here, there) = tokio::io::duplex(64);
        let messages = stream::iter(messages).map(Bytes::from_static);
        let client = WebSocketStream::from_raw_socket(there, Role::Client, None).await;
        let (received, ()) = tokio::join!(client.map(Result::unwrap).collect(), feed(here, marking, messages));
        received
    }

    #[tokio::test]
    async fn each_item_is_a_message_and_the_end_is_closed() {
        let got = received(Marking::Text, vec![b"a", b"\xff"]).await;
        assert_eq!(got[..2], [Message::text("a"), Message::binary(&b"\xff"[..])]);
        assert!(got.len() == 3 && got[2].is_close(), "{got:?}");
        assert_eq!(received(Marking::Binary, vec![b"a"]).await[0], Message::binary(&b"a"[..]));
    }

    #[tokio::test]
    async fn it_ends_when_the_client_goes() {
        let (here, there) = tokio::io::duplex(64);
        let mut client = WebSocketStream::from_raw_socket(there, Role::Client, None).await;
        let feeding = tokio::spawn(feed(here, Marking::Text, stream::pending()));
        client.send(Message::text("this means nothing")).await.unwrap();
        client.close(None).await.unwrap();
        assert!(client.next().await.unwrap().unwrap().is_close());
        tokio::time::timeout(Duration::from_secs(30), feeding).await.unwrap().unwrap();
    }
}
