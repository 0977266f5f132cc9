//! Binds Pods to Nodes.
//!
//! | module | for |
//! |---|---|
//! | [`framework`] | what a plugin is: one trait an extension point, after upstream's scheduling framework |
//! | [`plugins`] | the table of plugins, one file each |
//! | [`cache`] | nodes with the pods on them, assumed pods included, and the snapshot that a decision is made on |
//! | [`queue`] | pods that wait: active, backing off, unschedulable |
//! | [`schedule`] | one decision: pure, snapshot and pod in, node or reasons out |
//! | [`cycle`] | takes the next pod, decides, assumes, binds off the scheduling thread |
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod cache;
mod config_file;
mod cycle;
mod events;
mod feed;
mod flags;
mod framework;
mod metrics;
mod plugins;
mod queue;
mod schedule;
#[cfg(test)]
mod testing;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use client::{
    connect::Connector,
    events::Recorder,
    leader,
    serving::{self, Serving},
};
use component::Shutdown;
use component::health::{Check, Health};
use component::metrics::Registry;

pub use flags::Flags;

/// Name for the user agent and the lease, as upstream's component is called.
const NAME: &str = "kube-scheduler";

/// How to run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the API server is and who we are; the pod's service account when absent.
    pub kubeconfig: Option<PathBuf>,
    /// Name that pods ask for in `spec.schedulerName`.
    pub scheduler_name: String,
    /// Where health and metrics are served.
    pub serving: Serving,
    /// The lease to hold; no election when absent.
    pub election: Option<leader::Config>,
}

/// Runs the scheduler until `shutdown`.
///
/// # Errors
/// The kubeconfig cannot be used, or the port is taken.
pub async fn run(config: Config, shutdown: Shutdown) -> anyhow::Result<()> {
    let agent = format!("{NAME}/{} ({}/{})", component::KUBERNETES_VERSION, std::env::consts::OS, std::env::consts::ARCH);
    let connector = Connector::new(config.kubeconfig.as_deref(), &agent)?;
    let client = connector.client().await?;
    let (registry, health) = (Arc::new(Registry::new()), Arc::new(Health::new()));
    health.add(Check::ping());
    let metrics = metrics::Metrics::new(&registry);
    let server = serving::start(&config.serving, client.clone(), health, registry, shutdown.clone()).await?;
    let lead = {
        let (client, name) = (client.clone(), config.scheduler_name.clone());
        move |leading: Shutdown| cycle::lead(client.clone(), name.clone(), metrics.clone(), leading)
    };
    let recorder = Recorder::start(client.clone(), "default-scheduler", "", shutdown.clone());
    leader::serve(&client, config.election.as_ref(), &recorder, &shutdown, lead).await;
    shutdown.cancel();
    server.await.context("stop serving")
}

/// Where to serve, from an address and a port.
pub(crate) fn address(ip: std::net::IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(ip, port)
}
