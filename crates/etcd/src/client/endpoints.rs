//! The servers, and which one is in favour.

use super::{Config, Error, Tls};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

/// Bytes in flight per stream, and in all. A watch nobody reads holds up its own stream's share and no other stream.
const STREAM_WINDOW: u32 = 2 << 20;
const CONNECTION_WINDOW: u32 = i32::MAX as u32;

/// One connection per server, made lazily, and re-made when lost.
pub(super) struct Endpoints {
    servers: Vec<(String, Channel)>,
    favourite: AtomicUsize,
}

/// A server as it was picked.
pub(super) struct Picked {
    index: usize,
    pub(super) channel: Channel,
}

impl Endpoints {
    pub(super) fn new(config: &Config) -> Result<Self, Error> {
        if config.endpoints.is_empty() {
            return Err(Error::Config("no endpoint given".to_owned()));
        }
        let connect = |url: &String| Ok((url.clone(), endpoint(url, config)?.connect_lazy()));
        let servers = config.endpoints.iter().map(connect).collect::<Result<Vec<_>, Error>>()?;
        // Clients of many processes should not all begin with the first.
        let favourite = AtomicUsize::new(rand::random_range(0..servers.len()));
        Ok(Endpoints { servers, favourite })
    }

    pub(super) fn names(&self) -> Vec<&str> {
        self.servers.iter().map(|(url, _)| &url[..]).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.servers.len()
    }

    /// The server in favour.
    pub(super) fn pick(&self) -> Picked {
        let index = self.favourite.load(Relaxed) % self.servers.len();
        Picked { index, channel: self.servers[index].1.clone() }
    }

    /// A server by its URL.
    pub(super) fn by_name(&self, url: &str) -> Option<Channel> {
        self.servers.iter().find(|(name, _)| name == url).map(|(_, channel)| channel.clone())
    }

    /// A server did not work out: the next one gets its turn, unless somebody moved on already.
    pub(super) fn avoid(&self, picked: &Picked) {
        let next = (picked.index + 1) % self.servers.len();
        // Losing the race is fine: another request moved on.
        let _ = self.favourite.compare_exchange(picked.index, next, Relaxed, Relaxed);
    }
}

fn endpoint(url: &str, config: &Config) -> Result<Endpoint, Error> {
    let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    let given = url.parse::<tonic::transport::Uri>().map_err(|error| Error::Config(format!("{url}: {error}")))?;
    if !matches!(given.scheme_str(), Some("http" | "https")) {
        return Err(Error::Config(format!("{url}: not of the form http://HOST:PORT or https://HOST:PORT")));
    }
    let endpoint = Endpoint::from(given)
        .connect_timeout(config.dial_timeout)
        .tcp_nodelay(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keep_alive_interval(config.keep_alive_interval)
        .keep_alive_timeout(config.keep_alive_timeout)
        .keep_alive_while_idle(true);
    match &config.tls {
        // The endpoint's own limit ends when the connection stands.
        Some(tls) => endpoint.tls_config(tls_config(tls).timeout(config.dial_timeout)).map_err(Error::config),
        None if url.starts_with("https://") => Err(Error::Config(format!("{url} needs TLS settings"))),
        None => Ok(endpoint),
    }
}

fn tls_config(tls: &Tls) -> ClientTlsConfig {
    let config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&tls.ca));
    match &tls.identity {
        Some((certificate, key)) => config.identity(Identity::from_pem(certificate, key)),
        None => config,
    }
}
