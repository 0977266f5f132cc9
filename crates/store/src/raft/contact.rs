//! When this follower last heard from a leader: a leader that is gone stays in the vote until another is elected.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

/// Shared record of the last append received.
#[derive(Clone)]
pub(crate) struct Contact {
    start: Instant,
    /// Milliseconds after `start`, plus one; 0 for never.
    at: Arc<AtomicU64>,
    leader: Arc<AtomicU64>,
    stream_ended: Arc<Notify>,
}

/// One stream of appends, for as long as it lasts.
pub(crate) struct Appends(Contact);

impl Appends {
    /// Notes an append of `leader`.
    pub(crate) fn heard_from(&self, leader: u64) {
        self.0.heard_from(leader);
    }
}

impl Drop for Appends {
    fn drop(&mut self) {
        self.0.stream_ended.notify_one();
    }
}

impl Contact {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), at: Arc::default(), leader: Arc::default(), stream_ended: Arc::default() }
    }

    /// Notes an append of `leader`.
    pub(crate) fn heard_from(&self, leader: u64) {
        self.leader.store(leader, Ordering::Relaxed);
        self.at.store(self.start.elapsed().as_millis() as u64 + 1, Ordering::Relaxed);
    }

    /// A stream of appends begins.
    pub(crate) fn appends(&self) -> Appends {
        Appends(self.clone())
    }

    /// Returns after a stream of appends has ended, for whatever cause.
    pub(crate) async fn stream_ended(&self) {
        self.stream_ended.notified().await;
    }

    /// Whether `leader` was heard from within `age`.
    pub(crate) fn is_fresh(&self, leader: u64, age: Duration) -> bool {
        let at = self.at.load(Ordering::Relaxed);
        let now = self.start.elapsed().as_millis() as u64 + 1;
        at > 0 && self.leader.load(Ordering::Relaxed) == leader && now.saturating_sub(at) <= age.as_millis() as u64
    }
}
