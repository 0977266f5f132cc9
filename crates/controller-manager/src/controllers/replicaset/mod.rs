//! Keeps as many pods of a template running as a ReplicaSet asks for.

mod plan;
pub(crate) mod rank;
mod status;

use std::sync::Arc;

use client::{
    Key,
    informer::{CONTROLLER_UID, Change, Informer, matches},
    queue::{self, Outcome, Queue},
    retry,
};
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
use kube::{Api, Resource as _, api::PostParams};

use plan::Action;

use crate::{
    context::Context,
    owner,
    pod_control::{PodControl, from_template},
    pods,
};

/// Index over pods without a controller, by namespace.
pub(crate) const ORPHANS: &str = "orphans";

/// Pods without a controller, for [`ORPHANS`].
pub(crate) fn orphans(pod: &Pod) -> Vec<String> {
    let orphan = owner::controller_of(&pod.metadata).is_none();
    pod.metadata.namespace.iter().filter(|_| orphan).cloned().collect()
}

struct Controller {
    context: Context,
    sets: Informer<ReplicaSet>,
    pods: Informer<Pod>,
    queue: Queue<Key>,
    control: PodControl,
}

pub(crate) fn run(context: Context) -> BoxFuture<'static, ()> {
    let controller = Arc::new(Controller {
        sets: context.informers.of(),
        pods: context.informers.of::<Pod>().with_index(ORPHANS, orphans),
        queue: context.queue("replicaset"),
        control: PodControl::new(&context),
        context,
    });
    async move {
        controller.listen();
        controller.sets.synced().await;
        controller.pods.synced().await;
        let (workers, shutdown) = (controller.context.options.concurrent.replicaset, controller.context.shutdown.clone());
        queue::work(controller.queue.clone(), workers, shutdown, move |key| Arc::clone(&controller).reconcile(key)).await;
    }
    .boxed()
}

impl Controller {
    fn listen(self: &Arc<Self>) {
        let controller = Arc::clone(self);
        self.sets.on_change(move |change| controller.on_set(&change));
        let controller = Arc::clone(self);
        self.pods.on_change(move |change| controller.on_pod(&change));
    }

    fn on_set(&self, change: &Change<'_, ReplicaSet>) {
        let key = Key::of(change.object().meta());
        let replaced = matches!(change, Change::Updated { old, new } if old.metadata.uid != new.metadata.uid);
        if replaced || matches!(change, Change::Deleted(_)) {
            self.control.forget(&key);
        }
        self.queue.add(key);
    }

    fn on_pod(&self, change: &Change<'_, Pod>) {
        let pod = change.object();
        let is_news = match change {
            Change::Added(_) => true,
            Change::Deleted(_) => false,
            Change::Updated { old, .. } => {
                let moved = owner::controller_of(&old.metadata) != owner::controller_of(&pod.metadata);
                if moved && let Some(key) = self.set_of(old) {
                    self.queue.add(key);
                }
                moved || old.metadata.labels != pod.metadata.labels
            }
        };
        if let Some(key) = self.set_of(pod) {
            self.control.observe(&key, change);
            self.queue.add(key);
        } else if is_news && pod.metadata.deletion_timestamp.is_none() {
            self.enqueue_adopters(pod);
        }
    }

    /// The key of the cached ReplicaSet that controls `pod`.
    fn set_of(&self, pod: &Pod) -> Option<Key> {
        let key = owner::key(&pod.metadata, "ReplicaSet")?;
        let set = self.sets.get(&key)?;
        owner::is_controlled_by(&pod.metadata, &set.metadata).then_some(key)
    }

    fn enqueue_adopters(&self, pod: &Pod) {
        if owner::controller_of(&pod.metadata).is_some() {
            return;
        }
        for set in self.sets.list_namespace(pod.metadata.namespace.as_deref().unwrap_or_default()) {
            let selector = set.spec.as_ref().map(|spec| &spec.selector);
            if matches(selector, pod.metadata.labels.as_ref()) {
                self.queue.add(Key::of(&set.metadata));
            }
        }
    }

