//! Changes of an object's owner references and finalizers.

use anyhow::Context as _;
use client::retry;
use kube::{
    Api,
    api::{DynamicObject, ObjectMeta, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::identity::Identity;

/// Takes the references to the owners of these UIDs off the object.
pub(super) async fn drop_references(api: &Api<DynamicObject>, meta: &ObjectMeta, uids: &[String]) -> anyhow::Result<()> {
    let owners = meta.owner_references.iter().flatten();
    let kept: Vec<_> = owners.filter(|owner| !uids.contains(&owner.uid)).collect();
    if Some(kept.len()) == meta.owner_references.as_ref().map(Vec::len) {
        return Ok(());
    }
    patch(api, meta, json!({"ownerReferences": kept})).await.map(drop)
}

/// Lets the object block none of its owners any more; the object as it is then.
pub(super) async fn unblock_owners(api: &Api<DynamicObject>, mut meta: ObjectMeta) -> anyhow::Result<ObjectMeta> {
    let mut blocks = false;
    for owner in meta.owner_references.iter_mut().flatten() {
        blocks |= owner.block_owner_deletion == Some(true);
        owner.block_owner_deletion = owner.block_owner_deletion.map(|_| false);
    }
    if !blocks {
        return Ok(meta);
    }
    let changed = patch(api, &meta, json!({"ownerReferences": meta.owner_references})).await?;
    Ok(changed.unwrap_or(meta))
}

/// Takes one finalizer off the object, if it is still that object.
pub(super) async fn remove_finalizer(api: &Api<DynamicObject>, identity: &Identity, finalizer: &str) -> anyhow::Result<()> {
    let Some(latest) = retry::optional(api.get_metadata(&identity.name).await)? else { return Ok(()) };
    let finalizers = latest.metadata.finalizers.clone().unwrap_or_default();
    if latest.metadata.uid.as_ref() != Some(&identity.uid) || !finalizers.iter().any(|name| name == finalizer) {
        return Ok(());
    }
    let kept: Vec<_> = finalizers.into_iter().filter(|name| name != finalizer).collect();
    patch(api, &latest.metadata, json!({"finalizers": kept})).await.map(drop)
}

/// Changes metadata; the version makes a patch of a whole list safe. `None` when the object is gone.
async fn patch(api: &Api<DynamicObject>, meta: &ObjectMeta, mut metadata: Value) -> anyhow::Result<Option<ObjectMeta>> {
    metadata["resourceVersion"] = json!(meta.resource_version);
    metadata["uid"] = json!(meta.uid);
    let name = meta.name.as_deref().unwrap_or_default();
    let patch = Patch::Merge(json!({"metadata": metadata}));
    let patched = api.patch_metadata(name, &PatchParams::default(), &patch).await;
    Ok(retry::optional(patched).context("patch metadata")?.map(|object| object.metadata))
}
