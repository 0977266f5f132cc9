//! Gives every namespace a service account named `default`.

use client::{
    Key,
    informer::{Change, Informer},
    queue::{self, Outcome},
    retry,
};
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};

use crate::context::Context;

const NAME: &str = "default";

pub(crate) fn run(context: Context) -> BoxFuture<'static, ()> {
    async move {
        let namespaces: Informer<Namespace> = context.informers.of();
        let accounts: Informer<ServiceAccount> = context.informers.of();
        let queue = context.queue("serviceaccount");
        let sink = queue.clone();
        namespaces.on_change(move |change| {
            if !matches!(change, Change::Deleted(_)) {
                sink.add(Key::of(&change.object().metadata));
            }
        });
        let sink = queue.clone();
        accounts.on_change(move |change| {
            if let Change::Deleted(account) = change {
                sink.add(Key::cluster(account.metadata.namespace.clone().unwrap_or_default()));
            }
        });
        namespaces.synced().await;
        accounts.synced().await;
        queue::work(queue, 5, context.shutdown, move |key: Key| {
            reconcile(context.client.clone(), namespaces.clone(), accounts.clone(), key.name)
        })
        .await;
    }
    .boxed()
}

async fn reconcile(
    client: Client,
    namespaces: Informer<Namespace>,
    accounts: Informer<ServiceAccount>,
    namespace: String,
) -> anyhow::Result<Outcome> {
    let observed = namespaces.get(&Key::cluster(&namespace));
    if observed.is_none_or(|namespace| !is_active(&namespace)) || accounts.get(&Key::new(&namespace, NAME)).is_some() {
        return Ok(Outcome::Done);
    }
    let metadata = ObjectMeta { name: Some(NAME.into()), namespace: Some(namespace.clone()), ..ObjectMeta::default() };
    let api: Api<ServiceAccount> = Api::namespaced(client, &namespace);
    let wanted = ServiceAccount { metadata, ..ServiceAccount::default() };
    match api.create(&PostParams::default(), &wanted).await {
        Err(error) if retry::is_already_exists(&error) || retry::is_namespace_terminating(&error) => {}
        // The namespace went away meanwhile.
        Err(error) if retry::is_not_found(&error) => {}
        result => drop(result?),
    }
    Ok(Outcome::Done)
}

/// Whether the namespace is not going away.
pub(crate) fn is_active(namespace: &Namespace) -> bool {
    let phase = namespace.status.as_ref().and_then(|status| status.phase.as_deref());
    namespace.metadata.deletion_timestamp.is_none() && phase != Some("Terminating")
}
