//! Creates and deletes pods on behalf of a controller object, and tells of it by events.

use std::{fmt, sync::Arc, time::Instant};

use client::{Key, events::Recorder, expectations::Expectations, informer::Change, retry};
use futures::future::join_all;
use k8s_openapi::{
    Resource as Typed,
    api::core::v1::{Pod, PodTemplateSpec},
};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, ObjectMeta, PostParams, Preconditions},
};

use crate::{context::Context, owner};

/// Pods created at first; each batch that succeeds entirely is followed by one twice as large.
const FIRST_BATCH: usize = 1;

/// The pods of one controller's objects. It remembers what was done to them until the cache has shown it: who counts them
/// before would do it again.
pub(crate) struct PodControl {
    client: Client,
    recorder: Recorder,
    expectations: Expectations,
}

impl PodControl {
    pub(crate) fn new(context: &Context) -> Self {
        Self { client: context.client.clone(), recorder: context.recorder.clone(), expectations: Expectations::new() }
    }

    /// Whether the cache has shown all that was done to the pods of `key`.
    pub(crate) fn is_settled(&self, key: &Key) -> bool {
        self.expectations.satisfied(key, Instant::now())
    }

    /// Forgets what was done for an object that is gone.
    pub(crate) fn forget(&self, key: &Key) {
        self.expectations.remove(key);
    }

    /// Takes in a change of a pod of `key`. One that is being deleted counts as gone, long before it is.
    pub(crate) fn observe(&self, key: &Key, change: &Change<'_, Pod>) {
        let meta = &change.object().metadata;
        if meta.deletion_timestamp.is_some() || matches!(change, Change::Deleted(_)) {
            self.expectations.deletion_observed(key, meta.uid.as_deref().unwrap_or_default());
        } else if matches!(change, Change::Added(_)) {
            self.expectations.creation_observed(key);
        }
    }

    /// Creates `pods` in growing batches and stops at the first batch with a failure: what is refused once (a quota, say) is
    /// refused a thousand times.
    ///
    /// # Errors
    /// The first refusal.
    pub(crate) async fn create_all<O>(&self, owner: &O, key: &Key, pods: &[Pod]) -> anyhow::Result<()>
    where
        O: Typed + Resource<DynamicType = ()> + fmt::Debug,
    {
        if pods.is_empty() {
            return Ok(());
        }
        self.expectations.expect_creations(key, pods.len(), Instant::now());
        let (mut created, mut batch) = (0, FIRST_BATCH.min(pods.len()));
        while batch > 0 {
            let results = join_all(pods[created..created + batch].iter().map(|pod| self.create(owner, &key.namespace, pod))).await;
            created += results.iter().filter(|result| result.is_ok()).count();
            if let Some(error) = results.into_iter().find_map(Result::err) {
                // What was not created will not be seen either.
                self.expectations.creations_observed(key, pods.len() - created);
                // A namespace on its way out takes no pods, and the owner goes with it.
                anyhow::ensure!(retry::is_namespace_terminating(&error), message(&error));
                return Ok(());
            }
            batch = (batch * 2).min(pods.len() - created);
        }
        Ok(())
    }

    /// Creates one pod.
    async fn create<O>(&self, owner: &O, namespace: &str, pod: &Pod) -> kube::Result<Pod>
    where
        O: Typed + Resource<DynamicType = ()> + fmt::Debug,
    {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let result = pods.create(&PostParams::default(), pod).await;
        let about = owner.object_ref(&());
        match &result {
            Ok(pod) => {
                let name = pod.metadata.name.as_deref().unwrap_or_default();
                self.recorder.normal(&about, "SuccessfulCreate", format!("Created pod: {name}"));
            }
            Err(error) if retry::is_namespace_terminating(error) => {}
            Err(error) => self.recorder.warning(&about, "FailedCreate", format!("Error creating: {}", message(error))),
        }
        result
    }

    /// Deletes all of `doomed` at once.
    ///
    /// # Errors
    /// The first refusal.
    pub(crate) async fn delete_all<O>(&self, owner: &O, key: &Key, doomed: &[Arc<Pod>]) -> anyhow::Result<()>
    where
        O: Typed + Resource<DynamicType = ()> + fmt::Debug,
    {
        if doomed.is_empty() {
            return Ok(());
        }
        let uids = doomed.iter().filter_map(|pod| pod.metadata.uid.clone());
        self.expectations.expect_deletions(key, uids, Instant::now());
        let results = join_all(doomed.iter().map(|pod| self.delete(owner, &key.namespace, pod))).await;
        let mut outcome = Ok(());
        for (pod, result) in doomed.iter().zip(results) {
            if let Err(error) = result {
                // It will not be seen to go.
                self.expectations.deletion_observed(key, pod.metadata.uid.as_deref().unwrap_or_default());
                if !retry::is_not_found(&error) && outcome.is_ok() {
                    outcome = Err(anyhow::anyhow!(message(&error)));
                }
            }
        }
        outcome
    }

    /// Deletes one pod; fails with "not found" when it is gone already.
    async fn delete<O>(&self, owner: &O, namespace: &str, pod: &Pod) -> kube::Result<()>
    where
        O: Typed + Resource<DynamicType = ()> + fmt::Debug,
    {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let preconditions = Preconditions { uid: pod.metadata.uid.clone(), ..Preconditions::default() };
        let result = pods.delete(name, &DeleteParams::default().preconditions(preconditions)).await;
        let about = owner.object_ref(&());
        match &result {
            Ok(_) => self.recorder.normal(&about, "SuccessfulDelete", format!("Deleted pod: {name}")),
            // Gone, or another pod has its name by now.
            Err(error) if retry::is_not_found(error) || retry::is_conflict(error) => {}
            Err(error) => self.recorder.warning(&about, "FailedDelete", format!("Error deleting: {}", message(error))),
        }
        result.map(drop)
    }
}

/// The server's own words for a refusal, without the client's around them.
pub(crate) fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// The pod a template describes, named after and controlled by `owner`.
pub(crate) fn from_template<O>(owner: &O, template: Option<&PodTemplateSpec>) -> Pod
where
    O: Typed + Resource,
{
    let template = template.cloned().unwrap_or_default();
    let meta = template.metadata.unwrap_or_default();
    let name = owner.meta().name.as_deref().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}-")),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![owner::reference(owner)]),
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    }
}
