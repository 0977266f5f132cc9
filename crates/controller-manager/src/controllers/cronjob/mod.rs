//! Starts jobs at the times of a cron schedule.

mod plan;
mod schedule;

use std::sync::Arc;

use anyhow::Context as _;
use client::{
    Key,
    informer::{CONTROLLER_UID, Informer},
    queue::{self, Outcome},
    retry,
};
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::{
    batch::v1::{CronJob, CronJobStatus, Job},
    core::v1::ObjectReference,
};
use kube::{
    Api, Resource as _,
    api::{DeleteParams, PostParams, Preconditions},
};

use plan::Action;

use crate::{context::Context, owner, pod_control::message};

struct Controller {
    context: Context,
    crons: Informer<CronJob>,
    jobs: Informer<Job>,
}

pub(crate) fn run(context: Context) -> BoxFuture<'static, ()> {
    async move {
        let queue = context.queue("cronjob");
        let controller = Arc::new(Controller { crons: context.informers.of(), jobs: context.informers.of(), context });
        let sink = queue.clone();
        controller.crons.on_change(move |change| sink.add(Key::of(change.object().meta())));
        let sink = queue.clone();
        controller.jobs.on_change(move |change| {
            if let Some(key) = owner::key(&change.object().metadata, "CronJob") {
                sink.add(key);
            }
        });
        controller.crons.synced().await;
        controller.jobs.synced().await;
        let shutdown = controller.context.shutdown.clone();
        queue::work(queue, 5, shutdown, move |key| Arc::clone(&controller).reconcile(key)).await;
    }
    .boxed()
}

impl Controller {
    async fn reconcile(self: Arc<Self>, key: Key) -> anyhow::Result<Outcome> {
        if self.crons.get(&key).is_none() {
            return Ok(Outcome::Done);
        }
        let crons: Api<CronJob> = Api::namespaced(self.context.client.clone(), &key.namespace);
        // The status tells which run was the last: an old one would start it again.
        let Some(cron) = retry::optional(crons.get(&key.name).await)? else { return Ok(Outcome::Done) };
        let jobs = self.jobs.by_index(CONTROLLER_UID, cron.metadata.uid.as_deref().unwrap_or_default());
        let mut plan = plan::plan(&cron, &jobs, component::clock::now());
        for action in std::mem::take(&mut plan.actions) {
            let about = cron.object_ref(&());
            match action {
                Action::Normal(reason, text) => self.context.recorder.normal(&about, reason, text),
                Action::Warning(reason, text) => self.context.recorder.warning(&about, reason, text),
                Action::Delete(job) => self.delete(&about, &key, &job).await?,
                Action::Create(job, due) => {
                    if let Some(made) = self.create(&cron, &about, &key, &job).await? {
                        plan.started(made, due);
                    }
                }
            }
        }
        self.write_status(&crons, cron, plan.status).await?;
        Ok(plan.again.map_or(Outcome::Done, Outcome::After))
    }

    async fn delete(&self, about: &ObjectReference, key: &Key, job: &Job) -> anyhow::Result<()> {
        let jobs: Api<Job> = Api::namespaced(self.context.client.clone(), &key.namespace);
        let name = job.metadata.name.as_deref().unwrap_or_default();
        let preconditions = Preconditions { uid: job.metadata.uid.clone(), ..Preconditions::default() };
        let deleted = jobs.delete(name, &DeleteParams::background().preconditions(preconditions)).await;
        if retry::optional(deleted).context("delete job")?.is_some() {
            self.context.recorder.normal(about, "SuccessfulDelete", format!("Deleted job {name}"));
        }
        Ok(())
    }

    async fn create(&self, cron: &CronJob, about: &ObjectReference, key: &Key, job: &Job) -> anyhow::Result<Option<ObjectReference>> {
        let jobs: Api<Job> = Api::namespaced(self.context.client.clone(), &key.namespace);
        let name = job.metadata.name.as_deref().unwrap_or_default();
        match jobs.create(&PostParams::default(), job).await {
            Ok(made) => {
                self.context.recorder.normal(about, "SuccessfulCreate", format!("Created job {name}"));
                Ok(Some(made.object_ref(&())))
            }
            Err(error) if retry::is_namespace_terminating(&error) => Ok(None),
            // Made before, by a run of this controller that could not note it.
            Err(error) if retry::is_already_exists(&error) => {
                let found = retry::optional(jobs.get(name).await)?;
                Ok(found.filter(|found| owner::is_controlled_by(&found.metadata, &cron.metadata)).map(|found| found.object_ref(&())))
            }
            Err(error) => {
                self.context.recorder.warning(about, "FailedCreate", format!("Error creating job: {}", message(&error)));
                Err(error).context("create job")
            }
        }
    }

    async fn write_status(&self, crons: &Api<CronJob>, mut cron: CronJob, status: CronJobStatus) -> anyhow::Result<()> {
        if cron.status.clone().unwrap_or_default() == status {
            return Ok(());
        }
        cron.status = Some(status);
        let name = cron.metadata.name.clone().unwrap_or_default();
        retry::optional(crons.replace_status(&name, &PostParams::default(), &cron).await).context("update status")?;
        Ok(())
    }
}
