//! Certificate authorities that clients' certificates are checked against.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use component::Shutdown;
use component::serve::Peer;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::UnixTime;

/// How often the file is looked at.
const RELOAD: Duration = Duration::from_secs(60);

/// A file of authorities could not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The file cannot be read.
    #[error("read certificate authorities from {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The file holds no certificate, or a broken one.
    #[error("certificate authorities in {}: {reason}", path.display())]
    Parse { path: PathBuf, reason: String },
}

/// One file of authorities, re-read when it changes.
pub(crate) struct ClientCa {
    path: PathBuf,
    loaded: ArcSwap<Loaded>,
}

struct Loaded {
    pem: Vec<u8>,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl ClientCa {
    /// Reads the file.
    pub(crate) fn load(path: &Path) -> Result<Arc<Self>, Error> {
        let loaded = ArcSwap::from_pointee(read(path)?);
        Ok(Arc::new(Self { path: path.to_owned(), loaded }))
    }

    /// The file's text, for `extension-apiserver-authentication`.
    pub(crate) fn pem(&self) -> String {
        String::from_utf8_lossy(&self.loaded.load().pem).into_owned()
    }

    /// Checks the peer's certificate; an error text if it is none of these authorities'.
    pub(crate) fn verify(&self, peer: &Peer, now: jiff::Timestamp) -> Result<(), String> {
        let (leaf, intermediates) = peer.certs.split_first().ok_or("no certificate")?;
        let now = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now.as_second()).unwrap_or(0)));
        let verified = self.loaded.load().verifier.verify_client_cert(leaf, intermediates, now);
        verified.map(drop).map_err(|error| format!("verifying certificate failed: {error}"))
    }

    /// Re-reads the file when it changes, until shutdown. A broken file leaves the last good one in force.
    pub(crate) async fn follow(self: Arc<Self>, shutdown: Shutdown) {
        while tokio::time::timeout(RELOAD, shutdown.cancelled()).await.is_err() {
            match read(&self.path) {
                Ok(fresh) if fresh.pem != self.loaded.load().pem => {
                    tracing::info!(path = %self.path.display(), "reloaded client certificate authorities");
                    self.loaded.store(Arc::new(fresh));
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "keeping the client certificate authorities loaded before"),
            }
        }
    }
}

fn read(path: &Path) -> Result<Loaded, Error> {
    let pem = std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let parse = |reason: String| Error::Parse { path: path.to_owned(), reason };
    let roots = component::tls::roots(path).map_err(|error| parse(error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().map_err(|error| parse(error.to_string()))?;
    Ok(Loaded { pem, verifier })
}
