//! The store: etcd v3 over gRPC. The only place that names the wire.

mod compact;
mod kv;
mod lease;
mod progress;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use component::Shutdown;
use etcd::client::{Client, Config, Tls};

use super::kv::{Kv as _, Range};
use super::typed::TypedStorage;
use super::{Backend, Collection, Error, Result, Storage};
use kv::EtcdKv;

/// How to reach the store: the `--etcd-*` flags.
#[derive(Clone, Debug, Default)]
pub(crate) struct EtcdConfig {
    /// `--etcd-servers`.
    pub(crate) servers: Vec<String>,
    /// `--etcd-cafile`, in PEM.
    pub(crate) ca: Option<Vec<u8>>,
    /// `--etcd-certfile` and `--etcd-keyfile`, in PEM.
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
    /// Longest time for one request with its retries.
    pub(crate) request_timeout: Duration,
}

/// A connection to the store; clones share it.
#[derive(Clone)]
pub(crate) struct Etcd {
    kv: Arc<EtcdKv>,
}

/// A readiness probe that takes longer has failed.
const PING_TIMEOUT: Duration = Duration::from_secs(2);

impl Etcd {
    /// Prepares a connection; it is made when first needed. Errors: a malformed URL or certificate.
    pub(crate) fn connect(config: EtcdConfig) -> Result<Self> {
        let tls = config.ca.map(|ca| Tls { ca, identity: config.identity });
        let client = Client::connect(Config { tls, request_timeout: config.request_timeout, ..Config::new(config.servers) });
        Ok(Self { kv: Arc::new(EtcdKv::new(client.map_err(|error| Error::Store(error.to_string()))?)) })
    }

    /// The same connections, sharing no leases with this one: short lives among long ones would make each lease serve one object.
    pub(crate) fn with_leases_of_its_own(&self) -> Self {
        Self { kv: Arc::new(EtcdKv::new(self.kv.client().clone())) }
    }

    /// Gives up history older than `interval` every `interval` (`--etcd-compaction-interval`), until shutdown.
    pub(crate) async fn compact_periodically(self, interval: Duration, shutdown: Shutdown) {
        compact::run(self.kv.client().clone(), interval, shutdown).await;
    }
}

#[async_trait]
impl Backend for Etcd {
    fn open(&self, collection: Collection) -> Arc<dyn Storage> {
        Arc::new(TypedStorage::new(self.kv.clone(), collection))
    }

    async fn ping(&self) -> Result<()> {
        let health = Range { start: "health".to_owned(), end: "health\0".to_owned(), ..Range::default() };
        let answer = tokio::time::timeout(PING_TIMEOUT, self.kv.range(health)).await;
        answer.map_err(|_| Error::Timeout("context deadline exceeded".to_owned()))?.map(drop)
    }
}
