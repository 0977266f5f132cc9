//! Syncs the raft database off the raft task: everything that waits when a sync starts shares it.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use openraft::storage::IOFlushed;
use tokio::sync::{mpsc, oneshot, watch};

use super::{log_store::io_error, types::TypeConfig};
use crate::disk::Database;

/// Requests waiting for a sync at most; openraft has far fewer appends under way.
const QUEUE: usize = 4096;

/// The first index that is not yet durable, or why none will be any more.
pub(crate) type Hardened = Result<u64, String>;

enum Request {
    /// Entries below the index are written.
    Append(u64, IOFlushed<TypeConfig>),
    /// Something else is written.
    Sync(oneshot::Sender<io::Result<()>>),
    /// Entries from the index on are gone.
    Rewind(u64, oneshot::Sender<io::Result<()>>),
}

/// Handle to the syncing task; it ends with the last handle.
#[derive(Clone)]
pub(crate) struct Flusher {
    requests: mpsc::Sender<Request>,
    hardened: watch::Receiver<Hardened>,
}

impl Flusher {
    /// Starts the task; entries below `hardened` are durable already. `observe` is told how long each sync took.
    pub(crate) fn spawn(database: Arc<dyn Database>, hardened: u64, observe: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        let (requests, queue) = mpsc::channel(QUEUE);
        let (tx, hardened) = watch::channel(Ok(hardened));
        tokio::spawn(run(database, queue, tx, observe));
        Self { requests, hardened }
    }

    /// Follows what is durable.
    pub(crate) fn hardened(&self) -> watch::Receiver<Hardened> {
        self.hardened.clone()
    }

    /// Calls back once entries below `upto` are durable.
    pub(crate) async fn harden(&self, upto: u64, callback: IOFlushed<TypeConfig>) -> io::Result<()> {
        self.requests.send(Request::Append(upto, callback)).await.map_err(|_| stopped())
    }

    /// Returns once all that was written before is durable.
    pub(crate) async fn sync(&self) -> io::Result<()> {
        let (tx, rx) = oneshot::channel();
        self.requests.send(Request::Sync(tx)).await.map_err(|_| stopped())?;
        rx.await.map_err(|_| stopped())?
    }

    /// Makes a truncation durable; only entries below `upto` count as hardened from then on.
    pub(crate) async fn rewind(&self, upto: u64) -> io::Result<()> {
        let (tx, rx) = oneshot::channel();
        self.requests.send(Request::Rewind(upto, tx)).await.map_err(|_| stopped())?;
        rx.await.map_err(|_| stopped())?
    }
}

fn stopped() -> io::Error {
    io::Error::other("the raft log no longer syncs")
}

async fn run(
    database: Arc<dyn Database>,
    mut queue: mpsc::Receiver<Request>,
    hardened: watch::Sender<Hardened>,
    observe: impl Fn(Duration) + Send + Sync + 'static,
) {
    let mut waiting = Vec::new();
    while queue.recv_many(&mut waiting, QUEUE).await > 0 {
        let (database, start) = (database.clone(), Instant::now());
        let synced = tokio::task::spawn_blocking(move || database.sync()).await;
        let synced = synced.map_err(io::Error::other).and_then(|result| result.map_err(io_error));
        observe(start.elapsed());
        for request in waiting.drain(..) {
            answer(request, &synced, &hardened);
        }
        // After one failed sync nothing is known of what later ones would vouch for.
        if synced.is_err() {
            return;
        }
    }
}

fn answer(request: Request, synced: &io::Result<()>, hardened: &watch::Sender<Hardened>) {
    let result = || synced.as_ref().copied().map_err(|e| io::Error::new(e.kind(), e.to_string()));
    let value = |upto| synced.as_ref().map(|()| upto).map_err(ToString::to_string);
    match request {
        Request::Append(upto, callback) => {
            drop(hardened.send_replace(value(upto)));
            callback.io_completed(result());
        }
        // A caller that is gone needs no answer.
        Request::Sync(tx) => drop(tx.send(result())),
        Request::Rewind(upto, tx) => {
            drop(hardened.send_replace(value(upto)));
            drop(tx.send(result()));
        }
    }
}
