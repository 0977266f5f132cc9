//! The read barrier: what everybody who waits when a round starts shares is one confirmation of the leadership.

use std::{sync::Arc, time::Duration};

use openraft::{ReadPolicy, async_runtime::watch::WatchReceiver};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    leadership::{Leader, Leadership},
    peers::{Lane, Peers},
    types::{AppliedReceiver, Raft},
    wire::pb,
};
use crate::{metrics::Metrics, refusal::Refusal};

/// Readers waiting for the next round at most.
const QUEUE: usize = 64 * 1024;
/// A leader that does not answer by then is asked again.
const ROUND_TRIP: Duration = Duration::from_secs(1);
/// Between attempts.
const RETRY: Duration = Duration::from_millis(50);

type Reader = oneshot::Sender<Result<(), Refusal>>;

/// Handle to the task that runs the rounds; it ends with the last handle.
#[derive(Clone)]
pub(crate) struct Barrier {
    readers: mpsc::Sender<Reader>,
    leadership: Leadership,
    patience: Duration,
}

/// What the task works with.
pub(crate) struct Rounds {
    pub(crate) raft: Raft,
    pub(crate) leadership: Leadership,
    pub(crate) peers: Peers,
    /// First index that is not applied yet.
    pub(crate) applied: AppliedReceiver,
    /// Longest wait for a round.
    pub(crate) patience: Duration,
    pub(crate) metrics: Metrics,
}

impl Barrier {
    pub(crate) fn spawn(rounds: Rounds) -> Self {
        let (readers, waiting) = mpsc::channel(QUEUE);
        let (leadership, patience) = (rounds.leadership.clone(), rounds.patience);
        tokio::spawn(run(Arc::new(rounds), waiting));
        Self { readers, leadership, patience }
    }

    /// Returns once everything acknowledged before the call is applied here.
    pub(crate) async fn pass(&self) -> Result<(), Refusal> {
        if self.leadership.is_alone() {
            return Ok(());
        }
        let (tell, passed) = oneshot::channel();
        self.readers.try_send(tell).map_err(|_| Refusal::TooManyRequests)?;
        match timeout(self.patience, passed).await {
            Ok(result) => result.map_err(|_| Refusal::Stopped)?,
            Err(_) => Err(Refusal::Timeout),
        }
    }
}

async fn run(rounds: Arc<Rounds>, mut waiting: mpsc::Receiver<Reader>) {
    let mut readers = Vec::new();
    while waiting.recv_many(&mut readers, QUEUE).await > 0 {
        readers.retain(|reader| !reader.is_closed());
        if readers.is_empty() {
            continue;
        }
        let result = rounds.run().await;
        for reader in readers.drain(..) {
            // Gone when its client gave up.
            let _ = reader.send(result);
        }
    }
}

impl Rounds {
    async fn run(&self) -> Result<(), Refusal> {
        let deadline = Instant::now() + self.patience;
        let index = timeout_at(deadline, self.read_index()).await.map_err(|_| Refusal::Timeout)?;
        let mut applied = self.applied.clone();
        let caught_up = timeout_at(deadline, applied.wait_until(|next| *next > index)).await;
        caught_up.map_err(|_| Refusal::TimeoutWaitingForApply)?.map_err(|_| Refusal::Stopped)?;
        Ok(())
    }

    /// The index a read must see, from whoever leads, however often the leader changes.
    async fn read_index(&self) -> u64 {
        loop {
            let leader = self.leadership.wait().await;
            let asked = if self.leadership.is_mine(&leader) { self.ask_myself().await } else { self.ask(&leader).await };
            if let Some(index) = asked {
                return index;
            }
            self.metrics.slow_read_indexes.inc();
            sleep(RETRY).await;
        }
    }

    async fn ask_myself(&self) -> Option<u64> {
        let linearizer = self.raft.get_read_linearizer(ReadPolicy::ReadIndex).await;
        let linearizer = linearizer.inspect_err(|error| tracing::debug!(%error, "read index")).ok()?;
        Some(linearizer.read_log_id().index())
    }

    async fn ask(&self, leader: &Leader) -> Option<u64> {
        let id = leader.id.node_id;
        let client = self.peers.client(id, &leader.member, Lane::Log).await;
        let mut client = client.inspect_err(|error| tracing::debug!(%error, "the leader cannot be reached")).ok()?;
        match timeout(ROUND_TRIP, client.read_index(pb::ReadIndexRequest {})).await {
            Ok(Ok(response)) => Some(response.into_inner().log_id?.index),
            Ok(Err(status)) => {
                tracing::debug!(%status, "read index");
                self.peers.forget(id, Lane::Log);
                None
            }
            Err(_) => None,
        }
    }
}
