//! Everybody in a cluster who needs a certificate or a kubeconfig.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::Context;

use super::{Authority, Subject, files, kubeconfig, service_account_key};
use crate::layout::Layout;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Names by which pods know the API server.
const SERVICE: [&str; 4] = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"];
/// Address of the `kubernetes` Service: the first of the service range.
const SERVICE_IP: &str = "10.96.0.1";

/// What certificates and kubeconfigs of one cluster have to name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roster {
    /// URL by which the cluster's parts reach the API server.
    pub(crate) endpoint: String,
    /// URL by which the user does.
    pub(crate) admin_endpoint: String,
    /// Host names of the API server, its Service's and loopback's aside.
    pub(crate) apiserver_hosts: Vec<String>,
    /// Addresses of the API servers, the first loopback's aside.
    pub(crate) apiserver_ips: Vec<IpAddr>,
    /// Host names of the store's members, loopback's aside.
    pub(crate) store_hosts: Vec<String>,
    pub(crate) nodes: Vec<NodeFiles>,
}

/// Where a node finds what is its own.
#[derive(Clone, Debug)]
pub(crate) struct NodeFiles {
    /// The node's name, by which its kubelet is reached.
    pub(crate) node: String,
    pub(crate) layout: Layout,
    /// Base name of the kubelet's kubeconfig and serving certificate.
    pub(crate) base: String,
}

impl Roster {
    /// Writes what is missing or no longer serves; authorities and keys for signing are kept for ever.
    pub(crate) fn write(&self, layout: &Layout) -> anyhow::Result<()> {
        let ca = Authority::open(layout, "ca", "kubernetes")?;
        self.write_apiserver(layout, &ca)?;
        self.write_store(layout)?;
        let front_proxy = Authority::open(layout, "front-proxy-ca", "front-proxy-ca")?;
        front_proxy.keep_files(layout, "front-proxy-client", &Subject::client("front-proxy-client", &[]))?;
        service_account_key(layout)?;
        let users: [(_, _, &[&str], _); 3] = [
            ("admin", "kubernetes-admin", &["system:masters"], &self.admin_endpoint),
            ("controller-manager", "system:kube-controller-manager", &[], &self.endpoint),
            ("scheduler", "system:kube-scheduler", &[], &self.endpoint),
        ];
        for (file, user, groups, server) in users {
            kubeconfig::keep(&layout.kubeconfig(file), server, &ca, &Subject::client(user, groups))?;
        }
        self.nodes.iter().try_for_each(|node| self.write_node(node, &ca))
    }

    /// For nodes that have a directory of their own: what they need of others' files.
    pub(crate) fn write_node_directories(&self, layout: &Layout) -> anyhow::Result<()> {
        let ca = Authority::open(layout, "ca", "kubernetes")?;
        for node in &self.nodes {
            let copy = node.layout.pki("ca.crt");
            if files::read(&copy).ok().as_ref() != Some(&ca.cert) {
                files::write(&copy, &ca.cert)?;
            }
            kubeconfig::keep(&node.layout.kubeconfig("kube-proxy"), &self.endpoint, &ca, &Subject::client("system:kube-proxy", &[]))?;
        }
        Ok(())
    }

    fn write_apiserver(&self, layout: &Layout, ca: &Authority) -> anyhow::Result<()> {
        let service: IpAddr = SERVICE_IP.parse().context("address of the kubernetes Service")?;
        let own = self.apiserver_hosts.iter().map(String::as_str);
        let dns: Vec<_> = ["localhost"].into_iter().chain(SERVICE).chain(own).collect();
        let others = self.apiserver_ips.iter().copied().filter(|ip| *ip != LOOPBACK);
        let ips: Vec<_> = [LOOPBACK, service].into_iter().chain(others).collect();
        let apiserver = Subject { name: "kube-apiserver", groups: &[], dns: &dns, ips: &ips };
        ca.keep_files(layout, "apiserver", &apiserver)?;
        ca.keep_files(layout, "apiserver-kubelet-client", &Subject::client("kube-apiserver-kubelet-client", &["system:masters"]))
    }

    /// The store has an authority of its own: nobody but the API server and the operator gets a certificate for it.
    fn write_store(&self, layout: &Layout) -> anyhow::Result<()> {
        let ca = Authority::open(layout, "etcd/ca", "etcd-ca")?;
        let dns: Vec<_> = ["localhost"].into_iter().chain(self.store_hosts.iter().map(String::as_str)).collect();
        for name in ["etcd/server", "etcd/peer"] {
            ca.keep_files(layout, name, &Subject { name: "store", groups: &[], dns: &dns, ips: &[LOOPBACK] })?;
        }
        ca.keep_files(layout, "etcd/healthcheck-client", &Subject::client("kube-etcd-healthcheck-client", &[]))?;
        ca.keep_files(layout, "apiserver-etcd-client", &Subject::client("kube-apiserver-etcd-client", &[]))
    }

    fn write_node(&self, node: &NodeFiles, ca: &Authority) -> anyhow::Result<()> {
        let user = format!("system:node:{}", node.node);
        let groups = ["system:nodes"];
        let serving = Subject { name: &user, groups: &groups, dns: &["localhost", &node.node], ips: &[LOOPBACK] };
        ca.keep_files(&node.layout, &node.base, &serving)?;
        kubeconfig::keep(&node.layout.kubeconfig(&node.base), &self.endpoint, ca, &Subject::client(&user, &groups))
    }
}
