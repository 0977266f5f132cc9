//! The flags of kube-scheduler.

use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use client::{leader, serving::Serving};
use component::logs::LogFlags;

use crate::config_file::SchedulerConfiguration;
use crate::{Config, NAME};

/// Binds Pods to Nodes.
#[derive(Debug, clap::Parser)]
#[command(name = "scheduler", version = component::KUBERNETES_VERSION)]
pub struct Flags {
    /// Kubeconfig that names the API server and the scheduler's identity.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// File with a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1).
    #[arg(long)]
    config: Option<PathBuf>,
    /// Address to serve health and metrics on.
    #[arg(long, default_value = "0.0.0.0")]
    bind_address: IpAddr,
    /// Port to serve health and metrics on; 0 means any.
    #[arg(long, default_value_t = 10259)]
    secure_port: u16,
    /// Certificate to serve with; self-signed when absent.
    #[arg(long, requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// Key of --tls-cert-file.
    #[arg(long, requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// CA whose client certificates are believed.
    #[arg(long)]
    client_ca_file: Option<PathBuf>,
    #[command(flatten)]
    leader: leader::Flags,
    /// Log settings.
    #[command(flatten)]
    pub logs: LogFlags,
}

impl Flags {
    /// Flags over config file over defaults.
    ///
    /// # Errors
    /// A value that makes no sense, or a config file that cannot be used; names it.
    pub fn config(self) -> anyhow::Result<Config> {
        let file = self.config.as_deref().map(SchedulerConfiguration::load).transpose()?.unwrap_or_default();
        let elect = self.leader.leader_elect && file.leader_election.leader_elect.unwrap_or(true);
        let election = if elect { Some(self.leader.config(NAME, leader::identity()).context("leader election flags")?) } else { None };
        let serving = Serving {
            address: crate::address(self.bind_address, self.secure_port),
            certificate: self.tls_cert_file.zip(self.tls_private_key_file),
            client_ca_file: self.client_ca_file,
        };
        let kubeconfig = self.kubeconfig.or_else(|| file.client_connection.kubeconfig.clone());
        Ok(Config { kubeconfig, scheduler_name: file.scheduler_name()?, serving, election })
    }
}
