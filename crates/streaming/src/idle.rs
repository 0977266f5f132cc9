//! Ends connections on which nothing happens.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// When data last went over a connection, in either direction.
#[derive(Clone)]
pub(crate) struct Activity(Arc<Mutex<Instant>>);

impl Activity {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    pub(crate) fn seen(&self) {
        *self.0.lock() = Instant::now();
    }

    /// Returns when nothing has been seen for that long; never without a limit.
    pub(crate) async fn ceased_for(&self, limit: Option<Duration>) {
        let Some(limit) = limit else { return std::future::pending().await };
        loop {
            let last = *self.0.lock();
            let end = last + limit;
            if Instant::now() >= end {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
    }
}
