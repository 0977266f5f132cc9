//! The end of a definition: its instances go first, through the API, so that admission, finalizers and watchers have their say.

use std::collections::BTreeSet;

use apimachinery::{Object, status::Status};

use super::{
    Settled,
    known::Known,
    status::{condition, with_condition},
    write_status,
};
use crate::{
    loopback::{Api, Loopback},
    registry::apiextensions::view::{CLEANUP, Definition, text},
};

/// One step towards the end; `NotYet` while instances remain.
pub(super) async fn step(api: &Loopback, definitions: &Api, known: &Known, definition: &Object) -> Result<Settled, Status> {
    if !definition.finalizers().iter().any(|finalizer| finalizer == CLEANUP) {
        return Ok(Settled::Yes);
    }
    let now = component::clock::now();
    let view = Definition(definition);
    if !view.is("Established") {
        let never = condition("Terminating", false, "NeverEstablished", "resource was never established");
        return finish(definitions, known, with_condition(definition, never, now)).await;
    }
    let mut definition = definition.clone();
    if view.condition("Terminating").map(|condition| text(condition, "reason")) == Some("InstanceDeletionPending") {
        let progress = condition("Terminating", true, "InstanceDeletionInProgress", "CustomResource deletion is in progress");
        match write_status(definitions, known, &with_condition(&definition, progress, now)).await? {
            Some(written) => definition = written,
            None => return Ok(Settled::Yes),
        }
    }
    match delete_instances(api, Definition(&definition)).await {
        Ok(true) => {
            let done = condition("Terminating", false, "InstanceDeletionCompleted", "removed all instances");
            finish(definitions, known, with_condition(&definition, done, now)).await
        }
        Ok(false) => Ok(Settled::NotYet),
        Err(status) => {
            let message = format!("could not issue all deletes: {status}");
            let failed = condition("Terminating", true, "InstanceDeletionFailed", &message);
            let failed = with_condition(&definition, failed, now);
            if failed != definition {
                write_status(definitions, known, &failed).await?;
            }
            Err(status)
        }
    }
}

/// Deletes what there is; whether nothing is left.
async fn delete_instances(api: &Loopback, definition: Definition<'_>) -> Result<bool, Status> {
    let group_version = format!("{}/{}", definition.group(), definition.storage_version());
    let all = api.api(&group_version, definition.plural());
    let found = all.list("").await?;
    let namespaces: BTreeSet<&str> = found.items.iter().map(Object::namespace).collect();
    for namespace in namespaces {
        if namespace.is_empty() {
            all.delete_all().await?;
        } else {
            api.namespaced(&group_version, definition.plural(), namespace).delete_all().await?;
        }
    }
    Ok(found.items.is_empty() || all.list("limit=1").await?.items.is_empty())
}

/// Lets the definition go.
async fn finish(definitions: &Api, known: &Known, mut definition: Object) -> Result<Settled, Status> {
    let finalizers = definition.finalizers().into_iter().filter(|finalizer| finalizer != CLEANUP).collect();
    definition.set_finalizers(finalizers);
    write_status(definitions, known, &definition).await?;
    Ok(Settled::Yes)
}
