//! Pods that wait to be scheduled.

mod state;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::framework::ClusterEvent;
use state::State;
pub(crate) use state::{Attempt, Counts};

/// The queue; clones share it.
#[derive(Clone, Default)]
pub(crate) struct Queue {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
}

impl Queue {
    /// A pod to schedule appeared or changed; `gated` says which plugin holds it back.
    pub(crate) fn set(&self, pod: &Arc<Pod>, gated: Option<&'static str>) {
        self.state.lock().set(pod, gated, Instant::now());
        self.changed.notify_one();
    }

    /// The pod is gone, or bound.
    pub(crate) fn remove(&self, pod: &Pod) {
        self.state.lock().remove(pod);
    }

    /// Something changed that may help pods refused by a plugin for which `helps` says so.
    pub(crate) fn wake(&self, event: ClusterEvent, helps: impl Fn(&'static str, ClusterEvent) -> bool) {
        self.state.lock().wake(Instant::now(), |plugin| helps(plugin, event));
        self.changed.notify_one();
    }

    /// The pod came back from its attempt refused by these plugins; none means that the attempt failed for another reason.
    pub(crate) fn give_back(&self, attempt: &Attempt, refused_by: Vec<&'static str>) {
        self.state.lock().give_back(attempt, refused_by, Instant::now());
        self.changed.notify_one();
    }

    /// The attempt ended with a binding.
    pub(crate) fn done(&self, attempt: &Attempt) {
        self.state.lock().done(attempt);
    }

    /// The next pod: highest priority first, then longest waiting.
    pub(crate) async fn next(&self) -> Attempt {
        loop {
            let wait = {
                let mut state = self.state.lock();
                let now = Instant::now();
                match state.pop(now) {
                    Some(attempt) => return attempt,
                    None => state.next_change(now),
                }
            };
            // The timer bounds the wait: backing-off pods become ready without anybody telling.
            let _ = tokio::time::timeout(wait.unwrap_or(Duration::from_secs(30)), self.changed.notified()).await;
        }
    }

    /// How many pods wait where.
    pub(crate) fn counts(&self) -> Counts {
        self.state.lock().counts()
    }
}
