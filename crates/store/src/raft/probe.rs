//! How long the way to each peer and back takes, for the metrics.

use std::time::Duration;

use futures::future::join_all;
use tokio::time::{Instant, sleep, timeout};

use super::{member::RaftNode, peers::Lane, types::Member, wire::pb};
use crate::metrics::member_label;

/// Between two probes of a peer; etcd's.
const INTERVAL: Duration = Duration::from_secs(4);
/// An answer that takes longer is none.
const ANSWER: Duration = Duration::from_secs(2);

/// Runs until the member stops.
pub(super) async fn run(node: RaftNode) {
    while !node.stopped() {
        let me = node.identity().member_id;
        let others = node.members().into_iter().filter(|(id, ..)| *id != me);
        join_all(others.map(|(id, member, _)| probe(&node, id, member))).await;
        sleep(INTERVAL).await;
    }
}

async fn probe(node: &RaftNode, id: u64, member: Member) {
    let Ok(mut client) = node.peers().client(id, &member, Lane::Control).await else { return };
    let start = Instant::now();
    match timeout(ANSWER, client.probe(pb::ProbeRequest {})).await {
        Ok(Ok(_)) => {
            let took = start.elapsed().as_secs_f64();
            node.metrics().round_trip.get_or_create(&member_label("To", id)).observe(took);
        }
        Ok(Err(status)) => tracing::debug!(peer = format!("{id:x}"), %status, "probe"),
        Err(_) => tracing::debug!(peer = format!("{id:x}"), "no answer to a probe"),
    }
}
