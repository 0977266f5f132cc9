//! Carries a Deployment from one pod template to the next.
//!
//! [`plan`] decides; this file reads caches, takes the planned steps, and handles what only the server can tell: a name
//! that is taken, a namespace that is going away.

mod conditions;
pub(crate) mod limits;
mod plan;
#[cfg(test)]
mod plan_tests;
mod revision;
mod rolling;
mod scale;
mod sets;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use anyhow::Context as _;
use client::{
    Key,
    informer::{CONTROLLER_UID, Change, Informer, matches},
    queue::{self, Outcome, Queue},
    retry,
};
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::Pod,
};
use kube::{
    Api, Resource as _,
    api::{DeleteParams, PostParams},
};

use plan::{Action, Observed};

use crate::{context::Context, owner, pod_control::message};

/// Index over ReplicaSets by namespace.
const BY_NAMESPACE_ORPHANS: &str = "orphans";

struct Controller {
    context: Context,
    deployments: Informer<Deployment>,
    sets: Informer<ReplicaSet>,
    pods: Informer<Pod>,
    queue: Queue<Key>,
}

pub(crate) fn run(context: Context) -> BoxFuture<'static, ()> {
    let controller = Arc::new(Controller {
        deployments: context.informers.of(),
        sets: context.informers.of::<ReplicaSet>().with_index(BY_NAMESPACE_ORPHANS, orphans),
        pods: context.informers.of(),
        queue: context.queue("deployment"),
        context,
    });
    async move {
        controller.listen();
        controller.deployments.synced().await;
        controller.sets.synced().await;
        controller.pods.synced().await;
        let (workers, shutdown) = (controller.context.options.concurrent.deployment, controller.context.shutdown.clone());
        queue::work(controller.queue.clone(), workers, shutdown, move |key| Arc::clone(&controller).reconcile(key)).await;
    }
    .boxed()
}

fn orphans(set: &ReplicaSet) -> Vec<String> {
    let orphan = owner::controller_of(&set.metadata).is_none();
    set.metadata.namespace.iter().filter(|_| orphan).cloned().collect()
}

impl Controller {
    fn listen(self: &Arc<Self>) {
        let controller = Arc::clone(self);
        self.deployments.on_change(move |change| controller.queue.add(Key::of(change.object().meta())));
        let controller = Arc::clone(self);
        self.sets.on_change(move |change| controller.on_set(&change));
        let controller = Arc::clone(self);
        self.pods.on_change(move |change| {
            // A recreation waits for the last old pod to be gone.
            if let Change::Deleted(pod) = change {
                controller.on_pod_deleted(pod);
            }
        });
    }

    fn on_set(&self, change: &Change<'_, ReplicaSet>) {
        let set = change.object();
        if let Change::Updated { old, new } = change
            && owner::controller_of(&old.metadata) != owner::controller_of(&new.metadata)
        {
            self.queue_owner(old);
        }
        if owner::controller_of(&set.metadata).is_some() {
            return self.queue_owner(set);
        }
        let deployments = self.deployments.list_namespace(set.metadata.namespace.as_deref().unwrap_or_default());
        for deployment in deployments {
            let selector = deployment.spec.as_ref().map(|spec| &spec.selector);
            if matches(selector, set.metadata.labels.as_ref()) {
                self.queue.add(Key::of(&deployment.metadata));
            }
        }
    }

    fn queue_owner(&self, set: &ReplicaSet) {
        if let Some(key) = owner::key(&set.metadata, "Deployment") {
            self.queue.add(key);
        }
    }

    fn on_pod_deleted(&self, pod: &Pod) {
        if let Some(set) = owner::key(&pod.metadata, "ReplicaSet").and_then(|key| self.sets.get(&key)) {
            self.queue_owner(&set);
        }
    }

    async fn reconcile(self: Arc<Self>, key: Key) -> anyhow::Result<Outcome> {
        let Some(deployment) = self.deployments.get(&key) else { return Ok(Outcome::Done) };
        let sets = self.claim(&deployment, &key).await?;
        let pods: BTreeMap<_, _> = sets
            .iter()
            .filter_map(|set| set.metadata.uid.clone())
            .map(|uid| {
                let pods = self.pods.by_index(CONTROLLER_UID, &uid);
                (uid, pods)
            })
            .collect();
        let observed =
            Observed { deployment: deployment.as_ref().clone(), sets: sets.iter().map(|set| set.as_ref().clone()).collect(), pods };
        self.act(&deployment, &key, plan::plan(observed, component::clock::now())).await
    }

