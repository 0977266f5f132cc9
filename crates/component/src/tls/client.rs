//! TLS of a connection that is made to somebody else: read from files at each one, so that renewed ones are taken up.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::policy::Policy;
use super::{Error, certificates, private_key, roots};

/// How a client proves itself, and whom it believes.
#[derive(Clone, Debug, Default)]
pub struct ClientTls {
    /// PEM certificate chain and private key of the client.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// PEM bundle the server's certificate is checked against.
    pub ca_file: Option<PathBuf>,
    /// Any certificate will do: those of the others are self-signed.
    pub trusts_anybody: bool,
    /// Versions and suites.
    pub policy: Policy,
}

impl ClientTls {
    /// Reads the files.
    ///
    /// # Errors
    /// Names the file and what is wrong with it.
    pub fn config(&self) -> Result<Arc<ClientConfig>, Error> {
        let provider = self.policy.provider();
        let builder = ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(&self.policy.versions());
        let builder = builder.map_err(Error::Policy)?;
        let builder = match &self.ca_file {
            _ if self.trusts_anybody => builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider))),
            Some(file) => builder.with_root_certificates(roots(file)?),
            None => builder.with_root_certificates(RootCertStore::empty()),
        };
        let mut config = match &self.identity {
            Some((cert, key)) => {
                let built = builder.with_client_auth_cert(certificates(cert)?, private_key(key)?);
                built.map_err(|source| Error::Use { path: cert.clone(), source })?
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(config))
    }
}

/// A connection for hyper.
pub type Connection = TokioIo<TlsStream<TcpStream>>;

/// Connects. The handshake may take `patience`.
///
/// # Errors
/// The host is no name, nobody listens, or who does is not believed.
pub async fn connect(host: &str, port: u16, config: Arc<ClientConfig>, patience: Duration) -> io::Result<Connection> {
    let name = ServerName::try_from(host.to_owned()).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let stream = TcpStream::connect((host, port)).await?;
    crate::tcp::prepare(&stream);
    let handshake = TlsConnector::from(config).connect(name, stream);
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "TLS handshake");
    tokio::time::timeout(patience, handshake).await.map_err(late)?.map(TokioIo::new)
}

/// Checks only that the other end has the key of the certificate it shows.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
