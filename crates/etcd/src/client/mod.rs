//! A thin client: several endpoints, fail-over, retries that never do a thing twice, watches that resume.
//!
//! ```no_run
//! # async fn example() -> Result<(), etcd::client::Error> {
//! use etcd::{client::{Client, Config}, etcdserverpb::RangeRequest};
//! let client = Client::connect(Config::new(["http://127.0.0.1:2379"]))?;
//! let found = client.range(RangeRequest { key: "k".into(), ..Default::default() }).await?;
//! # Ok(()) }
//! ```

mod endpoints;
mod error;
mod kv;
mod lease;
mod retry;
mod watch;

pub use error::Error;
pub use watch::{Changes, Watcher};

use endpoints::Endpoints;
use std::{fmt, sync::Arc, time::Duration};

/// Where the store is and how to reach it.
#[derive(Clone, Debug)]
pub struct Config {
    /// `http://host:port` or `https://host:port`, any number of them.
    pub endpoints: Vec<String>,
    /// For `https`.
    pub tls: Option<Tls>,
    /// Longest time to establish a connection.
    pub dial_timeout: Duration,
    /// Longest time for a request with all its retries.
    pub request_timeout: Duration,
    /// An idle connection is probed this often, and given up when the probe is not answered in `keep_alive_timeout`.
    pub keep_alive_interval: Duration,
    /// See `keep_alive_interval`.
    pub keep_alive_timeout: Duration,
}

impl Config {
    /// Plain connections and etcd's usual times.
    pub fn new<E: Into<String>>(endpoints: impl IntoIterator<Item = E>) -> Self {
        Config {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            tls: None,
            dial_timeout: Duration::from_secs(2),
            request_timeout: Duration::from_secs(30),
            keep_alive_interval: Duration::from_secs(10),
            keep_alive_timeout: Duration::from_secs(5),
        }
    }
}

/// Whom to trust and who to be.
#[derive(Clone)]
pub struct Tls {
    /// Certificates of the authorities that sign the servers', PEM.
    pub ca: Vec<u8>,
    /// The client's certificate chain and key, PEM.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("identity", &self.identity.is_some()).finish_non_exhaustive()
    }
}

/// A client; clones share its connections.
#[derive(Clone)]
pub struct Client {
    endpoints: Arc<Endpoints>,
    request_timeout: Duration,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("endpoints", &self.endpoints.names()).finish_non_exhaustive()
    }
}

impl Client {
    /// Prepares connections; each is made when first needed. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Fails on a malformed endpoint or certificate, or when there is no endpoint.
    pub fn connect(config: Config) -> Result<Self, Error> {
        let endpoints = Arc::new(Endpoints::new(&config)?);
        Ok(Client { endpoints, request_timeout: config.request_timeout })
    }

    /// The same connections with another limit on a request's time.
    #[must_use]
    pub fn with_request_timeout(&self, request_timeout: Duration) -> Self {
        Client { request_timeout, ..self.clone() }
    }
}
