//! Brings proposals to the leader, all that wait together in one message.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Semaphore, mpsc},
    time::{Instant, sleep, timeout_at},
};
use tonic::Code;

use super::{
    leadership::{Leader, Leadership},
    peers::{Lane, Peers},
    proposals::Proposals,
    server,
    types::{Proposal, Raft},
    wire::pb,
};

/// Proposals waiting to be sent at most; more are refused as too many requests.
const QUEUE: usize = 8192;
/// Proposals in one message at most.
const BATCH: usize = 512;
/// Their bytes at most; a larger one goes alone.
const BATCH_BYTES: usize = 2 << 20;
/// Messages under way at most. Few: what waits meanwhile goes together, and the more goes together, the less each costs.
const MESSAGES: usize = 4;
/// Between attempts to reach a leader that does not answer.
const RETRY: Duration = Duration::from_millis(50);

/// A proposal and until when it makes sense to send it.
type Queued = (Proposal, Instant);

/// Handle to the sending task; it ends with the last handle.
#[derive(Clone)]
pub(crate) struct Proposer {
    queue: mpsc::Sender<Queued>,
}

/// What the task works with.
#[derive(Clone)]
pub(crate) struct Sender {
    pub(crate) raft: Raft,
    pub(crate) leadership: Leadership,
    pub(crate) peers: Peers,
    pub(crate) proposals: Arc<Proposals>,
}

impl Proposer {
    pub(crate) fn spawn(sender: Sender) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE);
        tokio::spawn(run(sender, waiting));
        Self { queue }
    }

    /// Queues a registered proposal; false when too many wait already.
    pub(crate) fn send(&self, proposal: Proposal, deadline: Instant) -> bool {
        self.queue.try_send((proposal, deadline)).is_ok()
    }
}

async fn run(sender: Sender, mut queue: mpsc::Receiver<Queued>) {
    let places = Arc::new(Semaphore::new(MESSAGES));
    while let Some(first) = queue.recv().await {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let (mut size, mut batch) = (first.0.command.len(), vec![first]);
        while batch.len() < BATCH && size < BATCH_BYTES {
            let Ok(next) = queue.try_recv() else { break };
            size += next.0.command.len();
            batch.push(next);
        }
        let sender = sender.clone();
        tokio::spawn(async move {
            sender.deliver(batch).await;
            drop(place);
        });
    }
}

impl Sender {
    /// Sends a batch once, to whoever leads; only an attempt that surely sent nothing is followed by another.
    async fn deliver(&self, batch: Vec<Queued>) {
        let deadline = batch.iter().map(|(_, deadline)| *deadline).max();
        let Some(deadline) = deadline else { return };
        // Those who wait for a proposal time out by themselves.
        let _ = timeout_at(deadline, self.attempt(batch.into_iter().map(|(proposal, _)| proposal).collect())).await;
    }

    async fn attempt(&self, proposals: Vec<Proposal>) {
        loop {
            let leader = self.leadership.wait().await;
            if self.leadership.is_mine(&leader) {
                return self.append(proposals, &leader).await;
            }
            match self.peers.client(leader.id.node_id, &leader.member, Lane::Log).await {
                Ok(client) => return self.forward(client, proposals, &leader).await,
                Err(error) => {
                    tracing::debug!(%error, "the leader cannot be reached");
                    sleep(RETRY).await;
                }
            }
        }
    }

    async fn append(&self, proposals: Vec<Proposal>, leader: &Leader) {
        let (ids, proposals) = self.still_wanted(proposals, leader);
        if ids.is_empty() {
            return;
        }
        let rejected = tokio::select! {
            biased;
            rejected = server::append(&self.raft, leader.id, proposals) => rejected,
            // One that leads no more may never tell; the next leader's first entry does.
            () = self.leadership.end_of(leader.id) => false,
        };
        if rejected {
            self.reject(ids).await;
        }
    }

    async fn forward(&self, mut client: super::peers::Client, proposals: Vec<Proposal>, leader: &Leader) {
        let (ids, proposals) = self.still_wanted(proposals, leader);
        if ids.is_empty() {
            return;
        }
        let proposals = proposals.into_iter().map(Into::into).collect();
        let request = pb::ProposeRequest { leader: Some(leader.id.into()), proposals };
        let answer = tokio::select! {
            biased;
            answer = client.propose(request) => answer,
            // A leader cut off may never answer, and what it would say no longer counts: the next one's first entry tells.
            () = self.leadership.end_of(leader.id) => return,
        };
        match answer {
            Ok(response) => self.reject(response.into_inner().rejected).await,
            // Refused at the door: it did not read them.
            Err(status) if status.code() == Code::FailedPrecondition => self.reject(ids).await,
            Err(status) => {
                // They may be in its log. The next leader's first entry tells.
                tracing::debug!(%status, "forward proposals");
                self.peers.forget(leader.id.node_id, Lane::Log);
            }
        }
    }

    /// Those that somebody still waits for, and their IDs.
    fn still_wanted(&self, mut proposals: Vec<Proposal>, leader: &Leader) -> (Vec<u64>, Vec<Proposal>) {
        self.proposals.sending(&mut proposals, leader.id);
        (proposals.iter().map(|proposal| proposal.id).collect(), proposals)
    }

    async fn reject(&self, ids: Vec<u64>) {
        if ids.is_empty() {
            return;
        }
        // Whoever refused will not change its mind at once.
        sleep(RETRY).await;
        ids.into_iter().for_each(|id| self.proposals.rejected(id));
    }
}
