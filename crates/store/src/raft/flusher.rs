//! Syncs the raft database off the raft task: everything that waits when a sync starts shares it.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use openraft::storage::IOFlushed;
use tokio::sync::{mpsc, oneshot, watch};

use super::{log_store::io_error, types::TypeConfig};
use crate::disk::{Batch, Database};

/// Requests waiting for a sync at most; openraft has far fewer appends under way.
const QUEUE: usize = 4096;

/// The first index that is not yet durable, or why none will be any more.
pub(crate) type Hardened = Result<u64, String>;

enum Request {
    /// Entries below the index are written.
    Append(u64, IOFlushed<TypeConfig>),
    /// To be written, before the next sync or as soon as there is nothing to sync; the latest stands for those before it.
    Note(Batch),
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

    /// Has something written that is of use only when it is new, and that nobody waits for; not durable by itself.
    pub(crate) async fn note(&self, batch: Batch) -> io::Result<()> {
        self.requests.send(Request::Note(batch)).await.map_err(|_| stopped())
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
        let written = match latest_note(&mut waiting) {
            Some(note) => database.write(note).map_err(io_error),
            None => Ok(()),
        };
        let synced = if waiting.is_empty() { written } else { written.and(sync(&database, &observe).await) };
        for request in waiting.drain(..) {
            answer(request, &synced, &hardened);
        }
        // After one failed sync nothing is known of what later ones would vouch for.
        if let Err(error) = synced {
            drop(hardened.send_replace(Err(error.to_string())));
            return;
        }
    }
}

/// Takes the notes out of the requests.
fn latest_note(waiting: &mut Vec<Request>) -> Option<Batch> {
    let notes = waiting.extract_if(.., |request| matches!(request, Request::Note(_)));
    notes.last().and_then(|request| if let Request::Note(note) = request { Some(note) } else { None })
}

async fn sync(database: &Arc<dyn Database>, observe: &impl Fn(Duration)) -> io::Result<()> {
    let (database, start) = (database.clone(), Instant::now());
    let synced = database.offload().run(move || database.sync()).await;
    let synced = synced.and_then(|result| result.map_err(io_error));
    observe(start.elapsed());
    synced
}

fn answer(request: Request, synced: &io::Result<()>, hardened: &watch::Sender<Hardened>) {
    let result = || synced.as_ref().copied().map_err(|e| io::Error::new(e.kind(), e.to_string()));
    let value = |upto| synced.as_ref().map(|()| upto).map_err(ToString::to_string);
    match request {
        // Written before the sync, with no answer.
        Request::Note(_) => {}
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
