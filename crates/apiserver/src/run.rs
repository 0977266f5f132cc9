//! Puts the server together from its configuration and runs it until shutdown.

use std::{
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

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
    Config, EndpointReconciler,
    aggregator::{Aggregator, AggregatorConfig},
    authz::rbac::Rbac,
    bootstrap::{Bootstrap, BootstrapConfig, Masters},
    extensions::Extensions,
    kubelet::KubeletClient,
    lifecycle::Lifecycle,
    loopback::Loopback,
    pipeline::{Limits, Metrics},
    registry::{Streams, Wiring, store::Hub},
    server::{Server, service},
    storage::{
        Backend,
        cache::{CacheConfig, CachedBackend},
    },
    stores::Stores,
    trust::Trust,
};

/// Serves the API until `shutdown`, then drains.
///
/// # Errors
/// When certificates cannot be read, the port is taken or the store's address makes no sense.
pub async fn run(config: Config, shutdown: Shutdown) -> anyhow::Result<()> {
    let authorities = config.client_ca_file.as_ref().or(config.requestheader_client_ca_file.as_ref());
    let tls = ServerTls {
        cert_file: config.tls_cert_file.clone(),
        key_file: config.tls_private_key_file.clone(),
        client_ca_file: None,
        // Clients and front proxies have authorities of their own: authenticators ask them.
        client_auth: if authorities.is_some() { ClientAuth::Anybody } else { ClientAuth::None },
    };
    let tls = tls.load().context("load the serving certificate")?;
    let listener = TcpListener::bind((config.bind_address, config.secure_port)).await;
    let listener = listener.with_context(|| format!("listen on {}:{}", config.bind_address, config.secure_port))?;
    let address = listener.local_addr().context("read the listening address")?;
    let stores = Stores::from_config(&config)?;
    let backend: Arc<dyn Backend> = Arc::new(CachedBackend::new(stores.backend(), CacheConfig::default()));
    let loopback = Loopback::default();
    let advertise = config.advertise_address.or_else(|| default_address(config.bind_address));
    let advertised = SocketAddr::new(advertise.unwrap_or(config.bind_address), address.port()).to_string();
    let mut trust = Trust::from_config(&config, &loopback, &advertised)?;
    let reconciled = advertise.filter(|_| config.replicas.endpoint_reconciler_type == EndpointReconciler::Lease);
    let bootstrap = Bootstrap::new(
        loopback.clone(),
        BootstrapConfig {
            service_ranges: config.service_cluster_ip_range.clone(),
            advertise,
            port: address.port(),
            hostname: hostname(),
            authentication: std::mem::take(&mut trust.published),
            rbac: trust.upkeep.rbac.is_some(),
            masters: reconciled.map(|own| Masters::new(&stores.for_short_lives(), &config.etcd_prefix, own)),
            port_is_set: false.into(),
            service_is_set: false.into(),
        },
    );
    let health = Arc::new(Health::new());
    let checks = add_checks(&health, &backend, &bootstrap, trust.upkeep.rbac.clone(), &shutdown);
    let closing = Shutdown::new();
    let lifecycle = Arc::new(Lifecycle::new(&config.replicas, closing.clone()));
    let (server, upkeep) = assemble(&config, backend, loopback.clone(), trust, (health.clone(), checks), advertised, lifecycle.clone())?;
    let extensions = Extensions::new(server.hub.clone(), loopback.clone());
    health.add_ready(definitions_are_read(server.hub.clone()));
    health.add_ready(api_services_are_registered(&server.aggregator));
    let aggregator = server.aggregator.clone();
    let builtin = builtin_versions(&server.hub);
    let api = service(server, &loopback);
    tokio::spawn(aggregator.run(loopback.clone(), builtin, closing.clone()));
    tokio::spawn(upkeep.run(loopback, closing.clone()));
    tokio::spawn(extensions.run(closing.clone()));
    let withdrawn = tokio::spawn(bootstrap.run(shutdown.clone()));
    stores.compact(config.etcd_compaction_interval, &shutdown);
    tokio::spawn(close_after(shutdown, config.shutdown_delay_duration, withdrawn, closing));
    println!("apiserver listening on https://{address}");
    tracing::info!(%address, "serving");
    let api = api.map_request(|request: http::Request<hyper::body::Incoming>| request.map(axum::body::Body::new));
    let (closed, drain) = (lifecycle.closed(config.timeout()), config.timeout() + lifecycle.watch_grace);
    component::serve::serve(listener, Some(tls), api, closed, drain).await;
    Ok(())
}

/// Cancels the lifecycle's `closing` a while after `shutdown`: until then load balancers learn from `/readyz` to go elsewhere, and
/// requests, watches and streams are served as before. Waits for `withdrawn` too, so that nobody is led here who would be refused.
async fn close_after(shutdown: Shutdown, delay: Duration, withdrawn: impl Future, closing: Shutdown) {
    shutdown.cancelled().await;
    let _ = tokio::join!(tokio::time::sleep(delay), withdrawn);
    closing.cancel();
}

