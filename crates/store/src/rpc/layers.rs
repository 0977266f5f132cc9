//! What every request passes before its service.

use crate::{node::Node, refusal::Refusal};
use std::{sync::Arc, time::Duration};
use tonic::{Request, Status, metadata::MetadataMap};

const REQUIRE_LEADER: &str = "hasleader";

/// Refuses requests that insist on a leader while there is none.
pub fn require_leader(node: Arc<dyn Node>) -> impl Fn(Request<()>) -> Result<Request<()>, Status> + Clone {
    move |request| {
        if requires_leader(request.metadata()) && !node.has_leader() {
            return Err(Refusal::NoLeader.into());
        }
        Ok(request)
    }
}

/// The client asks only to be served by a member that has a leader.
pub(super) fn requires_leader(metadata: &MetadataMap) -> bool {
    metadata.get(REQUIRE_LEADER).is_some_and(|value| value == "true")
}

/// How often a stream that requires a leader looks for one, and how often it may miss it: etcd's three elections.
const LOOK: Duration = Duration::from_secs(1);
const MISSES: u32 = 3;

/// Returns when there has been no leader for long; never, if the client does not care.
pub(super) async fn leader_lost(node: Arc<dyn Node>, required: bool) {
    if !required {
        return std::future::pending().await;
    }
    let mut misses = 0;
    while misses < MISSES {
        tokio::time::sleep(LOOK).await;
        misses = if node.has_leader() { 0 } else { misses + 1 };
    }
}
