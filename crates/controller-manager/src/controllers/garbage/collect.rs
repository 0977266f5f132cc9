//! Asks the server about an object and its owners, and does what follows.

use anyhow::Context as _;
use client::retry;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, ObjectMeta, Patch, PatchParams, Preconditions},
    core::{ApiResource, PartialObjectMeta},
};
use serde_json::json;

use super::{
    Collector,
    graph::{FOREGROUND, Identity, Node, ORPHAN},
    references::{Owner, Verdict, judge},
};

type Metadata = PartialObjectMeta<DynamicObject>;

impl Collector {
    /// Deletes the object of `node` if all its owners are gone.
    pub(super) async fn collect(&self, node: &Node) -> anyhow::Result<()> {
        if node.being_deleted && !node.deleting_dependents {
            return Ok(());
        }
        let Some(api) = self.api(&node.identity) else {
            // Of a kind that is not served any more: its objects are gone with it, or will be seen when it comes back.
            self.change(|graph| graph.remove(&node.identity.uid));
            return Ok(());
        };
        let found = retry::optional(api.get_metadata(&node.identity.name).await).context("get object")?;
        let Some(latest) = found.filter(|latest| latest.metadata.uid.as_ref() == Some(&node.identity.uid)) else {
            self.change(|graph| graph.remove(&node.identity.uid));
            return Ok(());
        };
        if node.deleting_dependents {
            return self.process_dependents(node, &api).await;
        }
        let owners = self.classify(&latest.metadata, &node.identity.namespace).await?;
        let waits = self.graph.lock().dependents(node).iter().any(|dependent| dependent.deleting_dependents);
        match judge(&latest.metadata, &owners, !node.dependents.is_empty(), waits) {
            Verdict::Keep => Ok(()),
            Verdict::DropReferences(uids) => drop_references(&api, &latest.metadata, &uids).await,
            Verdict::Delete { policy, unblock } => {
                if unblock {
                    unblock_owners(&api, &latest.metadata).await?;
                }
                tracing::info!(object = %format!("{} {}/{}", node.identity.kind, node.identity.namespace, node.identity.name), ?policy, "deleting object");
                let preconditions = Preconditions {
                    uid: latest.metadata.uid.clone(),
                    // New owners since the look above mean another verdict.
                    resource_version: if unblock { None } else { latest.metadata.resource_version.clone() },
                };
                let params =
                    DeleteParams { propagation_policy: Some(policy), preconditions: Some(preconditions), ..DeleteParams::default() };
                let deleted = api.delete(&node.identity.name, &params).await;
                retry::optional(deleted).context("delete object").map(drop)
            }
        }
    }

    /// Foreground: waits for blocking dependents, then lets the object go.
    async fn process_dependents(&self, node: &Node, api: &Api<DynamicObject>) -> anyhow::Result<()> {
        let blocking = self.graph.lock().blocking(node);
        if blocking.is_empty() {
            return remove_finalizer(api, &node.identity, FOREGROUND).await;
        }
        for dependent in blocking.into_iter().filter(|dependent| !dependent.deleting_dependents) {
            self.delete.add(dependent.identity.uid);
        }
        Ok(())
    }

    /// Takes the references off all dependents, then lets the object go.
    pub(super) async fn orphan_dependents(&self, node: &Node) -> anyhow::Result<()> {
        let dependents = self.graph.lock().dependents(node);
        for dependent in dependents {
            let Some(api) = self.api(&dependent.identity) else { continue };
            let Some(latest) = retry::optional(api.get_metadata(&dependent.identity.name).await)? else { continue };
            if latest.metadata.uid.as_ref() == Some(&dependent.identity.uid) {
                drop_references(&api, &latest.metadata, std::slice::from_ref(&node.identity.uid)).await?;
            }
        }
        match self.api(&node.identity) {
            Some(api) => remove_finalizer(&api, &node.identity, ORPHAN).await,
            None => Ok(()),
        }
    }

