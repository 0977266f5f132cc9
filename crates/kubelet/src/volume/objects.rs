//! Config maps and secrets, each read by name (the Node authorizer allows no list), kept for a short while.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{ConfigMap, Secret},
};
use kube::{Api, Client, Resource};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

/// A change reaches the pods at the first look after this time.
const TTL: Duration = Duration::from_secs(30);

struct Kept<T> {
    at: Instant,
    object: Option<Arc<T>>,
}

type Cache<T> = Mutex<HashMap<(String, String), Kept<T>>>;

/// Read-through cache of one node.
pub(crate) struct Objects {
    client: Client,
    config_maps: Cache<ConfigMap>,
    secrets: Cache<Secret>,
}

/// Why an object cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// There is none of that name.
    #[error("{kind} {name:?} not found")]
    Absent { kind: &'static str, name: String },
    /// The API server did not give it.
    #[error("failed to fetch {kind} {namespace}/{name}: {}", crate::text::api_error(source))]
    Fetch { kind: &'static str, namespace: String, name: String, source: Box<kube::Error> },
}

impl Objects {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, config_maps: Cache::default(), secrets: Cache::default() }
    }

    /// A config map, or `None` when there is none.
    pub(crate) async fn config_map_if_any(&self, namespace: &str, name: &str) -> Result<Option<Arc<ConfigMap>>, Error> {
        self.get(&self.config_maps, "configmap", namespace, name).await
    }

    /// A secret, or `None` when there is none.
    pub(crate) async fn secret_if_any(&self, namespace: &str, name: &str) -> Result<Option<Arc<Secret>>, Error> {
        self.get(&self.secrets, "secret", namespace, name).await
    }

    /// A config map that must exist.
    pub(crate) async fn config_map(&self, namespace: &str, name: &str) -> Result<Arc<ConfigMap>, Error> {
        let found = self.config_map_if_any(namespace, name).await?;
        found.ok_or_else(|| Error::Absent { kind: "configmap", name: name.to_owned() })
    }

    /// A secret that must exist.
    pub(crate) async fn secret(&self, namespace: &str, name: &str) -> Result<Arc<Secret>, Error> {
        let found = self.secret_if_any(namespace, name).await?;
        found.ok_or_else(|| Error::Absent { kind: "secret", name: name.to_owned() })
    }

    async fn get<T>(&self, cache: &Cache<T>, kind: &'static str, namespace: &str, name: &str) -> Result<Option<Arc<T>>, Error>
    where
        T: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let key = (namespace.to_owned(), name.to_owned());
        // An absent object is not kept: a pod that waits for it should start as soon as it is there.
        let kept = cache.lock().get(&key).filter(|k| k.at.elapsed() < TTL).and_then(|k| k.object.clone());
        if kept.is_some() {
            return Ok(kept);
        }
        let found = Api::<T>::namespaced(self.client.clone(), namespace).get_opt(name).await;
        let object = found.map_err(|source| Error::Fetch {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            source: Box::new(source),
        })?;
        let object = object.map(Arc::new);
        let mut cache = cache.lock();
        cache.retain(|_, kept| kept.at.elapsed() < TTL);
        cache.insert(key, Kept { at: Instant::now(), object: object.clone() });
        Ok(object)
    }
}
