//! One member from its flags to its end: listen, recover, serve, stop.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use component::{Shutdown, metrics::Registry, serve};
use futures::future::BoxFuture;

use crate::{
    auth::Authenticator,
    config::{Config, Connections, ETCD_CLUSTER_VERSION, ETCD_VERSION, features::FEATURES},
    disk, http,
    http_access::{self, Access},
    listening::Listening,
    metrics,
    metrics::Metrics,
    raft::{Options, RaftNode, joining, membership, newcomer, peers::PeerTls, reconfigure::Limits, removed},
    rpc,
    security::Security,
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
    http_clients: Listening,
    peers: Listening,
    metrics: Listening,
    advertised: Vec<Url>,
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
    // Boxed, here and below, so that a member is compiled once, into this crate, and not into each program and test that runs one.
    pub fn start(config: Config) -> BoxFuture<'static, anyhow::Result<Self>> {
        Box::pin(Self::open(config))
    }

    async fn open(config: Config) -> anyhow::Result<Self> {
        config.validate()?;
        check_log(&config)?;
        let auth = config.auth.authenticator(config.tls.clients.cert_auth)?;
        let Security { clients: for_clients, peers: for_peers, to_peers } = Security::new(&config)?;
        check_newcomer(&config, &to_peers).await?;
        let reuse = config.connections.reuse_port;
        let clients = Listening::open(&config.listen_client_urls, for_clients.clone(), reuse).await?;
        let http_clients = Listening::open(&config.listen_client_http_urls, for_clients.clone(), reuse).await?;
        let peers = Listening::open(&config.listen_peer_urls, for_peers, reuse).await?;
        let metrics = Listening::open(&config.listen_metrics_urls, for_clients, reuse).await?;
        let advertised = advertised(&config.advertise_client_urls, &clients);
        let (registry, counted) = registry();
        let options = options(&config, &peers, to_peers, counted).await?;
        let initialized = formed(&config);
        let node = RaftNode::start(options).await?;
        if initialized
            && config.upkeep.enabled("InitialCorruptCheck")
            && let Err(error) = corruption::check_at_start(&node).await
        {
            node.stop().await;
            return Err(error.into());
        }
        if let Err(error) = shrink(&node, config.bootstrap_defrag_threshold_megabytes).await {
            node.stop().await;
            return Err(error);
        }
        metrics::register_gauges(&registry, &node, config.quota());
        show_features(&config, node.metrics())?;
        let server = Self { config, auth, node, registry, clients, http_clients, peers, metrics, advertised };
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
    pub fn run(self, shutdown: Shutdown) -> BoxFuture<'static, anyhow::Result<()>> {
        Box::pin(self.serve(shutdown))
    }

    async fn serve(self, shutdown: Shutdown) -> anyhow::Result<()> {
        let Self { config, auth, node, registry, clients, http_clients, peers, metrics, advertised } = self;
        // Not at once with the shutdown: a leader hands on first, and hears of its heir while it still listens.
        let stop = Shutdown::new();
        let _ends_with_this = stop.clone().drop_guard();
        let extensive = config.upkeep.metrics == "extensive";
        let slow = config.upkeep.warning_unary_request_duration;
        let calls = rpc::Calls::register(&registry, node.metrics().clone(), extensive, slow);
        let web = http::router(node.clone(), registry);
        let services = rpc::router(&node, &config, auth, calls, &stop)?;
        let over_http = over_http(&web, &services, &node, &config)?;
        let services = services.route_layer(axum::middleware::from_fn(http_access::only_http2));
        // As in etcd, a port of its own for HTTP leaves gRPC alone on the other.
        let services = if http_clients.is_empty() { services.merge(over_http.clone()) } else { services };
        let services = services.fallback(http::not_found);
        let peer_routes = node.peer_router().merge(web.clone());
        let (kept, between_peers) = (kept(&config), serve::Connections { max_streams: u32::MAX, ..Default::default() });
        let serving = [
            clients.serve(services, &stop, DRAIN, kept),
            http_clients.serve(over_http, &stop, DRAIN, kept),
            peers.serve(peer_routes, &stop, PEER_DRAIN, between_peers),
            metrics.serve(web, &stop, DRAIN, kept),
        ];
        let serving = serving.into_iter().flatten();
        let serving: Vec<_> = serving.collect();
        let mut background = rpc::background(&node, &config, advertised, &stop);
        let ended = tokio::select! {
            biased;
            cause = node.failed() => Err(cause),
            () = shutdown.cancelled() => Ok(()),
            () = node.removed() => {
                tracing::warn!("{}", removed::GONE);
                tracing::warn!("data-dir used by this member must be removed");
                Ok(())
            }
        };
        if ended.is_ok() {
            node.hand_on().await;
        }
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
            listen_client_http_urls = join(self.http_clients.urls()),
            listen_peer_urls = join(self.peer_urls()),
            listen_metrics_urls = join(self.metrics_urls()),
            "started member"
        );
    }
}

