//! HTTPS to kubelets, with the server's own client certificate.

use std::{io, path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;
use apimachinery::status::Status;
use async_trait::async_trait;
use axum::body::Body;
use component::tls::Anybody;
use http::{Request, Response, header};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, crypto::CryptoProvider};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::{Config, registry::Kubelet};

/// Connecting may take this long.
const CONNECT: Duration = Duration::from_secs(10);

/// Opens one connection a request: these are streams that live long, or rare.
pub(crate) struct KubeletClient {
    tls: TlsConnector,
    address_types: Vec<String>,
}

impl KubeletClient {
    /// From `--kubelet-client-certificate`, `--kubelet-client-key` and `--kubelet-certificate-authority`.
    pub(crate) fn from_config(config: &Config) -> anyhow::Result<Self> {
        let builder = ClientConfig::builder();
        let builder = match &config.kubelet_certificate_authority {
            Some(ca) => builder.with_root_certificates(component::tls::roots(ca)?),
            // Any kubelet is believed, as upstream does: they sign their own certificates.
            None => {
                let provider = CryptoProvider::get_default().context("no crypto provider is installed")?.clone();
                builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider)))
            }
        };
        let mut tls = match (&config.kubelet_client_certificate, &config.kubelet_client_key) {
            (Some(certificate), Some(key)) => with_identity(builder, certificate, key)?,
            _ => builder.with_no_client_auth(),
        };
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { tls: TlsConnector::from(Arc::new(tls)), address_types: config.kubelet_preferred_address_types.clone() })
    }

    async fn connect(&self, host: &str, port: u16) -> Result<tokio_rustls::client::TlsStream<TcpStream>, String> {
        let name = ServerName::try_from(host.to_owned()).map_err(|e| e.to_string())?;
        let connecting = async {
            let stream = TcpStream::connect((host, port)).await?;
            component::tcp::prepare(&stream);
            self.tls.connect(name, stream).await
        };
        match tokio::time::timeout(CONNECT, connecting).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(in_gos_words(&error)),
            Err(_) => Err("i/o timeout".to_owned()),
        }
    }

    async fn exchange(&self, host: &str, port: u16, mut request: Request<Body>) -> Result<Response<Body>, String> {
        let stream = self.connect(host, port).await.map_err(|e| format!("dial tcp {host}:{port}: {e}"))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| e.to_string())?;
        tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "connection to a kubelet ended");
            }
        });
        let authority = format!("{host}:{port}").parse().map_err(|e| format!("{e}"))?;
        request.headers_mut().insert(header::HOST, authority);
        let response = sender.send_request(request).await.map_err(|e| e.to_string())?;
        Ok(response.map(Body::new))
    }
}

/// What clients and operators look for in an error.
pub(crate) fn in_gos_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".into(),
        io::ErrorKind::HostUnreachable => "connect: no route to host".into(),
        io::ErrorKind::NetworkUnreachable => "connect: network is unreachable".into(),
        io::ErrorKind::TimedOut => "connect: connection timed out".into(),
        io::ErrorKind::ConnectionReset => "read: connection reset by peer".into(),
        _ => error.to_string(),
    }
}

fn with_identity(
    builder: rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>,
    certificate: &Path,
    key: &Path,
) -> anyhow::Result<ClientConfig> {
    let (chain, key) = (component::tls::certificates(certificate)?, component::tls::private_key(key)?);
    builder.with_client_auth_cert(chain, key).context("use the kubelet client certificate")
}

#[async_trait]
impl Kubelet for KubeletClient {
    async fn get(&self, host: &str, port: u16, path_and_query: &str) -> Result<Response<Body>, Status> {
        let request = Request::get(path_and_query).body(Body::empty()).map_err(Status::internal)?;
        let sent = self.exchange(host, port, request).await;
        sent.map_err(|e| Status::internal(format!("Get \"https://{host}:{port}{path_and_query}\": {e}")))
    }

    async fn send(&self, host: &str, port: u16, request: Request<Body>) -> Result<Response<Body>, String> {
        self.exchange(host, port, request).await
    }

    fn address_types(&self) -> &[String] {
        &self.address_types
    }
}
