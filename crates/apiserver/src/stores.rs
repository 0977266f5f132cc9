//! The stores as the `--etcd-*` flags name them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use component::Shutdown;
use rustls_pki_types::{CertificateDer, pem::PemObject as _};

use crate::Config;
use crate::storage::Backend;
use crate::storage::divided::Divided;
use crate::storage::etcd::{Etcd, EtcdConfig};

/// An error of the store's reaches the client so long before the request's own deadline.
const MARGIN: Duration = Duration::from_secs(2);

/// The store of most resources, and those of some.
pub(crate) struct Stores {
    usual: Etcd,
    apart: Vec<(apimachinery::gvk::GroupResource, Etcd)>,
}

impl Stores {
    /// Prepares the connections. Errors name the flag or file at fault.
    pub(crate) fn from_config(config: &Config) -> anyhow::Result<Self> {
        let keys = Keys::read(config)?;
        let request_timeout = config.timeout().saturating_sub(MARGIN);
        let connect = |servers: &[String], flag: &str| {
            let (servers, ca, identity) = (servers.to_vec(), keys.ca.clone(), keys.identity.clone());
            let store = Etcd::connect(EtcdConfig { servers, ca, identity, request_timeout });
            store.with_context(|| format!("connect to {flag}"))
        };
        let overrides = config.replicas.etcd_servers_overrides.iter();
        let apart = overrides.map(|own| Ok::<_, anyhow::Error>((own.resource.clone(), connect(&own.servers, "--etcd-servers-overrides")?)));
        Ok(Self { usual: connect(&config.etcd_servers, "--etcd-servers")?, apart: apart.collect::<anyhow::Result<_>>()? })
    }

    /// All of them as one.
    pub(crate) fn backend(&self) -> Arc<dyn Backend> {
        let usual = Arc::new(self.usual.clone());
        if self.apart.is_empty() {
            return usual;
        }
        let apart = self.apart.iter().map(|(resource, store)| (resource.clone(), Arc::new(store.clone()) as Arc<dyn Backend>));
        Arc::new(Divided::new(usual, apart))
    }

    /// The usual one, for keys whose short lives shall not mix with the leases of others.
    pub(crate) fn for_short_lives(&self) -> Etcd {
        self.usual.with_leases_of_its_own()
    }

    /// Gives up old history in each, until shutdown.
    pub(crate) fn compact(self, interval: Duration, shutdown: &Shutdown) {
        for store in self.apart.into_iter().map(|(_, store)| store).chain([self.usual]) {
            tokio::spawn(store.compact_periodically(interval, shutdown.clone()));
        }
    }
}

/// What `--etcd-cafile`, `--etcd-certfile` and `--etcd-keyfile` hold.
struct Keys {
    ca: Option<Vec<u8>>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Keys {
    fn read(config: &Config) -> anyhow::Result<Self> {
        let ca = config.etcd_cafile.as_ref().map(|path| read("--etcd-cafile", path)).transpose()?;
        if let (Some(ca), Some(path)) = (&ca, &config.etcd_cafile) {
            let certificates = CertificateDer::pem_slice_iter(ca).collect::<Result<Vec<_>, _>>();
            let certificates = certificates.with_context(|| format!("parse --etcd-cafile {}", path.display()))?;
            ensure!(!certificates.is_empty(), "--etcd-cafile {} holds no certificate", path.display());
        }
        let identity = match (&config.etcd_certfile, &config.etcd_keyfile) {
            (Some(cert), Some(key)) => Some((read("--etcd-certfile", cert)?, read("--etcd-keyfile", key)?)),
            (None, None) => None,
            (Some(_), None) => bail!("--etcd-certfile needs --etcd-keyfile"),
            (None, Some(_)) => bail!("--etcd-keyfile needs --etcd-certfile"),
        };
        ensure!(identity.is_none() || ca.is_some(), "--etcd-certfile needs --etcd-cafile: the system's authorities are not asked");
        Ok(Self { ca, identity })
    }
}

fn read(flag: &str, path: &PathBuf) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("read {flag} {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(flags: &[String]) -> String {
        let base = ["apiserver", "--tls-cert-file=c", "--tls-private-key-file=k"].map(str::to_owned);
        let config = Config::from_args(base.iter().chain(flags).map(Into::into)).unwrap();
        format!("{:#}", Stores::from_config(&config).err().unwrap())
    }

    #[tokio::test]
    async fn what_is_wrong_about_the_flags_is_named() {
        component::install_crypto_provider();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("empty.pem");
        std::fs::write(&file, "").unwrap();
        let (server, file) = ("--etcd-servers=http://127.0.0.1:2379".to_owned(), file.display());
        let cases = [
            (vec![format!("--etcd-cafile={file}.none")], format!("read --etcd-cafile {file}.none: No such file")),
            (vec![format!("--etcd-cafile={file}")], format!("--etcd-cafile {file} holds no certificate")),
            (vec![format!("--etcd-certfile={file}")], "--etcd-certfile needs --etcd-keyfile".to_owned()),
            (vec![format!("--etcd-keyfile={file}")], "--etcd-keyfile needs --etcd-certfile".to_owned()),
            (vec![format!("--etcd-keyfile={file}"), format!("--etcd-certfile={file}")], "--etcd-certfile needs --etcd-cafile".to_owned()),
            (vec!["--etcd-servers-overrides=/events#ftp://127.0.0.1:1".to_owned()], "connect to --etcd-servers-overrides: ".to_owned()),
        ];
        for (flags, wanted) in cases {
            let said = problem(&[vec![server.clone()], flags].concat());
            assert!(said.contains(&wanted), "{wanted}: {said}");
        }
        for server in ["https://127.0.0.1:2379", "ftp://127.0.0.1:2379", "http://", "http://a b:1"] {
            let said = problem(&[format!("--etcd-servers={server}")]);
            assert!(said.contains("connect to --etcd-servers: ") && said.contains(server), "{server}: {said}");
        }
    }
}