/// What clients reach over HTTP.
fn over_http(web: &axum::Router, services: &axum::Router, node: &RaftNode, config: &Config) -> anyhow::Result<axum::Router> {
    let access = Access { hosts: config.host_whitelist.clone(), origins: config.cors.clone() };
    let routes = match config.enable_grpc_gateway {
        true => web.clone().merge(rpc::json(services.clone(), node, config)?),
        false => web.clone(),
    };
    Ok(routes.layer(axum::middleware::from_fn_with_state(Arc::new(access), http_access::check)))
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

fn member_directory(config: &Config) -> PathBuf {
    config.data_dir().join("member")
}

/// Where the log lies.
fn log_directory(config: &Config) -> PathBuf {
    config.wal_dir.clone().unwrap_or_else(|| member_directory(config).join("raft"))
}

/// Refuses a log that begins anew beside what another one brought about.
fn check_log(config: &Config) -> anyhow::Result<()> {
    let (log, former) = (log_directory(config), member_directory(config).join("raft"));
    if !log.join("CURRENT").exists() && former.join("CURRENT").exists() {
        bail!("--wal-dir: the log of this member lies in {}: move it to {}", former.display(), log.display());
    }
    Ok(())
}

/// There is a member in the data directory already.
fn formed(config: &Config) -> bool {
    log_directory(config).join("CURRENT").exists()
}

fn kept(config: &Config) -> serve::Connections {
    let Connections { max_streams, ask_every, answer_within, .. } = config.connections;
    serve::Connections { max_streams, ask_every, answer_within }
}

/// Rewrites the database if that gives back enough; etcd does so before it serves, too.
async fn shrink(node: &RaftNode, megabytes: u64) -> anyhow::Result<()> {
    let database = node.state().database();
    let threshold = megabytes.saturating_mul(1024 * 1024);
    let unused = database.size()?.saturating_sub(database.size_in_use()?);
    if threshold == 0 || unused < threshold {
        return Ok(());
    }
    tracing::info!(unused, threshold, "rewriting the database before serving");
    database.offload().run(move || database.rewrite()).await.context("rewrite the database")??;
    Ok(())
}

/// Refuses a member that lost its data directory. Comes before anything is made or listened on, so that members which
/// start at the same time find each other closed, and need not wait.
async fn check_newcomer(config: &Config, to_peers: &PeerTls) -> anyhow::Result<()> {
    let forms = !formed(config) && config.initial_cluster_state == "new";
    let Some(text) = config.initial_cluster.as_ref().filter(|_| forms) else { return Ok(()) };
    let cluster = membership::parse_initial_cluster(text)?;
    let Some(listed) = cluster.get(&config.name) else { return Ok(()) };
    let (identity, members) = membership::initial(&cluster, &config.name, listed, &config.initial_cluster_token)?;
    Ok(newcomer::check(&identity, &members, to_peers.clone()).await?)
}

async fn options(config: &Config, peers: &Listening, to_peers: PeerTls, metrics: Metrics) -> anyhow::Result<Options> {
    let advertised = advertised(&config.initial_advertise_peer_urls, peers);
    let cluster = match &config.initial_cluster {
        Some(text) => membership::parse_initial_cluster(text)?,
        None => BTreeMap::from([(config.name.clone(), advertised.clone())]),
    };
    let (identity, members) = match config.initial_cluster_state.as_str() {
        "existing" if !formed(config) => {
            let (identity, members) = joining::join(&cluster, &config.name, &advertised, &to_peers).await?;
            newcomer::check(&identity, &members, to_peers.clone()).await?;
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
        disks: Arc::new(disk::open_in(log_directory(config))),
        dial: Arc::new(to_peers),
        limits: Limits { strict: config.strict_reconfig_check, learners: config.max_learners },
        slow_apply: config.upkeep.warning_apply_duration,
        heartbeat: Duration::from_millis(config.heartbeat_interval),
        election_timeout: Duration::from_millis(config.election_timeout),
        force_new_cluster: config.force_new_cluster,
        snapshot_count: config.snapshot_count,
        first_proposal: rand::random(),
        clock: Arc::new(move || start.elapsed()),
        metrics,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_lies_elsewhere_is_to_be_moved_first() {
        let directory = tempfile::tempdir().unwrap();
        let (data, log) = (directory.path().join("data"), directory.path().join("log"));
        let flags = [format!("--data-dir={}", data.display()), format!("--wal-dir={}", log.display())];
        let config = Config::from_flags(&flags.each_ref().map(String::as_str)).unwrap();
        assert!(check_log(&config).is_ok(), "a new member");
        let former = data.join("member/raft");
        std::fs::create_dir_all(&former).unwrap();
        std::fs::write(former.join("CURRENT"), "").unwrap();
        let error = check_log(&config).unwrap_err().to_string();
        assert_eq!(error, format!("--wal-dir: the log of this member lies in {}: move it to {}", former.display(), log.display()));
        std::fs::rename(&former, &log).unwrap();
        assert!(check_log(&config).is_ok());
    }
}
