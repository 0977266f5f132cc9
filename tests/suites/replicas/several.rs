//! Two API servers on one store, which a test can stop and start.

use std::path::PathBuf;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tests::{Cluster, Maker, Part, binary, within};

/// Until a server has begun to serve.
const PATIENCE: Duration = Duration::from_secs(60);
/// As `quarterdeck up` calls them.
pub(crate) const NAMES: [&str; 2] = ["apiserver-1", "apiserver-2"];

/// The servers, numbered from 0.
pub(crate) struct Several {
    pub(crate) cluster: Cluster,
    pub(crate) parts: Vec<Part>,
    urls: Vec<String>,
}

impl Several {
    /// On the store of this maker.
    pub(crate) fn on(maker: Maker) -> Self {
        let cluster = Cluster::up_on(maker, &["--components", "store,apiserver", "--apiservers", "2"]);
        let urls = NAMES.map(|name| cluster.listens(name)).into();
        let parts = NAMES.map(|name| Part::of(&cluster, name)).into();
        Self { cluster, parts, urls }
    }

    /// Where a server listens.
    pub(crate) fn url(&self, server: usize) -> &str {
        &self.urls[server]
    }

    /// The log of a server that the test has started.
    pub(crate) fn log(&self, server: usize) -> PathBuf {
        self.cluster.directory().join(format!("logs/{}-of-the-test.log", NAMES[server]))
    }

    /// Starts a server that has ended, and waits until it is ready.
    pub(crate) fn start(&mut self, server: usize) {
        let log = self.log(server);
        self.parts[server].start(binary("apiserver"), &log);
        within(PATIENCE, "the API server is ready", || {
            let ready = self.kubectl(server, &["get", "--raw", "/readyz"]);
            if ready.code == 0 { Ok(()) } else { Err(format!("{}\n{}", ready.err, std::fs::read_to_string(&log).unwrap())) }
        });
    }

    /// kubectl with one server.
    pub(crate) fn kubectl(&self, server: usize, args: &[&str]) -> tests::Output {
        let server = format!("--server={}", self.url(server));
        self.cluster.kubectl(&[args, &[&server]].concat())
    }

    /// A client of one server that tries nothing twice.
    pub(crate) async fn client(&self, server: usize) -> Client {
        let kubeconfig = Kubeconfig::read_from(self.cluster.kubeconfig()).unwrap();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        config.cluster_url = self.url(server).parse().unwrap();
        config.default_retry = false;
        Client::try_from(config).unwrap()
    }
}
