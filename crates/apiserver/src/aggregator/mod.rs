//! API servers behind this one: whose groups and versions they are is said by APIService objects, and their requests are handed
//! on to them. Upstream: kube-aggregator.
//!
//! `register` makes the APIServices of what this server serves itself, `follow` looks after all of them, `proxy` hands requests
//! on, and `documents` holds what the others say they serve, for discovery and OpenAPI.

mod documents;
mod fetch;
mod follow;
mod headers;
mod metrics;
mod network;
mod priorities;
mod proxy;
mod register;
mod service;
mod transport;
mod work;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use component::Shutdown;
use tokio::sync::Notify;

pub(crate) use documents::{Discovered, Library, Spec};
pub(crate) use priorities::{Priority, of as priority_of};
pub(crate) use service::{ApiService, name_of};

use self::follow::Follower;
use self::metrics::Metrics;
use self::network::{Network, Slice};
use self::register::Registrar;
use self::transport::Transport;
use self::work::{Told, Work};
use crate::informer::{self, Cache};
use crate::loopback::Loopback;
use crate::registry::Streams;

const GROUP_VERSION: &str = "apiregistration.k8s.io/v1";

/// How others are reached.
#[derive(Clone, Debug, Default)]
pub(crate) struct AggregatorConfig {
    /// `--proxy-client-cert-file` and `--proxy-client-key-file`.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
    /// `--enable-aggregator-routing`.
    pub(crate) endpoint_routing: bool,
}

/// What is known of the APIServices and of those who serve them.
pub(crate) struct Aggregator {
    services: Arc<Cache<ApiService>>,
    network: Network,
    transport: Transport,
    library: Library,
    streams: Streams,
    metrics: Metrics,
    /// Told when there is somebody behind this server: only then Services and EndpointSlices are of interest.
    wanted: Notify,
    /// Set once every built-in group and version has its APIService.
    registered: Arc<AtomicBool>,
    /// Whether APIServices are followed.
    started: AtomicBool,
}

impl Aggregator {
    /// Knows of none yet. `streams` run what is handed on after a switch of protocols.
    pub(crate) fn new(config: AggregatorConfig, streams: Streams, registry: &component::metrics::Registry) -> Self {
        Self {
            services: Cache::new(ApiService::read),
            network: Network::new(config.endpoint_routing),
            transport: Transport::new(config.identity),
            library: Library::default(),
            streams,
            metrics: Metrics::new(registry),
            wanted: Notify::new(),
            registered: Arc::default(),
            started: AtomicBool::new(false),
        }
    }

    /// Set once every built-in group and version has its APIService.
    pub(crate) fn registered(&self) -> Arc<AtomicBool> {
        self.registered.clone()
    }

    /// Whether there may be APIServices that are not read yet.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.started.load(Ordering::Acquire) && !self.services.is_synced()
    }

    /// All APIServices.
    pub(crate) fn services(&self) -> Vec<Arc<ApiService>> {
        self.services.list("").into_iter().map(|(_, service)| service).collect()
    }

    /// What those behind this server say that they serve.
    pub(crate) fn library(&self) -> &Library {
        &self.library
    }

    /// Follows the objects until shutdown; `builtin` are the groups and versions that this server has by itself. From this call on,
    /// before the future is polled, what is known counts as incomplete until it is read.
    pub(crate) fn run(
        self: Arc<Self>,
        api: Loopback,
        builtin: Vec<(String, String)>,
        shutdown: Shutdown,
    ) -> impl Future<Output = ()> + Send + 'static {
        self.started.store(true, Ordering::Release);
        self.follow(api, builtin, shutdown)
    }

    async fn follow(self: Arc<Self>, api: Loopback, builtin: Vec<(String, String)>, shutdown: Shutdown) {
        let (looking, registering) = (Arc::new(Work::default()), Arc::new(Work::default()));
        let definitions = Cache::new(register::defined);
        let own = api.api(GROUP_VERSION, "apiservices");
        let name = |object: &apimachinery::Object| object.name().to_owned();
        let services = Told { cache: self.services.clone(), topic: name, listeners: vec![looking.clone(), registering.clone()] };
        let defined = Told { cache: definitions.clone(), topic: name, listeners: vec![registering.clone()] };
        let registrar = Registrar {
            api: own.clone(),
            services: self.services.clone(),
            definitions,
            work: registering,
            builtin,
            complete: self.registered.clone(),
        };
        let follower = Follower { aggregator: self.clone(), api: own.clone(), work: looking.clone() };
        let all = async {
            tokio::join!(
                informer::feed(own.clone(), Arc::new(services)),
                informer::feed(api.api("apiextensions.k8s.io/v1", "customresourcedefinitions"), Arc::new(defined)),
                self.follow_network(&api, looking),
                registrar.run(),
                follower.run(),
            )
        };
        tokio::select! {
            _ = all => {}
            () = shutdown.cancelled() => {}
        }
    }

    async fn follow_network(&self, api: &Loopback, looking: Arc<Work>) {
        self.wanted.notified().await;
        let topic = |object: &apimachinery::Object| format!("{}/{}", object.namespace(), object.name());
        let services = Told { cache: self.network.services.clone(), topic, listeners: vec![looking.clone()] };
        let slices = Told { cache: self.network.slices.clone(), topic: Slice::topic, listeners: vec![looking] };
        tokio::join!(
            informer::feed(api.api("v1", "services"), Arc::new(services)),
            informer::feed(api.api("discovery.k8s.io/v1", "endpointslices"), Arc::new(slices)),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::informer::Sink as _;

    #[test]
    fn what_is_known_is_incomplete_from_the_start_until_api_services_are_read() {
        let aggregator = Arc::new(Aggregator::new(AggregatorConfig::default(), Streams::default(), &Default::default()));
        assert!(!aggregator.is_incomplete(), "nobody is to read them");
        let following = aggregator.clone().run(Loopback::default(), Vec::new(), Shutdown::new());
        assert!(aggregator.is_incomplete());
        aggregator.services.replace(Vec::new());
        assert!(!aggregator.is_incomplete());
        drop(following);
    }
}
