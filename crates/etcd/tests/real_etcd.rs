//! The client against a real etcd, where one is installed; without it these pass unseen, and say so.

#![allow(clippy::unwrap_used)]

use etcd::{
    client::{Changes, Client, Config, Error, Tls, Watcher},
    etcdserverpb::{CompactionRequest, PutRequest, RangeRequest, WatchCreateRequest},
};
use std::{
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};
use tempfile::TempDir;
use tonic::Code;

/// A server of one member. Stopped when dropped.
struct Etcd {
    child: Child,
    dir: TempDir,
    url: String,
    arguments: Vec<String>,
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that nobody listens on, below the range from which the kernel takes ports for outgoing connections: a client that
/// dials before its server listens, or a dead endpoint again and again, could otherwise take it, or reach itself.
fn free_port() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id() * 5;
    let candidates = std::iter::repeat_with(|| 12_000 + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 5_000);
    candidates.take(5_000).find(|port| TcpListener::bind(format!("127.0.0.1:{port}")).is_ok()).expect("a free port")
}

fn spawn(dir: &Path, url: &str, arguments: &[String]) -> Option<Child> {
    let peer = format!("http://127.0.0.1:{}", free_port());
    let mut command = Command::new("etcd");
    command.arg("--data-dir").arg(dir.join("data")).args(arguments);
    for flag in ["--listen-client-urls", "--advertise-client-urls"] {
        command.arg(flag).arg(url);
    }
    command.arg("--listen-peer-urls").arg(&peer).arg("--initial-advertise-peer-urls").arg(&peer);
    command.arg("--initial-cluster").arg(format!("default={peer}"));
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
}

impl Etcd {
    fn start(scheme: &str, dir: TempDir, arguments: Vec<String>) -> Option<Self> {
        let url = format!("{scheme}://127.0.0.1:{}", free_port());
        let Some(child) = spawn(dir.path(), &url, &arguments) else {
            eprintln!("no etcd here: nothing shown");
            return None;
        };
        Some(Etcd { child, dir, url, arguments })
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn restart(&mut self) {
        self.child = spawn(self.dir.path(), &self.url, &self.arguments).unwrap();
    }
}

fn plain() -> Option<(Etcd, Client)> {
    let etcd = Etcd::start("http", tempfile::tempdir().unwrap(), vec![])?;
    // The first endpoint is dead: everything here is fail-over, too.
    let dead = format!("http://127.0.0.1:{}", free_port());
    let client = Client::connect(Config::new([dead, etcd.url.clone()])).unwrap();
    Some((etcd, client))
}

async fn put(client: &Client, key: &'static str, value: &'static str) -> i64 {
    let request = PutRequest { key: key.into(), value: value.into(), ..Default::default() };
    client.put(request).await.unwrap().header.unwrap().revision
}

async fn next(watcher: &mut Watcher) -> Changes {
    tokio::time::timeout(Duration::from_secs(30), watcher.next()).await.expect("changes in time").unwrap()
}

#[tokio::test]
async fn writes_reads_and_leases() {
    let Some((_etcd, client)) = plain() else { return };
    assert_eq!(put(&client, "k", "v").await, 2);
    let found = client.range(RangeRequest { key: "k".into(), ..Default::default() }).await.unwrap();
    assert_eq!(found.kvs[0].value, "v");
    let lease = client.lease_grant(60, 0).await.unwrap();
    assert_eq!(client.lease_keep_alive(lease.id).await.unwrap().ttl, 60);
    assert_eq!(client.lease_time_to_live(lease.id, true).await.unwrap().granted_ttl, 60);
    client.lease_revoke(lease.id).await.unwrap();
    assert_eq!(client.lease_keep_alive(lease.id).await.unwrap().ttl, 0);
    assert!(client.status().await.unwrap().version.starts_with("3."));
    assert_eq!(client.member_list(true).await.unwrap().members.len(), 1);
}

#[tokio::test]
async fn a_watch_resumes_over_a_killed_server() {
    let Some((mut etcd, client)) = plain() else { return };
    put(&client, "k", "one").await;
    let mut watcher = client.watch(WatchCreateRequest { key: "k".into(), start_revision: 2, ..Default::default() });
    assert_eq!(next(&mut watcher).await.events.len(), 1);
    etcd.kill();
    etcd.restart();
    let again = PutRequest { key: "k".into(), value: "two".into(), ..Default::default() };
    // The first attempt may go down with the old connection: only the caller may decide to write again.
    while let Err(error) = client.put(again.clone()).await {
        assert_eq!(error.code(), Code::Unavailable, "{error:?}");
    }
    let changes = next(&mut watcher).await;
    assert_eq!(changes.events.iter().map(|event| event.kv.clone().unwrap().mod_revision).collect::<Vec<_>>(), [3]);
    watcher.request_progress();
    assert_eq!(next(&mut watcher).await, Changes { revision: 3, events: vec![] });
}

#[tokio::test]
async fn a_compacted_watch_says_from_where_it_can_begin() {
    let Some((_etcd, client)) = plain() else { return };
    for _ in 0..3 {
        put(&client, "k", "v").await;
    }
    client.compact(CompactionRequest { revision: 4, physical: true }).await.unwrap();
    let mut watcher = client.watch(WatchCreateRequest { key: "k".into(), start_revision: 2, ..Default::default() });
    let error = watcher.next().await.unwrap_err();
    assert!(matches!(error, Error::Compacted { compact_revision: 4 }), "{error:?}");
}

#[tokio::test]
async fn a_request_without_any_server_ends_in_time() {
    let dead = format!("http://127.0.0.1:{}", free_port());
    let client = Client::connect(Config::new([dead])).unwrap();
    let client = client.with_request_timeout(Duration::from_millis(300));
    let error = client.range(RangeRequest { key: "k".into(), ..Default::default() }).await.unwrap_err();
    assert!(matches!(error.code(), Code::Unavailable | Code::DeadlineExceeded), "{error:?}");
}

#[tokio::test]
async fn tls_with_client_certificates() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let dir = tempfile::tempdir().unwrap();
    let ca_key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::new([]).unwrap();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca_pem = parameters.self_signed(&ca_key).unwrap().pem();
    let issuer = rcgen::Issuer::new(parameters, ca_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let parameters = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let certificate = parameters.signed_by(&key, &issuer).unwrap().pem();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (ca_file, cert_file, key_file) =
        (write("ca.pem", &ca_pem), write("cert.pem", &certificate), write("key.pem", &key.serialize_pem()));
    let arguments = ["--client-cert-auth", "--trusted-ca-file", &ca_file, "--cert-file", &cert_file, "--key-file", &key_file];
    let arguments = arguments.map(str::to_owned).to_vec();
    let Some(etcd) = Etcd::start("https", dir, arguments) else { return };
    let identity = Some((certificate.into_bytes(), key.serialize_pem().into_bytes()));
    let tls = Some(Tls { ca: ca_pem.into_bytes(), identity });
    let client = Client::connect(Config { tls, ..Config::new([etcd.url.clone()]) }).unwrap();
    assert_eq!(put(&client, "k", "v").await, 2);
}
