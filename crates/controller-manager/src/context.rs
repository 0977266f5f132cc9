//! What a controller is given when it starts.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    sync::Arc,
};

use client::{
    Key,
    events::Recorder,
    informer::Informer,
    queue::{Metrics, Queue},
};
use component::Shutdown;
use kube::{Api, Client, Resource};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use crate::Options;

/// Everything one controller works with.
#[derive(Clone)]
pub(crate) struct Context {
    /// Acts as the controller's own identity.
    pub(crate) client: Client,
    pub(crate) informers: Informers,
    pub(crate) recorder: Recorder,
    pub(crate) queues: Metrics,
    pub(crate) options: Arc<Options>,
    pub(crate) shutdown: Shutdown,
}

impl Context {
    /// A work queue shown under `name` in the metrics.
    pub(crate) fn queue(&self, name: &str) -> Queue<Key> {
        Queue::new(name, &self.queues)
    }
}

/// One informer per kind, shared by all controllers and read with the manager's own identity.
#[derive(Clone)]
pub(crate) struct Informers(Arc<Shared>);

struct Shared {
    client: Client,
    shutdown: Shutdown,
    by_kind: Mutex<HashMap<TypeId, Box<dyn Any + Send + Sync>>>,
}

impl Informers {
    pub(crate) fn new(client: Client, shutdown: Shutdown) -> Self {
        Self(Arc::new(Shared { client, shutdown, by_kind: Mutex::new(HashMap::new()) }))
    }

    /// The informer of a kind, started at the first call.
    pub(crate) fn of<K>(&self) -> Informer<K>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + fmt::Debug + Send + Sync + 'static,
    {
        let mut by_kind = self.0.by_kind.lock();
        if let Some(informer) = by_kind.get(&TypeId::of::<K>()).and_then(|any| any.downcast_ref::<Informer<K>>()) {
            return informer.clone();
        }
        let api: Api<K> = Api::all(self.0.client.clone());
        let informer = Informer::new(K::plural(&()), api).with_owner_index();
        by_kind.insert(TypeId::of::<K>(), Box::new(informer.clone()));
        tokio::spawn(informer.clone().run(self.0.shutdown.clone()));
        informer
    }

    /// The identity with which informers read.
    pub(crate) fn client(&self) -> &Client {
        &self.0.client
    }
}
