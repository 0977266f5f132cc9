//! Connections to the other members.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
    time::Duration,
};

use component::tls;
use http::Uri;
use parking_lot::Mutex;
use tokio::time::Instant;
use tonic::{
    body::Body,
    service::interceptor::InterceptedService,
    transport::{Channel, Endpoint},
};
use tower::{BoxError, ServiceExt as _, util::BoxCloneService};

use super::{
    counted::Counted,
    membership::Identity,
    removed::Removed,
    reversed::{self, Bare, WayBack},
    stamp::Stamp,
    types::Member,
    wire::pb::{directory_client::DirectoryClient, peer_client::PeerClient},
};
use crate::metrics::Metrics;

/// A peer that does not accept a connection by then, or does not answer on it, counts as unreachable.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// A silent connection is probed after this long, and given up when the probe stays unanswered as long again.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(2);
/// Largest message of a peer: an append of one largest request, or many small ones.
const MAX_MESSAGE: usize = 64 << 20;

/// What travels on a connection of its own, so that it waits for nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// Heartbeats, votes.
    Control,
    /// Log entries, forwarded proposals and read barriers.
    Log,
    /// Snapshots.
    Snapshot,
}

/// A peer that could not be asked: surely nothing was sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("member {0:x} has no peer URL")]
    NoUrl(u64),
    #[error("peer URL {0} is none")]
    Url(String, #[source] tonic::transport::Error),
    #[error("TLS towards peers")]
    Tls(#[from] component::tls::Error),
    #[error("connect to {0}")]
    Connect(String, #[source] BoxError),
}

impl Error {
    /// The host refused the connection.
    fn is_refusal(&self) -> bool {
        let mut causes = std::iter::successors(Some(self as &(dyn std::error::Error + 'static)), |error| error.source());
        causes.any(|error| error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused))
    }
}

/// How a member proves itself to its peers, and checks them.
pub(crate) use component::tls::ClientTls as PeerTls;

/// A connection to a peer: requests in, responses out.
pub(crate) type Wire = BoxCloneService<http::Request<Body>, http::Response<Body>, WireError>;

/// A connection that broke.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct WireError(#[from] BoxError);

/// How the addresses of peers are reached.
#[async_trait::async_trait]
pub(crate) trait Dial: Send + Sync {
    /// Makes a connection. An error means that nobody heard of it.
    async fn dial(&self, url: &str) -> Result<Wire, Error>;

    /// Makes a connection on which nothing is spoken yet; none where there is nothing but calls.
    async fn bare(&self, _url: &str) -> Option<io::Result<Bare>> {
        None
    }
}

#[async_trait::async_trait]
impl Dial for PeerTls {
    async fn dial(&self, url: &str) -> Result<Wire, Error> {
        Ok(Wire::new(channel(url, self).await?.map_err(|error| WireError(error.into()))))
    }

    async fn bare(&self, url: &str) -> Option<io::Result<Bare>> {
        Some(reversed::connect(url, self).await)
    }
}

pub(crate) type Client = PeerClient<InterceptedService<Counted, Stamp>>;

/// Connections by member and lane; clones share them.
#[derive(Clone)]
pub(crate) struct Peers {
    identity: Identity,
    dial: Arc<dyn Dial>,
    open: Arc<Mutex<BTreeMap<(u64, Lane), Counted>>>,
    /// Where members are reached by now; whoever asks may know an older address.
    addresses: Arc<Mutex<BTreeMap<u64, Vec<String>>>>,
    /// Peers that could not be reached last time; so that a lost peer is logged once, not at each attempt.
    lost: Arc<Mutex<BTreeSet<u64>>>,
    /// When members last called this one.
    heard: Arc<Mutex<BTreeMap<u64, Instant>>>,
    began: Instant,
    /// Connections on which members asked to be called.
    ways_back: Arc<Mutex<BTreeMap<u64, WayBack>>>,
    removed: Removed,
    metrics: Metrics,
}

impl Peers {
    pub(crate) fn new(identity: Identity, dial: Arc<dyn Dial>, metrics: Metrics) -> Self {
        let removed = Removed::new(identity.clone());
        Self {
            identity,
            dial,
            open: Arc::default(),
            addresses: Arc::default(),
            lost: Arc::default(),
            heard: Arc::default(),
            began: Instant::now(),
            ways_back: Arc::default(),
            removed,
            metrics,
        }
    }

    /// It is a member, as far as this one knows.
    pub(crate) fn knows(&self, id: u64) -> bool {
        self.addresses.lock().contains_key(&id)
    }

    /// A member calls this one.
    pub(super) fn heard_from(&self, id: u64) {
        self.heard.lock().insert(id, Instant::now());
    }

    /// For how long a member has not called this one.
    pub(super) fn silence_of(&self, id: u64) -> Duration {
        self.heard.lock().get(&id).unwrap_or(&self.began).elapsed()
    }

    /// From now on a member is called there, for as long as that lasts.
    pub(super) fn lay_way_back(&self, id: u64, calls: WayBack) {
        self.ways_back.lock().insert(id, calls);
    }

    /// A connection to a member on which nothing is spoken yet.
    pub(super) async fn bare(&self, id: u64, member: &Member) -> Option<io::Result<Bare>> {
        self.dial.bare(self.urls(id, member).first()?).await
    }

    /// Who is no member any more.
    pub(crate) fn removed(&self) -> &Removed {
        &self.removed
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// A client on an open connection. An error means that nothing was sent.
    pub(crate) async fn client(&self, id: u64, member: &Member, lane: Lane) -> Result<Client, Error> {
        let known = self.open.lock().get(&(id, lane)).cloned();
        let wire = match known {
            Some(wire) => wire,
            None => {
                tracing::debug!(peer = format!("{id:x}"), ?lane, "connect");
                let wire = self.connect(id, member).await;
                self.note(id, member, wire.as_ref().err());
                let wire = Counted::new(wire?, self, id);
                self.open.lock().insert((id, lane), wire.clone());
                wire
            }
        };
        let stamp = Stamp::new(&self.identity, id);
        let client = PeerClient::with_interceptor(wire, stamp);
        Ok(client.max_decoding_message_size(MAX_MESSAGE).max_encoding_message_size(MAX_MESSAGE))
    }

    /// Takes note of the membership: connections to where somebody is no more are given up.
    pub(crate) fn know(&self, members: Vec<(u64, Member, bool)>) {
        let now: BTreeMap<_, _> = members.into_iter().map(|(id, member, _)| (id, member.peer_urls)).collect();
        let mut known = self.addresses.lock();
        if *known != now {
            let moved = |id: &u64| known.get(id).is_some_and(|urls| now.get(id) != Some(urls));
            self.open.lock().retain(|(id, _), _| !moved(id));
            *known = now;
        }
    }

    /// Forgets a connection on which a call failed, so that the next one tells "not sent" from "maybe sent".
    pub(crate) fn forget(&self, id: u64, lane: Lane) {
        self.open.lock().remove(&(id, lane));
    }

    fn note(&self, id: u64, member: &Member, error: Option<&Error>) {
        let (name, peer) = (&member.name, format!("{id:x}"));
        let ends = vec![("Local", format!("{:x}", self.identity.member_id)), ("Remote", peer.clone())];
        self.metrics.active_peers.get_or_create(&ends).set(i64::from(error.is_none()));
        match error {
            Some(error) if self.lost.lock().insert(id) => {
                self.metrics.disconnected_peers.get_or_create(&ends).inc();
                tracing::warn!(peer, name, error = error as &dyn std::error::Error, "a peer cannot be reached");
            }
            None if self.lost.lock().remove(&id) => tracing::info!(peer, name, "a peer is reached again"),
            _ => {}
        }
    }

    /// Nobody listens where a member is reached, and its host says so: its process is gone.
    pub(crate) async fn refuses(&self, id: u64, member: &Member) -> bool {
        self.connect(id, member).await.is_err_and(|error| error.is_refusal())
    }

    fn urls(&self, id: u64, member: &Member) -> Vec<String> {
        self.addresses.lock().get(&id).cloned().unwrap_or_else(|| member.peer_urls.clone())
    }

    async fn connect(&self, id: u64, member: &Member) -> Result<Wire, Error> {
        // It asked for that because it is not reached otherwise.
        if let Some(calls) = self.ways_back.lock().get(&id).filter(|calls| !calls.is_closed()) {
            return Ok(reversed::wire(calls.clone()));
        }
        let mut error = Error::NoUrl(id);
        for url in &self.urls(id, member) {
            match self.dial.dial(url).await {
                Ok(wire) => return Ok(wire),
                Err(Error::Connect(url, source)) => error = Error::Connect(url, source),
                Err(other) => return Err(other),
            }
        }
        Err(error)
    }
}

/// Asks at an address who the members are.
pub(crate) async fn directory(url: &str, tls: &PeerTls) -> Result<DirectoryClient<Channel>, Error> {
    Ok(DirectoryClient::new(channel(url, tls).await?))
}

async fn channel(url: &str, tls: &PeerTls) -> Result<Channel, Error> {
    let connected = match url.strip_prefix("https://") {
        None => endpoint(url, url)?.connect().await,
        // With a connector of its own, the library below leaves TLS to it.
        Some(rest) => {
            let config = tls.config()?;
            let secure = move |uri: Uri| {
                let config = config.clone();
                async move {
                    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
                    tls::client::connect(host, uri.port_u16().unwrap_or(443), config, CONNECT_TIMEOUT).await
                }
            };
            endpoint(url, &format!("http://{rest}"))?.connect_with_connector(tower::service_fn(secure)).await
        }
    };
    connected.map_err(|source| Error::Connect(url.to_owned(), source.into()))
}

fn endpoint(url: &str, plain: &str) -> Result<Endpoint, Error> {
    let endpoint = Endpoint::from_shared(plain.to_owned()).map_err(|source| Error::Url(url.to_owned(), source))?;
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .keep_alive_while_idle(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_peer_that_accepts_a_connection_and_stays_silent_is_not_waited_for() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let peers = Peers::new(Identity { cluster_id: 1, member_id: 2 }, Arc::new(PeerTls::default()), Metrics::new());
        let silent = Member { name: "silent".into(), peer_urls: vec![url], learner: false };
        let connected = peers.client(3, &silent, Lane::Log);
        let connected = tokio::time::timeout(3 * CONNECT_TIMEOUT, connected).await.expect("it gives up");
        assert!(matches!(connected.err(), Some(Error::Connect(..))));
    }

    #[tokio::test]
    async fn only_where_nobody_listens_a_connection_is_refused() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let peers = Peers::new(Identity { cluster_id: 1, member_id: 2 }, Arc::new(PeerTls::default()), Metrics::new());
        let member = Member { name: "gone".into(), peer_urls: vec![url], learner: false };
        assert!(!peers.refuses(3, &member).await);
        drop(listener);
        assert!(peers.refuses(3, &member).await);
        assert!(!peers.refuses(3, &Member::default()).await, "one without an address may be anywhere");
    }
}
