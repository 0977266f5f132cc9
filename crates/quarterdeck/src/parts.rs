//! The table of parts: what each is called, what it listens on, and its command line.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use clap::ValueEnum;

use crate::cli::Runtime;
use crate::cluster::{Cluster, Node, StoreMember};

/// Where everything listens.
pub(crate) const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A kind of process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    Store,
    Apiserver,
    ControllerManager,
    Scheduler,
    Kubelet,
}

impl Part {
    /// In the order in which they start; they stop in the reverse.
    pub(crate) const ALL: [Self; 5] = [Self::Store, Self::Apiserver, Self::ControllerManager, Self::Scheduler, Self::Kubelet];

    pub(crate) fn binary(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Apiserver => "apiserver",
            Self::ControllerManager => "controller-manager",
            Self::Scheduler => "scheduler",
            Self::Kubelet => "kubelet",
        }
    }

    /// The processes of this part.
    pub(crate) fn launches(self, cluster: &Cluster) -> Vec<Launch> {
        match self {
            Self::Store => cluster.members.iter().map(|member| store(cluster, member)).collect(),
            Self::Apiserver => cluster.apiservers.iter().enumerate().map(|(index, at)| apiserver(cluster, index, *at)).collect(),
            Self::ControllerManager => vec![controller_manager(cluster)],
            Self::Scheduler => vec![scheduler(cluster)],
            Self::Kubelet if cluster.runtime == Runtime::Hollow => vec![hollow_kubelet(cluster)],
            Self::Kubelet => cluster.nodes.iter().map(|node| kubelet(cluster, node)).collect(),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.binary())
    }
}

/// One process to start.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// Unique in the cluster: the part's name, numbered where there are several.
    pub(crate) instance: String,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    /// For people.
    pub(crate) listens: String,
}

/// `--name=value`, the form that every flag parser takes.
fn flag(name: &str, value: impl fmt::Display) -> String {
    format!("--{name}={value}")
}

fn launch(cluster: &Cluster, part: Part, instance: &str, listens: String, args: Vec<String>) -> Launch {
    Launch { instance: instance.to_owned(), program: cluster.program(part), args, listens }
}

fn store(cluster: &Cluster, member: &StoreMember) -> Launch {
    let pki = |name: &str| cluster.layout.pki(&format!("etcd/{name}")).display().to_string();
    let (client, peer) = (member.client_url(), member.peer_url());
    let initial: Vec<_> = cluster.members.iter().map(|other| format!("{}={}", other.name, other.peer_url())).collect();
    let args = vec![
        flag("name", &member.name),
        flag("data-dir", cluster.layout.data(&member.name).display()),
        flag("listen-client-urls", &client),
        flag("advertise-client-urls", &client),
        flag("listen-peer-urls", &peer),
        flag("initial-advertise-peer-urls", &peer),
        flag("initial-cluster", initial.join(",")),
        flag("cert-file", pki("server.crt")),
        flag("key-file", pki("server.key")),
        flag("client-cert-auth", true),
        flag("trusted-ca-file", pki("ca.crt")),
        flag("peer-cert-file", pki("peer.crt")),
        flag("peer-key-file", pki("peer.key")),
        flag("peer-client-cert-auth", true),
        flag("peer-trusted-ca-file", pki("ca.crt")),
        flag("log-format", "console"),
    ];
    launch(cluster, Part::Store, &member.name, format!("{client} (peers {})", member.peer_port), args)
}

