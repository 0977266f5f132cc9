//! Streaming this member's state as a file of etcd's.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use etcd::etcdserverpb::SnapshotResponse;
use futures::{StreamExt, stream::BoxStream};
use sha2::{Digest, Sha256};
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, mpsc},
    time::timeout,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::maintenance::backup_status;
use crate::{
    backup::{Error, buckets::STORAGE_VERSION, export::Export},
    raft::{RaftNode, planted},
};

/// Bytes of the file in one message.
const CHUNK: usize = 64 << 10;
/// Messages that wait for a client.
const QUEUE: usize = 8;
/// A client that takes nothing for so long is given up: the state it is sent cannot be cleaned up meanwhile.
const STALLED: Duration = Duration::from_secs(60);

type Message = Result<SnapshotResponse, Status>;

/// Sends the state as it is now. `place` is kept until the end.
pub(super) fn stream(raft: RaftNode, place: OwnedSemaphorePermit) -> BoxStream<'static, Message> {
    let (messages, queue) = mpsc::channel(QUEUE);
    tokio::task::spawn_blocking(move || {
        let _place = place;
        let mut client = Client { messages, runtime: Handle::current(), digest: Sha256::new(), buffer: BytesMut::new(), left: 0 };
        let start = std::time::Instant::now();
        let sent = send(&raft, &mut client);
        raft.metrics().snapshot_sent.observe(start.elapsed().as_secs_f64());
        match sent {
            Ok(size) => tracing::info!(bytes = size, "sent a snapshot to a client"),
            Err(Error::Closed) => tracing::info!("a client gave up a snapshot"),
            Err(error) => {
                // One that went away needs no answer.
                let _ = client.give(Err(backup_status(error)));
            }
        }
    });
    ReceiverStream::new(queue).boxed()
}

fn send(raft: &RaftNode, client: &mut Client) -> Result<u64, Error> {
    let database = raft.state().database();
    let view = database.snapshot();
    let standing = planted::standing(&*view).map_err(Error::Standing)?;
    let export = Export::new(&*view, &standing, raft.scratch())?;
    client.left = export.size();
    tracing::info!(bytes = export.size(), index = standing.index, "sending a snapshot to a client");
    export.write(&mut |pages| client.take(&pages))?;
    client.finish()?;
    Ok(export.size())
}

/// Whoever asked.
struct Client {
    messages: mpsc::Sender<Message>,
    runtime: Handle,
    digest: Sha256,
    buffer: BytesMut,
    left: u64,
}

impl Client {
    fn take(&mut self, pages: &[u8]) -> Result<(), Error> {
        self.digest.update(pages);
        self.buffer.extend_from_slice(pages);
        while self.buffer.len() >= CHUNK {
            let chunk = self.buffer.split_to(CHUNK);
            self.blob(chunk.freeze())?;
        }
        Ok(())
    }

    /// Sends what is left, then the sum of everything.
    fn finish(&mut self) -> Result<(), Error> {
        if !self.buffer.is_empty() {
            let rest = self.buffer.split();
            self.blob(rest.freeze())?;
        }
        let sum = Bytes::copy_from_slice(&std::mem::take(&mut self.digest).finalize());
        self.give(Ok(SnapshotResponse { blob: sum, version: STORAGE_VERSION.into(), ..Default::default() }))
    }

    fn blob(&mut self, blob: Bytes) -> Result<(), Error> {
        self.left = self.left.saturating_sub(blob.len() as u64);
        self.give(Ok(SnapshotResponse { remaining_bytes: self.left, blob, version: STORAGE_VERSION.into(), ..Default::default() }))
    }

    fn give(&self, message: Message) -> Result<(), Error> {
        let given = self.runtime.block_on(timeout(STALLED, self.messages.send(message)));
        given.map_err(|_| Error::Closed)?.map_err(|_| Error::Closed)
    }
}
