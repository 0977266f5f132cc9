//! One member from its flags to its end: listen, recover, serve, stop.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use component::{
    Shutdown,
    metrics::Registry,
    serve,
    tls::{ClientAuth, ReloadingServerConfig, ServerTls},
};
use tokio::net::TcpListener;

use crate::{
    auth::Authenticator,
    config::{Config, ETCD_CLUSTER_VERSION, ETCD_VERSION},
    config_upkeep::FEATURES,
    disk, http, metrics,
    metrics::Metrics,
    raft::{Options, RaftNode, joining, membership, newcomer, peers::PeerTls, reconfigure::Limits},
    rpc,
    upkeep::corruption,
    url::Url,
};

/// Running requests have so long to finish once the member stops.
const DRAIN: Duration = Duration::from_secs(2);
/// A leader's stream of appends never finishes by itself.
const PEER_DRAIN: Duration = Duration::from_millis(100);

/// A member that has recovered and listens; [`Server::run`] makes it answer.
pub struct Server {
    config: Config,
    auth: Authenticator,
    node: RaftNode,
    registry: Arc<Registry>,
    clients: Listening,
    peers: Listening,
    metrics: Listening,
    advertised: Vec<Url>,
}

/// Open listeners and the URLs they are reached under.
#[derive(Default)]
struct Listening {
    sockets: Vec<(TcpListener, Url)>,
    tls: Option<Arc<ReloadingServerConfig>>,
}

/// Runs one member until `shutdown`, or until it cannot go on.
///
/// # Errors
/// Names what stood in the way: a flag, an address in use, a damaged data directory, a failed disk.
pub async fn run(config: Config, shutdown: Shutdown) -> anyhow::Result<()> {
    Server::start(config).await?.run(shutdown).await
}

impl Server {
    /// Opens the listeners and recovers the member.
    ///
    /// # Errors
    /// As [`run`].
    pub async fn start(config: Config) -> anyhow::Result<Self> {
        config.validate()?;
        let auth = config.auth.authenticator(config.client_cert_auth)?;
        check_newcomer(&config).await?;
        let clients = Listening::open(&config.listen_client_urls, client_tls(&config)).await?;
        let peers = Listening::open(&config.listen_peer_urls, peer_tls(&config)).await?;
        let metrics = Listening::open(&config.listen_metrics_urls, client_tls(&config)).await?;
        let advertised = advertised(&config.advertise_client_urls, &clients);
        let (registry, counted) = registry();
        let options = options(&config, &peers, counted).await?;
        let initialized = formed(&config);
        let node = RaftNode::start(options).await?;
        if initialized
            && config.upkeep.enabled("InitialCorruptCheck")
            && let Err(error) = corruption::check_at_start(&node).await
        {
            node.stop().await;
            return Err(error.into());
        }
        metrics::register_gauges(&registry, &node, config.quota());
        show_features(&config, node.metrics())?;
        let server = Self { config, auth, node, registry, clients, peers, metrics, advertised };
        server.log_start();
        Ok(server)
    }

    /// Where clients reach this member, with the ports it was given.
    pub fn client_urls(&self) -> Vec<Url> {
        self.clients.urls()
    }

    /// Where peers reach this member.
    pub fn peer_urls(&self) -> Vec<Url> {
        self.peers.urls()
    }

    /// Where health and metrics are served besides.
    pub fn metrics_urls(&self) -> Vec<Url> {
        self.metrics.urls()
    }