    async fn claim(&self, deployment: &Deployment, key: &Key) -> anyhow::Result<Vec<Arc<ReplicaSet>>> {
        let Some(spec) = &deployment.spec else { return Ok(Vec::new()) };
        let owned = self.sets.by_index(CONTROLLER_UID, deployment.metadata.uid.as_deref().unwrap_or_default());
        let orphans = self.sets.by_index(BY_NAMESPACE_ORPHANS, &key.namespace);
        owner::claim_all(&self.context.client, deployment, &spec.selector, owned.into_iter().chain(orphans)).await
    }

    fn sets_api(&self, key: &Key) -> Api<ReplicaSet> {
        Api::namespaced(self.context.client.clone(), &key.namespace)
    }

    async fn act(&self, deployment: &Deployment, key: &Key, actions: Vec<Action>) -> anyhow::Result<Outcome> {
        let about = deployment.object_ref(&());
        // A set may be written twice in one plan; the second write needs the version the first one made.
        let mut versions: HashMap<String, Option<String>> = HashMap::new();
        let mut outcome = Outcome::Done;
        for action in actions {
            match action {
                Action::CreateSet(set) => {
                    let Some(created) = self.create_set(deployment, key, &set).await? else { return Ok(Outcome::Done) };
                    versions.insert(sets::name(&set).to_owned(), created.metadata.resource_version);
                }
                Action::UpdateSet(mut set) => {
                    let name = sets::name(&set).to_owned();
                    if let Some(version) = versions.get(&name) {
                        set.metadata.resource_version.clone_from(version);
                    }
                    let updated = self.sets_api(key).replace(&name, &PostParams::default(), &set).await;
                    let updated = updated.with_context(|| format!("update replica set {name}"))?;
                    versions.insert(name, updated.metadata.resource_version);
                }
                Action::DeleteSet(name) => {
                    let deleted = self.sets_api(key).delete(&name, &DeleteParams::default()).await;
                    retry::optional(deleted).with_context(|| format!("delete replica set {name}"))?;
                }
                Action::UpdateStatus(deployment) => self.write_status(key, &deployment).await?,
                Action::Normal(reason, message) => self.context.recorder.normal(&about, reason, message),
                Action::Warning(reason, message) => self.context.recorder.warning(&about, reason, message),
                Action::RequeueAfter(delay) => outcome = Outcome::After(delay),
                Action::Requeue => outcome = Outcome::Retry,
            }
        }
        Ok(outcome)
    }

    async fn write_status(&self, key: &Key, deployment: &Deployment) -> anyhow::Result<()> {
        let deployments: Api<Deployment> = Api::namespaced(self.context.client.clone(), &key.namespace);
        let written = deployments.replace_status(&key.name, &PostParams::default(), deployment).await;
        retry::optional(written).context("update deployment status")?;
        Ok(())
    }

    /// `None` when there is no point in going on: the namespace is going away.
    async fn create_set(&self, deployment: &Deployment, key: &Key, set: &ReplicaSet) -> anyhow::Result<Option<ReplicaSet>> {
        let error = match self.sets_api(key).create(&PostParams::default(), set).await {
            Ok(created) => return Ok(Some(created)),
            Err(error) if retry::is_namespace_terminating(&error) => return Ok(None),
            Err(error) if retry::is_already_exists(&error) => return self.collide(deployment, key, set).await.map(Some),
            Err(error) => error,
        };
        let text = format!("Failed to create new replica set \"{}\": {}", sets::name(set), message(&error));
        self.context.recorder.warning(&deployment.object_ref(&()), "ReplicaSetCreateError", text);
        let mut failed = deployment.clone();
        if conditions::note_create_error(&mut failed, &message(&error), component::clock::now()) {
            self.write_status(key, &failed).await?;
        }
        Err(anyhow::Error::new(error).context(format!("create replica set {}", sets::name(set))))
    }

    /// The name is taken: by our own set that the cache has not shown yet, or by another template of the same hash. The
    /// latter is told apart by a collision count, which changes the name at the next attempt.
    async fn collide(&self, deployment: &Deployment, key: &Key, set: &ReplicaSet) -> anyhow::Result<ReplicaSet> {
        let name = sets::name(set);
        let existing = self.sets_api(key).get(name).await.with_context(|| format!("get replica set {name}"))?;
        let template = |set: &ReplicaSet| set.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap_or_default();
        let ours = owner::is_controlled_by(&existing.metadata, &deployment.metadata);
        if ours && sets::same_template(&template(&existing), &template(set)) {
            return Ok(existing);
        }
        let mut counted = deployment.clone();
        let status = counted.status.get_or_insert_default();
        let collisions = status.collision_count.unwrap_or(0) + 1;
        status.collision_count = Some(collisions);
        self.write_status(key, &counted).await?;
        anyhow::bail!("replica set {name} is another's, collision count is {collisions} now")
    }
}