    async fn reconcile(self: Arc<Self>, key: Key) -> anyhow::Result<Outcome> {
        let Some(set) = self.sets.get(&key) else {
            self.control.forget(&key);
            return Ok(Outcome::Done);
        };
        let settled = self.control.is_settled(&key);
        let mine = self.claim(&set, &key).await?;
        let active: Vec<_> = mine.iter().filter(|pod| pods::is_active(pod)).cloned().collect();
        let terminating = mine.iter().filter(|pod| pods::is_terminating(pod)).count();
        let managed = if settled && set.metadata.deletion_timestamp.is_none() { self.manage(&set, &key, &active).await } else { Ok(()) };
        let now = component::clock::now();
        let written = self.write_status(&set, &active, terminating, managed.as_ref().err()).await;
        managed?;
        written?;
        Ok(match status::next_available(&set, &active, now) {
            Some(after) => Outcome::After(after),
            None => Outcome::Done,
        })
    }

    /// Owned pods of any phase, after adoption and release.
    async fn claim(&self, set: &ReplicaSet, key: &Key) -> anyhow::Result<Vec<Arc<Pod>>> {
        let Some(spec) = &set.spec else { return Ok(Vec::new()) };
        let owned = self.pods.by_index(CONTROLLER_UID, set.metadata.uid.as_deref().unwrap_or_default());
        let orphans = self.pods.by_index(ORPHANS, &key.namespace);
        let candidates = owned.into_iter().chain(orphans.into_iter().filter(|pod| !pods::is_finished(pod)));
        owner::claim_all(&self.context.client, set, &spec.selector, candidates).await
    }

    async fn manage(&self, set: &ReplicaSet, key: &Key, active: &[Arc<Pod>]) -> anyhow::Result<()> {
        let related = self.related(set, active);
        match plan::plan(set, active, &related, component::clock::now()) {
            Action::Nothing => Ok(()),
            Action::Create(count) => {
                let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
                self.control.create_all(set, key, &vec![from_template(set, template); count]).await
            }
            Action::Delete(doomed) => self.control.delete_all(set, key, &doomed).await,
        }
    }

    /// Pods of every ReplicaSet with the same controller: a node crowded by an older revision counts as crowded.
    fn related(&self, set: &ReplicaSet, active: &[Arc<Pod>]) -> Vec<Arc<Pod>> {
        let Some(deployment) = owner::controller_of(&set.metadata) else { return active.to_vec() };
        let sets = self.sets.by_index(CONTROLLER_UID, &deployment.uid);
        let pods = sets.iter().filter_map(|set| set.metadata.uid.as_deref());
        pods.flat_map(|uid| self.pods.by_index(CONTROLLER_UID, uid)).collect()
    }

    async fn write_status(
        &self,
        set: &ReplicaSet,
        active: &[Arc<Pod>],
        terminating: usize,
        failure: Option<&anyhow::Error>,
    ) -> kube::Result<()> {
        let sets: Api<ReplicaSet> = Api::namespaced(self.context.client.clone(), set.metadata.namespace.as_deref().unwrap_or_default());
        let name = set.metadata.name.clone().unwrap_or_default();
        let mut current = set.clone();
        for attempt in 0..2 {
            let now = component::clock::now();
            let status = status::status(&current, active, terminating, failure, now);
            if current.status.as_ref() == Some(&status) {
                return Ok(());
            }
            current.status = Some(status);
            match sets.replace_status(&name, &PostParams::default(), &current).await {
                Err(error) if retry::is_conflict(&error) && attempt == 0 => current = sets.get(&name).await?,
                Err(error) if retry::is_not_found(&error) => return Ok(()),
                result => return result.map(drop),
            }
        }
        Ok(())
    }
}
