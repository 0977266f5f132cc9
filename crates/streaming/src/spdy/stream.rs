//! One stream: what it was opened with, what comes and what goes.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    frame::Frame,
    headers::Headers,
    table::{Place, Shared},
};
use crate::{inbox::Inbox, outbox::Writer};

/// Reads to the end of the peer's half, writes until shut down. Dropped, it is reset unless both have ended.
pub struct Stream {
    headers: Headers,
    received: ReceiveHalf,
    send: SendHalf,
}

/// The half the peer sends on.
pub struct ReceiveHalf {
    inbox: Inbox,
    _place: Arc<Place>,
}

/// The half that is sent on here. Dropped, it is shut down.
pub struct SendHalf {
    writer: Writer<Frame>,
    place: Arc<Place>,
}

impl Stream {
    pub(super) fn new(shared: &Arc<Shared>, id: u32, headers: Headers, inbox: Inbox) -> Self {
        let place = Arc::new(Place { shared: shared.clone(), id });
        let send = SendHalf { writer: shared.outbox.writer(), place: place.clone() };
        Self { headers, received: ReceiveHalf { inbox, _place: place }, send }
    }

    /// What the peer, or [`super::Connection::open`], opened it with.
    pub fn headers(&self) -> &Headers {
        &self.headers
    }

    /// Its number on the connection.
    pub fn id(&self) -> u32 {
        self.send.place.id
    }

    /// Both halves on their own.
    pub fn into_split(self) -> (ReceiveHalf, SendHalf) {
        (self.received, self.send)
    }
}

impl AsyncRead for ReceiveHalf {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inbox).poll_read(cx, buf)
    }
}

impl AsyncWrite for SendHalf {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let stream = this.place.id;
        if !this.place.shared.table.lock().may_send(stream) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        this.writer.poll_write(cx, bytes, |piece| Frame::Data { stream, fin: false, bytes: Bytes::copy_from_slice(piece) })
    }

    /// The connection writes what is queued as soon as it can.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.place.shared.sent_all(self.place.id);
        Poll::Ready(Ok(()))
    }
}

impl Drop for SendHalf {
    fn drop(&mut self) {
        self.place.shared.sent_all(self.place.id);
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.received).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.send).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.send).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.send).poll_shutdown(cx)
    }
}
