//! Keeps one pod on every node that fits.

mod nodes;
mod plan;

use std::{sync::Arc, time::Duration};

use client::{
    Key,
    informer::{CONTROLLER_UID, Change, Informer},
    queue::{self, Outcome, Queue},
};
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet},
    core::v1::{Node, Pod},
};
use kube::{Api, Resource as _};

use super::replicaset::{ORPHANS, orphans};
use crate::{context::Context, owner, pod_control::PodControl, pods, revisions, status, template_hash::template_hash};

struct Controller {
    context: Context,
    sets: Informer<DaemonSet>,
    nodes: Informer<Node>,
    pods: Informer<Pod>,
    revisions: Informer<ControllerRevision>,
    queue: Queue<Key>,
    control: PodControl,
}

pub(crate) fn run(context: Context) -> BoxFuture<'static, ()> {
    let controller = Arc::new(Controller {
        sets: context.informers.of(),
        nodes: context.informers.of(),
        pods: context.informers.of::<Pod>().with_index(ORPHANS, orphans),
        revisions: context.informers.of(),
        queue: context.queue("daemonset"),
        control: PodControl::new(&context),
        context,
    });
    async move {
        controller.listen();
        controller.sets.synced().await;
        controller.nodes.synced().await;
        controller.pods.synced().await;
        controller.revisions.synced().await;
        let (workers, shutdown) = (controller.context.options.concurrent.daemonset, controller.context.shutdown.clone());
        queue::work(controller.queue.clone(), workers, shutdown, move |key| Arc::clone(&controller).reconcile(key)).await;
    }
    .boxed()
}

impl Controller {
    fn listen(self: &Arc<Self>) {
        let controller = Arc::clone(self);
        self.sets.on_change(move |change| controller.queue.add(Key::of(change.object().meta())));
        let controller = Arc::clone(self);
        self.nodes.on_change(move |change| controller.on_node(&change));
        let controller = Arc::clone(self);
        self.pods.on_change(move |change| controller.on_pod(&change));
    }

    /// Only what decides where pods belong matters of a node, not each of its heartbeats.
    fn on_node(&self, change: &Change<'_, Node>) {
        for set in self.sets.list() {
            let matters = match change {
                Change::Updated { old, new } => nodes::belongs(&set, old) != nodes::belongs(&set, new),
                Change::Added(node) | Change::Deleted(node) => nodes::belongs(&set, node).1,
            };
            if matters {
                self.queue.add(Key::of(&set.metadata));
            }
        }
    }

    fn on_pod(&self, change: &Change<'_, Pod>) {
        if let Some(key) = owner::key(&change.object().metadata, "DaemonSet") {
            self.control.observe(&key, change);
            self.queue.add(key);
        }
    }

    async fn reconcile(self: Arc<Self>, key: Key) -> anyhow::Result<Outcome> {
        let Some(set) = self.sets.get(&key) else {
            self.control.forget(&key);
            return Ok(Outcome::Done);
        };
        let Some(spec) = set.spec.as_ref().filter(|_| set.metadata.deletion_timestamp.is_none()) else { return Ok(Outcome::Done) };
        let settled = self.control.is_settled(&key);
        let pods = self.claim(&set, &key).await?;
        let known = self.revisions.by_index(CONTROLLER_UID, set.metadata.uid.as_deref().unwrap_or_default());
        let api: Api<ControllerRevision> = Api::namespaced(self.context.client.clone(), &key.namespace);
        let newest =
            revisions::apply(&api, revisions::plan(&known, &spec.template), |number, collisions| new_revision(&set, number, collisions))
                .await?;
        let hash = newest.metadata.labels.as_ref().and_then(|labels| labels.get(nodes::HASH)).cloned().unwrap_or_default();
        let (all, now) = (self.nodes.list(), component::clock::now());
        let acted = if settled { self.act(&set, &key, plan::plan(&set, &all, &pods, &hash, now)).await } else { Ok(()) };
        let shown = DaemonSet { status: Some(plan::status(&set, &all, &pods, &hash, now)), ..set.as_ref().clone() };
        status::write(&self.context.client, &key, set.as_ref(), &shown).await?;
        acted?;
        let used = |revision: &ControllerRevision| {
            let of = revision.metadata.labels.as_ref().and_then(|labels| labels.get(nodes::HASH));
            of == Some(&hash) || pods.iter().any(|pod| pod.metadata.labels.as_ref().and_then(|labels| labels.get(nodes::HASH)) == of)
        };
        revisions::truncate(&api, &known, used, spec.revision_history_limit.unwrap_or(10)).await?;
        let min_ready = spec.min_ready_seconds.unwrap_or(0);
        let waits = pods.iter().filter_map(|pod| pods::until_available(pod, min_ready, now)).filter(|wait| !wait.is_zero());
        Ok(waits.min().map_or(Outcome::Done, |wait| Outcome::After(wait + Duration::from_millis(10))))
    }

    async fn claim(&self, set: &DaemonSet, key: &Key) -> anyhow::Result<Vec<Arc<Pod>>> {
        let Some(spec) = &set.spec else { return Ok(Vec::new()) };
        let owned = self.pods.by_index(CONTROLLER_UID, set.metadata.uid.as_deref().unwrap_or_default());
        let candidates = owned.into_iter().chain(self.pods.by_index(ORPHANS, &key.namespace));
        owner::claim_all(&self.context.client, set, &spec.selector, candidates).await
    }

    async fn act(&self, set: &DaemonSet, key: &Key, plan: plan::Plan) -> anyhow::Result<()> {
        if plan.create.is_empty() {
            return self.control.delete_all(set, key, &plan.delete).await;
        }
        self.control.create_all(set, key, &plan.create).await
    }
}

fn new_revision(set: &DaemonSet, number: i64, collisions: i32) -> ControllerRevision {
    let template = set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let counted = set.status.as_ref().and_then(|status| status.collision_count);
    let counted = if collisions > 0 { Some(counted.unwrap_or(0) + collisions) } else { counted };
    let hash = template_hash(&template, counted);
    let name = format!("{}-{hash}", set.metadata.name.as_deref().unwrap_or_default());
    let mut revision = revisions::new(set, &template, number, name);
    revision.metadata.labels.get_or_insert_default().insert(nodes::HASH.into(), hash);
    revision
}
