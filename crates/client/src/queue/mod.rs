//! The rate-limited work queue (upstream: `workqueue.TypedRateLimitingInterface`).
//!
//! A key is handed to one worker at a time; adding it again while it waits changes nothing, while it is being worked on
//! brings it back afterwards. Failures come back with exponential back-off per key.

mod limiter;
mod metrics;
mod state;

use std::{fmt, hash::Hash, sync::Arc, time::Duration};

use component::Shutdown;
use parking_lot::Mutex;
use tokio::{sync::Notify, task::JoinSet, time::Instant};

use crate::retry;

pub use metrics::Metrics;
use metrics::QueueMetrics;
use state::State;

/// What a queue needs of a key.
pub trait Item: Clone + Eq + Hash + fmt::Display + Send + Sync + 'static {}
impl<T: Clone + Eq + Hash + fmt::Display + Send + Sync + 'static> Item for T {}

struct Shared<T> {
    name: String,
    state: Mutex<State<T>>,
    changed: Notify,
    metrics: QueueMetrics,
}

/// A work queue; clones share it.
pub struct Queue<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T: Item> Queue<T> {
    /// An empty queue; `name` is its label in the `workqueue_*` metrics.
    pub fn new(name: &str, metrics: &Metrics) -> Self {
        let shared =
            Shared { name: name.to_owned(), state: Mutex::new(State::new()), changed: Notify::new(), metrics: metrics.queue(name) };
        Self { shared: Arc::new(shared) }
    }

    /// Asks for `item` to be worked on as soon as a worker is free.
    pub fn add(&self, item: T) {
        self.change(|state, now| state.add(item, now));
    }

    /// Asks for `item` to be worked on after `delay`; an earlier request for it stands.
    pub fn add_after(&self, item: T, delay: Duration) {
        if delay.is_zero() {
            return self.add(item);
        }
        self.shared.metrics.retries.inc();
        self.change(|state, now| state.add_at(item, now + delay));
    }

    /// Asks for `item` to be worked on again after its back-off: 5 ms doubling up to 1000 s, and a bound over all items.
    pub fn add_rate_limited(&self, item: T) {
        self.shared.metrics.retries.inc();
        self.change(|state, now| state.add_rate_limited(item, now));
    }

    /// Ends the back-off of `item`: it succeeded, or is not worth trying again.
    pub fn forget(&self, item: &T) {
        self.shared.state.lock().forget(item);
    }

    /// How often `item` came back rate-limited since it was last forgotten.
    pub fn num_requeues(&self, item: &T) -> u32 {
        self.shared.state.lock().num_requeues(item)
    }

    /// Number of items waiting for a worker.
    pub fn len(&self) -> usize {
        self.shared.state.lock().len()
    }

    /// Whether no item waits for a worker.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Wakes all workers and hands out nothing any more.
    pub fn shut_down(&self) {
        self.shared.state.lock().shut_down();
        self.shared.changed.notify_waiters();
    }

    /// The next item, or `None` once the queue is shut down. Each must be given back with [`Queue::done`].
    pub async fn get(&self) -> Option<T> {
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            // Enabled before looking, or a change between looking and waiting would be missed.
            changed.as_mut().enable();
            let wake = {
                let mut state = self.shared.state.lock();
                let now = Instant::now();
                let added = state.promote(now);
                self.shared.metrics.adds.inc_by(added);
                if state.is_shut_down() {
                    return None;
                }
                if let Some((item, waited)) = state.take(now) {
                    self.shared.metrics.taken(state.len(), waited);
                    if state.len() > 0 {
                        self.shared.changed.notify_one();
                    }
                    return Some(item);
                }
                state.next_wake()
            };
            match wake {
                Some(at) => tokio::select! { () = changed => {}, () = tokio::time::sleep_until(at) => {} },
                None => changed.await,
            }
        }
    }

    /// Gives back what [`Queue::get`] handed out; if it was added meanwhile, it is due again now.
    pub fn done(&self, item: &T) {
        self.change(|state, now| {
            let (worked, again) = state.done(item, now);
            if let Some(worked) = worked {
                self.shared.metrics.work_duration.observe(worked.as_secs_f64());
            }
            again
        });
    }

    /// Applies `change`, which says whether the queue grew, and wakes a worker.
    fn change(&self, change: impl FnOnce(&mut State<T>, Instant) -> bool) {
        let (grew, depth) = {
            let mut state = self.shared.state.lock();
            (change(&mut state, Instant::now()), state.len())
        };
        if grew {
            self.shared.metrics.adds.inc();
        }
        self.shared.metrics.depth.set(i64::try_from(depth).unwrap_or(i64::MAX));
        self.shared.changed.notify_one();
    }
}

