//! The writing side of a terminal: written to, and resized meanwhile.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use parking_lot::Mutex;
use pty_process::{OwnedWritePty, Size};
use tokio::io::AsyncWrite;

/// Held for a single poll only, so that a full terminal can still be resized.
#[derive(Clone)]
pub(super) struct Terminal(Arc<Mutex<OwnedWritePty>>);

impl Terminal {
    pub(super) fn new(pty: OwnedWritePty) -> Self {
        Self(Arc::new(Mutex::new(pty)))
    }

    pub(super) fn resize(&self, columns: u16, rows: u16) {
        if let Err(error) = self.0.lock().resize(Size::new(rows, columns)) {
            tracing::debug!(%error, "resize a terminal");
        }
    }
}

impl AsyncWrite for Terminal {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0.lock()).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.lock()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
