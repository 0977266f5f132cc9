//! Empties a namespace that is being deleted, then lets it go.

mod conditions;
mod content;

use std::{sync::Arc, time::Duration};

use client::{
    Key,
    informer::{Change, Informer},
    queue::{self, Outcome},
    retry,
};
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams, Preconditions},
};

use content::Remaining;

use crate::context::Context;

/// The finalizer this controller owns, in `spec.finalizers`.
const FINALIZER: &str = "kubernetes";
/// Objects created just before the deletion may still be on their way into the server's caches.
const DELAY: Duration = Duration::from_secs(1);

struct Controller {
    client: Client,
    namespaces: Informer<Namespace>,
}

pub(crate) fn run(context: Context) -> BoxFuture<'static, ()> {
    async move {
        let namespaces: Informer<Namespace> = context.informers.of();
        let queue = context.queue("namespace");
        let sink = queue.clone();
        namespaces.on_change(move |change| {
            let namespace = change.object();
            if !matches!(change, Change::Deleted(_)) && namespace.metadata.deletion_timestamp.is_some() {
                sink.add_after(Key::of(&namespace.metadata), DELAY);
            }
        });
        namespaces.synced().await;
        let workers = context.options.concurrent.namespace;
        let controller = Arc::new(Controller { client: context.client, namespaces });
        queue::work(queue, workers, context.shutdown, move |key: Key| Arc::clone(&controller).reconcile(key)).await;
    }
    .boxed()
}

impl Controller {
    async fn reconcile(self: Arc<Self>, key: Key) -> anyhow::Result<Outcome> {
        if self.namespaces.get(&key).is_none() {
            return Ok(Outcome::Done);
        }
        let api: Api<Namespace> = Api::all(self.client.clone());
        // The cache may be behind our own writes.
        let Some(namespace) = retry::optional(api.get(&key.name).await)? else { return Ok(Outcome::Done) };
        if namespace.metadata.deletion_timestamp.is_none() {
            return Ok(Outcome::Done);
        }
        if finalizers(&namespace).is_empty() {
            // Finished, by whoever: what is left is to let it go.
            let preconditions = Preconditions { uid: namespace.metadata.uid, ..Preconditions::default() };
            retry::optional(api.delete(&key.name, &DeleteParams::default().preconditions(preconditions)).await)?;
            return Ok(Outcome::Done);
        }
        let Some(namespace) = self.mark(&api, namespace).await? else { return Ok(Outcome::Done) };
        let remaining = content::delete_all(&self.client, &key.name).await?;
        let Some(namespace) = self.report(&api, &key.name, &remaining).await?.or(Some(namespace)) else {
            return Ok(Outcome::Done);
        };
        if !remaining.errors.is_empty() {
            anyhow::bail!("delete content of namespace {key}: {}", remaining.errors.join("; "));
        }
        if !remaining.is_empty() {
            // Half the time the slowest may take, as it will often need less.
            return Ok(Outcome::After(remaining.estimate / 2 + Duration::from_secs(1)));
        }
        self.finalize(&namespace).await?;
        Ok(Outcome::Done)
    }

    /// Shows the namespace as terminating, which stops new objects from coming in.
    async fn mark(&self, api: &Api<Namespace>, mut namespace: Namespace) -> kube::Result<Option<Namespace>> {
        let status = namespace.status.get_or_insert_default();
        if status.phase.as_deref() == Some("Terminating") {
            return Ok(Some(namespace));
        }
        status.phase = Some("Terminating".into());
        let name = namespace.metadata.name.clone().unwrap_or_default();
        retry::optional(api.replace_status(&name, &PostParams::default(), &namespace).await)
    }

    async fn report(&self, api: &Api<Namespace>, name: &str, remaining: &Remaining) -> kube::Result<Option<Namespace>> {
        retry::on_conflict(|| async {
            let Some(mut namespace) = retry::optional(api.get(name).await)? else { return Ok(None) };
            let status = namespace.status.get_or_insert_default();
            if !conditions::update(status, remaining, component::clock::now()) {
                return Ok(Some(namespace));
            }
            retry::optional(api.replace_status(name, &PostParams::default(), &namespace).await)
        })
        .await
    }

    async fn finalize(&self, namespace: &Namespace) -> anyhow::Result<()> {
        let mut namespace = namespace.clone();
        let spec = namespace.spec.get_or_insert_default();
        spec.finalizers.get_or_insert_default().retain(|finalizer| finalizer != FINALIZER);
        let name = namespace.metadata.name.clone().unwrap_or_default();
        let body = serde_json::to_vec(&namespace)?;
        let request = http::Request::put(format!("/api/v1/namespaces/{name}/finalize"))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body)?;
        retry::optional(self.client.request::<Namespace>(request).await)?;
        Ok(())
    }
}

fn finalizers(namespace: &Namespace) -> &[String] {
    namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_deref()).unwrap_or_default()
}
