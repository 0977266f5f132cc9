//! Health for everybody, metrics for those the API server lets see them.

mod access;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use axum::middleware;
use component::{
    Shutdown,
    health::{self, Health},
    metrics::Registry,
    tls::{ClientAuth, ServerTls},
};
use kube::Client;
use tokio::{net::TcpListener, task::JoinHandle};

/// Where and how health and metrics are served.
#[derive(Clone, Debug)]
pub struct Serving {
    /// Address and port, any free one if zero.
    pub address: SocketAddr,
    /// Certificate and key files; a self-signed certificate when absent.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Whose client certificates are believed.
    pub client_ca_file: Option<PathBuf>,
}

/// How long running requests may take to end at shutdown.
const DRAIN: Duration = Duration::from_secs(1);

/// Binds and serves in the background until `shutdown`.
///
/// # Errors
/// The port is taken, or the certificate cannot be used.
pub async fn start(
    serving: &Serving,
    client: Client,
    health: Arc<Health>,
    registry: Arc<Registry>,
    shutdown: Shutdown,
) -> anyhow::Result<JoinHandle<()>> {
    let listener = TcpListener::bind(serving.address).await.with_context(|| format!("listen on {}", serving.address))?;
    let (files, made) = match &serving.certificate {
        Some((certificate, key)) => ((certificate.clone(), key.clone()), None),
        None => self_signed()?,
    };
    let client_auth = if serving.client_ca_file.is_some() { ClientAuth::Optional } else { ClientAuth::None };
    let tls = ServerTls { cert_file: files.0, key_file: files.1, client_ca_file: serving.client_ca_file.clone(), client_auth };
    let tls = tls.load()?;
    let gate = middleware::from_fn_with_state(access::Gate::new(client), access::check);
    let router = health::router(health, registry).layer(gate);
    tracing::info!(address = %listener.local_addr()?, "serving health and metrics over HTTPS");
    Ok(tokio::spawn(async move {
        component::serve::serve(listener, Some(tls), router, shutdown, DRAIN).await;
        drop(made);
    }))
}

type Files = ((PathBuf, PathBuf), Option<tempfile::TempDir>);

/// A certificate for this run only, in a directory that goes with the returned guard.
fn self_signed() -> anyhow::Result<Files> {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).context("make self-signed certificate")?;
    let directory = tempfile::Builder::new().prefix("serving-").tempdir().context("make directory for certificate")?;
    let (certificate, key) = (directory.path().join("tls.crt"), directory.path().join("tls.key"));
    std::fs::write(&certificate, made.cert.pem()).context("write self-signed certificate")?;
    std::fs::write(&key, made.signing_key.serialize_pem()).context("write key of self-signed certificate")?;
    Ok(((certificate, key), Some(directory)))
}