    /// Serves until `shutdown`, then drains and stops cleanly.
    ///
    /// # Errors
    /// The cause, when the member cannot go on: its disk failed, or what it holds contradicts the cluster.
    pub async fn run(self, shutdown: Shutdown) -> anyhow::Result<()> {
        let Self { config, auth, node, registry, clients, peers, metrics, advertised } = self;
        let stop = shutdown.child_token();
        let extensive = config.upkeep.metrics == "extensive";
        let slow = config.upkeep.warning_unary_request_duration;
        let calls = rpc::Calls::register(&registry, node.metrics().clone(), extensive, slow);
        let web = http::router(node.clone(), registry);
        let services = rpc::router(&node, &config, auth, calls).merge(web.clone());
        let peer_routes = node.peer_router().merge(web.clone());
        let serving = [(clients, services, DRAIN), (peers, peer_routes, PEER_DRAIN), (metrics, web, DRAIN)];
        let serving = serving.into_iter().flat_map(|(listening, routes, drain)| listening.serve(routes, &stop, drain));
        let serving: Vec<_> = serving.collect();
        let mut background = rpc::background(&node, &config, advertised, &stop);
        tracing::info!("ready to serve client requests");
        let ended = tokio::select! {
            () = shutdown.cancelled() => Ok(()),
            () = node.removed() => {
                tracing::warn!("the member has been permanently removed from the cluster");
                tracing::warn!("data-dir used by this member must be removed");
                Ok(())
            }
            cause = node.failed() => Err(cause),
        };
        stop.cancel();
        futures::future::join_all(serving).await;
        background.abort_all();
        match ended {
            Ok(()) => node.stop().await,
            Err(cause) => bail!("the member stops: {cause}"),
        }
        tracing::info!("stopped");
        Ok(())
    }

    fn log_start(&self) {
        let join = |urls: Vec<Url>| urls.iter().map(Url::to_string).collect::<Vec<_>>().join(",");
        tracing::info!(
            name = self.config.name,
            member = format!("{:x}", self.node.identity().member_id),
            cluster = format!("{:x}", self.node.identity().cluster_id),
            data_dir = %self.config.data_dir().display(),
            listen_client_urls = join(self.client_urls()),
            listen_peer_urls = join(self.peer_urls()),
            listen_metrics_urls = join(self.metrics_urls()),
            "started member"
        );
    }
}

impl Listening {
    async fn open(urls: &[Url], tls: Option<ServerTls>) -> anyhow::Result<Self> {
        let tls = match tls {
            Some(files) if urls.iter().any(|url| url.tls) => Some(files.load()?),
            _ => None,
        };
        let mut sockets = Vec::new();
        for url in urls {
            let socket = TcpListener::bind((url.host.as_str(), url.port)).await;
            let socket = socket.with_context(|| format!("listen on {url}"))?;
            let port = socket.local_addr().with_context(|| format!("listen on {url}"))?.port();
            sockets.push((socket, url.with_port(port)));
        }
        Ok(Self { sockets, tls })
    }

    fn urls(&self) -> Vec<Url> {
        self.sockets.iter().map(|(_, url)| url.clone()).collect()
    }

    fn serve(self, routes: axum::Router, stop: &Shutdown, drain: Duration) -> Vec<tokio::task::JoinHandle<()>> {
        let Self { sockets, tls } = self;
        let serve = |(socket, url): (TcpListener, Url)| {
            let tls = tls.clone().filter(|_| url.tls);
            tokio::spawn(serve::serve_streams(socket, tls, routes.clone(), stop.clone(), drain, u32::MAX))
        };
        sockets.into_iter().map(serve).collect()
    }
}

/// What to tell others: what was configured, with ports the system chose filled in; else the listening addresses.
fn advertised(configured: &[Url], listening: &Listening) -> Vec<Url> {
    let urls = listening.urls();
    if configured.is_empty() {
        return urls;
    }
    let chosen = urls.first().map_or(0, |url| url.port);
    configured.iter().map(|url| if url.port == 0 { url.with_port(chosen) } else { url.clone() }).collect()
}

fn client_tls(config: &Config) -> Option<ServerTls> {
    server_tls(&config.cert_file, &config.key_file, &config.trusted_ca_file)
}

fn peer_tls(config: &Config) -> Option<ServerTls> {
    server_tls(&config.peer_cert_file, &config.peer_key_file, &config.peer_trusted_ca_file)
}

/// As in etcd, a trusted CA alone asks for client certificates.
fn server_tls(cert: &Option<PathBuf>, key: &Option<PathBuf>, ca: &Option<PathBuf>) -> Option<ServerTls> {
    let client_auth = if ca.is_some() { ClientAuth::Required } else { ClientAuth::None };
    Some(ServerTls { cert_file: cert.clone()?, key_file: key.clone()?, client_ca_file: ca.clone(), client_auth })
}

