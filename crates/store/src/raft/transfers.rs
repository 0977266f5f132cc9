//! Snapshots on their way to and from peers, for the metrics.

use tokio::time::Instant;

use crate::metrics::{Labels, Metrics, member_label};

/// A snapshot being sent; it failed unless it is [`Sending::done`].
pub(super) struct Sending {
    metrics: Metrics,
    to: Labels,
    start: Instant,
    done: bool,
}

impl Sending {
    pub(super) fn new(metrics: &Metrics, to: u64) -> Self {
        let to = member_label("To", to);
        metrics.snapshots_sending.get_or_create(&to).inc();
        Self { metrics: metrics.clone(), to, start: Instant::now(), done: false }
    }

    pub(super) fn done(mut self) {
        self.done = true;
        self.metrics.snapshots_sent.get_or_create(&self.to).inc();
        self.metrics.snapshot_send.get_or_create(&self.to).observe(self.start.elapsed().as_secs_f64());
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.metrics.snapshots_sending.get_or_create(&self.to).dec();
        if !self.done {
            self.metrics.snapshots_unsent.get_or_create(&self.to).inc();
        }
    }
}

/// A snapshot being received; it failed unless it is [`Receiving::done`].
pub(super) struct Receiving {
    metrics: Metrics,
    from: Labels,
    start: Instant,
    done: bool,
}

impl Receiving {
    pub(super) fn new(metrics: &Metrics, from: u64) -> Self {
        let from = member_label("From", from);
        metrics.snapshots_receiving.get_or_create(&from).inc();
        Self { metrics: metrics.clone(), from, start: Instant::now(), done: false }
    }

    pub(super) fn done(mut self) {
        self.done = true;
        let took = self.start.elapsed().as_secs_f64();
        self.metrics.snapshots_received.get_or_create(&self.from).inc();
        self.metrics.snapshot_receive.get_or_create(&self.from).observe(took);
        self.metrics.snapshot_saved.observe(took);
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.metrics.snapshots_receiving.get_or_create(&self.from).dec();
        if !self.done {
            self.metrics.snapshots_unreceived.get_or_create(&self.from).inc();
        }
    }
}