/// What is to become of a key after it was worked on without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing to do until it is added again.
    Done,
    /// Look again after this long.
    After(Duration),
    /// Look again after the key's back-off.
    Retry,
}

/// Drains `queue` with `workers` tasks until `shutdown`, calling `reconcile` per key; errors are logged and retried with back-off.
///
/// Returns when the keys being worked on are finished.
pub async fn work<T, F, R>(queue: Queue<T>, workers: usize, shutdown: Shutdown, reconcile: R)
where
    T: Item,
    R: Fn(T) -> F + Clone + Send + 'static,
    F: Future<Output = anyhow::Result<Outcome>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for _ in 0..workers.max(1) {
        tasks.spawn(drain(queue.clone(), reconcile.clone()));
    }
    shutdown.cancelled().await;
    queue.shut_down();
    while tasks.join_next().await.is_some() {}
}

async fn drain<T, F, R>(queue: Queue<T>, reconcile: R)
where
    T: Item,
    R: Fn(T) -> F + Send,
    F: Future<Output = anyhow::Result<Outcome>> + Send + 'static,
{
    while let Some(item) = queue.get().await {
        match reconcile(item.clone()).await {
            Ok(Outcome::Done) => queue.forget(&item),
            Ok(Outcome::After(delay)) => {
                queue.forget(&item);
                queue.add_after(item.clone(), delay);
            }
            Ok(Outcome::Retry) => queue.add_rate_limited(item.clone()),
            Err(error) => {
                let (name, retries, conflict) = (&queue.shared.name, queue.num_requeues(&item), is_conflict(&error));
                let error = describe(&error);
                if conflict {
                    tracing::debug!(queue = name, key = %item, retries, error, "sync met a newer object, retrying");
                } else {
                    tracing::warn!(queue = name, key = %item, retries, error, "sync failed, retrying");
                }
                queue.add_rate_limited(item.clone());
            }
        }
        queue.done(&item);
    }
}

fn is_conflict(error: &anyhow::Error) -> bool {
    error.chain().filter_map(|cause| cause.downcast_ref()).any(retry::is_conflict)
}

/// The chain of causes; of a refusal by the API server only its own words, as the client wraps them thrice.
fn describe(error: &anyhow::Error) -> String {
    let mut causes = Vec::new();
    for cause in error.chain() {
        if let Some(kube::Error::Api(status)) = cause.downcast_ref() {
            causes.push(status.message.clone());
            break;
        }
        causes.push(cause.to_string());
    }
    causes.join(": ")
}

#[cfg(test)]
mod tests {
    use component::{Shutdown, metrics::Registry};

    use super::{Metrics, Outcome, Queue, work};

    fn queue() -> Queue<String> {
        Queue::new("test", &Metrics::new(&Registry::new()))
    }

    #[tokio::test]
    async fn wakes_a_waiting_worker() {
        let queue = queue();
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.get().await }
        });
        tokio::task::yield_now().await;
        queue.add("a".into());
        assert_eq!(waiting.await.unwrap().as_deref(), Some("a"));
    }

    #[tokio::test]
    async fn a_failed_key_is_worked_on_again() {
        let queue = queue();
        queue.add("a".into());
        let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let shutdown = Shutdown::new();
        let worker = tokio::spawn(work(queue.clone(), 2, shutdown.clone(), {
            let queue = queue.clone();
            move |key: String| {
                let (retries, told) = (queue.num_requeues(&key), told.clone());
                async move {
                    let _ = told.send(retries);
                    anyhow::ensure!(retries == 2, "not yet");
                    Ok(Outcome::Done)
                }
            }
        }));
        assert_eq!([heard.recv().await, heard.recv().await, heard.recv().await], [Some(0), Some(1), Some(2)]);
        shutdown.cancel();
        worker.await.unwrap();
        assert_eq!(queue.num_requeues(&"a".into()), 0);
    }

    #[tokio::test]
    async fn shutting_down_releases_every_worker() {
        let queue = queue();
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.get().await }
        });
        tokio::task::yield_now().await;
        queue.shut_down();
        assert_eq!(waiting.await.unwrap(), None);
    }
}
