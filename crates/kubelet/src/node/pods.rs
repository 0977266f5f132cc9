//! The pods bound to this node: a watch of them and one worker for each.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    runtime::{WatchStreamExt, watcher},
};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::Node;
use crate::pod::{
    facts,
    worker::{Desired, Worker},
};

struct Entry {
    desired: watch::Sender<Desired>,
    news: Arc<Notify>,
}

/// Workers by pod uid.
#[derive(Default)]
pub(crate) struct Pods {
    entries: Mutex<BTreeMap<String, Entry>>,
    listed: AtomicBool,
}

impl Pods {
    /// Current specs of all pods here.
    pub(crate) fn all(&self) -> Vec<Arc<Pod>> {
        self.entries.lock().values().map(|entry| entry.desired.borrow().pod.clone()).collect()
    }

    /// The pod of that name.
    pub(crate) fn named(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.all().into_iter().find(|pod| facts::namespace(pod) == namespace && facts::name(pod) == name)
    }

    /// Whether the API server has said once which pods belong here.
    pub(crate) fn listed(&self) -> bool {
        self.listed.load(Ordering::Acquire)
    }

    /// Whether a worker cares for the pod.
    pub(crate) fn has(&self, uid: &str) -> bool {
        self.entries.lock().contains_key(uid)
    }

    /// Wakes the pod's worker.
    pub(crate) fn wake(&self, uid: &str) {
        if let Some(entry) = self.entries.lock().get(uid) {
            entry.news.notify_one();
        }
    }

    /// Takes over what the API server says of a pod; a new one gets a worker.
    pub(crate) fn set(&self, node: &Arc<Node>, pod: Pod) {
        let uid = facts::uid(&pod).to_owned();
        if uid.is_empty() {
            return;
        }
        let desired = Desired { pod: Arc::new(pod), gone: false };
        let mut entries = self.entries.lock();
        if let Some(entry) = entries.get(&uid) {
            entry.desired.send_replace(desired);
            return;
        }
        let (sender, receiver) = watch::channel(desired);
        let news = Arc::new(Notify::new());
        let worker = Worker::new(node.clone(), receiver, news.clone());
        entries.insert(uid.clone(), Entry { desired: sender, news });
        let node = node.clone();
        tokio::spawn(async move {
            worker.run().await;
            node.pods.entries.lock().remove(&uid);
        });
    }

    /// The pod's object is gone; its worker cleans up.
    fn gone(&self, uid: &str) {
        if let Some(entry) = self.entries.lock().get(uid) {
            entry.desired.send_modify(|desired| desired.gone = true);
        }
    }

    /// The pods cared for that are not among `uids`.
    fn others(&self, uids: &[String]) -> Vec<String> {
        self.entries.lock().keys().filter(|uid| !uids.contains(uid)).cloned().collect()
    }
}

/// Follows the API server's pods for ever.
pub(crate) async fn follow(node: &Arc<Node>) {
    let api: Api<Pod> = Api::all(node.client.clone());
    let config = watcher::Config::default().fields(&format!("spec.nodeName={}", node.name));
    let mut events = watcher(api, config).default_backoff().boxed();
    let mut listed: Vec<String> = vec![];
    loop {
        match events.try_next().await {
            Ok(Some(event)) => apply(node, event, &mut listed),
            Ok(None) => return,
            Err(error) => tracing::warn!(node = node.name, error = watch_error(&error), "watch pods"),
        }
    }
}

fn watch_error(error: &watcher::Error) -> String {
    use watcher::Error;
    match error {
        Error::InitialListFailed(e) | Error::WatchStartFailed(e) | Error::WatchFailed(e) => crate::text::api_error(e),
        other => other.to_string(),
    }
}

fn apply(node: &Arc<Node>, event: watcher::Event<Pod>, listed: &mut Vec<String>) {
    match event {
        watcher::Event::Init => listed.clear(),
        watcher::Event::InitApply(pod) => {
            listed.push(facts::uid(&pod).to_owned());
            node.pods.set(node, pod);
        }
        watcher::Event::InitDone => {
            node.pods.others(listed).iter().for_each(|uid| forget(node, uid));
            listed.clear();
            node.pods.listed.store(true, Ordering::Release);
        }
        watcher::Event::Apply(pod) => node.pods.set(node, pod),
        watcher::Event::Delete(pod) => forget(node, facts::uid(&pod)),
    }
}

fn forget(node: &Node, uid: &str) {
    node.pods.gone(uid);
    node.statuses.forget(uid);
}
