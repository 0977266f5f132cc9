//! What a peer sent on one stream, until somebody reads it.

use std::{
    io,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use tokio::{
    io::{AsyncRead, ReadBuf},
    sync::mpsc,
};

/// Chunks held for a reader that is behind; then the connection is not read further.
const AHEAD: usize = 4;

/// One stream's incoming bytes: the connection's end and the reader's.
pub(crate) fn inbox() -> (Inlet, Inbox) {
    let (sender, receiver) = mpsc::channel(AHEAD);
    let failure = Arc::new(OnceLock::new());
    (Inlet { sender, failure: failure.clone() }, Inbox { receiver, current: Bytes::new(), failure })
}

/// Puts bytes in. The reader is at its end when all clones are gone.
#[derive(Clone, Debug)]
pub(crate) struct Inlet {
    sender: mpsc::Sender<Bytes>,
    failure: Arc<OnceLock<io::ErrorKind>>,
}

impl Inlet {
    /// Waits while the reader is behind. What nobody will read any more is dropped.
    pub(crate) async fn deliver(&self, bytes: Bytes) {
        if !bytes.is_empty() {
            let _ = self.sender.send(bytes).await;
        }
    }

    /// Makes the reader's end an error instead of an orderly one.
    pub(crate) fn fail(&self, kind: io::ErrorKind) {
        let _ = self.failure.set(kind);
    }
}

/// Reads what a peer sent on one stream, to the end of its half.
#[derive(Debug)]
pub(crate) struct Inbox {
    receiver: mpsc::Receiver<Bytes>,
    current: Bytes,
    failure: Arc<OnceLock<io::ErrorKind>>,
}

impl AsyncRead for Inbox {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.current.is_empty() {
            match ready!(self.receiver.poll_recv(cx)) {
                Some(bytes) => self.current = bytes,
                None => return Poll::Ready(self.failure.get().map_or(Ok(()), |kind| Err((*kind).into()))),
            }
        }
        let some = self.current.len().min(buf.remaining());
        buf.put_slice(&self.current[..some]);
        self.current.advance(some);
        Poll::Ready(Ok(()))
    }
}
