//! The flags of kube-controller-manager, as far as its controllers exist here.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use anyhow::{Context as _, ensure};
use client::{
    leader::{self, parse_duration},
    serving::Serving,
};
use component::{gates::FeatureGates, logs::LogFlags};
use ipnet::IpNet;

use crate::{Config, Options, controllers, options::Concurrency};

/// The command line.
#[derive(Debug, clap::Parser)]
#[command(name = "controller-manager", version = component::KUBERNETES_VERSION, about = "Runs the control loops that carry the cluster to its desired state")]
pub struct Flags {
    /// Path to kubeconfig file with authorization and master location information.
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,
    /// A list of controllers to enable: '*' enables all on-by-default controllers, 'foo' enables and '-foo' disables the controller named foo.
    #[arg(long, value_delimiter = ',', default_value = "*", allow_hyphen_values = true)]
    pub controllers: Vec<String>,
    /// If true, use individual service account credentials for each controller.
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub use_service_account_credentials: bool,
    /// Filename containing a PEM-encoded private key used to sign service account tokens; accepted, tokens come from the API server.
    #[arg(long)]
    pub service_account_private_key_file: Option<PathBuf>,
    /// The root certificate authority published to every namespace.
    #[arg(long)]
    pub root_ca_file: Option<PathBuf>,
    /// CIDR ranges for pods, comma separated.
    #[arg(long, value_delimiter = ',')]
    pub cluster_cidr: Vec<IpNet>,
    /// CIDR ranges for services, comma separated; never given to nodes.
    #[arg(long, value_delimiter = ',')]
    pub service_cluster_ip_range: Vec<IpNet>,
    /// Should CIDRs for pods be allocated and set on the nodes.
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub allocate_node_cidrs: bool,
    /// Mask size for node CIDRs of either family; 24 for IPv4 and 64 for IPv6 when zero.
    #[arg(long, default_value_t = 0)]
    pub node_cidr_mask_size: u8,
    /// Mask size for IPv4 node CIDRs.
    #[arg(long, default_value_t = 0)]
    pub node_cidr_mask_size_ipv4: u8,
    /// Mask size for IPv6 node CIDRs.
    #[arg(long, default_value_t = 0)]
    pub node_cidr_mask_size_ipv6: u8,
    /// The period for syncing node status.
    #[arg(long, default_value = "5s", value_parser = parse_duration)]
    pub node_monitor_period: Duration,
    /// How long a running node may be unresponsive before it is marked unhealthy.
    #[arg(long, default_value = "50s", value_parser = parse_duration)]
    pub node_monitor_grace_period: Duration,
    /// How long a starting node may be unresponsive before it is marked unhealthy.
    #[arg(long, default_value = "1m0s", value_parser = parse_duration)]
    pub node_startup_grace_period: Duration,
    /// Nodes per second on which pods are deleted in case of node failure in a healthy zone.
    #[arg(long, default_value_t = 0.1)]
    pub node_eviction_rate: f64,
    /// Nodes per second on which pods are deleted in case of node failure in an unhealthy zone.
    #[arg(long, default_value_t = 0.01)]
    pub secondary_node_eviction_rate: f64,
    /// Number of nodes from which a cluster counts as large for the secondary eviction rate.
    #[arg(long, default_value_t = 50)]
    pub large_cluster_size_threshold: usize,
    /// Fraction of nodes in a zone that need to be not ready for the zone to count as unhealthy.
    #[arg(long, default_value_t = 0.55)]
    pub unhealthy_zone_threshold: f64,
    /// Number of terminated pods that may exist before they are deleted; none are if zero or less.
    #[arg(long, default_value_t = 12500, allow_hyphen_values = true)]
    pub terminated_pod_gc_threshold: i64,
    /// Whether the garbage collector runs.
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub enable_garbage_collector: bool,
    /// The number of deployments synced concurrently.
    #[arg(long, default_value_t = 5)]
    pub concurrent_deployment_syncs: usize,
    /// The number of replica sets synced concurrently.
    #[arg(long, default_value_t = 5)]
    pub concurrent_replicaset_syncs: usize,
    /// The number of stateful sets synced concurrently.
    #[arg(long, default_value_t = 5)]
    pub concurrent_statefulset_syncs: usize,
    /// The number of daemon sets synced concurrently.
    #[arg(long, default_value_t = 2)]
    pub concurrent_daemonset_syncs: usize,
    /// The number of jobs synced concurrently.
    #[arg(long, default_value_t = 5)]
    pub concurrent_job_syncs: usize,
    /// The number of endpoints synced concurrently.
    #[arg(long, default_value_t = 5)]
    pub concurrent_endpoint_syncs: usize,
    /// The number of services whose endpoint slices are synced concurrently.
    #[arg(long, default_value_t = 5)]
    pub concurrent_service_endpoint_syncs: usize,
    /// The most endpoints in one endpoint slice.
    #[arg(long, default_value_t = 100)]
    pub max_endpoints_per_slice: usize,
    /// The number of namespaces synced concurrently.
    #[arg(long, default_value_t = 10)]
    pub concurrent_namespace_syncs: usize,
    /// The number of garbage collector workers.
    #[arg(long, default_value_t = 20)]
    pub concurrent_gc_syncs: usize,
    /// The IP address on which to serve.
    #[arg(long, default_value = "0.0.0.0")]
    pub bind_address: IpAddr,
    /// The port on which to serve HTTPS; any free one if zero.
    #[arg(long, default_value_t = 10257)]
    pub secure_port: u16,
    /// File containing the certificate for HTTPS; a self-signed one is made when absent.
    #[arg(long, requires = "tls_private_key_file")]
    pub tls_cert_file: Option<PathBuf>,
    /// File containing the private key matching --tls-cert-file.
    #[arg(long, requires = "tls_cert_file")]
    pub tls_private_key_file: Option<PathBuf>,
    /// Client certificates signed by one of these authorities identify their bearer.
    #[arg(long)]
    pub client_ca_file: Option<PathBuf>,
    /// Features to switch on or off, as name=true or name=false, comma separated.
    #[arg(long, default_value = "")]
    pub feature_gates: String,
    /// Leader election.
    #[command(flatten)]
    pub leader: leader::Flags,
    /// Logs.
    #[command(flatten)]
    pub logs: LogFlags,
}

