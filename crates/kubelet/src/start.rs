//! From configuration to running nodes.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr, UdpSocket},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail};
use client::connect::Connector;
use component::{Shutdown, clock};
use jiff::SignedDuration;
use tokio::net::TcpListener;

use crate::{
    Config, Runtime,
    cri::{Cri, socket::Socket, v1},
    logs,
    node::{
        Node, Settings,
        capacity::Capacity,
        cgroups::Cgroups,
        dns::{Dns, Resolver},
        events::Events,
        garbage, heartbeat, lease,
        object::Machine,
        orphans,
        paths::Paths,
        pods, relist,
        services::Services,
    },
    pod::images::Images,
    runtime::{hollow::Hollow, process},
    server,
    volume::{Volumes, objects::Objects, token::Tokens},
};

/// How long a start waits for the runtime to answer.
const RUNTIME_PATIENCE: Duration = Duration::from_secs(60);
/// How long an exit that removes the pods may take.
const EXIT_PATIENCE: Duration = Duration::from_secs(15);

/// Runs the nodes until `shutdown`. Containers go on running after that, unless `config` says otherwise.
///
/// # Errors
/// What keeps the kubelet from starting: configuration, ports, certificates, a runtime that does not answer.
pub async fn run(config: Config, shutdown: Shutdown) -> anyhow::Result<()> {
    let listener = bind(config.address, config.port).await?;
    let port = listener.local_addr().context("read the server's address")?.port();
    let settings = Arc::new(settings(&config, port));
    let machine = Arc::new(Machine::read());
    let mut nodes = vec![];
    for (index, name) in config.nodes.iter().enumerate() {
        let node = node(&config, &settings, name, u32::try_from(index)?, &shutdown).await;
        nodes.push(node.with_context(|| format!("start node {name}"))?);
    }
    let nodes: Arc<[Arc<Node>]> = nodes.into();
    tracing::info!(nodes = nodes.len(), address = %listener.local_addr()?, "kubelet serves");
    server::start(&config, listener, nodes.clone(), &shutdown).await?;
    for node in nodes.iter() {
        spawn_loops(node, &machine, &shutdown, &config);
    }
    shutdown.cancelled().await;
    if config.remove_pods_on_exit {
        let removed = futures::future::join_all(nodes.iter().map(orphans::remove_all));
        if tokio::time::timeout(EXIT_PATIENCE, removed).await.is_err() {
            tracing::warn!("some pods did not end within {EXIT_PATIENCE:?}");
        }
    }
    Ok(())
}

async fn bind(address: IpAddr, port: u16) -> anyhow::Result<TcpListener> {
    TcpListener::bind((address, port)).await.with_context(|| format!("listen on {}", SocketAddr::new(address, port)))
}

/// The loops of one node; each ends with the shutdown.
fn spawn_loops(node: &Arc<Node>, machine: &Arc<Machine>, shutdown: &Shutdown, config: &Config) {
    let spawn = |task: futures::future::BoxFuture<'static, ()>| {
        let shutdown = shutdown.clone();
        tokio::spawn(async move { shutdown.run_until_cancelled(task).await });
    };
    let (n, machine) = (node.clone(), machine.clone());
    spawn(Box::pin(async move {
        if n.settings.register {
            heartbeat::register(&n, &machine).await;
        }
        tokio::join!(heartbeat::report(&n, &machine), lease::renew(&n));
    }));
    let n = node.clone();
    spawn(Box::pin(async move { pods::follow(&n).await }));
    let n = node.clone();
    spawn(Box::pin(async move { n.statuses.run(&n.client).await }));
    let n = node.clone();
    spawn(Box::pin(async move { relist::run(&n).await }));
    let n = node.clone();
    spawn(Box::pin(async move { orphans::run(&n).await }));
    let n = node.clone();
    spawn(Box::pin(async move { garbage::run(&n).await }));
    if !node.simulated {
        let n = node.clone();
        let limits = logs::rotate::Limits {
            size: config.file.container_log_max_size.unwrap_or(10 << 20),
            files: config.file.container_log_max_files.unwrap_or(5).max(2),
        };
        spawn(Box::pin(async move { logs::rotate::run(&n, limits).await }));
    }
}

fn settings(config: &Config, port: u16) -> Settings {
    let file = &config.file;
    let resolv = file.resolv_conf.clone().unwrap_or_else(|| PathBuf::from("/etc/resolv.conf"));
    let host = std::fs::read_to_string(resolv).unwrap_or_default();
    let restart = file.crash_loop_back_off.max_container_restart_period;
    Settings {
        dns: Dns { servers: config.cluster_dns.clone(), domain: config.cluster_domain.clone(), host: Resolver::parse(&host) },
        max_restart_delay: restart.and_then(|d| SignedDuration::try_from(d).ok()).unwrap_or(crate::pod::backoff::MOST),
        max_pods: config.max_pods,
        thresholds: config.thresholds,
        garbage: config.garbage,
        labels: config.node_labels.clone(),
        taints: config.taints.clone(),
        register: config.register_node,
        lease_seconds: file.node_lease_duration_seconds.unwrap_or(40),
        status_update: file.node_status_update_frequency.filter(|d| !d.is_zero()).unwrap_or(Duration::from_secs(10)),
        status_report: file.node_status_report_frequency.filter(|d| !d.is_zero()).unwrap_or(Duration::from_secs(300)),
        port,
    }
}

