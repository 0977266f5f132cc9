//! Keeps pods with names, hosts and claims of their own running, in order.

mod plan;
#[cfg(test)]
mod plan_tests;
mod pods;

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use client::{
    Key,
    informer::{CONTROLLER_UID, Informer, matches},
    queue::{self, Outcome, Queue},
    retry,
};
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, StatefulSet},
    core::v1::{PersistentVolumeClaim, Pod},
};
use kube::{
    Api, Resource as _,
    api::{DeleteParams, PostParams, Preconditions},
};

use plan::{Action, Revision};

use super::replicaset::{ORPHANS, orphans};
use crate::{context::Context, owner, pod_control::message, revisions, status, template_hash::revision_hash};

/// A cache that does not show our own pods yet is looked at again after this long.
const RECHECK: Duration = Duration::from_millis(200);

struct Controller {
    context: Context,
    sets: Informer<StatefulSet>,
    pods: Informer<Pod>,
    revisions: Informer<ControllerRevision>,
    claims: Informer<PersistentVolumeClaim>,
    queue: Queue<Key>,
}

pub(crate) fn run(context: Context) -> BoxFuture<'static, ()> {
    let controller = Arc::new(Controller {
        sets: context.informers.of(),
        pods: context.informers.of::<Pod>().with_index(ORPHANS, orphans),
        revisions: context.informers.of(),
        claims: context.informers.of(),
        queue: context.queue("statefulset"),
        context,
    });
    async move {
        controller.listen();
        controller.sets.synced().await;
        controller.pods.synced().await;
        controller.revisions.synced().await;
        controller.claims.synced().await;
        let (workers, shutdown) = (controller.context.options.concurrent.statefulset, controller.context.shutdown.clone());
        queue::work(controller.queue.clone(), workers, shutdown, move |key| Arc::clone(&controller).reconcile(key)).await;
    }
    .boxed()
}

impl Controller {
    fn listen(self: &Arc<Self>) {
        let controller = Arc::clone(self);
        self.sets.on_change(move |change| controller.queue.add(Key::of(change.object().meta())));
        let controller = Arc::clone(self);
        self.pods.on_change(move |change| {
            let meta = &change.object().metadata;
            match (owner::key(meta, "StatefulSet"), owner::controller_of(meta)) {
                (Some(key), _) => controller.queue.add(key),
                (None, Some(_)) => {}
                (None, None) => controller.queue_adopters(change.object()),
            }
        });
    }

    fn queue_adopters(&self, pod: &Pod) {
        for set in self.sets.list_namespace(pod.metadata.namespace.as_deref().unwrap_or_default()) {
            let selector = set.spec.as_ref().map(|spec| &spec.selector);
            if pods::ordinal(&set, pod).is_some() && matches(selector, pod.metadata.labels.as_ref()) {
                self.queue.add(Key::of(&set.metadata));
            }
        }
    }

    async fn reconcile(self: Arc<Self>, key: Key) -> anyhow::Result<Outcome> {
        let Some(set) = self.sets.get(&key) else { return Ok(Outcome::Done) };
        let Some(spec) = &set.spec else { return Ok(Outcome::Done) };
        let claimed = self.claim(&set, &key).await?;
        let known = self.revisions.by_index(CONTROLLER_UID, set.metadata.uid.as_deref().unwrap_or_default());
        let api: Api<ControllerRevision> = Api::namespaced(self.context.client.clone(), &key.namespace);
        let newest =
            revisions::apply(&api, revisions::plan(&known, &spec.template), |number, collisions| new_revision(&set, number, collisions))
                .await?;
        let update = Revision { name: newest.metadata.name.clone().unwrap_or_default(), template: spec.template.clone() };
        let current = self.current(&set, &known).unwrap_or_else(|| update.clone());
        let now = component::clock::now();
        let (actions, status) = plan::plan(&set, &claimed, &current, &update, now);
        let changed = !actions.is_empty();
        let acted = self.act(&set, &key, actions).await;
        let shown = StatefulSet { status: Some(status), ..set.as_ref().clone() };
        status::write(&self.context.client, &key, set.as_ref(), &shown).await?;
        acted?;
        let used = |revision: &ControllerRevision| {
            let name = revision.metadata.name.as_deref().unwrap_or_default();
            [current.name.as_str(), update.name.as_str()].contains(&name) || claimed.iter().any(|pod| pods::revision(pod) == name)
        };
        revisions::truncate(&api, &known, used, spec.revision_history_limit.unwrap_or(10)).await?;
        Ok(self.again(spec.min_ready_seconds.unwrap_or(0), &claimed, changed))
    }

