//! Deletes everything in a namespace: pods first, then all other kinds the server serves.

use std::{collections::BTreeMap, time::Duration};

use client::retry;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Resource as _, ResourceExt as _,
    api::{DeleteParams, DynamicObject, ListParams},
};

use crate::discovery::{self, Served};

/// How long whoever holds a finalizer is expected to take.
const FINALIZERS: Duration = Duration::from_secs(15);

/// What is still there after everything was asked to go.
#[derive(Debug, Default)]
pub(super) struct Remaining {
    /// Objects left, by `resource.group`.
    pub(super) objects: BTreeMap<String, usize>,
    /// How many of them wait for each finalizer.
    pub(super) finalizers: BTreeMap<String, usize>,
    /// How long what is left may take to end.
    pub(super) estimate: Duration,
    /// Groups the server could not tell about.
    pub(super) undiscovered: Vec<String>,
    /// What could not be deleted.
    pub(super) errors: Vec<String>,
}

impl Remaining {
    /// Whether the namespace may go.
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.undiscovered.is_empty() && self.errors.is_empty()
    }
}

/// Deletes the content of `namespace` once; what remains says whether that was enough.
///
/// # Errors
/// Nothing is known about what the server serves.
pub(super) async fn delete_all(client: &Client, namespace: &str) -> anyhow::Result<Remaining> {
    let discovered = discovery::discover(client).await?;
    let mut remaining = Remaining { undiscovered: discovered.failed, ..Remaining::default() };
    let deletable = discovered.resources.into_iter().filter(|served| served.namespaced && served.takes(&["delete"]));
    let (pods, others): (Vec<_>, Vec<_>) = deletable.partition(is_pods);
    for served in &pods {
        remaining.estimate = longest_grace(client, namespace).await.unwrap_or_default();
        delete_kind(client, namespace, served, &mut remaining).await;
    }
    // What pods rely on stays until they are gone: a policy that guards them, a secret that they clean up with.
    if remaining.objects.is_empty() && remaining.errors.is_empty() {
        for served in &others {
            delete_kind(client, namespace, served, &mut remaining).await;
        }
    }
    Ok(remaining)
}

fn is_pods(served: &Served) -> bool {
    served.resource.group.is_empty() && served.resource.plural == "pods"
}

async fn longest_grace(client: &Client, namespace: &str) -> kube::Result<Duration> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let list = pods.list(&ListParams::default()).await?;
    let active = list.items.iter().filter(|pod| !crate::pods::is_finished(pod));
    let grace = active.filter_map(|pod| pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds)).max();
    Ok(Duration::from_secs(u64::try_from(grace.unwrap_or(0)).unwrap_or(0)))
}

async fn delete_kind(client: &Client, namespace: &str, served: &Served, remaining: &mut Remaining) {
    let name = match served.resource.group.as_str() {
        "" => format!("{}.", served.resource.plural),
        group => format!("{}.{group}", served.resource.plural),
    };
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &served.resource);
    if let Err(error) = delete_each_or_all(&api, served).await {
        remaining.errors.push(format!("{name}: {error}"));
        return;
    }
    if !served.takes(&["list"]) {
        return;
    }
    match retry::optional(api.list_metadata(&ListParams::default()).await) {
        Ok(list) => {
            let left = list.map(|list| list.items).unwrap_or_default();
            if !left.is_empty() {
                remaining.objects.insert(name, left.len());
            }
            for finalizer in left.iter().flat_map(|object| object.meta().finalizers.iter().flatten()) {
                *remaining.finalizers.entry(finalizer.clone()).or_default() += 1;
                remaining.estimate = remaining.estimate.max(FINALIZERS);
            }
        }
        Err(error) => remaining.errors.push(format!("{name}: {error}")),
    }
}

async fn delete_each_or_all(api: &Api<DynamicObject>, served: &Served) -> kube::Result<()> {
    let params = DeleteParams::background();
    if served.takes(&["deletecollection"]) {
        match api.delete_collection(&params, &ListParams::default()).await {
            // It does not take collections after all.
            Err(kube::Error::Api(status)) if status.code == 405 => {}
            Err(error) if retry::is_not_found(&error) => return Ok(()),
            result => return result.map(drop),
        }
    }
    if !served.takes(&["list"]) {
        return Ok(());
    }
    for object in api.list_metadata(&ListParams::default()).await?.items {
        retry::optional(api.delete(&object.name_any(), &params).await)?;
    }
    Ok(())
}
