//! Lets the pods of different nodes reach each other under their own addresses.
//!
//! On each node: one route per other node, to that node's pod ranges by way of its InternalIP; forwarding on; traffic to
//! outside of the cluster masqueraded, traffic between pods not. The nodes must share a network: a route's next hop is
//! the other node itself.
//!
//! | module | for |
//! |---|---|
//! | [`peer`] | what a Node object says: its pods' ranges, its addresses |
//! | [`plan`] | which routes there should be, and what makes the present ones so; pure |
//! | [`firewall`] | the iptables rules, likewise; pure |
//! | [`kernel`] | the rim: the `ip` and `iptables` commands |
//! | [`follow`] | the loop: nodes and kernel read, planned, acted; again at every change and every half minute |
//!
//! Routes carry a protocol number of their own and rules stand in chains of their own, so nothing else is ever touched.
//! Both stay at the end: pods go on talking while this process is restarted.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod firewall;
mod flags;
mod follow;
mod kernel;
mod peer;
mod plan;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use client::{connect::Connector, informer::Informer};
use component::{
    Shutdown,
    health::{self, Check, Health},
};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use tokio::net::TcpListener;

pub use flags::Flags;
use follow::Follower;
use kernel::Linux;

/// How often the kernel is read again though nothing is known to have changed.
const RESYNC: Duration = Duration::from_secs(30);
/// How long running health requests may take to end at shutdown.
const DRAIN: Duration = Duration::from_secs(1);

/// How to run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the API server is and who we are; the pod's service account when absent.
    pub kubeconfig: Option<PathBuf>,
    /// Name of the node this runs on.
    pub node: String,
    /// Ranges of all pods of the cluster.
    pub cluster_cidrs: Vec<IpNet>,
    /// Where health is served; nowhere when absent.
    pub healthz: Option<SocketAddr>,
}

/// Keeps this node's routes until `shutdown`.
///
/// # Errors
/// The kubeconfig cannot be used, or the health port is taken.
pub async fn run(config: Config, shutdown: Shutdown) -> anyhow::Result<()> {
    let agent = format!("node-routes/{} ({}/{})", component::KUBERNETES_VERSION, std::env::consts::OS, std::env::consts::ARCH);
    let client = Connector::new(config.kubeconfig.as_deref(), &agent)?.client().await?;
    let nodes = Informer::new("nodes", Api::<Node>::all(client));
    let follower = Follower::new(config.node, config.cluster_cidrs, nodes.clone(), Linux, RESYNC);
    let health = Arc::new(Health::new());
    health.add(Check::ping());
    health.add_ready(follower.check());
    let server = match config.healthz {
        Some(address) => {
            let listener = TcpListener::bind(address).await.with_context(|| format!("listen on {address}"))?;
            tracing::info!(address = %listener.local_addr()?, "serving health");
            tokio::spawn(component::serve::serve(listener, None, health::probes(health), shutdown.clone(), DRAIN))
        }
        None => tokio::spawn(async {}),
    };
    tokio::join!(nodes.run(shutdown.clone()), shutdown.run_until_cancelled(follower.follow()));
    server.await.context("stop serving health")
}
