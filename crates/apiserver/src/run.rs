//! Puts the server together from its configuration and runs it until shutdown.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use component::{
    Shutdown,
    clock::SystemClock,
    health::{Check, Health},
    metrics::Registry,
    tls::{ClientAuth, ServerTls},
};
use tokio::net::TcpListener;
use tower::ServiceExt as _;

use crate::{
    Config,
    admission::Chain,
    authn::{self, Authenticator},
    authz::{AlwaysAllow, Authorizer},
    kubelet::KubeletClient,
    loopback::Loopback,
    pipeline::{Limits, Metrics},
    registry::{Wiring, store::Hub},
    server::{Server, service},
    storage::{Backend, memory::Memory},
};

/// How long running requests may take to finish after shutdown.
const DRAIN: Duration = Duration::from_secs(10);

/// Serves the API until `shutdown`, then drains.
///
/// # Errors
/// When certificates cannot be read, the port is taken or the store's address makes no sense.
pub async fn run(config: Config, shutdown: Shutdown) -> anyhow::Result<()> {
    let tls = ServerTls {
        cert_file: config.tls_cert_file.clone(),
        key_file: config.tls_private_key_file.clone(),
        client_ca_file: config.client_ca_file.clone(),
        client_auth: if config.client_ca_file.is_some() { ClientAuth::Optional } else { ClientAuth::None },
    };
    let tls = tls.load().context("load the serving certificate")?;
    let listener = TcpListener::bind((config.bind_address, config.secure_port)).await;
    let listener = listener.with_context(|| format!("listen on {}:{}", config.bind_address, config.secure_port))?;
    let address = listener.local_addr().context("read the listening address")?;
    let backend: Arc<dyn Backend> = Arc::new(Memory::new());
    let loopback = Loopback::default();
    let server = assemble(&config, backend, loopback.clone(), shutdown.clone())?;
    let api = service(server, &loopback);
    println!("apiserver listening on https://{address}");
    tracing::info!(%address, "serving");
    let api = api.map_request(|request: http::Request<hyper::body::Incoming>| request.map(axum::body::Body::new));
    component::serve::serve(listener, Some(tls), api, shutdown, DRAIN).await;
    Ok(())
}

fn assemble(config: &Config, backend: Arc<dyn Backend>, loopback: Loopback, shutdown: Shutdown) -> anyhow::Result<Arc<Server>> {
    let (metrics, health) = (Arc::new(Registry::new()), Arc::new(Health::new()));
    let checks = add_checks(&health, &backend, &shutdown);
    let wiring = Wiring {
        service_ranges: config.service_cluster_ip_range.clone(),
        node_ports: config.service_node_port_range.0.clone(),
        allow_privileged: config.allow_privileged,
        kubelet: Some(Arc::new(KubeletClient::from_config(config).context("set up the client for kubelets")?)),
        ..Wiring::default()
    };
    let authenticators: Vec<Arc<dyn Authenticator>> = vec![Arc::new(authn::x509::ClientCertificate)];
    let authorizer: Arc<dyn Authorizer> = Arc::new(AlwaysAllow);
    let hub = Hub::new(backend, &config.etcd_prefix, &wiring, Chain::default(), loopback);
    Ok(Arc::new(Server {
        hub: Arc::new(hub),
        authenticator: Arc::new(authn::Union(authenticators)),
        anonymous: config.anonymous_auth,
        authorizer,
        metrics: Metrics::new(&metrics),
        limits: Limits::new(config.max_requests_inflight, config.max_mutating_requests_inflight, config.timeout()),
        probes: component::health::router(health, metrics),
        checks,
        min_request_timeout: Duration::from_secs(config.min_request_timeout),
        advertised: format!("{}:{}", config.advertise_address.unwrap_or(config.bind_address), config.secure_port),
        issuer_documents: None,
        documents: Default::default(),
        cors: config.cors_allowed_origins.clone(),
        clock: Arc::new(SystemClock),
        shutdown,
    }))
}

/// The checks of the probes; returns their names.
fn add_checks(health: &Health, backend: &Arc<dyn Backend>, shutdown: &Shutdown) -> Vec<String> {
    health.add(Check::ping());
    health.add(Check::new("log", || Box::pin(async { Ok(()) })));
    let backend = backend.clone();
    health.add(Check::new("etcd", move || {
        let backend = backend.clone();
        Box::pin(async move {
            match tokio::time::timeout(Duration::from_secs(2), backend.ping()).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(format!("error getting data from etcd: {error}")),
                Err(_) => Err("error getting data from etcd: context deadline exceeded".to_owned()),
            }
        })
    }));
    let shutdown = shutdown.clone();
    health.add_ready(Check::new("shutdown", move || {
        let stopping = shutdown.is_cancelled();
        Box::pin(async move { if stopping { Err("process is shutting down".to_owned()) } else { Ok(()) } })
    }));
    ["ping", "log", "etcd"].map(str::to_owned).into()
}
