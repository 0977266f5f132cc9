//! A containerd of the cluster's own for each node: nothing that other software on the machine uses is touched.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::process::Command;

use crate::cli::Runtime;
use crate::cluster::{Cluster, Node};
use crate::layout::Layout;
use crate::parts::{Launch, Part};

/// What an operator applies by hand, carried along so that the binary works alone.
const FILES: [(&str, &str); 6] = [
    ("containerd/start", include_str!("../../../deploy/containerd/start")),
    ("containerd/fill", include_str!("../../../deploy/containerd/fill")),
    ("containerd/config.toml.in", include_str!("../../../deploy/containerd/config.toml.in")),
    ("containerd/10-quarterdeck.conflist.in", include_str!("../../../deploy/containerd/10-quarterdeck.conflist.in")),
    ("images/make", include_str!("../../../deploy/images/make")),
    ("images/storefront-api/server", include_str!("../../../deploy/images/storefront-api/server")),
];

/// The runtime asked for, or the best one that works here.
pub(crate) fn choose(asked: Option<Runtime>) -> anyhow::Result<Runtime> {
    match (asked, obstacle()) {
        (Some(Runtime::Containerd), Some(obstacle)) => bail!("--runtime containerd: {obstacle}; use --runtime process or hollow"),
        (Some(runtime), _) => Ok(runtime),
        (None, None) => Ok(Runtime::Containerd),
        (None, Some(obstacle)) => {
            println!("no containerd here ({obstacle}): containers run as plain processes");
            Ok(Runtime::Process)
        }
    }
}

/// What keeps containerd from working here.
fn obstacle() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("it needs root".to_owned());
    }
    let missing: Vec<_> = ["containerd", "runc", "ctr", "busybox", "setpriv"].into_iter().filter(|program| !installed(program)).collect();
    if !missing.is_empty() {
        return Some(format!("{} not found: apt-get install containerd runc busybox-static util-linux", missing.join(", ")));
    }
    if !CNI.iter().any(|directory| Path::new(directory).join("bridge").is_file()) {
        return Some("no CNI plugins: apt-get install containernetworking-plugins".to_owned());
    }
    // Root in an ordinary container may make neither mounts nor networks.
    let allowed = std::process::Command::new("unshare").args(["--mount", "--net", "true"]).output();
    (!allowed.is_ok_and(|output| output.status.success())).then(|| "this root may not make namespaces".to_owned())
}

/// Where distributions put CNI plugins.
const CNI: [&str; 3] = ["/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"];

fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).any(|directory| directory.join(program).is_file())
}

/// Writes the scripts into the data directory.
pub(crate) fn write_files(layout: &Layout) -> anyhow::Result<()> {
    for (name, content) in FILES {
        let path = script(layout, name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
        }
        std::fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).with_context(|| format!("protect {}", path.display()))?;
    }
    Ok(())
}

fn script(layout: &Layout, name: &str) -> PathBuf {
    layout.root().join("deploy").join(name)
}

/// Takes away the networks of the cluster's pods. Bridge and configuration outlive containerd, and the node may have another
/// range the next time. Pods that outlive it as well, because `up` was killed, keep theirs: the next kubelet goes on with them.
pub(crate) async fn remove_networks(cluster: &Cluster) {
    for node in &cluster.nodes {
        let bridge = &node.bridge;
        if is_used(bridge) {
            println!("pods of {} run on: their network, the bridge {bridge}, stays", node.name);
            continue;
        }
        let _ = std::fs::remove_dir_all(node.containerd(&cluster.layout).join("cni"));
        if !interface(bridge).exists() {
            continue;
        }
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
        let removal = Command::new("ip").args(["link", "delete", bridge]).env("PATH", path).kill_on_drop(true).status();
        if !matches!(tokio::time::timeout(Duration::from_secs(10), removal).await, Ok(Ok(status)) if status.success()) {
            eprintln!("the network bridge {bridge} is left behind: ip link delete {bridge}");
        }
    }
}

/// The kernel's directory of a network interface.
fn interface(name: &str) -> PathBuf {
    Path::new("/sys/class/net").join(name)
}

/// Whether pods hang on a bridge: the interface of each goes with its network.
fn is_used(bridge: &str) -> bool {
    std::fs::read_dir(interface(bridge).join("brif")).is_ok_and(|mut ports| ports.next().is_some())
}

/// The containerd of every node.
pub(crate) fn launches(cluster: &Cluster) -> Vec<Launch> {
    cluster.nodes.iter().map(|node| launch(cluster, node)).collect()
}

fn launch(cluster: &Cluster, node: &Node) -> Launch {
    let directory = node.containerd(&cluster.layout);
    let mut args = vec![directory.display().to_string(), node.bridge.clone()];
    if !cluster.parts.contains(&Part::ControllerManager) {
        // Nobody would give the node a range.
        args.push(node.pod_range.clone());
    }
    Launch {
        instance: format!("containerd-{}", node.name),
        program: script(&cluster.layout, "containerd/start"),
        args,
        listens: node.socket(&cluster.layout).display().to_string(),
    }
}

/// Waits until every containerd answers and has the images that no registry serves.
pub(crate) async fn import_images(cluster: &Cluster) -> anyhow::Result<()> {
    for node in &cluster.nodes {
        let socket = node.socket(&cluster.layout);
        wait_for(&socket).await?;
        let made = Command::new(script(&cluster.layout, "images/make"))
            .arg(cluster.layout.root().join("images"))
            .arg(&socket)
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(Duration::from_secs(120), made).await.context("make images: no end within 120 s")??;
        if !output.status.success() {
            bail!("make images: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
    }
    Ok(())
}

async fn wait_for(socket: &Path) -> anyhow::Result<()> {
    for _ in 0..300 {
        if tokio::net::UnixStream::connect(socket).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bail!("containerd does not answer on {} within 30 s", socket.display())
}