/// The kubeconfig of one node: `{node}` in the path is its name, and a directory has one file per node.
pub(crate) fn kubeconfig(path: &Path, node: &str) -> PathBuf {
    let text = path.to_string_lossy();
    if text.contains("{node}") {
        PathBuf::from(text.replace("{node}", node))
    } else if path.is_dir() {
        path.join(format!("kubelet-{node}.conf"))
    } else {
        path.to_owned()
    }
}

async fn node(config: &Config, settings: &Arc<Settings>, name: &str, index: u32, shutdown: &Shutdown) -> anyhow::Result<Arc<Node>> {
    let simulated = config.runtime == Runtime::Hollow;
    let cri = runtime(config, index)?;
    let version = version(&*cri).await?;
    let kubeconfig = kubeconfig(&config.kubeconfig, name);
    let user_agent = format!("kubelet/{}", component::KUBERNETES_VERSION);
    let connector = Connector::new(Some(&kubeconfig), &user_agent).context("prepare the API server's client")?;
    let client = connector.client().await.context("connect to the API server")?;
    let recorder = client::events::Recorder::start(client.clone(), "kubelet", name, shutdown.clone());
    let pulls = match config.file.serialize_image_pulls {
        Some(false) => config.file.max_parallel_image_pulls.unwrap_or(16),
        _ => 1,
    };
    let node = Arc::new(Node {
        name: name.to_owned(),
        cri,
        runtime: version.runtime_name,
        runtime_version: version.runtime_version,
        simulated,
        paths: Paths::new(&config.root_dir, &config.pod_logs_dir),
        host_ips: vec![node_ip(config)],
        capacity: if simulated { Capacity::hollow() } else { Capacity::of_machine(&config.root_dir) },
        cgroup_files: cgroup_files(config)?,
        settings: settings.clone(),
        events: Events::new(recorder),
        objects: Objects::new(client.clone()),
        tokens: Tokens::new(client.clone()),
        services: Services::new(client.clone()),
        images: Images::new(pulls),
        volumes: Volumes::new(),
        statuses: crate::node::statuses::Statuses::default(),
        pods: pods::Pods::default(),
        clock: clock::now,
        client,
    });
    node.volumes.attach(&node);
    Ok(node)
}

/// The other runtimes have no cgroups.
fn cgroup_files(config: &Config) -> anyhow::Result<HashMap<String, String>> {
    match config.runtime {
        Runtime::Socket(_) => Cgroups::of_machine().files(config.file.single_process_oom_kill),
        Runtime::Hollow | Runtime::Process => Ok(HashMap::new()),
    }
}

fn runtime(config: &Config, index: u32) -> anyhow::Result<Arc<dyn Cri>> {
    let cri: Arc<dyn Cri> = match &config.runtime {
        Runtime::Socket(endpoint) => Arc::new(Socket::new(endpoint)?),
        Runtime::Hollow => Arc::new(Hollow::new(index, clock::now)),
        Runtime::Process => {
            let root = config.root_dir.join("process");
            let shim = process::shim::this_binary().context("find this binary")?;
            let opened = process::Process::open(&root, shim, clock::now, config.streaming_idle);
            opened.with_context(|| format!("open the process runtime in {}", root.display()))?
        }
    };
    Ok(cri)
}

/// Name and version of the runtime; a runtime that is just starting gets some time.
async fn version(cri: &dyn Cri) -> anyhow::Result<v1::VersionResponse> {
    let deadline = tokio::time::Instant::now() + RUNTIME_PATIENCE;
    loop {
        match cri.version(v1::VersionRequest { version: "0.1.0".into() }).await {
            Ok(version) => return Ok(version),
            Err(error) if error.code() == tonic::Code::Unimplemented => {
                bail!("the container runtime does not speak CRI v1: {}", crate::cri::describe(&error));
            }
            Err(error) if tokio::time::Instant::now() >= deadline => {
                bail!("the container runtime does not answer: {}", crate::cri::describe(&error));
            }
            Err(error) => tracing::info!(error = crate::cri::describe(&error), "wait for the container runtime"),
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// The address other machines reach this one at: the given one, else that of the default route, else loopback.
fn node_ip(config: &Config) -> String {
    let found = || {
        // Connecting a UDP socket sends nothing; it only picks the source address.
        let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
        socket.connect("198.51.100.1:9").ok()?;
        socket.local_addr().ok().map(|address| address.ip())
    };
    config.node_ip.or_else(found).unwrap_or(IpAddr::from([127, 0, 0, 1])).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_has_its_kubeconfig() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(kubeconfig(directory.path(), "n-1"), directory.path().join("kubelet-n-1.conf"));
        assert_eq!(kubeconfig(Path::new("/x/{node}.conf"), "n-1"), Path::new("/x/n-1.conf"));
        assert_eq!(kubeconfig(Path::new("/x/kubelet.conf"), "n-1"), Path::new("/x/kubelet.conf"));
    }
}
