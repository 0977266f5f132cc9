//! Runs pods until enough of them have succeeded, or too many have failed.
//!
//! Each pod carries a finalizer until its end is recorded in the job's status, so that none is counted twice or not at all,
//! whoever deletes it and whenever this controller stops: see [`count`].

mod count;
pub(crate) mod finish;
mod indexes;
mod orphans;
mod plan;
#[cfg(test)]
mod plan_tests;
mod ttl;

use std::sync::Arc;

use anyhow::Context as _;
use client::{
    Key,
    informer::{CONTROLLER_UID, Change, Informer},
    queue::{self, Outcome, Queue},
    retry,
};
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{
    Api, Client, Resource as _,
    api::{Patch, PatchParams},
};
use serde_json::json;

use plan::{Action, Event};
pub(crate) use ttl::run as run_ttl;

use crate::{context::Context, owner, pod_control::PodControl, status};

/// Held by a pod until its end is counted.
const FINALIZER: &str = "batch.kubernetes.io/job-tracking";

struct Controller {
    context: Context,
    jobs: Informer<Job>,
    pods: Informer<Pod>,
    queue: Queue<Key>,
    control: PodControl,
}

pub(crate) fn run(context: Context) -> BoxFuture<'static, ()> {
    let controller = Arc::new(Controller {
        jobs: context.informers.of(),
        pods: context.informers.of(),
        queue: context.queue("job"),
        control: PodControl::new(&context),
        context,
    });
    async move {
        controller.listen();
        controller.jobs.synced().await;
        controller.pods.synced().await;
        let (workers, shutdown) = (controller.context.options.concurrent.job, controller.context.shutdown.clone());
        let orphans = orphans::run(&controller.context, controller.jobs.clone(), controller.pods.clone());
        let queue = controller.queue.clone();
        tokio::join!(queue::work(queue, workers, shutdown, move |key| Arc::clone(&controller).reconcile(key)), orphans);
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
        if let Some(key) = owner::key(&change.object().metadata, "Job") {
            self.control.observe(&key, change);
            self.queue.add(key);
        }
    }

    async fn reconcile(self: Arc<Self>, key: Key) -> anyhow::Result<Outcome> {
        let Some(job) = self.jobs.get(&key) else {
            self.control.forget(&key);
            return Ok(Outcome::Done);
        };
        if let Some(by) = job.spec.as_ref().and_then(|spec| spec.managed_by.as_deref())
            && by != "kubernetes.io/job-controller"
        {
            return Ok(Outcome::Done);
        }
        let settled = self.control.is_settled(&key);
        let pods = self.claim(&job).await?;
        let planned = plan::plan(&job, &pods, settled, component::clock::now());
        let acted = self.act(&job, &key, planned.action).await;
        if let Some(status) = planned.status {
            let shown = Job { status: Some(status), ..job.as_ref().clone() };
            status::write(&self.context.client, &key, job.as_ref(), &shown).await?;
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
            release(&self.context.client, &pod).await.context("remove the finalizer of a counted pod")?;
        }
        acted?;
        Ok(planned.again.map_or(Outcome::Done, Outcome::After))
    }

    async fn claim(&self, job: &Job) -> anyhow::Result<Vec<Arc<Pod>>> {
        let Some(selector) = job.spec.as_ref().and_then(|spec| spec.selector.as_ref()) else { return Ok(Vec::new()) };
        let candidates = self.pods.by_index(CONTROLLER_UID, job.metadata.uid.as_deref().unwrap_or_default());
        owner::claim_all(&self.context.client, job, selector, candidates).await
    }

    async fn act(&self, job: &Job, key: &Key, action: Action) -> anyhow::Result<()> {
        match action {
            Action::Nothing => Ok(()),
            Action::Create(pods) => self.control.create_all(job, key, &pods).await,
            Action::Delete(doomed) => {
                for pod in &doomed {
                    // A pod deleted from here is no failure, and is not to be counted as one.
                    release(&self.context.client, pod).await?;
                }
                self.control.delete_all(job, key, &doomed).await
            }
        }
    }
}

/// Whether the pod's end is still to be counted.
fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER)
}

async fn release(client: &Client, pod: &Pod) -> kube::Result<()> {
    if !is_tracked(pod) {
        return Ok(());
    }
    let api: Api<Pod> = Api::namespaced(client.clone(), pod.metadata.namespace.as_deref().unwrap_or_default());
    let patch = json!({"metadata": {"uid": pod.metadata.uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}});
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    retry::optional(api.patch(name, &PatchParams::default(), &Patch::Strategic(patch)).await).map(drop)
}
