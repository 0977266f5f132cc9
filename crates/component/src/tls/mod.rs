//! Server certificates and client CAs, loaded from files and loaded again when the files change.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

mod anybody;
pub mod client;
pub mod policy;
pub mod screen;

pub use anybody::Anybody;
pub use client::ClientTls;
pub use policy::Policy;
pub use screen::Screen;

/// How often changed files are looked for, at most.
const RELOAD_INTERVAL: Duration = Duration::from_secs(10);

/// What is asked of a client's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// None is asked for.
    None,
    /// One that is sent must come from the client CA.
    Optional,
    /// One must be sent and come from the client CA.
    Required,
    /// One that is sent may be anybody's: only its key is proven, and who serves the requests asks whose it is.
    Anybody,
}

/// The files behind a TLS server.
#[derive(Clone, Debug)]
pub struct ServerTls {
    /// PEM certificate chain, leaf first.
    pub cert_file: PathBuf,
    /// PEM private key.
    pub key_file: PathBuf,
    /// PEM bundle that client certificates are checked against.
    pub client_ca_file: Option<PathBuf>,
    /// What is asked of clients; `Optional` and `Required` need `client_ca_file`.
    pub client_auth: ClientAuth,
}

/// Why TLS material was refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or holds no such PEM section.
    #[error("read {what} from {path}")]
    Read {
        /// Certificate, key or CA.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What was wrong with it.
        #[source]
        source: rustls_pki_types::pem::Error,
    },
    /// The file holds no certificate.
    #[error("{0} holds no certificate")]
    Empty(PathBuf),
    /// Certificate and key do not fit, or a certificate is malformed.
    #[error("use certificate {path}")]
    Use {
        /// The certificate or CA file.
        path: PathBuf,
        /// What rustls said.
        #[source]
        source: rustls::Error,
    },
    /// The client verifier could not be made.
    #[error("verify clients by {path}: {message}")]
    Verifier {
        /// The CA file.
        path: PathBuf,
        /// What rustls said.
        message: String,
    },
    /// A list of revoked certificates is none.
    #[error("read revoked certificates from {path}: {message}")]
    Revocations {
        /// The file.
        path: PathBuf,
        /// What was wrong with it.
        message: String,
    },
    /// The versions and cipher suites chosen do not go together.
    #[error("use the chosen versions and cipher suites")]
    Policy(#[source] rustls::Error),
    /// Client certificates are to be checked, but no CA was named.
    #[error("client certificates are asked for, but no client CA file is given")]
    NoClientCa,
}

/// What a TLS server speaks, and whom it lets in besides.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Versions and cipher suites.
    pub policy: Policy,
    /// Which of the verified clients.
    pub screen: Screen,
}

impl ServerTls {
    /// Reads the files.
    ///
    /// # Errors
    /// Names the file and what is wrong with it.
    pub fn load(self) -> Result<Arc<ReloadingServerConfig>, Error> {
        self.load_with(Rules::default())
    }

    /// Reads the files, for a server with rules of its own.
    ///
    /// # Errors
    /// Names the file and what is wrong with it.
    pub fn load_with(self, rules: Rules) -> Result<Arc<ReloadingServerConfig>, Error> {
        let config = ArcSwap::from(self.read(&rules)?);
        let state = Mutex::new((Instant::now(), self.modified(&rules)));
        Ok(Arc::new(ReloadingServerConfig { files: self, rules, config, state }))
    }

    fn read(&self, rules: &Rules) -> Result<Arc<ServerConfig>, Error> {
        let chain = certificates(&self.cert_file)?;
        let key = private_key(&self.key_file)?;
        let provider = rules.policy.provider();
        let builder = ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(&rules.policy.versions());
        let builder = builder.map_err(Error::Policy)?;
        let builder = match self.verifier(provider)? {
            Some(verifier) => builder.with_client_cert_verifier(rules.screen.behind(verifier)?),
            None if rules.screen.asks_nothing() => builder.with_no_client_auth(),
            None => return Err(Error::NoClientCa),
        };
        let used = builder.with_single_cert(chain, key);
        let mut config = used.map_err(|source| Error::Use { path: self.cert_file.clone(), source })?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    fn verifier(&self, provider: Arc<CryptoProvider>) -> Result<Option<Arc<dyn ClientCertVerifier>>, Error> {
        match self.client_auth {
            ClientAuth::None => return Ok(None),
            ClientAuth::Anybody => return Ok(Some(Arc::new(Anybody(provider)))),
            ClientAuth::Optional | ClientAuth::Required => {}
        }
        let path = self.client_ca_file.as_deref().ok_or(Error::NoClientCa)?;
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(path)?), provider);
        let builder = if self.client_auth == ClientAuth::Optional { builder.allow_unauthenticated() } else { builder };
        let built = builder.build();
        built.map(Some).map_err(|error| Error::Verifier { path: path.to_owned(), message: error.to_string() })
    }

    fn modified(&self, rules: &Rules) -> Vec<Option<SystemTime>> {
        let revocations = rules.screen.revocation_file.as_ref();
        let files = [Some(&self.cert_file), Some(&self.key_file), self.client_ca_file.as_ref(), revocations];
        files.into_iter().flatten().map(|file| std::fs::metadata(file).and_then(|data| data.modified()).ok()).collect()
    }
}

