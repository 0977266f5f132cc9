//! Asks the server about an object and its owners, and does what follows.

use anyhow::Context as _;
use client::retry;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, ObjectMeta, Preconditions, PropagationPolicy},
    core::PartialObjectMeta,
};

use super::{
    Collector,
    edit::{drop_references, remove_finalizer, unblock_owners},
    graph::{FOREGROUND, Node, ORPHAN},
    identity::Identity,
    monitors::Place,
    references::{Owner, Verdict, judge},
};

type Metadata = PartialObjectMeta<DynamicObject>;

/// What a look at an object came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looked {
    /// All that can be done now is done.
    Done,
    /// The object or an owner is addressed in a way no object can have; another look would find the same.
    Hopeless,
}

impl Collector {
    /// Deletes the object of `node` if all its owners are gone.
    pub(super) async fn collect(&self, node: &Node) -> anyhow::Result<Looked> {
        if node.being_deleted && !node.deleting_dependents {
            return Ok(Looked::Done);
        }
        let Some(api) = self.api(&node.identity)? else { return Ok(Looked::Hopeless) };
        let found = retry::optional(api.get_metadata(&node.identity.name).await).context("get object")?;
        let Some(latest) = found.filter(|latest| latest.metadata.uid.as_ref() == Some(&node.identity.uid)) else {
            self.change(|graph| graph.deny(&node.identity));
            return Ok(Looked::Done);
        };
        if node.deleting_dependents {
            return self.process_dependents(node, &api).await.map(|()| Looked::Done);
        }
        let Some(owners) = self.classify(&latest.metadata, &node.identity.namespace).await? else { return Ok(Looked::Hopeless) };
        let waits = self.graph.lock().dependents(node).any(|dependent| dependent.deleting_dependents);
        match judge(&latest.metadata, &owners, !node.dependents.is_empty(), waits) {
            Verdict::Keep => {}
            Verdict::DropReferences(uids) => drop_references(&api, &latest.metadata, &uids).await?,
            Verdict::Delete { policy, unblock } => {
                let mut latest = latest.metadata;
                if unblock {
                    latest = unblock_owners(&api, latest).await?;
                }
                tracing::info!(object = %node.identity, ?policy, "deleting object");
                self.delete(&api, node, latest, policy).await?;
            }
        }
        Ok(Looked::Done)
    }

    async fn delete(&self, api: &Api<DynamicObject>, node: &Node, latest: ObjectMeta, policy: PropagationPolicy) -> anyhow::Result<()> {
        let name = &node.identity.name;
        let attempt = async |resource_version: Option<String>| {
            let preconditions = Preconditions { uid: latest.uid.clone(), resource_version };
            let params = DeleteParams { propagation_policy: Some(policy.clone()), ..DeleteParams::default() };
            api.delete(name, &params.preconditions(preconditions)).await
        };
        // New owners since the look mean another verdict; any other change does not.
        let mut deleted = attempt(latest.resource_version.clone()).await;
        if deleted.as_ref().is_err_and(retry::is_conflict) {
            let Some(now) = retry::optional(api.get_metadata(name).await).context("get object")? else { return Ok(()) };
            if now.metadata.uid == latest.uid && now.metadata.owner_references == latest.owner_references {
                deleted = attempt(None).await;
            }
        }
        if retry::optional(deleted).context("delete object")?.is_none() {
            self.change(|graph| graph.deny(&node.identity));
        }
        Ok(())
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
        let dependents: Vec<_> = self.graph.lock().dependents(node).map(|dependent| dependent.identity.clone()).collect();
        for dependent in dependents {
            let Some(api) = self.api(&dependent)? else { continue };
            let Some(latest) = retry::optional(api.get_metadata(&dependent.name).await)? else { continue };
            if latest.metadata.uid.as_ref() == Some(&dependent.uid) {
                drop_references(&api, &latest.metadata, std::slice::from_ref(&node.identity.uid)).await?;
            }
        }
        match self.api(&node.identity)? {
            Some(api) => remove_finalizer(&api, &node.identity, ORPHAN).await,
            None => Ok(()),
        }
    }

    /// What each owner is up to; `None` where one cannot be what it is said to be.
    async fn classify(&self, meta: &ObjectMeta, namespace: &str) -> anyhow::Result<Option<Vec<(OwnerReference, Owner)>>> {
        let mut owners = Vec::new();
        for reference in meta.owner_references.iter().flatten() {
            match self.owner(&Identity::referred(reference, namespace)).await? {
                Some(owner) => owners.push((reference.clone(), owner)),
                None => return Ok(None),
            }
        }
        Ok(Some(owners))
    }

    async fn owner(&self, identity: &Identity) -> anyhow::Result<Option<Owner>> {
        if self.graph.lock().absent.has(identity) {
            return Ok(Some(Owner::Absent));
        }
        let Some(api) = self.api(identity)? else { return Ok(None) };
        let found: Option<Metadata> = retry::optional(api.get_metadata(&identity.name).await).context("get owner")?;
        Ok(Some(match found.filter(|owner| owner.metadata.uid.as_ref() == Some(&identity.uid)) {
            None => {
                self.graph.lock().absent.add(self.place(identity)?.coordinates(identity));
                Owner::Absent
            }
            Some(owner) => {
                let waits = owner.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FOREGROUND);
                let dying = owner.metadata.deletion_timestamp.is_some();
                if dying && waits { Owner::WaitsForDependents } else { Owner::Solid }
            }
        }))
    }

    /// Where to ask for the object; `None` where a cluster-scoped object refers to an owner in a namespace: it says not which.
    fn api(&self, identity: &Identity) -> anyhow::Result<Option<Api<DynamicObject>>> {
        Ok(self.place(identity)?.api(&self.context.client, &identity.namespace))
    }

    /// How objects of that kind are addressed.
    fn place(&self, identity: &Identity) -> anyhow::Result<Place> {
        let place = self.monitors.place(&identity.api_version, &identity.kind);
        place.with_context(|| format!("no matches for kind \"{}\" in version \"{}\"", identity.kind, identity.api_version))
    }
}
