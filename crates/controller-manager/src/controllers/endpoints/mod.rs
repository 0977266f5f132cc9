//! Where a Service's pods are: EndpointSlices, and Endpoints for older readers.
//!
//! Both controllers look at the same things (a service, its pods, their nodes) and differ in what they write.

mod address;
mod legacy;
mod slices;
mod tracker;

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use client::{
    Key,
    informer::{Change, Informer},
    queue::{self, Outcome, Queue},
    retry,
};
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::{
    core::v1::{Endpoints, Node, Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api, Resource as _,
    api::{DeleteParams, PostParams},
};

use parking_lot::Mutex;
use slices::Action;
use tracker::Tracker;

use crate::context::Context;

/// Index over slices by `namespace/service`.
const BY_SERVICE: &str = "service";

/// What both controllers read.
struct Caches {
    context: Context,
    services: Informer<Service>,
    pods: Informer<Pod>,
    queue: Queue<Key>,
}

impl Caches {
    fn new(context: Context, queue: &str) -> Self {
        Self { services: context.informers.of(), pods: context.informers.of(), queue: context.queue(queue), context }
    }

    fn listen(&self) {
        let queue = self.queue.clone();
        self.services.on_change(move |change| queue.add(Key::of(change.object().meta())));
        let (queue, services) = (self.queue.clone(), self.services.clone());
        self.pods.on_change(move |change| {
            let (old, new) = match change {
                Change::Added(pod) | Change::Deleted(pod) => (None, pod),
                Change::Updated { old, new } => (Some(old), new),
            };
            if old.is_some_and(|old| address::same_endpoint(old, new)) {
                return;
            }
            for service in services.list_namespace(new.metadata.namespace.as_deref().unwrap_or_default()) {
                if address::selects(&service, new) || old.is_some_and(|old| address::selects(&service, old)) {
                    queue.add(Key::of(&service.metadata));
                }
            }
        });
    }

    async fn synced(&self) {
        self.services.synced().await;
        self.pods.synced().await;
    }

    fn pods_of(&self, service: &Service, key: &Key) -> Vec<Arc<Pod>> {
        let mut pods = self.pods.list_namespace(&key.namespace);
        pods.retain(|pod| address::selects(service, pod));
        pods
    }
}

struct SliceController {
    caches: Caches,
    slices: Informer<EndpointSlice>,
    nodes: Informer<Node>,
    tracker: Mutex<Tracker>,
}

pub(crate) fn run_slices(context: Context) -> BoxFuture<'static, ()> {
    async move {
        let (workers, shutdown) = (context.options.concurrent.service_endpoint, context.shutdown.clone());
        let controller = Arc::new(SliceController {
            slices: context.informers.of::<EndpointSlice>().with_index(BY_SERVICE, slices::service_of),
            nodes: context.informers.of(),
            tracker: Mutex::default(),
            caches: Caches::new(context, "endpoint_slice"),
        });
        controller.caches.listen();
        let queue = controller.caches.queue.clone();
        let listener = Arc::clone(&controller);
        controller.slices.on_change(move |change| listener.on_slice(&change));
        controller.caches.synced().await;
        controller.slices.synced().await;
        controller.nodes.synced().await;
        queue::work(queue, workers, shutdown, move |key| Arc::clone(&controller).reconcile(key)).await;
    }
    .boxed()
}

/// Pause before the next look at a cache that lags behind our own writes.
const STALE: Duration = Duration::from_millis(100);

impl SliceController {
    fn on_slice(&self, change: &Change<'_, EndpointSlice>) {
        let slice = change.object();
        for service in slices::service_of(slice) {
            let Some((namespace, name)) = service.split_once('/') else { continue };
            let key = Key::new(namespace, name);
            if matches!(change, Change::Deleted(_)) {
                self.tracker.lock().gone(&key, slice.metadata.uid.as_deref().unwrap_or_default());
            }
            // A slice that was changed or deleted by someone else is put right.
            self.caches.queue.add(key);
        }
    }

