//! The flags; kube-proxy's names where the concept exists.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use anyhow::{Context as _, bail};
use component::logs::LogFlags;
use ipnet::IpNet;

use crate::Config;

/// Port of kube-proxy's health endpoint.
const HEALTHZ_PORT: u16 = 10256;

/// Keeps a node's routes to the pods of other nodes.
#[derive(Debug, clap::Parser)]
#[command(name = "node-routes", version = component::KUBERNETES_VERSION)]
pub struct Flags {
    /// Kubeconfig that names the API server and this node's identity.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Name of the node instead of the host's.
    #[arg(long)]
    hostname_override: Option<String>,
    /// Range of the cluster's pods, or one per IP family separated by a comma. What leaves it is masqueraded.
    #[arg(long, value_delimiter = ',', required = true)]
    cluster_cidr: Vec<IpNet>,
    /// Address, or address and port, to serve health on; empty or 0 for not at all.
    #[arg(long, default_value = "0.0.0.0:10256")]
    healthz_bind_address: String,
    /// Log settings.
    #[command(flatten)]
    pub logs: LogFlags,
}

impl Flags {
    /// What the flags say.
    ///
    /// # Errors
    /// A value that makes no sense; names it.
    pub fn config(self) -> anyhow::Result<Config> {
        let host = || nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
        let name = self.hostname_override.or_else(host).unwrap_or_default().trim().to_lowercase();
        if name.is_empty() {
            bail!("the host has no name: give --hostname-override");
        }
        let cluster_cidrs = self.cluster_cidr.iter().map(IpNet::trunc).collect();
        Ok(Config { kubeconfig: self.kubeconfig, node: name, cluster_cidrs, healthz: healthz(&self.healthz_bind_address)? })
    }
}

fn healthz(text: &str) -> anyhow::Result<Option<SocketAddr>> {
    if matches!(text, "" | "0") {
        return Ok(None);
    }
    let address = text.parse::<IpAddr>().map(|address| SocketAddr::new(address, HEALTHZ_PORT));
    let address = address.or_else(|_| text.parse());
    address.map(Some).with_context(|| format!("--healthz-bind-address: {text:?} is not an address, or address:port"))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn config(args: &[&str]) -> anyhow::Result<Config> {
        Flags::try_parse_from(["node-routes", "--cluster-cidr=10.244.0.0/16"].iter().chain(args))?.config()
    }

    #[test]
    fn health_is_served_where_kube_proxy_serves_it_unless_told_otherwise() {
        let of = |args: &[&str]| config(args).unwrap().healthz.map(|address| address.to_string());
        assert_eq!(of(&[]).as_deref(), Some("0.0.0.0:10256"));
        assert_eq!(of(&["--healthz-bind-address=127.0.0.1"]).as_deref(), Some("127.0.0.1:10256"));
        assert_eq!(of(&["--healthz-bind-address=[::1]:0"]).as_deref(), Some("[::1]:0"));
        assert_eq!(of(&["--healthz-bind-address="]), None);
        assert_eq!(of(&["--healthz-bind-address=0"]), None);
        assert!(config(&["--healthz-bind-address=here"]).is_err());
    }

    #[test]
    fn a_node_is_named_in_lower_case_as_its_kubelet_names_it() {
        assert_eq!(config(&["--hostname-override", " Node-1 "]).unwrap().node, "node-1");
        assert!(config(&["--hostname-override", ""]).is_err());
    }

    #[test]
    fn the_clusters_ranges_are_needed_and_must_be_ranges() {
        assert!(Flags::try_parse_from(["node-routes"]).is_err());
        assert!(Flags::try_parse_from(["node-routes", "--cluster-cidr=10.244.0.0"]).is_err());
        let flags = Flags::try_parse_from(["node-routes", "--cluster-cidr=10.244.7.0/16,fd00::/56"]).unwrap();
        let ranges: Vec<_> = flags.config().unwrap().cluster_cidrs.iter().map(IpNet::to_string).collect();
        assert_eq!(ranges, ["10.244.0.0/16", "fd00::/56"]);
    }
}
