//! The control loops that carry what users ask for to what runs.
//!
//! [`run`] waits for the lease, then starts every enabled controller of [`controllers::all`] under its own service account.
//! A controller reads shared caches, decides with a pure `plan`, and acts; see `crates/README.md`.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod context;
mod controllers;
mod discovery;
mod flags;
mod identity;
mod options;
mod owner;
mod placement;
mod pod_control;
mod pods;
mod revisions;
mod status;
mod template_hash;

use std::{path::PathBuf, sync::Arc};

use anyhow::Context as _;
use client::{
    connect::Connector,
    events::Recorder,
    leader, queue,
    serving::{self, Serving},
};
use component::{
    Shutdown,
    health::{Check, Health},
    metrics::Registry,
};
use kube::Client;
use tokio::task::JoinSet;

use context::{Context, Informers};
use controllers::Descriptor;
pub use flags::Flags;
pub use options::{Concurrency, Options};

/// How to run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the API server is and who we are; the pod's service account when absent.
    pub kubeconfig: Option<PathBuf>,
    /// Which controllers run, as `--controllers` says it.
    pub controllers: Vec<String>,
    /// Whether each controller acts under its own service account.
    pub own_credentials: bool,
    /// Where health and metrics are served.
    pub serving: Serving,
    /// The lease to hold; no election when absent.
    pub election: Option<leader::Config>,
    /// Settings of the controllers.
    pub options: Options,
}

/// Name for events and the user agent, as upstream's component is called.
const NAME: &str = "kube-controller-manager";

struct Manager {
    config: Config,
    connector: Connector,
    client: Client,
    queues: queue::Metrics,
}

/// Runs the controller manager until `shutdown`.
///
/// # Errors
/// The kubeconfig cannot be used, the port is taken, or a controller ended unexpectedly.
pub async fn run(config: Config, shutdown: Shutdown) -> anyhow::Result<()> {
    let connector = Connector::new(config.kubeconfig.as_deref(), &user_agent(NAME))?;
    let client = connector.client().await?;
    let (registry, health) = (Arc::new(Registry::new()), Arc::new(Health::new()));
    health.add(Check::ping());
    let queues = queue::Metrics::new(&registry);
    let server = serving::start(&config.serving, client.clone(), Arc::clone(&health), registry, shutdown.clone()).await?;
    let recorder = Recorder::start(client.clone(), "kube-controller-manager", "", shutdown.clone());
    for descriptor in controllers::enabled(&config.controllers) {
        health.add(Check::new(descriptor.name, || Box::pin(async { Ok(()) })));
    }
    let manager = Manager { config, connector, client, queues };
    let outcome = manager.serve(&recorder, &shutdown).await;
    shutdown.cancel();
    server.await.context("stop serving")?;
    outcome
}

fn user_agent(name: &str) -> String {
    format!("{NAME}/{} ({}/{}) quarterdeck/{name}", component::KUBERNETES_VERSION, std::env::consts::OS, std::env::consts::ARCH)
}

impl Manager {
    /// Leads whenever it may, until `shutdown`.
    async fn serve(&self, recorder: &Recorder, shutdown: &Shutdown) -> anyhow::Result<()> {
        leader::serve(&self.client, self.config.election.as_ref(), recorder, shutdown, |leading| self.lead(leading)).await;
        anyhow::ensure!(shutdown.is_cancelled(), "a controller ended unexpectedly");
        Ok(())
    }

    /// Runs all enabled controllers until `leading` is cancelled.
    async fn lead(&self, leading: Shutdown) {
        let informers = Informers::new(self.client.clone(), leading.clone());
        let mut tasks = JoinSet::new();
        for descriptor in controllers::enabled(&self.config.controllers) {
            tasks.spawn(self.start(descriptor, informers.clone(), leading.clone()));
        }
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                // A controller that panicked leaves its work undone: better a restart than half a manager.
                tracing::error!(%error, "a controller ended unexpectedly");
                leading.cancel();
            }
        }
    }

    fn start(&self, descriptor: Descriptor, informers: Informers, shutdown: Shutdown) -> impl Future<Output = ()> + use<> {
        let (root, queues) = (self.client.clone(), self.queues.clone());
        let connector = self.config.own_credentials.then(|| self.connector.clone());
        let options = Arc::new(self.config.options.clone());
        async move {
            let client = match connector {
                Some(connector) => identity::client(&connector, &root, descriptor.account, shutdown.clone()).await,
                None => Some(root),
            };
            let Some(client) = client else { return };
            let recorder = Recorder::start(client.clone(), descriptor.source, "", shutdown.clone());
            tracing::info!(controller = descriptor.name, "starting controller");
            (descriptor.run)(Context { client, informers, recorder, queues, options, shutdown }).await;
        }
    }
}
