//! Which objects belong to a controller object: the `controller` owner reference, adoption and release.
//!
//! An object with our reference that our selector no longer matches is released; one without a controller that the
//! selector matches is adopted, after a fresh look that our own object still lives (upstream: `controller_ref_manager.go`).

use std::{fmt, sync::Arc};

use client::{
    Key,
    retry::{is_not_found, optional},
};
use k8s_openapi::{
    NamespaceResourceScope, Resource as Typed,
    apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference},
};
use kube::{
    Api, Client, Resource,
    api::{ObjectMeta, Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::json;

/// The owner reference marked as controller.
pub(crate) fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// The key of the controller, if it is of that kind.
pub(crate) fn key(meta: &ObjectMeta, kind: &str) -> Option<Key> {
    let reference = controller_of(meta).filter(|reference| reference.kind == kind)?;
    Some(Key::new(meta.namespace.clone().unwrap_or_default(), &reference.name))
}

/// Whether `owner` controls the object with `meta`.
pub(crate) fn is_controlled_by(meta: &ObjectMeta, owner: &ObjectMeta) -> bool {
    controller_of(meta).is_some_and(|reference| Some(&reference.uid) == owner.uid.as_ref())
}

/// A reference that makes `owner` the controller of whatever carries it.
pub(crate) fn reference<O: Typed + Resource>(owner: &O) -> OwnerReference {
    OwnerReference {
        api_version: O::API_VERSION.into(),
        kind: O::KIND.into(),
        name: owner.meta().name.clone().unwrap_or_default(),
        uid: owner.meta().uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// A kind whose objects live in namespaces.
pub(crate) trait Namespaced: Resource<DynamicType = (), Scope = NamespaceResourceScope> {}
impl<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>> Namespaced for K {}

/// What is to become of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    Keep,
    Adopt,
    Release,
    Ignore,
}

/// Decides on the object with `meta`, whose labels match the owner's selector or do not.
pub(crate) fn claim(owner: &ObjectMeta, matches: bool, meta: &ObjectMeta) -> Claim {
    let dying = owner.deletion_timestamp.is_some();
    match controller_of(meta) {
        Some(reference) if Some(&reference.uid) != owner.uid.as_ref() => Claim::Ignore,
        Some(_) if matches => Claim::Keep,
        Some(_) if dying => Claim::Ignore,
        Some(_) => Claim::Release,
        None if dying || !matches || meta.deletion_timestamp.is_some() => Claim::Ignore,
        None => Claim::Adopt,
    }
}

/// The objects among `candidates` that belong to `owner` once adoptions and releases have been written.
///
/// # Errors
/// A write failed for another reason than that the object is gone, or `owner` is not what it was.
pub(crate) async fn claim_all<O, C>(
    client: &Client,
    owner: &O,
    selector: &LabelSelector,
    candidates: impl IntoIterator<Item = Arc<C>>,
) -> anyhow::Result<Vec<Arc<C>>>
where
    O: Typed + Namespaced + Clone + DeserializeOwned + fmt::Debug,
    C: Namespaced + Clone + DeserializeOwned + fmt::Debug,
{
    let namespace = owner.meta().namespace.as_deref().unwrap_or_default();
    let (owners, objects): (Api<O>, Api<C>) = (Api::namespaced(client.clone(), namespace), Api::namespaced(client.clone(), namespace));
    let (mut claimed, mut may_adopt) = (Vec::new(), None);
    for object in candidates {
        let meta = object.meta();
        let matches = client::informer::matches(Some(selector), meta.labels.as_ref());
        match claim(owner.meta(), matches, meta) {
            Claim::Keep => claimed.push(object),
            Claim::Ignore => {}
            Claim::Release => release(&objects, owner.meta(), meta).await?,
            Claim::Adopt => {
                if may_adopt.is_none() {
                    may_adopt = Some(still_lives(&owners, owner.meta()).await?);
                }
                anyhow::ensure!(may_adopt == Some(true), "cannot adopt: {} has just been deleted or replaced", O::KIND);
                claimed.extend(adopt(&objects, owner, meta).await?);
            }
        }
    }
    Ok(claimed)
}

async fn still_lives<O>(owners: &Api<O>, owner: &ObjectMeta) -> kube::Result<bool>
where
    O: Resource + Clone + DeserializeOwned + fmt::Debug,
{
    let name = owner.name.as_deref().unwrap_or_default();
    let fresh = optional(owners.get(name).await)?;
    Ok(fresh.is_some_and(|fresh| fresh.meta().uid == owner.uid && fresh.meta().deletion_timestamp.is_none()))
}

async fn adopt<O, C>(objects: &Api<C>, owner: &O, meta: &ObjectMeta) -> kube::Result<Option<Arc<C>>>
where
    O: Typed + Resource,
    C: Resource + Clone + DeserializeOwned + fmt::Debug,
{
    let patch = json!({"metadata": {"ownerReferences": [reference(owner)], "uid": meta.uid}});
    let adopted = patch_metadata(objects, meta, patch).await;
    Ok(optional(adopted)?.map(Arc::new))
}

async fn release<C>(objects: &Api<C>, owner: &ObjectMeta, meta: &ObjectMeta) -> kube::Result<()>
where
    C: Resource + Clone + DeserializeOwned + fmt::Debug,
{
    let patch = json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": owner.uid}], "uid": meta.uid}});
    match patch_metadata(objects, meta, patch).await {
        Err(error) if is_not_found(&error) || is_invalid(&error) => Ok(()),
        result => result.map(drop),
    }
}

async fn patch_metadata<C>(objects: &Api<C>, meta: &ObjectMeta, patch: serde_json::Value) -> kube::Result<C>
where
    C: Resource + Clone + DeserializeOwned + fmt::Debug,
{
    let name = meta.name.as_deref().unwrap_or_default();
    objects.patch(name, &PatchParams::default(), &Patch::Strategic(patch)).await
}

/// The object of that UID is gone or has no such reference any more.
fn is_invalid(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_invalid())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
    use kube::api::ObjectMeta;

    use super::{Claim, claim};

    fn owned_by(uid: Option<&str>) -> ObjectMeta {
        let owner = uid.map(|uid| OwnerReference { uid: uid.into(), controller: Some(true), ..OwnerReference::default() });
        ObjectMeta { owner_references: owner.map(|owner| vec![owner]), ..ObjectMeta::default() }
    }

    fn owner(dying: bool) -> ObjectMeta {
        let deletion_timestamp = dying.then_some(Time(Timestamp::UNIX_EPOCH));
        ObjectMeta { uid: Some("me".into()), deletion_timestamp, ..ObjectMeta::default() }
    }

    #[test]
    fn keeps_adopts_and_releases_by_selector() {
        assert_eq!(claim(&owner(false), true, &owned_by(Some("me"))), Claim::Keep);
        assert_eq!(claim(&owner(false), true, &owned_by(None)), Claim::Adopt);
        assert_eq!(claim(&owner(false), false, &owned_by(Some("me"))), Claim::Release);
        assert_eq!(claim(&owner(false), false, &owned_by(None)), Claim::Ignore);
    }

    #[test]
    fn never_touches_what_another_controls() {
        assert_eq!(claim(&owner(false), true, &owned_by(Some("other"))), Claim::Ignore);
    }

    #[test]
    fn an_owner_being_deleted_neither_adopts_nor_releases() {
        assert_eq!(claim(&owner(true), true, &owned_by(None)), Claim::Ignore);
        assert_eq!(claim(&owner(true), false, &owned_by(Some("me"))), Claim::Ignore);
    }

    #[test]
    fn an_orphan_being_deleted_is_left_alone() {
        let mut orphan = owned_by(None);
        orphan.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        assert_eq!(claim(&owner(false), true, &orphan), Claim::Ignore);
    }
}
