//! How many pods the controllers of a budget's pods ask for.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::Context as _;
use client::{Key, informer::Informer, retry};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet, StatefulSet},
        core::v1::Pod,
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{Api, Client, api::DynamicObject};
use parking_lot::Mutex;

use crate::{
    context::Context,
    discovery::{self, Served},
    owner,
};

/// The sizes of controllers, by UID: usual ones from caches, all others from their scale.
pub(super) struct Scales {
    client: Client,
    sets: Informer<ReplicaSet>,
    deployments: Informer<Deployment>,
    stateful: Informer<StatefulSet>,
    /// What the server serves, as of the last time a kind was unknown.
    served: Mutex<Vec<Served>>,
}

/// A controller's UID and size.
type Scale = (String, i32);

impl Scales {
    pub(super) fn new(context: &Context) -> Self {
        Self {
            client: context.client.clone(),
            sets: context.informers.of(),
            deployments: context.informers.of(),
            stateful: context.informers.of(),
            served: Mutex::default(),
        }
    }

    pub(super) async fn synced(&self) {
        self.sets.synced().await;
        self.deployments.synced().await;
        self.stateful.synced().await;
    }

    /// How many pods the controllers of `pods` ask for in all, and whether any pod has none.
    ///
    /// # Errors
    /// A controller is not there, or has no scale.
    pub(super) async fn total(&self, pods: &[Arc<Pod>]) -> anyhow::Result<(i32, bool)> {
        let (mut scales, mut unmanaged) = (BTreeMap::new(), false);
        for pod in pods {
            let Some(reference) = owner::controller_of(&pod.metadata) else {
                unmanaged = true;
                continue;
            };
            if scales.contains_key(&reference.uid) {
                continue;
            }
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            let scale = match self.cached(namespace, reference) {
                None => self.asked(namespace, reference).await?,
                scale => scale,
            };
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            let (uid, replicas) = scale.with_context(|| format!("found no controllers for pod {name:?}"))?;
            scales.insert(uid, replicas);
        }
        Ok((scales.values().fold(0, |sum, replicas| sum.saturating_add(*replicas)), unmanaged))
    }

    fn cached(&self, namespace: &str, reference: &OwnerReference) -> Option<Scale> {
        let key = Key::new(namespace, &reference.name);
        let is = |wanted: &OwnerReference, kind: &str| wanted.kind == kind && wanted.api_version.starts_with("apps/");
        let same = |uid: &Option<String>| uid.as_deref() == Some(&reference.uid);
        if is(reference, "StatefulSet") {
            let set = self.stateful.get(&key).filter(|set| same(&set.metadata.uid))?;
            return Some((reference.uid.clone(), set.spec.as_ref()?.replicas.unwrap_or(1)));
        }
        let set = self.sets.get(&key).filter(|set| is(reference, "ReplicaSet") && same(&set.metadata.uid))?;
        let Some(above) = owner::controller_of(&set.metadata).filter(|above| above.kind == "Deployment") else {
            return Some((reference.uid.clone(), set.spec.as_ref()?.replicas.unwrap_or(1)));
        };
        let deployment = self.deployments.get(&Key::new(namespace, &above.name)).filter(|_| is(above, "Deployment"))?;
        (deployment.metadata.uid.as_ref() == Some(&above.uid)).then_some(())?;
        Some((above.uid.clone(), deployment.spec.as_ref()?.replicas.unwrap_or(1)))
    }

    async fn asked(&self, namespace: &str, reference: &OwnerReference) -> anyhow::Result<Option<Scale>> {
        let served = self.served(reference).await?;
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &served.resource);
        let Some(scale) = retry::optional(api.get_scale(&reference.name).await)? else {
            anyhow::ensure!(served.scales, "{} does not implement the scale subresource", served.name());
            return Ok(None);
        };
        let replicas = scale.spec.and_then(|spec| spec.replicas).unwrap_or(0);
        Ok((scale.metadata.uid.as_ref() == Some(&reference.uid)).then(|| (reference.uid.clone(), replicas)))
    }

    async fn served(&self, reference: &OwnerReference) -> anyhow::Result<Served> {
        let known = || self.served.lock().iter().find(|served| served.is(&reference.api_version, &reference.kind)).cloned();
        if let Some(served) = known() {
            return Ok(served);
        }
        let discovered = discovery::discover(&self.client).await?;
        *self.served.lock() = discovered.resources;
        known().with_context(|| format!("no matches for kind {:?} in version {:?}", reference.kind, reference.api_version))
    }
}
