//! Runs pods until enough of them have succeeded, or too many have failed.
//!
//! Each pod carries a finalizer until its end is recorded in the job's status, so that none is counted twice or not at all,
//! whoever deletes it and whenever this controller stops: see [`count`].

mod count;
pub(crate) mod finish;
mod indexes;
mod plan;
#[cfg(test)]
mod plan_tests;
mod ttl;

use std::{sync::Arc, time::Instant};

use anyhow::Context as _;
use client::{
    Key,
    expectations::Expectations,
    informer::{CONTROLLER_UID, Change, Informer},
    queue::{self, Outcome, Queue},
    retry,
};
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{
    Api, Resource as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use plan::{Action, Event};
pub(crate) use ttl::run as run_ttl;

use crate::{context::Context, owner, pod_control::PodControl};

/// Held by a pod until its end is counted.
const FINALIZER: &str = "batch.kubernetes.io/job-tracking";

struct Controller {
    context: Context,
    jobs: Informer<Job>,
    pods: Informer<Pod>,
    queue: Queue<Key>,
    expectations: Expectations,
    control: PodControl,
}

pub(crate) fn run(context: Context) -> BoxFuture<'static, ()> {
    let controller = Arc::new(Controller {
        jobs: context.informers.of(),
        pods: context.informers.of(),
        queue: context.queue("job"),
        expectations: Expectations::new(),
        control: PodControl::new(&context),
        context,
    });
    async move {
        controller.listen();
        controller.jobs.synced().await;
        controller.pods.synced().await;
        let (workers, shutdown) = (controller.context.options.concurrent.job, controller.context.shutdown.clone());
        queue::work(controller.queue.clone(), workers, shutdown, move |key| Arc::clone(&controller).reconcile(key)).await;
    }
    .boxed()
}

impl Controller {
    fn listen(self: &Arc<Self>) {
        let controller = Arc::clone(self);
        self.jobs.on_change(move |change| controller.queue.add(Key::of(change.object().meta())));
        let controller = Arc::clone(self);
        self.pods.on_change(move |change| controller.on_pod(&change));
    }

    fn on_pod(&self, change: &Change<'_, Pod>) {
        let pod = change.object();
        let Some(reference) = owner::controller_of(&pod.metadata).filter(|reference| reference.kind == "Job") else { return };
        let key = Key::new(pod.metadata.namespace.clone().unwrap_or_default(), &reference.name);
        if pod.metadata.deletion_timestamp.is_some() || matches!(change, Change::Deleted(_)) {
            self.expectations.deletion_observed(&key, pod.metadata.uid.as_deref().unwrap_or_default());
        } else if matches!(change, Change::Added(_)) {
            self.expectations.creation_observed(&key);
        }
        self.queue.add(key);
    }

    async fn reconcile(self: Arc<Self>, key: Key) -> anyhow::Result<Outcome> {
        let Some(job) = self.jobs.get(&key) else {
            self.expectations.remove(&key);
            return Ok(Outcome::Done);
        };
        if let Some(by) = job.spec.as_ref().and_then(|spec| spec.managed_by.as_deref())
            && by != "kubernetes.io/job-controller"
        {
            return Ok(Outcome::Done);
        }
        let satisfied = self.expectations.satisfied(&key, Instant::now());
        let pods = self.claim(&job, &key).await?;
        let planned = plan::plan(&job, &pods, satisfied, component::clock::now());
        let acted = self.act(&job, &key, planned.action).await;
        if let Some(status) = planned.status {
            self.write_status(&job, &key, status).await?;
        }
        for event in planned.events {
            let about = job.object_ref(&());
            match event {
                Event::Normal(reason, message) => self.context.recorder.normal(&about, reason, message),
                Event::Warning(reason, message) => self.context.recorder.warning(&about, reason, message),
            }
        }
        // Only now may the pods go: the status that counts them is stored.
        for pod in planned.release {
            self.release(&pod).await.context("remove the finalizer of a counted pod")?;
        }
        acted?;
        Ok(planned.again.map_or(Outcome::Done, Outcome::After))
    }

    async fn claim(&self, job: &Job, key: &Key) -> anyhow::Result<Vec<Arc<Pod>>> {
        let Some(selector) = job.spec.as_ref().and_then(|spec| spec.selector.as_ref()) else { return Ok(Vec::new()) };
        let candidates = self.pods.by_index(CONTROLLER_UID, job.metadata.uid.as_deref().unwrap_or_default());
        let client = &self.context.client;
        let (jobs, pods) = (Api::namespaced(client.clone(), &key.namespace), Api::namespaced(client.clone(), &key.namespace));
        owner::claim_all(&jobs, job, selector, &pods, candidates).await
    }

    async fn act(&self, job: &Job, key: &Key, action: Action) -> anyhow::Result<()> {
        match action {
            Action::Nothing => Ok(()),
            Action::Create(pods) => {
                self.expectations.expect_creations(key, pods.len(), Instant::now());
                let (created, result) = self.control.create_pods(job, &key.namespace, &pods).await;
                self.expectations.creations_observed(key, pods.len() - created);
                result
            }
            Action::Delete(doomed) => {
                let uids = doomed.iter().filter_map(|pod| pod.metadata.uid.clone());
                self.expectations.expect_deletions(key, uids, Instant::now());
                for pod in &doomed {
                    // A pod deleted from here is no failure, and is not to be counted as one.
                    self.release(pod).await?;
                }
                self.control.delete_many(job, &key.namespace, &doomed, |uid| self.expectations.deletion_observed(key, uid)).await
            }
        }
    }

    async fn release(&self, pod: &Pod) -> kube::Result<()> {
        let finalizers = pod.metadata.finalizers.as_deref().unwrap_or_default();
        if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            return Ok(());
        }
        let api: Api<Pod> = Api::namespaced(self.context.client.clone(), pod.metadata.namespace.as_deref().unwrap_or_default());
        let patch = json!({"metadata": {"uid": pod.metadata.uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}});
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        retry::optional(api.patch(name, &PatchParams::default(), &Patch::Strategic(patch)).await).map(drop)
    }

    async fn write_status(&self, job: &Job, key: &Key, status: k8s_openapi::api::batch::v1::JobStatus) -> anyhow::Result<()> {
        let jobs: Api<Job> = Api::namespaced(self.context.client.clone(), &key.namespace);
        let mut job = job.clone();
        job.status = Some(status);
        let written = jobs.replace_status(&key.name, &PostParams::default(), &job).await;
        retry::optional(written).context("update job status")?;
        Ok(())
    }
}