    async fn classify(&self, meta: &ObjectMeta, namespace: &str) -> anyhow::Result<Vec<(OwnerReference, Owner)>> {
        let mut owners = Vec::new();
        for reference in meta.owner_references.iter().flatten() {
            let identity = Identity {
                api_version: reference.api_version.clone(),
                kind: reference.kind.clone(),
                namespace: namespace.to_owned(),
                name: reference.name.clone(),
                uid: reference.uid.clone(),
            };
            owners.push((reference.clone(), self.owner(&identity).await?));
        }
        Ok(owners)
    }

    async fn owner(&self, identity: &Identity) -> anyhow::Result<Owner> {
        let Some((resource, namespaced)) = self.monitors.resource(&identity.api_version, &identity.kind) else {
            anyhow::bail!("owner {} {} is of a kind the API server does not serve", identity.kind, identity.name);
        };
        if namespaced && identity.namespace.is_empty() {
            // A cluster-scoped object cannot have an owner in a namespace; nobody can tell whether it is there.
            anyhow::bail!("cluster-scoped object refers to the namespaced owner {} {}", identity.kind, identity.name);
        }
        let api = address(&self.context.client, &resource, namespaced, &identity.namespace);
        let found: Option<Metadata> = retry::optional(api.get_metadata(&identity.name).await).context("get owner")?;
        Ok(match found.filter(|owner| owner.metadata.uid.as_ref() == Some(&identity.uid)) {
            None => Owner::Absent,
            Some(owner) => {
                let waits = owner.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FOREGROUND);
                let dying = owner.metadata.deletion_timestamp.is_some();
                if dying && waits { Owner::WaitsForDependents } else { Owner::Solid }
            }
        })
    }

    fn api(&self, identity: &Identity) -> Option<Api<DynamicObject>> {
        let (resource, namespaced) = self.monitors.resource(&identity.api_version, &identity.kind)?;
        Some(address(&self.context.client, &resource, namespaced, &identity.namespace))
    }
}

fn address(client: &Client, resource: &ApiResource, namespaced: bool, namespace: &str) -> Api<DynamicObject> {
    if namespaced && !namespace.is_empty() {
        Api::namespaced_with(client.clone(), namespace, resource)
    } else {
        Api::all_with(client.clone(), resource)
    }
}

async fn drop_references(api: &Api<DynamicObject>, meta: &ObjectMeta, uids: &[String]) -> anyhow::Result<()> {
    let owners = meta.owner_references.iter().flatten();
    let kept: Vec<_> = owners.filter(|owner| !uids.contains(&owner.uid)).collect();
    if Some(kept.len()) == meta.owner_references.as_ref().map(Vec::len) {
        return Ok(());
    }
    patch(api, meta, json!({"ownerReferences": kept})).await
}

async fn unblock_owners(api: &Api<DynamicObject>, meta: &ObjectMeta) -> anyhow::Result<()> {
    let mut owners = meta.owner_references.clone().unwrap_or_default();
    for owner in &mut owners {
        owner.block_owner_deletion = Some(false);
    }
    patch(api, meta, json!({"ownerReferences": owners})).await
}

async fn remove_finalizer(api: &Api<DynamicObject>, identity: &Identity, finalizer: &str) -> anyhow::Result<()> {
    let Some(latest) = retry::optional(api.get_metadata(&identity.name).await)? else { return Ok(()) };
    let finalizers = latest.metadata.finalizers.clone().unwrap_or_default();
    if latest.metadata.uid.as_ref() != Some(&identity.uid) || !finalizers.iter().any(|name| name == finalizer) {
        return Ok(());
    }
    let kept: Vec<_> = finalizers.into_iter().filter(|name| name != finalizer).collect();
    patch(api, &latest.metadata, json!({"finalizers": kept})).await
}

/// Changes metadata; the version makes a patch of a whole list safe.
async fn patch(api: &Api<DynamicObject>, meta: &ObjectMeta, mut metadata: serde_json::Value) -> anyhow::Result<()> {
    metadata["resourceVersion"] = json!(meta.resource_version);
    metadata["uid"] = json!(meta.uid);
    let name = meta.name.as_deref().unwrap_or_default();
    let patch = Patch::Merge(json!({"metadata": metadata}));
    retry::optional(api.patch(name, &PatchParams::default(), &patch).await).context("patch metadata")?;
    Ok(())
}