/// The certificates of a PEM file.
///
/// # Errors
/// When the file cannot be read or holds none.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read = |source| Error::Read { what: "certificate", path: path.to_owned(), source };
    let chain = CertificateDer::pem_file_iter(path).map_err(read)?.collect::<Result<Vec<_>, _>>().map_err(read)?;
    if chain.is_empty() { Err(Error::Empty(path.to_owned())) } else { Ok(chain) }
}

/// The first private key of a PEM file.
///
/// # Errors
/// When the file cannot be read or holds none.
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    PrivateKeyDer::from_pem_file(path).map_err(|source| Error::Read { what: "private key", path: path.to_owned(), source })
}

/// A PEM bundle as trust anchors.
///
/// # Errors
/// When the file cannot be read, holds no certificate or a malformed one.
pub fn roots(path: &Path) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|source| Error::Use { path: path.to_owned(), source })?;
    }
    Ok(roots)
}

/// A server configuration that follows its files.
pub struct ReloadingServerConfig {
    files: ServerTls,
    rules: Rules,
    config: ArcSwap<ServerConfig>,
    state: Mutex<(Instant, Vec<Option<SystemTime>>)>,
}

impl ReloadingServerConfig {
    /// The configuration for the next handshake. Files that no longer load leave the last good one in use.
    pub fn config(&self) -> Arc<ServerConfig> {
        let mut state = self.state.lock();
        if state.0.elapsed() >= RELOAD_INTERVAL {
            state.0 = Instant::now();
            let modified = self.files.modified(&self.rules);
            if modified != state.1 {
                match self.files.read(&self.rules) {
                    Ok(fresh) => {
                        tracing::info!(file = %self.files.cert_file.display(), "reloaded TLS certificate");
                        self.config.store(fresh);
                        state.1 = modified;
                    }
                    Err(error) => tracing::warn!(%error, "changed TLS files do not load; keeping the ones in use"),
                }
            }
        }
        self.config.load_full()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(directory: &Path) -> ServerTls {
        let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (cert_file, key_file) = (directory.join("tls.crt"), directory.join("tls.key"));
        std::fs::write(&cert_file, key.cert.pem()).unwrap();
        std::fs::write(&key_file, key.signing_key.serialize_pem()).unwrap();
        ServerTls { client_ca_file: Some(cert_file.clone()), cert_file, key_file, client_auth: ClientAuth::Optional }
    }

    #[test]
    fn a_good_set_of_files_loads() {
        crate::install_crypto_provider();
        let directory = tempfile::tempdir().unwrap();
        let config = files(directory.path()).load().unwrap().config();
        assert_eq!(config.alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
    }

    #[test]
    fn who_is_let_in_is_not_restricted_without_asking_for_certificates() {
        crate::install_crypto_provider();
        let directory = tempfile::tempdir().unwrap();
        let tls = ServerTls { client_auth: ClientAuth::None, ..files(directory.path()) };
        let screen = Screen { common_names: vec!["admin".to_owned()], ..Screen::default() };
        assert!(tls.clone().load().is_ok());
        assert!(matches!(tls.load_with(Rules { screen, ..Rules::default() }), Err(Error::NoClientCa)));
    }

    #[test]
    fn a_missing_key_is_named() {
        crate::install_crypto_provider();
        let directory = tempfile::tempdir().unwrap();
        let tls = files(directory.path());
        std::fs::remove_file(&tls.key_file).unwrap();
        let error = tls.load().err().unwrap().to_string();
        assert!(error.starts_with("read private key from ") && error.ends_with("tls.key"), "{error}");
    }
}
