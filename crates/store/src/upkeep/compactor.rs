//! The task that removes compacted versions from disk, a little at a time.

use crate::{disk, metrics::Metrics, mvcc::compaction::Step, state::State};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// How fast compacted versions are removed; the defaults are etcd's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Changes looked at per step (`--compaction-batch-limit`).
    pub rows: usize,
    /// Rest between steps, so that requests come first (`--compaction-sleep-interval`).
    pub rest: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Pace { rows: 1000, rest: Duration::from_millis(10) }
    }
}

/// Runs until shutdown, or until the disk fails.
pub async fn run(state: Arc<State>, pace: Pace, metrics: Metrics, shutdown: CancellationToken) -> disk::Result<()> {
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            () = state.compacted() => {}
        }
        let (start, mut removed) = (tokio::time::Instant::now(), 0);
        while !shutdown.is_cancelled() {
            let step_start = tokio::time::Instant::now();
            let step = step(&state, pace.rows).await?;
            removed += step.removed;
            metrics.compaction_step(step_start.elapsed(), step.removed);
            if step.done {
                break;
            }
            tokio::time::sleep(pace.rest).await;
        }
        if removed > 0 {
            metrics.compaction_done(start.elapsed());
            tracing::info!(removed, took = ?start.elapsed(), "finished scheduled compaction");
        }
    }
}

async fn step(state: &Arc<State>, rows: usize) -> disk::Result<Step> {
    let state = state.clone();
    match state.database().offload().run(move || state.scrub(rows)).await {
        Ok(step) => step,
        // Only when the runtime shuts down.
        Err(_) => Ok(Step { done: true, removed: 0 }),
    }
}
