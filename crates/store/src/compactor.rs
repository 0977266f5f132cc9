//! The task that removes compacted versions from disk, a little at a time.

use crate::{disk, state::State};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// Changes looked at per step; etcd's batch.
const ROWS: usize = 1000;
/// Rest between steps, so that requests come first; etcd's.
const REST: Duration = Duration::from_millis(10);

/// Runs until shutdown, or until the disk fails.
pub async fn run(state: Arc<State>, shutdown: CancellationToken) -> disk::Result<()> {
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            () = state.compacted() => {}
        }
        while !shutdown.is_cancelled() && !step(&state).await? {
            tokio::time::sleep(REST).await;
        }
    }
}

async fn step(state: &Arc<State>) -> disk::Result<bool> {
    let state = state.clone();
    match tokio::task::spawn_blocking(move || state.scrub(ROWS)).await {
        Ok(done) => done,
        // Only when the runtime shuts down.
        Err(_) => Ok(true),
    }
}
