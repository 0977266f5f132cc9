//! A byte stream inside a WebSocket: what `SPDY/3.1+…` subprotocols carry.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use futures::{Sink, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message,
        protocol::{CloseFrame, frame::coding::CloseCode},
    },
};

use super::server;
use crate::outbox::PIECE;

/// The server's end of a tunnel over a switched connection, as the bytes that go through it.
pub async fn tunnel<I: AsyncRead + AsyncWrite + Unpin>(io: I) -> Tunnel<I> {
    Tunnel { socket: server(io).await, current: Bytes::new(), closing: false }
}

/// A byte stream, each write a binary message, at most [`PIECE`] bytes long.
pub struct Tunnel<I> {
    socket: WebSocketStream<I>,
    current: Bytes,
    closing: bool,
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncRead for Tunnel<I> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.current.is_empty() {
            match ready!(Pin::new(&mut self.socket).poll_next(cx)) {
                Some(Ok(Message::Binary(bytes))) => self.current = bytes,
                Some(Ok(Message::Text(_))) => return Poll::Ready(Err(io::ErrorKind::InvalidData.into())),
                Some(Ok(Message::Close(_))) | None => return Poll::Ready(Ok(())),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(Err(into_io(error))),
            }
        }
        let some = self.current.len().min(buf.remaining());
        buf.put_slice(&self.current[..some]);
        self.current.advance(some);
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Tunnel<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let piece = &bytes[..bytes.len().min(PIECE)];
        ready!(Pin::new(&mut self.socket).poll_ready(cx)).map_err(into_io)?;
        Pin::new(&mut self.socket).start_send(Message::Binary(Bytes::copy_from_slice(piece))).map_err(into_io)?;
        Poll::Ready(Ok(piece.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx).map_err(into_io)
    }

    /// Sends the closing frame. The peer's is left to the reader.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.closing {
            ready!(Pin::new(&mut self.socket).poll_ready(cx)).map_err(into_io)?;
            let close = Message::Close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() }));
            Pin::new(&mut self.socket).start_send(close).map_err(into_io)?;
            self.closing = true;
        }
        Pin::new(&mut self.socket).poll_flush(cx).map_err(into_io)
    }
}

fn into_io(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        Error::ConnectionClosed | Error::AlreadyClosed => io::ErrorKind::BrokenPipe.into(),
        other => io::Error::new(io::ErrorKind::InvalidData, other),
    }
}