    async fn reconcile(self: Arc<Self>, key: Key) -> anyhow::Result<Outcome> {
        // Without the service its slices go by garbage collection.
        let Some(service) = self.caches.services.get(&key) else { return Ok(Outcome::Done) };
        if !address::has_selector(&service) || service.metadata.deletion_timestamp.is_some() {
            return Ok(Outcome::Done);
        }
        let pods = self.caches.pods_of(&service, &key);
        let existing = self.slices.by_index(BY_SERVICE, &key.to_string());
        if self.tracker.lock().is_stale(&key, &existing) {
            return Ok(Outcome::After(STALE));
        }
        let zone = |node: &str| {
            let node = self.nodes.get(&Key::cluster(node))?;
            node.metadata.labels.as_ref()?.get(address::ZONE).cloned()
        };
        let most = self.caches.context.options.max_endpoints_per_slice;
        let api: Api<EndpointSlice> = Api::namespaced(self.caches.context.client.clone(), &key.namespace);
        for action in slices::plan(&service, &pods, zone, &existing, most) {
            match self.act(&api, &key, &existing, action).await {
                Err(error) if retry::is_namespace_terminating(&error) => return Ok(Outcome::Done),
                Err(error) => {
                    let about = service.object_ref(&());
                    let message = format!("Error updating Endpoint Slices for Service {key}: {error}");
                    if !retry::is_conflict(&error) {
                        self.caches.context.recorder.warning(&about, "FailedToUpdateEndpointSlices", message);
                    }
                    return Err(error).context("update endpoint slices");
                }
                Ok(()) => {}
            }
        }
        Ok(Outcome::Done)
    }

    async fn act(&self, api: &Api<EndpointSlice>, key: &Key, existing: &[Arc<EndpointSlice>], action: Action) -> kube::Result<()> {
        let written = match action {
            Action::Create(slice) => api.create(&PostParams::default(), &slice).await?,
            Action::Update(slice) => {
                let name = slice.metadata.name.clone().unwrap_or_default();
                api.replace(&name, &PostParams::default(), &slice).await?
            }
            Action::Delete(name) => {
                retry::optional(api.delete(&name, &DeleteParams::default()).await)?;
                let deleted = existing.iter().find(|slice| slice.metadata.name.as_ref() == Some(&name));
                let uid = deleted.and_then(|slice| slice.metadata.uid.as_deref()).unwrap_or_default();
                self.tracker.lock().gone(key, uid);
                return Ok(());
            }
        };
        self.tracker.lock().wrote(key, &written);
        Ok(())
    }
}

struct EndpointsController {
    caches: Caches,
    endpoints: Informer<Endpoints>,
}

pub(crate) fn run_endpoints(context: Context) -> BoxFuture<'static, ()> {
    async move {
        let (workers, shutdown) = (context.options.concurrent.endpoint, context.shutdown.clone());
        let controller = Arc::new(EndpointsController { endpoints: context.informers.of(), caches: Caches::new(context, "endpoint") });
        controller.caches.listen();
        let queue = controller.caches.queue.clone();
        controller.caches.synced().await;
        controller.endpoints.synced().await;
        for endpoints in controller.endpoints.list() {
            // What was left behind by a service deleted while nobody watched.
            queue.add(Key::of(&endpoints.metadata));
        }
        queue::work(queue, workers, shutdown, move |key| Arc::clone(&controller).reconcile(key)).await;
    }
    .boxed()
}

impl EndpointsController {
    async fn reconcile(self: Arc<Self>, key: Key) -> anyhow::Result<Outcome> {
        let api: Api<Endpoints> = Api::namespaced(self.caches.context.client.clone(), &key.namespace);
        let current = self.endpoints.get(&key);
        let Some(service) = self.caches.services.get(&key) else {
            if current.is_some_and(|current| legacy::is_ours(&current)) {
                retry::optional(api.delete(&key.name, &DeleteParams::default()).await)?;
            }
            return Ok(Outcome::Done);
        };
        if !address::has_selector(&service) {
            return Ok(Outcome::Done);
        }
        let pods = self.caches.pods_of(&service, &key);
        let Some(wanted) = legacy::plan(&service, &pods, current.as_deref()) else { return Ok(Outcome::Done) };
        let written = match current {
            Some(_) => api.replace(&key.name, &PostParams::default(), &wanted).await,
            None => api.create(&PostParams::default(), &wanted).await,
        };
        match written {
            Err(error) if retry::is_namespace_terminating(&error) => {}
            result => drop(result.context("write endpoints")?),
        }
        Ok(Outcome::Done)
    }
}
