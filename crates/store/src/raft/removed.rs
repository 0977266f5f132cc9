//! How a member learns that it is none any more: from the log, if that still reached it, or from the others, whom it
//! asks when it hears from no leader.

use std::time::Duration;

use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::{member::RaftNode, newcomer};
use crate::{
    apply::member,
    disk::{self, Read},
};

/// Between two looks for a leader, and longest wait for an answer.
const ASK: Duration = Duration::from_secs(2);
/// Whoever asked for the removal gets its answer before the member stops; etcd's.
const FAREWELL: Duration = Duration::from_secs(1);

/// Whether this member was removed; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Removed {
    id: u64,
    flag: watch::Sender<bool>,
}

impl Removed {
    /// Of a member.
    pub(crate) fn new(id: u64) -> Self {
        Self { id, flag: watch::Sender::new(false) }
    }

    /// Sees what the state says.
    pub(crate) fn look(&self, read: &dyn Read) -> disk::Result<()> {
        if member::removed(read)?.contains(&self.id) {
            self.flag.send_replace(true);
        }
        Ok(())
    }
}

impl RaftNode {
    /// Returns once this member is to stop because it was removed.
    pub(crate) async fn removed(&self) {
        let mut flag = self.inner.removed.flag.subscribe();
        // The sender lives as long as the node.
        let _ = flag.wait_for(|removed| *removed).await;
        sleep(FAREWELL).await;
    }
}

/// Asks the others while there is no leader.
pub(crate) async fn ask_the_others(node: RaftNode) {
    let removed = node.inner.removed.clone();
    loop {
        sleep(ASK).await;
        if *removed.flag.borrow() || node.stopped() {
            return;
        }
        if node.leader().is_some() {
            continue;
        }
        for (id, other) in node.members().into_iter().map(|(id, other, _)| (id, other)).filter(|(id, _)| *id != removed.id) {
            let asked = timeout(ASK, newcomer::ask(node.peers(), id, &other, removed.id)).await;
            if asked.is_ok_and(|seen| seen.is_ok_and(|seen| seen.removed)) {
                removed.flag.send_replace(true);
                return;
            }
        }
    }
}
