//! How a member learns that it is none any more: from the log, if that still reached it, from the others, whom it asks
//! when it hears from no leader, or from one that refuses its calls, as etcd's members do.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::StatusCode;
use parking_lot::RwLock;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::{
    member::RaftNode,
    membership::Identity,
    newcomer,
    stamp::{CLUSTER, sender},
};
use crate::{
    apply::member,
    disk::{self, Read},
};

/// Between two looks for a leader, and longest wait for an answer.
const ASK: Duration = Duration::from_secs(2);
/// Whoever asked for the removal gets its answer before the member stops; etcd's.
const FAREWELL: Duration = Duration::from_secs(1);

/// Why a member that was removed is refused, and ends.
pub(crate) const GONE: &str = "the member has been permanently removed from the cluster";
/// A leader that is removed hands the leadership on to one that has removed it already.
const HANDOVER: &str = "/TransferLeader";

/// Who was removed, and whether this member was; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Removed {
    identity: Identity,
    others: Arc<RwLock<BTreeSet<u64>>>,
    flag: watch::Sender<bool>,
}

impl Removed {
    /// Of a member.
    pub(crate) fn new(identity: Identity) -> Self {
        Self { identity, others: Arc::default(), flag: watch::Sender::new(false) }
    }

    /// Sees what the state says.
    pub(crate) fn look(&self, read: &dyn Read) -> disk::Result<()> {
        let removed: BTreeSet<_> = member::removed(read)?.into_iter().collect();
        if removed.contains(&self.identity.member_id) {
            self.flag.send_replace(true);
        }
        *self.others.write() = removed;
        Ok(())
    }

    /// Sees what a peer answers: this cluster's word that this member is none any more.
    pub(crate) fn listen<B>(&self, answer: &http::Response<B>) {
        let cluster = answer.headers().get(CLUSTER).and_then(|id| id.to_str().ok()).and_then(|id| id.parse().ok());
        if answer.status() == StatusCode::GONE && cluster == Some(self.identity.cluster_id) {
            self.flag.send_replace(true);
        }
    }
}

/// Takes no calls from those that were removed: under an old leadership they would go on as if they were not.
pub(super) async fn refuse(State(removed): State<Removed>, request: Request, next: Next) -> Response {
    let gone = removed.others.read().contains(&sender(request.headers()));
    if !gone || request.uri().path().ends_with(HANDOVER) {
        return next.run(request).await;
    }
    (StatusCode::GONE, [(CLUSTER, removed.identity.cluster_id.to_string())], GONE).into_response()
}

impl RaftNode {
    /// Returns once this member is to stop because it was removed.
    pub(crate) async fn removed(&self) {
        let mut flag = self.peers().removed().flag.subscribe();
        // The sender lives as long as the node.
        let _ = flag.wait_for(|removed| *removed).await;
        sleep(FAREWELL).await;
    }
}

/// Asks the others while there is no leader.
pub(crate) async fn ask_the_others(node: RaftNode) {
    let removed = node.peers().removed().clone();
    loop {
        sleep(ASK).await;
        if *removed.flag.borrow() || node.stopped() {
            return;
        }
        if node.leader().is_some() {
            continue;
        }
        for (id, other) in node.members().into_iter().map(|(id, other, _)| (id, other)).filter(|(id, _)| *id != removed.identity.member_id)
        {
            let asked = timeout(ASK, newcomer::ask(node.peers(), id, &other, removed.identity.member_id)).await;
            if asked.is_ok_and(|seen| seen.is_ok_and(|seen| seen.removed)) {
                removed.flag.send_replace(true);
                return;
            }
        }
    }
}
