//! The kubelet: runs the Pods bound to a node and tells the API server how they are.
//!
//! [`node`] holds what a node's workers share and the loops around it, [`pod`] one pod's life with its pure core
//! (`pod/plan.rs`, `pod/status.rs`), [`cri`] the one door to runtimes, [`runtime`] those inside this process.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod cri;
mod file;
mod flags;
mod logs;
mod node;
mod pod;
mod probe;
mod quantity;
mod runtime;
mod server;
mod start;
mod text;
mod volume;

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf, time::Duration};

use k8s_openapi::api::core::v1::Taint;

pub use file::KubeletConfiguration;
pub use flags::Flags;
pub use node::{eviction::Thresholds, garbage::GarbagePolicy};
pub use start::run;

/// Which runtime runs the pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Runtime {
    /// A CRI v1 runtime at this endpoint.
    Socket(String),
    /// Plain processes of this machine.
    Process,
    /// Nothing runs; for scale.
    Hollow,
}

/// Everything a kubelet process needs to know; see [`Flags`] for the meaning of each.
#[derive(Debug, Clone)]
pub struct Config {
    /// Names of the nodes; more than one on the hollow runtime only.
    pub nodes: Vec<String>,
    /// Kubeconfig, pattern or directory.
    pub kubeconfig: PathBuf,
    /// Address of the node; found out when absent.
    pub node_ip: Option<IpAddr>,
    /// Directory of the kubelet's files.
    pub root_dir: PathBuf,
    /// Directory of the server's self-signed certificate.
    pub cert_dir: PathBuf,
    /// Directory of the pods' logs.
    pub pod_logs_dir: PathBuf,
    /// Runtime.
    pub runtime: Runtime,
    /// Further labels of the nodes.
    pub node_labels: BTreeMap<String, String>,
    /// Taints the nodes are registered with.
    pub taints: Vec<Taint>,
    /// Whether to register the nodes.
    pub register_node: bool,
    /// Address of the server.
    pub address: IpAddr,
    /// Port of the server; 0 means any.
    pub port: u16,
    /// Address of the health endpoint.
    pub healthz_address: IpAddr,
    /// Port of the health endpoint; 0 means none.
    pub healthz_port: u16,
    /// Certificate of the server.
    pub tls_cert_file: Option<PathBuf>,
    /// Its key.
    pub tls_private_key_file: Option<PathBuf>,
    /// CA of the server's clients.
    pub client_ca_file: Option<PathBuf>,
    /// Most pods per node.
    pub max_pods: i64,
    /// When the node is under pressure, and what is set aside from its capacity.
    pub thresholds: Thresholds,
    /// How much of what has died stays.
    pub garbage: GarbagePolicy,
    /// The cluster's DNS servers.
    pub cluster_dns: Vec<String>,
    /// The cluster's domain.
    pub cluster_domain: String,
    /// Silence that ends a stream (exec, attach, port-forward) of the process runtime; none never does.
    pub streaming_idle: Option<Duration>,
    /// Whether an exit stops and removes all pods.
    pub remove_pods_on_exit: bool,
    /// The config file, for what has no flag.
    pub file: KubeletConfiguration,
}

/// Runs this process as the shim of a container of the process runtime, if its arguments say so; returns the exit code.
///
/// Call it before anything else in `main`: a shim shares nothing with a kubelet but the binary.
pub fn run_as_shim() -> Option<i32> {
    let is_shim = std::env::args_os().nth(1).is_some_and(|first| first == runtime::process::shim::ARGUMENT);
    is_shim.then(|| runtime::process::shim::directory().map_or(2, |directory| runtime::process::shim::run(&directory)))
}
