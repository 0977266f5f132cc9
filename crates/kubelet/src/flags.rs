//! The command line; upstream's names where the concept exists.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};
use clap::Parser;
use component::logs::LogFlags;
use k8s_openapi::api::core::v1::Taint;

use crate::{
    Config, Runtime,
    file::{KubeletConfiguration, parse_duration},
    node::{eviction::Thresholds, garbage::GarbagePolicy},
};

/// Port that read-only health checks of upstream's kubelet are on.
const HEALTHZ_PORT: u16 = 10248;
/// Port of the kubelet's server.
const PORT: u16 = 10250;
/// Where upstream's kubelet keeps its files and its pods' logs.
const ROOT: &str = "/var/lib/kubelet";
const LOGS: &str = "/var/log/pods";
/// Silence that ends a stream, as upstream's.
const STREAMING_IDLE: Duration = Duration::from_secs(4 * 3600);
/// Debian's containerd.
const CONTAINERD: &str = "unix:///run/containerd/containerd.sock";

/// Runs Pods on a node.
#[derive(Debug, Parser)]
#[command(name = "kubelet", version = component::KUBERNETES_VERSION)]
pub struct Flags {
    /// Kubeconfig that names the API server and this node's identity. `{node}` in the path stands for the node's name; for a
    /// directory, the file is `kubelet-{node}.conf` in it.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// File with a KubeletConfiguration (kubelet.config.k8s.io/v1beta1); flags win over it.
    #[arg(long)]
    config: Option<PathBuf>,
    /// Name of the node instead of the host's. With --hollow-nodes, the prefix of the names: `PREFIX-1`, `PREFIX-2`, …
    #[arg(long)]
    hostname_override: Option<String>,
    /// Address of the node.
    #[arg(long)]
    node_ip: Option<IpAddr>,
    /// Directory of the kubelet's files.
    #[arg(long, default_value = ROOT)]
    root_dir: PathBuf,
    /// Directory of the server's certificate when --tls-cert-file is not given.
    #[arg(long)]
    cert_dir: Option<PathBuf>,
    /// Runtime to run pods with: `containerd`, `process`, `hollow`, or the endpoint of a CRI socket.
    #[arg(long)]
    runtime: Option<String>,
    /// Endpoint of the CRI socket, `unix:///…`.
    #[arg(long)]
    container_runtime_endpoint: Option<String>,
    /// Run this many nodes in one process, on the hollow runtime.
    #[arg(long)]
    hollow_nodes: Option<usize>,
    /// Labels for the node, `key=value,…`.
    #[arg(long, default_value = "")]
    node_labels: String,
    /// Taints to register the node with, `key=value:Effect,…`.
    #[arg(long, default_value = "")]
    register_with_taints: String,
    /// Register the node with the API server.
    #[arg(long, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    register_node: Option<bool>,
    /// Address to serve on.
    #[arg(long)]
    address: Option<IpAddr>,
    /// Port to serve on; 0 means any.
    #[arg(long)]
    port: Option<u16>,
    /// Address of the health endpoint.
    #[arg(long)]
    healthz_bind_address: Option<IpAddr>,
    /// Port of the health endpoint; 0 disables it, as upstream's.
    #[arg(long)]
    healthz_port: Option<u16>,
    /// Certificate of the server; self-signed when absent.
    #[arg(long)]
    tls_cert_file: Option<PathBuf>,
    /// Key of --tls-cert-file.
    #[arg(long)]
    tls_private_key_file: Option<PathBuf>,
    /// CA of clients that may call the server.
    #[arg(long)]
    client_ca_file: Option<PathBuf>,
    /// Most pods at once.
    #[arg(long)]
    max_pods: Option<i64>,
    /// Hard eviction thresholds, `memory.available<100Mi,nodefs.available<10%`; a signal that is not named has none.
    #[arg(long)]
    eviction_hard: Option<String>,
    /// Least age, `10s`, of a dead container that is removed.
    #[arg(long, default_value = "0s", value_parser = duration)]
    minimum_container_ttl_duration: Duration,
    /// Most dead containers kept of each container of a pod; below 0, all.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    maximum_dead_containers_per_container: i32,
    /// Most dead containers kept on the node; below 0, any number.
    #[arg(long, default_value_t = -1, allow_negative_numbers = true)]
    maximum_dead_containers: i32,
    /// Address of the cluster's DNS server.
    #[arg(long, value_delimiter = ',')]
    cluster_dns: Option<Vec<String>>,
    /// The cluster's domain.
    #[arg(long)]
    cluster_domain: Option<String>,
    /// Longest silence of an exec, attach or port-forward stream, `4h`; 0 means any. Of the process runtime: another one has a
    /// setting of its own.
    #[arg(long, value_parser = duration)]
    streaming_connection_idle_timeout: Option<Duration>,
    /// Stop and remove all pods when the kubelet exits; for clusters that leave nothing behind.
    #[arg(long)]
    remove_pods_on_exit: bool,
    #[command(flatten)]
    logs: LogFlags,
}

impl Flags {
    /// Log settings, for `main`.
    pub fn logs(&self) -> &LogFlags {
        &self.logs
    }