fn registry() -> (Arc<Registry>, Metrics) {
    let registry = Registry::new();
    let metrics = Metrics::register(&registry);
    let label = |name, help, label, value: &str| metrics::register_label(&registry, name, help, label, value.into());
    label(
        "etcd_server_version",
        "Which version is running. 1 for 'server_version' label with current version",
        "server_version",
        ETCD_VERSION,
    );
    label(
        "etcd_cluster_version",
        "Which version is running. 1 for 'cluster_version' label with current cluster version",
        "cluster_version",
        "3.6",
    );
    debug_assert!(ETCD_CLUSTER_VERSION.starts_with("3.6"));
    (Arc::new(registry), metrics)
}

fn show_features(config: &Config, metrics: &Metrics) -> anyhow::Result<()> {
    let features = config.upkeep.features()?;
    for feature in FEATURES {
        let stage = format!("{:?}", feature.stage).to_uppercase();
        let labels = vec![("name", feature.name.to_owned()), ("stage", stage)];
        metrics.feature_enabled.get_or_create(&labels).set(i64::from(features.enabled(feature.name)));
    }
    Ok(())
}

fn to_peers(config: &Config) -> PeerTls {
    PeerTls {
        cert_file: config.peer_cert_file.clone(),
        key_file: config.peer_key_file.clone(),
        ca_file: config.peer_trusted_ca_file.clone(),
    }
}

fn member_directory(config: &Config) -> PathBuf {
    config.data_dir().join("member")
}

/// There is a member in the data directory already.
fn formed(config: &Config) -> bool {
    member_directory(config).join("raft").join("CURRENT").exists()
}

/// Refuses a member that lost its data directory. Comes before anything is made or listened on, so that members which
/// start at the same time find each other closed, and need not wait.
async fn check_newcomer(config: &Config) -> anyhow::Result<()> {
    let forms = !formed(config) && config.initial_cluster_state == "new";
    let Some(text) = config.initial_cluster.as_ref().filter(|_| forms) else { return Ok(()) };
    let cluster = membership::parse_initial_cluster(text)?;
    let Some(listed) = cluster.get(&config.name) else { return Ok(()) };
    let (identity, members) = membership::initial(&cluster, &config.name, listed, &config.initial_cluster_token)?;
    Ok(newcomer::check(&identity, &members, to_peers(config)).await?)
}

async fn options(config: &Config, peers: &Listening, metrics: Metrics) -> anyhow::Result<Options> {
    let advertised = advertised(&config.initial_advertise_peer_urls, peers);
    let cluster = match &config.initial_cluster {
        Some(text) => membership::parse_initial_cluster(text)?,
        None => BTreeMap::from([(config.name.clone(), advertised.clone())]),
    };
    let (identity, members) = match config.initial_cluster_state.as_str() {
        "existing" if !formed(config) => {
            let (identity, members) = joining::join(&cluster, &config.name, &advertised, &to_peers(config)).await?;
            newcomer::check(&identity, &members, to_peers(config)).await?;
            (Ok(identity), BTreeMap::new())
        }
        _ => match membership::initial(&cluster, &config.name, &advertised, &config.initial_cluster_token) {
            // Of no account once there is a member: its URLs may have changed since.
            Err(error) if formed(config) => (Err(error), BTreeMap::new()),
            other => other.map(|(identity, members)| (Ok(identity), members))?,
        },
    };
    let start = std::time::Instant::now();
    Ok(Options {
        directory: member_directory(config),
        identity,
        initial: members,
        disks: Arc::new(disk::open),
        dial: Arc::new(to_peers(config)),
        limits: Limits { strict: config.strict_reconfig_check, learners: config.max_learners },
        slow_apply: config.upkeep.warning_apply_duration,
        heartbeat: Duration::from_millis(config.heartbeat_interval),
        election_timeout: Duration::from_millis(config.election_timeout),
        snapshot_count: config.snapshot_count,
        first_proposal: rand::random(),
        clock: Arc::new(move || start.elapsed()),
        metrics,
    })
}
