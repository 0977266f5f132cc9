//! Creates and deletes pods on behalf of a controller object, and tells of it by events.

use std::{fmt, sync::Arc};

use client::{events::Recorder, retry};
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

#[derive(Clone)]
pub(crate) struct PodControl {
    client: Client,
    recorder: Recorder,
}

impl PodControl {
    pub(crate) fn new(context: &Context) -> Self {
        Self { client: context.client.clone(), recorder: context.recorder.clone() }
    }

    /// Creates `count` pods in growing batches and stops at the first batch with a failure: what is refused once
    /// (a quota, say) is refused a thousand times. How many were created, and the first error.
    pub(crate) async fn create_many<O>(
        &self,
        owner: &O,
        namespace: &str,
        template: Option<&PodTemplateSpec>,
        count: usize,
    ) -> (usize, anyhow::Result<()>)
    where
        O: Typed + Resource<DynamicType = ()> + fmt::Debug,
    {
        self.create_pods(owner, namespace, &vec![from_template(owner, template); count]).await
    }

    /// The same for pods that differ.
    pub(crate) async fn create_pods<O>(&self, owner: &O, namespace: &str, pods: &[Pod]) -> (usize, anyhow::Result<()>)
    where
        O: Typed + Resource<DynamicType = ()> + fmt::Debug,
    {
        let (mut created, mut batch) = (0, FIRST_BATCH.min(pods.len()));
        while batch > 0 {
            let results = join_all(pods[created..created + batch].iter().map(|pod| self.create(owner, namespace, pod))).await;
            created += results.iter().filter(|result| result.is_ok()).count();
            if let Some(error) = results.into_iter().find_map(Result::err) {
                // A namespace on its way out takes no pods, and the owner goes with it.
                let hopeless = retry::is_namespace_terminating(&error);
                return (created, if hopeless { Ok(()) } else { Err(anyhow::anyhow!(message(&error))) });
            }
            batch = (batch * 2).min(pods.len() - created);
        }
        (created, Ok(()))
    }

    /// Creates one pod.
    pub(crate) async fn create<O>(&self, owner: &O, namespace: &str, pod: &Pod) -> kube::Result<Pod>
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

    /// Deletes all of `doomed` at once; `failed` hears the UID of each that will not be seen to go.
    pub(crate) async fn delete_many<O>(&self, owner: &O, namespace: &str, doomed: &[Arc<Pod>], failed: impl Fn(&str)) -> anyhow::Result<()>
    where
        O: Typed + Resource<DynamicType = ()> + fmt::Debug,
    {
        let results = join_all(doomed.iter().map(|pod| self.delete(owner, namespace, pod))).await;
        let mut outcome = Ok(());
        for (pod, result) in doomed.iter().zip(results) {
            if let Err(error) = result {
                failed(pod.metadata.uid.as_deref().unwrap_or_default());
                if !retry::is_not_found(&error) && outcome.is_ok() {
                    outcome = Err(anyhow::anyhow!(message(&error)));
                }
            }
        }
        outcome
    }

    /// Deletes one pod; fails with "not found" when it is gone already.
    pub(crate) async fn delete<O>(&self, owner: &O, namespace: &str, pod: &Pod) -> kube::Result<()>
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
