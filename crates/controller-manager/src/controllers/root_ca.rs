//! Publishes the cluster's CA to every namespace as the ConfigMap `kube-root-ca.crt`, which pods mount.

use std::{collections::BTreeMap, sync::Arc};

use client::{
    Key,
    informer::{Change, Informer, Selected},
    queue::{self, Outcome},
    retry,
};
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};

use super::service_account::is_active;
use crate::context::Context;

const NAME: &str = "kube-root-ca.crt";
const FIELD: &str = "ca.crt";
const DESCRIPTION: (&str, &str) = (
    "kubernetes.io/description",
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal \
     service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.",
);

struct Controller {
    client: Client,
    namespaces: Informer<Namespace>,
    maps: Informer<ConfigMap>,
    bundle: String,
}

pub(crate) fn run(context: Context) -> BoxFuture<'static, ()> {
    async move {
        let Some(bundle) = context.options.root_ca.clone() else {
            tracing::warn!("no --root-ca-file given, pods will not find a CA bundle");
            return;
        };
        let namespaces: Informer<Namespace> = context.informers.of();
        let all: Api<ConfigMap> = Api::all(context.informers.client().clone());
        let source = Selected { source: all, labels: String::new(), fields: format!("metadata.name={NAME}") };
        let maps = Informer::new("configmaps", source);
        tokio::spawn(maps.clone().run(context.shutdown.clone()));
        let queue = context.queue("root_ca_cert_publisher");
        let sink = queue.clone();
        namespaces.on_change(move |change| {
            if !matches!(change, Change::Deleted(_)) {
                sink.add(Key::of(&change.object().metadata));
            }
        });
        let sink = queue.clone();
        maps.on_change(move |change| {
            if !matches!(change, Change::Added(_)) {
                sink.add(Key::cluster(change.object().metadata.namespace.clone().unwrap_or_default()));
            }
        });
        namespaces.synced().await;
        maps.synced().await;
        let controller = Arc::new(Controller { client: context.client, namespaces, maps, bundle });
        queue::work(queue, 5, context.shutdown, move |key: Key| Arc::clone(&controller).reconcile(key.name)).await;
    }
    .boxed()
}

impl Controller {
    async fn reconcile(self: Arc<Self>, namespace: String) -> anyhow::Result<Outcome> {
        let observed = self.namespaces.get(&Key::cluster(&namespace));
        if observed.is_none_or(|namespace| !is_active(&namespace)) {
            return Ok(Outcome::Done);
        }
        let cached = self.maps.get(&Key::new(&namespace, NAME));
        let Some(wanted) = plan(cached.as_deref(), &namespace, &self.bundle) else { return Ok(Outcome::Done) };
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), &namespace);
        let written = match cached {
            Some(_) => maps.replace(NAME, &PostParams::default(), &wanted).await,
            None => maps.create(&PostParams::default(), &wanted).await,
        };
        match written {
            Err(error) if retry::is_already_exists(&error) || retry::is_namespace_terminating(&error) => {}
            Err(error) if retry::is_not_found(&error) => {}
            result => drop(result?),
        }
        Ok(Outcome::Done)
    }
}

/// The ConfigMap to write, if the one in the cache is missing or has been changed.
fn plan(cached: Option<&ConfigMap>, namespace: &str, bundle: &str) -> Option<ConfigMap> {
    let data = BTreeMap::from([(FIELD.to_owned(), bundle.to_owned())]);
    let mut wanted = cached.cloned().unwrap_or_else(|| ConfigMap {
        metadata: ObjectMeta { name: Some(NAME.into()), namespace: Some(namespace.into()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    });
    wanted.data = Some(data);
    wanted.binary_data = None;
    wanted.metadata.annotations.get_or_insert_default().insert(DESCRIPTION.0.into(), DESCRIPTION.1.into());
    (cached != Some(&wanted)).then_some(wanted)
}

#[cfg(test)]
mod tests {
    use super::{FIELD, plan};

    #[test]
    fn writes_the_bundle_where_it_is_missing_or_changed_and_else_nothing() {
        let written = plan(None, "default", "PEM").unwrap();
        assert_eq!(written.data.as_ref().unwrap()[FIELD], "PEM");
        assert_eq!(plan(Some(&written), "default", "PEM"), None);
        let mut changed = written.clone();
        changed.data.as_mut().unwrap().insert("more".into(), "x".into());
        assert_eq!(plan(Some(&changed), "default", "PEM"), Some(written));
    }
}