fn apiserver(cluster: &Cluster, index: usize, address: IpAddr) -> Launch {
    let instance = if cluster.apiservers.len() == 1 { "apiserver".to_owned() } else { format!("apiserver-{}", index + 1) };
    let pki = |name: &str| cluster.layout.pki(name).display().to_string();
    let mut args = store_of_apiserver(cluster);
    args.extend([
        flag("bind-address", address),
        flag("advertise-address", address),
        flag("secure-port", cluster.ports.apiserver),
        flag("tls-cert-file", pki("apiserver.crt")),
        flag("tls-private-key-file", pki("apiserver.key")),
        flag("client-ca-file", pki("ca.crt")),
        flag("service-cluster-ip-range", SERVICE_RANGE),
        flag("service-account-issuer", "https://kubernetes.default.svc.cluster.local"),
        flag("service-account-key-file", pki("sa.pub")),
        flag("service-account-signing-key-file", pki("sa.key")),
        flag("authorization-mode", "Node,RBAC"),
        flag("enable-admission-plugins", "NodeRestriction"),
        flag("allow-privileged", true),
        flag("kubelet-client-certificate", pki("apiserver-kubelet-client.crt")),
        flag("kubelet-client-key", pki("apiserver-kubelet-client.key")),
        flag("kubelet-certificate-authority", pki("ca.crt")),
        flag("kubelet-preferred-address-types", "InternalIP,Hostname"),
        flag("requestheader-client-ca-file", pki("front-proxy-ca.crt")),
        flag("requestheader-allowed-names", "front-proxy-client"),
        flag("requestheader-username-headers", "X-Remote-User"),
        flag("requestheader-group-headers", "X-Remote-Group"),
        flag("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
        flag("proxy-client-cert-file", pki("front-proxy-client.crt")),
        flag("proxy-client-key-file", pki("front-proxy-client.key")),
        flag("enable-aggregator-routing", true),
    ]);
    launch(cluster, Part::Apiserver, &instance, cluster.server_at(address), args)
}

/// The flags by which an API server finds the store.
fn store_of_apiserver(cluster: &Cluster) -> Vec<String> {
    if !cluster.etcd_servers.is_empty() {
        return vec![flag("etcd-servers", cluster.etcd_servers.join(","))];
    }
    let pki = |name: &str| cluster.layout.pki(name).display().to_string();
    let servers: Vec<_> = cluster.members.iter().map(StoreMember::client_url).collect();
    vec![
        flag("etcd-servers", servers.join(",")),
        flag("etcd-cafile", pki("etcd/ca.crt")),
        flag("etcd-certfile", pki("apiserver-etcd-client.crt")),
        flag("etcd-keyfile", pki("apiserver-etcd-client.key")),
    ]
}

/// Addresses of Services; kubeadm's default.
const SERVICE_RANGE: &str = "10.96.0.0/16";

fn controller_manager(cluster: &Cluster) -> Launch {
    let pki = |name: &str| cluster.layout.pki(name).display().to_string();
    let port = cluster.ports.controller_manager;
    let mut args = vec![
        flag("kubeconfig", cluster.layout.kubeconfig("controller-manager").display()),
        flag("bind-address", LOOPBACK),
        flag("secure-port", port),
        flag("client-ca-file", pki("ca.crt")),
        flag("use-service-account-credentials", true),
        flag("service-account-private-key-file", pki("sa.key")),
        flag("root-ca-file", pki("ca.crt")),
        flag("service-cluster-ip-range", SERVICE_RANGE),
    ];
    if cluster.runtime == Runtime::Containerd {
        args.push(flag("allocate-node-cidrs", true));
        args.push(flag("cluster-cidr", &cluster.pod_range));
    }
    launch(cluster, Part::ControllerManager, "controller-manager", format!("https://{LOOPBACK}:{port}"), args)
}

fn scheduler(cluster: &Cluster) -> Launch {
    let port = cluster.ports.scheduler;
    let args = vec![
        flag("kubeconfig", cluster.layout.kubeconfig("scheduler").display()),
        flag("bind-address", LOOPBACK),
        flag("secure-port", port),
    ];
    launch(cluster, Part::Scheduler, "scheduler", format!("https://{LOOPBACK}:{port}"), args)
}

fn kubelet(cluster: &Cluster, node: &Node) -> Launch {
    let mut args = kubelet_args(cluster, node, &node.instance());
    args.push(flag("hostname-override", &node.name));
    args.push(flag("kubeconfig", cluster.layout.kubeconfig(&node.kubeconfig).display()));
    args.push(flag("tls-cert-file", cluster.layout.pki(&format!("{}.crt", node.kubeconfig)).display()));
    args.push(flag("tls-private-key-file", cluster.layout.pki(&format!("{}.key", node.kubeconfig)).display()));
    args.push("--remove-pods-on-exit".to_owned());
    match cluster.runtime {
        Runtime::Containerd => args.push(flag("container-runtime-endpoint", format!("unix://{}", node.socket(&cluster.layout).display()))),
        runtime => args.push(flag("runtime", runtime.flag())),
    }
    launch(cluster, Part::Kubelet, &node.instance(), format!("https://{LOOPBACK}:{}", node.port), args)
}

/// All hollow nodes live in one process, each with its own kubeconfig.
fn hollow_kubelet(cluster: &Cluster) -> Launch {
    let mut args = kubelet_args(cluster, &cluster.nodes[0], "kubelet");
    args.push(flag("kubeconfig", cluster.layout.root().join("kubelet-{node}.conf").display()));
    args.push(flag("hostname-override", "node"));
    args.push(flag("hollow-nodes", cluster.nodes.len()));
    launch(cluster, Part::Kubelet, "kubelet", format!("{} hollow nodes", cluster.nodes.len()), args)
}

fn kubelet_args(cluster: &Cluster, node: &Node, instance: &str) -> Vec<String> {
    let root = cluster.layout.data(instance);
    vec![
        flag("root-dir", root.display()),
        flag("cert-dir", root.join("pki").display()),
        flag("node-ip", LOOPBACK),
        flag("address", LOOPBACK),
        flag("port", node.port),
        flag("healthz-port", node.healthz_port),
        flag("client-ca-file", cluster.layout.pki("ca.crt").display()),
        // A laptop's nearly full disk is no reason to run nothing.
        flag("eviction-hard", "memory.available<100Mi,nodefs.available<0%"),
    ]
}