    /// Flags over config file over defaults.
    ///
    /// # Errors
    /// A value that makes no sense, or a config file that cannot be read; names it.
    pub fn into_config(self) -> anyhow::Result<Config> {
        let file = match &self.config {
            Some(path) => KubeletConfiguration::load(path)?,
            None => KubeletConfiguration::default(),
        };
        let endpoint = self.container_runtime_endpoint.clone().or_else(|| file.container_runtime_endpoint.clone());
        let runtime = runtime(self.runtime.as_deref(), endpoint, self.hollow_nodes)?;
        let thresholds = match (&self.eviction_hard, &file.eviction_hard) {
            (Some(flag), _) => Thresholds::parse(flag)?,
            (None, Some(map)) => Thresholds::from_pairs(map.iter().map(|(signal, value)| (signal.as_str(), value.as_str())))?,
            (None, None) => Thresholds::default(),
        };
        let idle = self.streaming_connection_idle_timeout.or(file.streaming_connection_idle_timeout).unwrap_or(STREAMING_IDLE);
        let garbage = self.garbage()?;
        let logs = file.pod_logs_dir.clone().unwrap_or_else(|| default_logs(&self.root_dir));
        Ok(Config {
            nodes: self.nodes()?,
            kubeconfig: self.kubeconfig,
            node_ip: self.node_ip,
            cert_dir: self.cert_dir.unwrap_or_else(|| self.root_dir.join("pki")),
            root_dir: self.root_dir,
            pod_logs_dir: logs,
            runtime,
            node_labels: parse_labels(&self.node_labels)?,
            taints: if self.register_with_taints.is_empty() {
                file.register_with_taints.clone()
            } else {
                parse_taints(&self.register_with_taints)?
            },
            register_node: self.register_node.or(file.register_node).unwrap_or(true),
            address: self.address.or(file.address).unwrap_or(IpAddr::from([0, 0, 0, 0])),
            port: self.port.or(file.port).unwrap_or(PORT),
            healthz_address: self.healthz_bind_address.or(file.healthz_bind_address).unwrap_or(IpAddr::from([127, 0, 0, 1])),
            healthz_port: self.healthz_port.or(file.healthz_port).unwrap_or(HEALTHZ_PORT),
            tls_cert_file: self.tls_cert_file.or_else(|| file.tls_cert_file.clone()),
            tls_private_key_file: self.tls_private_key_file.or_else(|| file.tls_private_key_file.clone()),
            client_ca_file: self.client_ca_file.or_else(|| file.authentication.x509.client_ca_file.clone()),
            max_pods: self.max_pods.or(file.max_pods).unwrap_or(110),
            thresholds,
            garbage,
            cluster_dns: self.cluster_dns.unwrap_or_else(|| file.cluster_dns.clone()),
            cluster_domain: self.cluster_domain.or_else(|| file.cluster_domain.clone()).unwrap_or_default(),
            streaming_idle: Some(idle).filter(|idle| !idle.is_zero()),
            remove_pods_on_exit: self.remove_pods_on_exit,
            file,
        })
    }

    fn garbage(&self) -> anyhow::Result<GarbagePolicy> {
        let min_age = jiff::SignedDuration::try_from(self.minimum_container_ttl_duration).context("--minimum-container-ttl-duration")?;
        let limit = |most: i32| usize::try_from(most).ok();
        let (per_container, per_node) = (limit(self.maximum_dead_containers_per_container), limit(self.maximum_dead_containers));
        Ok(GarbagePolicy { min_age, per_container, per_node })
    }

    /// The names of the nodes this process runs.
    fn nodes(&self) -> anyhow::Result<Vec<String>> {
        let host = || nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
        let name = self.hostname_override.clone().or_else(host).context("the host has no name: give --hostname-override")?;
        let name = name.trim().to_lowercase();
        match self.hollow_nodes {
            None => Ok(vec![name]),
            Some(0) => bail!("--hollow-nodes must be at least 1"),
            Some(count) => Ok((1..=count).map(|index| format!("{name}-{index}")).collect()),
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| format!("time: invalid duration {text:?}"))
}

fn default_logs(root: &Path) -> PathBuf {
    if root == Path::new(ROOT) { PathBuf::from(LOGS) } else { root.join("logs") }
}

fn runtime(named: Option<&str>, endpoint: Option<String>, hollow_nodes: Option<usize>) -> anyhow::Result<Runtime> {
    let runtime = match named {
        Some("hollow") => Runtime::Hollow,
        Some("process") => Runtime::Process,
        Some("containerd") => Runtime::Socket(endpoint.unwrap_or_else(|| CONTAINERD.into())),
        Some(other) if other.starts_with("unix://") || other.starts_with('/') => Runtime::Socket(other.into()),
        Some(other) => bail!("--runtime {other:?} is not containerd, process, hollow or a unix:// endpoint"),
        None if hollow_nodes.is_some() => Runtime::Hollow,
        None => match endpoint.as_deref() {
            Some("process://") => Runtime::Process,
            Some("hollow://") => Runtime::Hollow,
            _ => Runtime::Socket(endpoint.unwrap_or_else(|| CONTAINERD.into())),
        },
    };
    if hollow_nodes.is_some() && runtime != Runtime::Hollow {
        bail!("--hollow-nodes needs --runtime hollow");
    }
    Ok(runtime)
}

fn parse_labels(text: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let pair = |part: &str| match part.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => bail!("--node-labels: {part:?} is not of the form key=value"),
    };
    text.split(',').filter(|part| !part.trim().is_empty()).map(pair).collect()
}

fn parse_taints(text: &str) -> anyhow::Result<Vec<Taint>> {
    text.split(',').filter(|part| !part.is_empty()).map(parse_taint).collect()
}

fn parse_taint(text: &str) -> anyhow::Result<Taint> {
    let (rest, effect) = text.rsplit_once(':').with_context(|| format!("--register-with-taints: {text:?} has no effect"))?;
    if !matches!(effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
        bail!("--register-with-taints: invalid taint effect: {effect}, unsupported taint effect");
    }
    let (key, value) = rest.split_once('=').map_or((rest, None), |(key, value)| (key, Some(value.to_owned())));
    Ok(Taint { key: key.to_owned(), value, effect: effect.to_owned(), time_added: None })
}

#[cfg(test)]
mod tests;
