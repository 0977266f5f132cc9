//! TLS of a connection that is made to somebody else: read from files at each one, so that renewed ones are taken up.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::anybody::Anybody;
use super::policy::Policy;
use super::screen::Screen;
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
    /// Whose certificates are believed. As in etcd, lists of revoked ones are of those who dial, not of those who are dialed.
    pub screen: Screen,
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
            _ if self.trusts_anybody => {
                let verifier = Screened { inner: Arc::new(Anybody(provider)), screen: self.screen.clone() };
                builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
            }
            Some(file) => {
                let built = WebPkiServerVerifier::builder_with_provider(Arc::new(roots(file)?), provider).build();
                let inner = built.map_err(|error| Error::Verifier { path: file.clone(), message: error.to_string() })?;
                builder.dangerous().with_custom_certificate_verifier(Arc::new(Screened { inner, screen: self.screen.clone() }))
            }
            // Nobody is believed.
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

/// Asks besides whose certificate it is.
#[derive(Debug)]
struct Screened {
    inner: Arc<dyn ServerCertVerifier>,
    screen: Screen,
}

impl ServerCertVerifier for Screened {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self.inner.verify_server_cert(leaf, intermediates, name, ocsp, now)?;
        self.screen.admits(leaf)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ClientAuth, ServerTls};
    use super::*;
    use crate::{Shutdown, serve};
    use axum::Router;
    use rcgen::{CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, KeyPair};

    /// Serves with a certificate of this common name for `localhost`; the port, and the authority's file.
    async fn serve_as(name: &str, directory: &std::path::Path, stop: &Shutdown) -> (u16, PathBuf) {
        let mut params = CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().unwrap();
        let (ca_file, cert_file, key_file) = (directory.join("ca"), directory.join("cert"), directory.join("key"));
        std::fs::write(&ca_file, authority.pem()).unwrap();
        std::fs::write(&cert_file, params.signed_by(&key, &authority).unwrap().pem()).unwrap();
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        let tls = ServerTls { cert_file, key_file, client_ca_file: None, client_auth: ClientAuth::None }.load().unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(serve::serve(listener, Some(tls), Router::new(), stop.clone(), Duration::ZERO));
        (port, ca_file)
    }

    #[tokio::test]
    async fn a_server_that_is_none_of_those_asked_for_is_not_believed() {
        crate::install_crypto_provider();
        let (directory, stop) = (tempfile::tempdir().unwrap(), Shutdown::new());
        let (port, ca_file) = serve_as("member", directory.path(), &stop).await;
        let reach = async |screen: Screen, trusts_anybody| {
            let tls = ClientTls { ca_file: Some(ca_file.clone()), trusts_anybody, screen, ..ClientTls::default() };
            connect("localhost", port, tls.config().unwrap(), Duration::from_secs(10)).await.map(drop).map_err(|error| error.to_string())
        };
        let names = |name: &str| Screen { common_names: vec![name.to_owned()], ..Screen::default() };
        let hosts = |host: &str| Screen { hosts: vec![host.to_owned()], ..Screen::default() };
        for anybody in [false, true] {
            for good in [Screen::default(), names("member"), hosts("localhost")] {
                assert_eq!(reach(good, anybody).await, Ok(()));
            }
            for bad in [names("other"), hosts("other")] {
                assert!(reach(bad, anybody).await.unwrap_err().contains("invalid peer certificate"));
            }
        }
        stop.cancel();
    }
}
