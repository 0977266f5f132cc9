//! Deletes objects whose owners are gone, in the background, the foreground or not at all, as the owner's deletion asked.
//!
//! One metadata-only informer per resource the server serves feeds a [`graph`] of who owns whom. The graph is only a hint
//! of what to look at: nothing is deleted before [`collect`] has asked the server about the object and all its owners.

mod absent;
mod collect;
mod edit;
mod graph;
mod identity;
mod monitors;
mod references;

use std::{sync::Arc, time::Duration};

use client::queue::{self, Outcome, Queue};
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::core::v1::ObjectReference;
use parking_lot::Mutex;

use collect::Looked;
use graph::{Graph, Misplaced, Work};
use identity::Identity;
use monitors::Monitors;

use crate::context::Context;

/// How often the server is asked for new resources.
const DISCOVERY_PERIOD: Duration = Duration::from_secs(30);
/// How long the first lists may take; one that cannot be had must not keep all other garbage.
const FIRST_SYNC: Duration = Duration::from_secs(30);

struct Collector {
    context: Context,
    graph: Mutex<Graph>,
    monitors: Monitors,
    delete: Queue<String>,
    orphan: Queue<String>,
}

pub(crate) fn run(context: Context) -> BoxFuture<'static, ()> {
    async move {
        if !context.options.collect_garbage {
            return;
        }
        let collector = Arc::new(Collector {
            graph: Mutex::new(Graph::default()),
            monitors: Monitors::default(),
            delete: Queue::new("garbage_collector_attempt_to_delete", &context.queues),
            orphan: Queue::new("garbage_collector_attempt_to_orphan", &context.queues),
            context,
        });
        let (shutdown, workers) = (collector.context.shutdown.clone(), collector.context.options.concurrent.gc);
        if shutdown.run_until_cancelled(collector.first_sync()).await.is_none() {
            return;
        }
        let (deleting, orphaning) = (Arc::clone(&collector), Arc::clone(&collector));
        let delete =
            queue::work(collector.delete.clone(), workers, shutdown.clone(), move |uid| Arc::clone(&deleting).attempt_to_delete(uid));
        let orphan =
            queue::work(collector.orphan.clone(), workers, shutdown.clone(), move |uid| Arc::clone(&orphaning).attempt_to_orphan(uid));
        let resync = shutdown.run_until_cancelled(collector.resync());
        tokio::join!(delete, orphan, resync);
    }
    .boxed()
}

impl Collector {
    /// Waits until every resource has been listed once: dependents not seen yet would not be waited for.
    async fn first_sync(self: &Arc<Self>) {
        while let Err(error) = self.monitors.sync(self).await {
            tracing::warn!(error = format!("{error:#}"), "cannot discover resources, retrying");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        if tokio::time::timeout(FIRST_SYNC, self.monitors.synced()).await.is_err() {
            tracing::warn!("not every resource could be listed yet, collecting garbage nevertheless");
        }
    }

    async fn resync(self: &Arc<Self>) {
        loop {
            tokio::time::sleep(DISCOVERY_PERIOD).await;
            if let Err(error) = self.monitors.sync(self).await {
                tracing::warn!(error = format!("{error:#}"), "cannot discover resources");
            }
        }
    }

    /// Feeds the graph and queues what it says is worth a look.
    fn change(&self, change: impl FnOnce(&mut Graph) -> Vec<Work>) {
        let work = change(&mut self.graph.lock());
        for work in work {
            match work {
                Work::Delete(uid) => self.delete.add(uid),
                Work::Orphan(uid) => self.orphan.add(uid),
                Work::Report(misplaced) => {
                    let Misplaced { dependent, owner } = *misplaced;
                    let text = format!("ownerRef {owner} does not exist in namespace {:?}", owner.namespace);
                    self.context.recorder.warning(&about(dependent), "OwnerRefInvalidNamespace", text);
                }
            }
        }
    }

    async fn attempt_to_delete(self: Arc<Self>, uid: String) -> anyhow::Result<Outcome> {
        let Some(node) = self.graph.lock().get(&uid).cloned() else { return Ok(Outcome::Done) };
        if self.collect(&node).await? == Looked::Hopeless {
            return Ok(Outcome::Done);
        }
        // An owner known by reference only is looked at until an informer has seen it, or the server denied it.
        let unseen = self.graph.lock().get(&uid).is_some_and(|node| node.is_virtual);
        Ok(if unseen { Outcome::Retry } else { Outcome::Done })
    }

    async fn attempt_to_orphan(self: Arc<Self>, uid: String) -> anyhow::Result<Outcome> {
        let Some(node) = self.graph.lock().get(&uid).cloned() else { return Ok(Outcome::Done) };
        self.orphan_dependents(&node).await?;
        Ok(Outcome::Done)
    }
}

fn about(identity: Identity) -> ObjectReference {
    ObjectReference {
        api_version: Some(identity.api_version),
        kind: Some(identity.kind),
        namespace: Some(identity.namespace),
        name: Some(identity.name),
        uid: Some(identity.uid),
        ..ObjectReference::default()
    }
}