    fn again(&self, min_ready: i32, pods: &[Arc<Pod>], changed: bool) -> Outcome {
        let waits = pods.iter().filter_map(|pod| crate::pods::until_available(pod, min_ready, component::clock::now()));
        match waits.filter(|wait| !wait.is_zero()).min() {
            Some(wait) => Outcome::After(wait + Duration::from_millis(10)),
            None if changed => Outcome::After(RECHECK),
            None => Outcome::Done,
        }
    }

    async fn claim(&self, set: &StatefulSet, key: &Key) -> anyhow::Result<Vec<Arc<Pod>>> {
        let Some(spec) = &set.spec else { return Ok(Vec::new()) };
        let owned = self.pods.by_index(CONTROLLER_UID, set.metadata.uid.as_deref().unwrap_or_default());
        let orphans = self.pods.by_index(ORPHANS, &key.namespace);
        let candidates = owned.into_iter().chain(orphans.into_iter().filter(|pod| pods::ordinal(set, pod).is_some()));
        owner::claim_all(&self.context.client, set, &spec.selector, candidates).await
    }

    /// The revision the set was at before the update under way, if any is.
    fn current(&self, set: &StatefulSet, known: &[Arc<ControllerRevision>]) -> Option<Revision> {
        let name = set.status.as_ref()?.current_revision.clone()?;
        let revision = known.iter().find(|revision| revision.metadata.name.as_ref() == Some(&name))?;
        Some(Revision { name, template: revisions::template(revision)? })
    }

    async fn act(&self, set: &StatefulSet, key: &Key, actions: Vec<Action>) -> anyhow::Result<()> {
        for action in actions {
            match action {
                Action::Create(ordinal, pod) => self.create(set, key, ordinal, &pod).await?,
                Action::Delete(pod) => self.delete(set, key, &pod).await?,
            }
        }
        Ok(())
    }

    async fn create(&self, set: &StatefulSet, key: &Key, ordinal: i32, pod: &Pod) -> anyhow::Result<()> {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let about = set.object_ref(&());
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.context.client.clone(), &key.namespace);
        for (_, claim) in pods::claims(set, ordinal) {
            let claim_name = claim.metadata.name.clone().unwrap_or_default();
            if self.claims.get(&Key::new(&key.namespace, &claim_name)).is_some() {
                continue;
            }
            match claims.create(&PostParams::default(), &claim).await {
                Ok(_) => {
                    let text = format!("create Claim {claim_name} Pod {name} in StatefulSet {} success", key.name);
                    self.context.recorder.normal(&about, "SuccessfulCreate", text);
                }
                Err(error) if retry::is_already_exists(&error) => {}
                Err(error) => {
                    let text =
                        format!("create Claim {claim_name} for Pod {name} in StatefulSet {} failed error: {}", key.name, message(&error));
                    self.context.recorder.warning(&about, "FailedCreate", text);
                    return Err(error).context("create claim");
                }
            }
        }
        let api: Api<Pod> = Api::namespaced(self.context.client.clone(), &key.namespace);
        match api.create(&PostParams::default(), pod).await {
            Ok(_) => {
                let text = format!("create Pod {name} in StatefulSet {} successful", key.name);
                self.context.recorder.normal(&about, "SuccessfulCreate", text);
            }
            Err(error) if retry::is_already_exists(&error) || retry::is_namespace_terminating(&error) => {}
            Err(error) => {
                let text = format!("create Pod {name} in StatefulSet {} failed error: {}", key.name, message(&error));
                self.context.recorder.warning(&about, "FailedCreate", text);
                return Err(error).context("create pod");
            }
        }
        Ok(())
    }

    async fn delete(&self, set: &StatefulSet, key: &Key, pod: &Pod) -> anyhow::Result<()> {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let api: Api<Pod> = Api::namespaced(self.context.client.clone(), &key.namespace);
        // The next pod of this name must not be deleted in its stead.
        let preconditions = Preconditions { uid: pod.metadata.uid.clone(), ..Preconditions::default() };
        match api.delete(name, &DeleteParams::default().preconditions(preconditions)).await {
            Ok(_) => {
                let text = format!("delete Pod {name} in StatefulSet {} successful", key.name);
                self.context.recorder.normal(&set.object_ref(&()), "SuccessfulDelete", text);
                Ok(())
            }
            Err(error) if retry::is_not_found(&error) || retry::is_conflict(&error) => Ok(()),
            Err(error) => Err(error).context("delete pod"),
        }
    }
}

fn new_revision(set: &StatefulSet, number: i64, collisions: i32) -> ControllerRevision {
    let template = set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let count = set.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0) + collisions;
    let hash = revision_hash(&revisions::raw(&revisions::patch(&template)), Some(count));
    let mut revision = revisions::new(set, &template, number, format!("{}-{hash}", pods::name(set)));
    revision.metadata.labels.get_or_insert_default().insert("controller.kubernetes.io/hash".into(), hash);
    revision
}
