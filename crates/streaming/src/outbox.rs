//! What waits to be written to a connection, in order, and not more than there is room for.

use std::{
    io,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::PollSemaphore;

/// Bytes waiting at most; then writers wait.
const ROOM: usize = 256 * 1024;
/// The longest piece of data queued as one.
pub(crate) const PIECE: usize = 32 * 1024;
/// What anything counts at least.
const LEAST: usize = 64;

/// A connection's outgoing queue.
pub(crate) fn outbox<T>() -> (Outbox<T>, Outlet<T>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let room = Arc::new(Semaphore::new(ROOM));
    (Outbox { sender, room: room.clone() }, Outlet { receiver, room })
}

/// Puts items in.
pub(crate) struct Outbox<T> {
    sender: mpsc::UnboundedSender<(T, Option<OwnedSemaphorePermit>)>,
    room: Arc<Semaphore>,
}

impl<T> Clone for Outbox<T> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), room: self.room.clone() }
    }
}

impl<T> Outbox<T> {
    /// Queues without asking for room: only for what each stream or connection sends once, such as its end.
    pub(crate) fn push(&self, item: T) {
        let _ = self.sender.send((item, None));
    }

    /// Queues when there is room. Errors: the connection has ended.
    pub(crate) async fn send(&self, item: T) -> io::Result<()> {
        let place = self.place().await?;
        self.fill(item, place)
    }

    /// Queues if there is room now.
    pub(crate) fn offer(&self, item: T) {
        if let Ok(place) = self.room.clone().try_acquire_many_owned(weight(0)) {
            let _ = self.sender.send((item, Some(place)));
        }
    }

    /// Room for a small item. Errors: the connection has ended.
    pub(crate) async fn place(&self) -> io::Result<OwnedSemaphorePermit> {
        self.room.clone().acquire_many_owned(weight(0)).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Queues in the room taken before. Errors: the connection has ended.
    pub(crate) fn fill(&self, item: T, place: OwnedSemaphorePermit) -> io::Result<()> {
        self.sender.send((item, Some(place))).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// For an `AsyncWrite` on top.
    pub(crate) fn writer(&self) -> Writer<T> {
        Writer { outbox: self.clone(), room: PollSemaphore::new(self.room.clone()) }
    }
}

/// Waits for room in `poll_write`.
pub(crate) struct Writer<T> {
    pub(crate) outbox: Outbox<T>,
    room: PollSemaphore,
}

impl<T> Writer<T> {
    /// Queues what `item` makes of the beginning of `bytes`; yields how much of them it took.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8], item: impl FnOnce(&[u8]) -> T) -> Poll<io::Result<usize>> {
        let piece = &bytes[..bytes.len().min(PIECE)];
        let Some(place) = ready!(self.room.poll_acquire_many(cx, weight(piece.len()))) else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        Poll::Ready(self.outbox.fill(item(piece), place).map(|()| piece.len()))
    }
}

/// Takes items out; once it is gone, writers get errors.
pub(crate) struct Outlet<T> {
    receiver: mpsc::UnboundedReceiver<(T, Option<OwnedSemaphorePermit>)>,
    room: Arc<Semaphore>,
}

impl<T> Outlet<T> {
    /// The next item; what it counted is free again when the permit goes.
    pub(crate) async fn next(&mut self) -> Option<(T, Option<OwnedSemaphorePermit>)> {
        self.receiver.recv().await
    }

    /// Whether nothing waits at the moment: time to flush.
    pub(crate) fn is_empty(&self) -> bool {
        self.receiver.is_empty()
    }
}

impl<T> Drop for Outlet<T> {
    fn drop(&mut self) {
        self.room.close();
    }
}

fn weight(bytes: usize) -> u32 {
    u32::try_from(bytes.max(LEAST)).unwrap_or(u32::MAX)
}
