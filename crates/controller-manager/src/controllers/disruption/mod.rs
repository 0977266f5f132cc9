//! Counts for each PodDisruptionBudget how many of its pods may be evicted.

mod plan;

use std::{collections::BTreeMap, sync::Arc};

use anyhow::Context as _;
use client::{
    Key,
    informer::{Informer, matches},
    queue::{self, Outcome},
    retry,
};
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet, StatefulSet},
    core::v1::Pod,
    policy::v1::PodDisruptionBudget,
};
use kube::{Api, Resource as _, api::PostParams};

use crate::{context::Context, owner};

struct Controller {
    context: Context,
    budgets: Informer<PodDisruptionBudget>,
    pods: Informer<Pod>,
    sets: Informer<ReplicaSet>,
    deployments: Informer<Deployment>,
    stateful: Informer<StatefulSet>,
}

pub(crate) fn run(context: Context) -> BoxFuture<'static, ()> {
    async move {
        let queue = context.queue("disruption");
        let controller = Arc::new(Controller {
            budgets: context.informers.of(),
            pods: context.informers.of(),
            sets: context.informers.of(),
            deployments: context.informers.of(),
            stateful: context.informers.of(),
            context,
        });
        let sink = queue.clone();
        controller.budgets.on_change(move |change| sink.add(Key::of(change.object().meta())));
        let (sink, budgets) = (queue.clone(), controller.budgets.clone());
        controller.pods.on_change(move |change| {
            let pod = change.object();
            for budget in budgets.list_namespace(pod.metadata.namespace.as_deref().unwrap_or_default()) {
                if selects(&budget, pod) {
                    sink.add(Key::of(&budget.metadata));
                }
            }
        });
        controller.budgets.synced().await;
        controller.pods.synced().await;
        controller.sets.synced().await;
        controller.deployments.synced().await;
        controller.stateful.synced().await;
        let shutdown = controller.context.shutdown.clone();
        queue::work(queue, 1, shutdown, move |key| Arc::clone(&controller).reconcile(key)).await;
    }
    .boxed()
}

fn selects(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    matches(selector, pod.metadata.labels.as_ref())
}

impl Controller {
    async fn reconcile(self: Arc<Self>, key: Key) -> anyhow::Result<Outcome> {
        let Some(budget) = self.budgets.get(&key) else { return Ok(Outcome::Done) };
        let mut pods = self.pods.list_namespace(&key.namespace);
        pods.retain(|pod| selects(&budget, pod) && !crate::pods::is_finished(pod));
        let expected = if plan::needs_scale(&budget) { self.scale(&budget, &pods) } else { i32::try_from(pods.len()).unwrap_or(i32::MAX) };
        let (status, again) = plan::status(&budget, &pods, expected, component::clock::now());
        if budget.status.as_ref() != Some(&status) {
            let budgets: Api<PodDisruptionBudget> = Api::namespaced(self.context.client.clone(), &key.namespace);
            let mut budget = budget.as_ref().clone();
            budget.status = Some(status);
            retry::optional(budgets.replace_status(&key.name, &PostParams::default(), &budget).await).context("update status")?;
        }
        Ok(again.map_or(Outcome::Done, Outcome::After))
    }

    /// How many pods the controllers of `pods` ask for in all.
    fn scale(&self, budget: &PodDisruptionBudget, pods: &[Arc<Pod>]) -> i32 {
        let mut scales: BTreeMap<String, i32> = BTreeMap::new();
        let mut unmanaged = Vec::new();
        for pod in pods {
            match self.scale_of(pod) {
                Some((uid, replicas)) => drop(scales.insert(uid, replicas)),
                None => unmanaged.push(pod.metadata.name.clone().unwrap_or_default()),
            }
        }
        if !unmanaged.is_empty() {
            let text = format!(
                "Pods selected by this PodDisruptionBudget (selector: {:?}) were found to be unmanaged. As a result, the status of \
                 the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please \
                 set \".spec.minAvailable\" field of the PDB to an integer value.",
                budget
                    .spec
                    .as_ref()
                    .and_then(|spec| spec.selector.as_ref())
                    .and_then(|selector| selector.match_labels.clone())
                    .unwrap_or_default(),
            );
            self.context.recorder.warning(&budget.object_ref(&()), "UnmanagedPods", text);
        }
        scales.values().sum()
    }

    fn scale_of(&self, pod: &Pod) -> Option<(String, i32)> {
        let reference = owner::controller_of(&pod.metadata)?;
        let key = |name: &str| Key::new(pod.metadata.namespace.clone().unwrap_or_default(), name);
        match reference.kind.as_str() {
            "StatefulSet" => {
                let set = self.stateful.get(&key(&reference.name))?;
                Some((reference.uid.clone(), set.spec.as_ref()?.replicas.unwrap_or(1)))
            }
            "ReplicaSet" => {
                let set = self.sets.get(&key(&reference.name))?;
                let deployment = owner::controller_of(&set.metadata).filter(|reference| reference.kind == "Deployment");
                match deployment {
                    Some(owner) => {
                        let deployment = self.deployments.get(&key(&owner.name))?;
                        Some((owner.uid.clone(), deployment.spec.as_ref()?.replicas.unwrap_or(1)))
                    }
                    None => Some((reference.uid.clone(), set.spec.as_ref()?.replicas.unwrap_or(1))),
                }
            }
            _ => None,
        }
    }
}
