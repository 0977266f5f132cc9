//! HTTPS to API servers behind this one, with the front proxy's certificate.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::body::Body;
use component::tls::Anybody;
use http::{Request, Response, header};
use hyper_util::rt::TokioIo;
use rustls::crypto::CryptoProvider;
use rustls::{CertificateError, ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::network::Address;
use super::service::Backend;

/// Connecting may take this long.
const CONNECT: Duration = Duration::from_secs(10);
/// Where Go looks first for the authorities of a system.
const SYSTEM_ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Opens one connection a request.
pub(super) struct Transport {
    /// `--proxy-client-cert-file` and `--proxy-client-key-file`; read at each connection, so that renewed ones are taken up.
    identity: Option<(PathBuf, PathBuf)>,
}

/// What is asked of the other end's certificate.
pub(super) enum Trust<'a> {
    /// That it is the backend's, as its APIService says.
    Backend(&'a Backend),
    /// Nothing: what is sent and what comes back concerns nobody.
    Anybody,
}

impl Transport {
    pub(super) fn new(identity: Option<(PathBuf, PathBuf)>) -> Self {
        Self { identity }
    }

    fn tls(&self, trust: &Trust<'_>) -> anyhow::Result<ClientConfig> {
        let builder = ClientConfig::builder();
        let builder = match trust {
            Trust::Backend(backend) if !backend.insecure => builder.with_root_certificates(roots(&backend.ca_bundle)?),
            _ => {
                let provider = CryptoProvider::get_default().context("no crypto provider is installed")?.clone();
                builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider)))
            }
        };
        let mut tls = match &self.identity {
            Some((certificate, key)) => {
                let (chain, key) = (component::tls::certificates(certificate)?, component::tls::private_key(key)?);
                builder.with_client_auth_cert(chain, key).context("use the front proxy's certificate")?
            }
            None => builder.with_no_client_auth(),
        };
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(tls)
    }

    /// Sends a request whose URI is a path with query; an answer that switches protocols can be upgraded. `name` is the one the
    /// certificate has to be for. Errors: why the backend cannot be reached, in Go's words.
    pub(super) async fn send(
        &self,
        address: &Address,
        name: &str,
        trust: Trust<'_>,
        mut request: Request<Body>,
    ) -> Result<Response<Body>, String> {
        let tls = self.tls(&trust).map_err(|error| format!("{error:#}"))?;
        let stream = connect(address, name, tls).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| e.to_string())?;
        tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "connection to an API server behind this one ended");
            }
        });
        let authority = address.to_string().parse().map_err(|error| format!("{error}"))?;
        request.headers_mut().insert(header::HOST, authority);
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        Ok(response.map(Body::new))
    }
}

async fn connect(address: &Address, name: &str, tls: ClientConfig) -> Result<TlsStream<TcpStream>, String> {
    let server = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
    let connecting = async {
        let dialed = TcpStream::connect((address.host.as_str(), address.port)).await;
        let stream = dialed.map_err(|error| format!("dial tcp {address}: {}", crate::kubelet::in_gos_words(&error)))?;
        component::tcp::prepare(&stream);
        TlsConnector::from(Arc::new(tls)).connect(server, stream).await.map_err(|error| handshake_error(&error, name))
    };
    tokio::time::timeout(CONNECT, connecting).await.unwrap_or_else(|_| Err(format!("dial tcp {address}: i/o timeout")))
}

/// What operators look for when a certificate is not believed.
fn handshake_error(error: &std::io::Error, name: &str) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let reason = match inner {
        // A bad signature is one of another authority of the same name.
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature)) => {
            "certificate signed by unknown authority".to_owned()
        }
        Some(rustls::Error::InvalidCertificate(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. })) => {
            format!("certificate is not valid for {name}")
        }
        Some(rustls::Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. })) => {
            "certificate has expired or is not yet valid".to_owned()
        }
        _ => return error.to_string(),
    };
    format!("tls: failed to verify certificate: x509: {reason}")
}

/// The authorities of a bundle, or those the system trusts where it is empty.
fn roots(bundle: &[u8]) -> anyhow::Result<RootCertStore> {
    if bundle.is_empty() {
        return Ok(component::tls::roots(SYSTEM_ROOTS.as_ref()).unwrap_or_else(|_| RootCertStore::empty()));
    }
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle) {
        roots.add(certificate.context("read caBundle")?).context("use caBundle")?;
    }
    anyhow::ensure!(!roots.is_empty(), "unable to load root certificates: caBundle holds no certificate");
    Ok(roots)
}
