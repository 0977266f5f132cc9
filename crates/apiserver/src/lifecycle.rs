//! How the server stops, in upstream's order: `/readyz` says no at once, a while later new requests are refused, those let in
//! before are answered and watches end, and only then connections close. Nothing of it waits for ever.

use std::sync::Arc;
use std::time::Duration;

use component::Shutdown;
use tokio_util::task::TaskTracker;

use crate::config::Replicas;

/// What of a server's end its requests have to know, and it of them. Upstream: `lifecycleSignals` and its wait groups.
#[derive(Default)]
pub(crate) struct Lifecycle {
    /// Cancelled when no new requests are let in: watches and streams end then. Upstream: `NotAcceptingNewRequest`.
    pub(crate) closing: Shutdown,
    /// `--shutdown-send-retry-after`: go on listening until all is answered that was let in, and send others away.
    pub(crate) retry_after: bool,
    /// `--shutdown-watch-termination-grace-period`: watches end one by one within this time, not all at once.
    pub(crate) watch_grace: Duration,
    /// Requests that were let in and do not run long.
    pub(crate) requests: TaskTracker,
    /// Watches.
    pub(crate) watches: TaskTracker,
}

impl Lifecycle {
    /// As the flags say; `closing` is cancelled by whoever runs the server.
    pub(crate) fn new(flags: &Replicas, closing: Shutdown) -> Self {
        Self {
            closing,
            retry_after: flags.shutdown_send_retry_after,
            watch_grace: flags.shutdown_watch_termination_grace_period,
            ..Self::default()
        }
    }

    /// Resolves when one watch has to end: at any time of the grace period, so that not all turn to other servers together.
    pub(crate) fn watch_ends(&self) -> impl Future<Output = ()> + Send + use<> {
        let (closing, grace) = (self.closing.clone(), self.watch_grace);
        async move {
            closing.cancelled().await;
            tokio::time::sleep(grace.mul_f64(rand::random())).await;
        }
    }

    /// Cancelled when the listener is to close: with the server, or once it has answered what it let in, after `limit` at the latest.
    pub(crate) fn closed(self: &Arc<Self>, limit: Duration) -> Shutdown {
        if !self.retry_after {
            return self.closing.clone();
        }
        let (closed, lifecycle) = (Shutdown::new(), self.clone());
        let end = closed.clone().drop_guard();
        tokio::spawn(async move {
            lifecycle.drained(limit).await;
            drop(end);
        });
        closed
    }

    async fn drained(&self, limit: Duration) {
        self.closing.cancelled().await;
        let requests = tokio::time::timeout(limit, empty(&self.requests));
        let watches = tokio::time::timeout(self.watch_grace, empty(&self.watches));
        if let (Err(_), _) = tokio::join!(requests, watches) {
            tracing::warn!(left = self.requests.len(), "some requests were not answered within {limit:?} of the shutdown");
        }
    }
}

async fn empty(tracker: &TaskTracker) {
    tracker.close();
    tracker.wait().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(30);

    fn lifecycle(retry_after: bool) -> Arc<Lifecycle> {
        Arc::new(Lifecycle { retry_after, ..Lifecycle::default() })
    }

    #[tokio::test]
    async fn the_listener_closes_at_once_or_when_all_is_answered_that_was_let_in() {
        let (plain, polite) = (lifecycle(false), lifecycle(true));
        let (first, second) = (plain.closed(SOON), polite.closed(SOON));
        let running = [plain.requests.token(), polite.requests.token()];
        plain.closing.cancel();
        polite.closing.cancel();
        assert!(first.is_cancelled());
        assert!(tokio::time::timeout(Duration::from_millis(50), second.cancelled()).await.is_err());
        drop(running);
        tokio::time::timeout(SOON, second.cancelled()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_never_answered_and_a_watch_that_never_ends_do_not_keep_the_listener_open() {
        let polite = Arc::new(Lifecycle { retry_after: true, watch_grace: SOON / 2, ..Lifecycle::default() });
        let _stuck = (polite.requests.token(), polite.watches.token());
        let closed = polite.closed(SOON);
        polite.closing.cancel();
        tokio::time::timeout(SOON + Duration::from_secs(1), closed.cancelled()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn watches_end_within_the_grace_period_and_not_all_together() {
        let lifecycle = Lifecycle { watch_grace: SOON, ..Lifecycle::default() };
        let began = tokio::time::Instant::now();
        let ended = (0..50).map(|_| lifecycle.watch_ends()).map(|end| async move {
            end.await;
            began.elapsed()
        });
        let ended = futures::future::join_all(ended);
        lifecycle.closing.cancel();
        let ended = ended.await;
        assert!(ended.iter().all(|at| *at <= SOON + Duration::from_millis(2)), "{ended:?}");
        let early = ended.iter().filter(|at| **at < SOON / 2).count();
        assert!((1..50).contains(&early), "{ended:?}");
    }
}