impl Flags {
    /// What the flags amount to.
    ///
    /// # Errors
    /// Names the flag that cannot be right.
    pub fn config(self) -> anyhow::Result<Config> {
        controllers::check_names(&self.controllers)?;
        FeatureGates::parse(&[], &self.feature_gates).context("--feature-gates")?;
        ensure!(!self.allocate_node_cidrs || !self.cluster_cidr.is_empty(), "--allocate-node-cidrs needs --cluster-cidr");
        let root_ca = self
            .root_ca_file
            .as_ref()
            .map(|path| std::fs::read_to_string(path).with_context(|| format!("read --root-ca-file {}", path.display())));
        let options = Options {
            concurrent: self.concurrency(),
            root_ca: root_ca.transpose()?,
            cluster_cidrs: if self.allocate_node_cidrs { self.cluster_cidr.clone() } else { Vec::new() },
            service_cidrs: self.service_cluster_ip_range.clone(),
            node_mask_ipv4: first_set([self.node_cidr_mask_size_ipv4, self.node_cidr_mask_size], 24),
            node_mask_ipv6: first_set([self.node_cidr_mask_size_ipv6, self.node_cidr_mask_size], 64),
            node_monitor_period: self.node_monitor_period,
            node_monitor_grace_period: self.node_monitor_grace_period,
            node_startup_grace_period: self.node_startup_grace_period,
            node_eviction_rate: self.node_eviction_rate,
            secondary_node_eviction_rate: self.secondary_node_eviction_rate,
            large_cluster_size: self.large_cluster_size_threshold,
            unhealthy_zone_threshold: self.unhealthy_zone_threshold,
            terminated_pod_threshold: usize::try_from(self.terminated_pod_gc_threshold).unwrap_or(0),
            max_endpoints_per_slice: self.max_endpoints_per_slice.clamp(1, 1000),
            collect_garbage: self.enable_garbage_collector,
        };
        let elect = self.leader.leader_elect;
        let election = self.leader.config("kube-controller-manager", leader::identity()).context("leader election flags")?;
        Ok(Config {
            kubeconfig: self.kubeconfig,
            controllers: self.controllers,
            own_credentials: self.use_service_account_credentials,
            serving: Serving {
                address: (self.bind_address, self.secure_port).into(),
                certificate: self.tls_cert_file.zip(self.tls_private_key_file),
                client_ca_file: self.client_ca_file,
            },
            election: elect.then_some(election),
            options,
        })
    }

    fn concurrency(&self) -> Concurrency {
        Concurrency {
            deployment: self.concurrent_deployment_syncs,
            replicaset: self.concurrent_replicaset_syncs,
            statefulset: self.concurrent_statefulset_syncs,
            daemonset: self.concurrent_daemonset_syncs,
            job: self.concurrent_job_syncs,
            endpoint: self.concurrent_endpoint_syncs,
            service_endpoint: self.concurrent_service_endpoint_syncs,
            namespace: self.concurrent_namespace_syncs,
            gc: self.concurrent_gc_syncs,
        }
    }
}

fn first_set(sizes: [u8; 2], default: u8) -> u8 {
    sizes.into_iter().find(|size| *size != 0).unwrap_or(default)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::Flags;

    fn parse(args: &[&str]) -> anyhow::Result<crate::Config> {
        Flags::try_parse_from([&["controller-manager"], args].concat())?.config()
    }

    #[test]
    fn defaults_are_upstreams() {
        let config = parse(&[]).unwrap();
        assert_eq!(config.serving.address.to_string(), "0.0.0.0:10257");
        assert_eq!(config.options.node_monitor_grace_period.as_secs(), 50);
        assert_eq!(config.election.unwrap().name, "kube-controller-manager");
    }

    #[test]
    fn takes_controllers_with_and_without_a_minus() {
        let config = parse(&["--controllers=*,-garbage-collector-controller", "--leader-elect=false"]).unwrap();
        assert_eq!(config.controllers, ["*", "-garbage-collector-controller"]);
        assert!(config.election.is_none());
    }

    #[test]
    fn names_an_unknown_controller() {
        let error = parse(&["--controllers=deployments"]).unwrap_err();
        assert_eq!(error.to_string(), "\"deployments\" is not in the list of known controllers");
    }

    #[test]
    fn allocating_ranges_needs_a_range() {
        assert!(parse(&["--allocate-node-cidrs"]).is_err());
        assert!(parse(&["--allocate-node-cidrs", "--cluster-cidr=10.244.0.0/16"]).is_ok());
    }
}
