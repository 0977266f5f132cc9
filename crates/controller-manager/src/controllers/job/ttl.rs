//! Deletes finished jobs when their time to live is over.

use std::time::Duration;

use client::{
    Key,
    informer::{Change, Informer},
    queue::{self, Outcome},
    retry,
};
use futures::{FutureExt as _, future::BoxFuture};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use kube::{
    Api, Client, Resource as _,
    api::{DeleteParams, Preconditions},
};

use super::finish;
use crate::context::Context;

pub(crate) fn run(context: Context) -> BoxFuture<'static, ()> {
    async move {
        let jobs: Informer<Job> = context.informers.of();
        let queue = context.queue("ttl_jobs_to_delete");
        let sink = queue.clone();
        jobs.on_change(move |change| {
            let job = change.object();
            if !matches!(change, Change::Deleted(_)) && left(job, component::clock::now()).is_some() {
                sink.add(Key::of(job.meta()));
            }
        });
        jobs.synced().await;
        queue::work(queue, 5, context.shutdown, move |key| reconcile(context.client.clone(), jobs.clone(), key)).await;
    }
    .boxed()
}

async fn reconcile(client: Client, jobs: Informer<Job>, key: Key) -> anyhow::Result<Outcome> {
    let api: Api<Job> = Api::namespaced(client, &key.namespace);
    match jobs.get(&key).and_then(|job| left(&job, component::clock::now())) {
        None => return Ok(Outcome::Done),
        Some(left) if !left.is_zero() => return Ok(Outcome::After(left)),
        Some(_) => {}
    }
    // A fresh look: the time to live may have been prolonged meanwhile.
    let Some(job) = retry::optional(api.get(&key.name).await)? else { return Ok(Outcome::Done) };
    match left(&job, component::clock::now()) {
        Some(left) if left.is_zero() => {
            let preconditions = Preconditions { uid: job.metadata.uid.clone(), ..Preconditions::default() };
            let params = DeleteParams::foreground().preconditions(preconditions);
            retry::optional(api.delete(&key.name, &params).await)?;
            Ok(Outcome::Done)
        }
        Some(left) => Ok(Outcome::After(left)),
        None => Ok(Outcome::Done),
    }
}

/// How long a finished job with a time to live may still stay.
fn left(job: &Job, now: Timestamp) -> Option<Duration> {
    let seconds = job.spec.as_ref()?.ttl_seconds_after_finished?;
    if job.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let mut finished = conditions
        .iter()
        .filter(|condition| condition.status == "True" && [finish::COMPLETE, finish::FAILED].contains(&condition.type_.as_str()));
    let since = finished.next()?.last_transition_time.as_ref()?.0;
    Some(Duration::try_from(since.duration_since(now) + SignedDuration::from_secs(seconds.into())).unwrap_or_default())
}
