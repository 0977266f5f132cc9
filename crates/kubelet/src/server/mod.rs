//! The kubelet's own server: what the API server asks of a node (logs, streams), and health and metrics for operators.

mod auth;
mod certificate;
mod logs;
mod metrics;
mod streams;

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use axum::{Json, Router, extract::State, middleware, routing::get};
use component::{
    Shutdown,
    health::{Check, Health},
};
use k8s_openapi::{List, api::core::v1::Pod};
use tokio::net::TcpListener;

use crate::{Config, node::Node};

/// Running requests get this long at shutdown.
const DRAIN: Duration = Duration::from_secs(2);

/// The nodes of this process.
pub(crate) type Nodes = Arc<[Arc<Node>]>;

/// Starts the server on `listener`, and the health endpoint if there is to be one.
pub(crate) async fn start(config: &Config, listener: TcpListener, nodes: Nodes, shutdown: &Shutdown) -> anyhow::Result<()> {
    let health = Arc::new(Health::new());
    health.add(Check::ping());
    let registry = Arc::new(component::metrics::Registry::new());
    registry.register_collector(Box::new(metrics::Running(nodes.clone())));
    let open = component::health::router(health, registry);
    let tls = certificate::server_tls(config)?.load().context("load the server's certificate")?;
    let router = routes(nodes).merge(open.clone()).layer(middleware::from_fn(auth::check));
    tokio::spawn(component::serve::serve(listener, Some(tls), router, shutdown.clone(), DRAIN));
    if config.healthz_port != 0 {
        let address = (config.healthz_address, config.healthz_port);
        let listener = TcpListener::bind(address).await.with_context(|| format!("listen on {}:{}", address.0, address.1))?;
        tokio::spawn(component::serve::serve(listener, None, open, shutdown.clone(), DRAIN));
    }
    Ok(())
}

fn routes(nodes: Nodes) -> Router {
    let streams = streams::routes(streams::Streams { nodes: nodes.clone() });
    Router::new()
        .route("/containerLogs/{namespace}/{pod}/{container}", get(logs::container))
        .route("/pods", get(pods))
        .with_state(nodes)
        .merge(streams)
}

/// The pods of all nodes here, as a PodList.
async fn pods(State(nodes): State<Nodes>) -> Json<List<Pod>> {
    let items = nodes.iter().flat_map(|node| node.pods.all()).map(|pod| (*pod).clone()).collect();
    Json(List { items, ..Default::default() })
}