#[allow(clippy::too_many_arguments)]
fn assemble(
    config: &Config,
    backend: Arc<dyn Backend>,
    loopback: Loopback,
    trust: Trust,
    (health, checks): (Arc<Health>, Vec<String>),
    advertised: String,
    lifecycle: Arc<Lifecycle>,
) -> anyhow::Result<(Arc<Server>, crate::trust::Upkeep)> {
    let metrics = Arc::new(Registry::new());
    let streams = Streams::new(lifecycle.closing.clone(), &metrics);
    let others = AggregatorConfig {
        identity: config.proxy_client_cert_file.clone().zip(config.proxy_client_key_file.clone()),
        endpoint_routing: config.enable_aggregator_routing,
    };
    let wiring = Wiring {
        service_ranges: config.service_cluster_ip_range.clone(),
        node_ports: config.service_node_port_range.0.clone(),
        allow_privileged: config.allow_privileged,
        event_ttl: config.event_ttl,
        authorizer: Some(trust.authorizer.clone()),
        rules: trust.rules,
        issuer: trust.issuer,
        reviewer: trust.reviewer,
        local: config.bind_address.is_loopback(),
        kubelet: Some(Arc::new(KubeletClient::from_config(config).context("set up the client for kubelets")?)),
        streams: streams.clone(),
    };
    let hub = Hub::new(backend, &config.etcd_prefix, &wiring, trust.admission, loopback);
    let aggregator = Aggregator::new(others, streams, &metrics);
    let server = Server {
        hub: Arc::new(hub),
        aggregator: Arc::new(aggregator),
        authenticator: trust.authenticator,
        claims: trust.claims,
        anonymous: config.anonymous_auth,
        authorizer: trust.authorizer,
        metrics: Metrics::new(&metrics),
        limits: Limits::new(config.max_requests_inflight, config.max_mutating_requests_inflight, config.timeout()),
        probes: component::health::router(health, metrics),
        checks,
        min_request_timeout: Duration::from_secs(config.min_request_timeout),
        advertised,
        issuer_documents: trust.issuer_documents,
        documents: Default::default(),
        cors: config.cors_allowed_origins.clone(),
        cbor: config.feature_gates.enabled(crate::cbor::FEATURE),
        clock: Arc::new(SystemClock),
        lifecycle,
    };
    Ok((Arc::new(server), trust.upkeep))
}

/// The address this machine has towards the world; `None` on a machine without any. Nothing is sent.
fn default_address(bind: IpAddr) -> Option<IpAddr> {
    if !bind.is_unspecified() && !bind.is_loopback() {
        return Some(bind);
    }
    let socket = UdpSocket::bind(("0.0.0.0", 0)).ok()?;
    socket.connect(("192.0.2.1", 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "localhost".to_owned() } else { name.trim().to_owned() }
}

/// The checks of the probes; returns their names.
fn add_checks(
    health: &Health,
    backend: &Arc<dyn Backend>,
    bootstrap: &Bootstrap,
    rbac: Option<Arc<Rbac>>,
    shutdown: &Shutdown,
) -> Vec<String> {
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
    for name in bootstrap.names() {
        let pending = bootstrap.pending();
        health.add_ready(Check::new(format!("poststarthook/{name}"), move || {
            let done = !pending.borrow().contains(&name);
            Box::pin(async move { if done { Ok(()) } else { Err("not finished".to_owned()) } })
        }));
    }
    health.add_ready(Check::new("informer-sync", move || {
        let synced = rbac.as_ref().is_none_or(|rbac| rbac.is_synced());
        Box::pin(async move { if synced { Ok(()) } else { Err("roles and bindings are not read yet".to_owned()) } })
    }));
    let shutdown = shutdown.clone();
    health.add_ready(Check::new("shutdown", move || {
        let stopping = shutdown.is_cancelled();
        Box::pin(async move { if stopping { Err("process is shutting down".to_owned()) } else { Ok(()) } })
    }));
    ["ping", "log", "etcd"].map(str::to_owned).into()
}

/// Ready is who serves every custom resource that is defined.
fn definitions_are_read(hub: Arc<Hub>) -> Check {
    Check::new("poststarthook/crd-informer-synced", move || {
        let incomplete = hub.incomplete.load(Ordering::Acquire);
        Box::pin(async move { if incomplete { Err("not finished".to_owned()) } else { Ok(()) } })
    })
}

/// Ready is who has an APIService for everything built in.
fn api_services_are_registered(aggregator: &Aggregator) -> Check {
    let registered = aggregator.registered();
    Check::new("autoregister-completion", move || {
        let done = registered.load(Ordering::Acquire);
        Box::pin(async move { if done { Ok(()) } else { Err("API services of built-in groups are missing".to_owned()) } })
    })
}

/// The groups and versions of the catalog before any custom resource.
fn builtin_versions(hub: &Hub) -> Vec<(String, String)> {
    let catalog = hub.catalog.load();
    let groups = catalog.groups().iter();
    groups.flat_map(|group| group.versions.iter().map(|version| (group.name.clone(), version.version.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test(start_paused = true)]
    async fn serving_goes_on_for_the_delay_after_the_signal_and_until_nobody_is_led_here() {
        for (delay, withdrawal) in [(HOUR, Duration::ZERO), (Duration::ZERO, HOUR)] {
            let (shutdown, closing) = (Shutdown::new(), Shutdown::new());
            let withdrawn = async move { tokio::time::sleep(withdrawal).await };
            tokio::spawn(close_after(shutdown.clone(), delay, withdrawn, closing.clone()));
            assert!(tokio::time::timeout(HOUR, closing.cancelled()).await.is_err());
            shutdown.cancel();
            assert!(tokio::time::timeout(HOUR / 2, closing.cancelled()).await.is_err());
            tokio::time::timeout(HOUR, closing.cancelled()).await.unwrap();
        }
    }
}
