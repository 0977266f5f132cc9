//! The suite on a real etcd, when its binary is on the machine, and on the project's own store, when built.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use etcd::etcdserverpb::{CompactionRequest, DeleteRangeRequest};
use futures::FutureExt as _;

use super::*;
use crate::storage::kv::Outcome;
use crate::storage::suite::{Subject, pods, run_all};

/// A store of one member on free ports, stopped when dropped.
struct Server {
    process: Child,
    url: String,
    _directory: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    /// Starts `binary` with etcd's flags and waits until it answers.
    async fn start(binary: &Path) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (client, peer) = (free_url(), free_url());
        let process = Command::new(binary)
            .args(["--name", "a", "--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("a={peer}")])
            .arg("--data-dir")
            .arg(directory.path().join("data"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { process, url: client, _directory: directory };
        let etcd = server.connect();
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        while etcd.ping().await.is_err() {
            assert!(tokio::time::Instant::now() < deadline, "{} does not answer", binary.display());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        server
    }

    fn connect(&self) -> Etcd {
        let config = EtcdConfig { servers: vec![self.url.clone()], request_timeout: Duration::from_secs(10), ..EtcdConfig::default() };
        Etcd::connect(config).unwrap()
    }
}

/// Where nobody listens, below the range from which the kernel takes ports for outgoing connections: it stays free until the
/// server listens.
fn free_url() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id() * 5;
    let candidates = std::iter::repeat_with(|| 17_000 + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 3_000);
    let free = |port: &u32| std::net::TcpListener::bind(format!("127.0.0.1:{port}")).is_ok();
    format!("http://127.0.0.1:{}", candidates.take(3_000).find(free).expect("a free port"))
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
}

/// The `store` binary beside the test's own, where a build has left one.
fn own_store() -> Option<PathBuf> {
    let test = std::env::current_exe().ok()?;
    let binary = test.parent()?.parent()?.join("store");
    binary.is_file().then_some(binary)
}

async fn passes_the_suite(server: Server) {
    let etcd = server.connect();
    let run = AtomicUsize::new(0);
    run_all(|| {
        let (etcd, run) = (etcd.clone(), run.fetch_add(1, Ordering::Relaxed));
        async move {
            // One store for all cases: each begins with an empty prefix.
            let everything =
                DeleteRangeRequest { key: "/registry/".into(), range_end: "/registry0".into(), ..DeleteRangeRequest::default() };
            etcd.kv.client().delete_range(everything).await.unwrap();
            tracing::debug!(run, "next case");
            let storage = etcd.open(pods());
            let compact = move |revision: u64| {
                let client = etcd.kv.client().clone();
                let request = CompactionRequest { revision: revision as i64, physical: true };
                async move {
                    client.compact(request).await.unwrap();
                }
                .boxed()
            };
            Subject { storage, compact: Some(Box::new(compact)) }
        }
    })
    .await;
}

#[tokio::test]
async fn real_etcd_passes_the_suite() {
    match on_path("etcd") {
        Some(binary) => passes_the_suite(Server::start(&binary).await).await,
        None => eprintln!("skipped: no etcd on this machine"),
    }
}

#[tokio::test]
async fn our_store_passes_the_suite() {
    match own_store() {
        Some(binary) => passes_the_suite(Server::start(&binary).await).await,
        None => eprintln!("skipped: the store is not built"),
    }
}

/// A shared lease may be gone before its time: the next object gets another.
async fn replaces_a_lease_that_is_gone(server: Server) {
    let etcd = server.connect();
    let ttl = Some(Duration::from_secs(600));
    let put = async |key: &str| etcd.kv.put(key, 0, "{}".into(), ttl).await;
    assert!(matches!(put("/registry/a").await.unwrap(), Outcome::Done(_)));
    for lease in etcd.kv.client().lease_leases().await.unwrap().leases {
        etcd.kv.client().lease_revoke(lease.id).await.unwrap();
    }
    assert!(matches!(put("/registry/b").await.unwrap(), Outcome::Done(_)));
    let found = etcd.kv.range(Range { start: "/registry/b".into(), end: "/registry/c".into(), ..Range::default() }).await.unwrap();
    assert!(found.items[0].leased);
}

#[tokio::test]
async fn a_lease_that_is_gone_is_replaced_on_real_etcd() {
    match on_path("etcd") {
        Some(binary) => replaces_a_lease_that_is_gone(Server::start(&binary).await).await,
        None => eprintln!("skipped: no etcd on this machine"),
    }
}

#[tokio::test]
async fn a_lease_that_is_gone_is_replaced_on_our_store() {
    match own_store() {
        Some(binary) => replaces_a_lease_that_is_gone(Server::start(&binary).await).await,
        None => eprintln!("skipped: the store is not built"),
    }
}
