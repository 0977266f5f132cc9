//! The shape of one cluster: members, nodes, ports, paths; and its PKI.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Context, bail};
use nix::fcntl::Flock;

use crate::cli::{Runtime, UpFlags};
use crate::containerd;
use crate::layout::Layout;
use crate::parts::{LOOPBACK, Part};
use crate::pki::roster::{NodeFiles, Roster};
use crate::ports::Ports;

/// One member of the store.
#[derive(Clone, Debug)]
pub(crate) struct StoreMember {
    pub(crate) name: String,
    pub(crate) client_port: u16,
    pub(crate) peer_port: u16,
}

impl StoreMember {
    pub(crate) fn client_url(&self) -> String {
        format!("https://{LOOPBACK}:{}", self.client_port)
    }

    pub(crate) fn peer_url(&self) -> String {
        format!("https://{LOOPBACK}:{}", self.peer_port)
    }
}

/// One node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// Base name of its kubeconfig and serving certificate.
    pub(crate) kubeconfig: String,
    pub(crate) port: u16,
    pub(crate) healthz_port: u16,
    /// Addresses of its pods under containerd when no controller manager gives them out.
    pub(crate) pod_range: String,
    /// Network bridge of its pods under containerd.
    pub(crate) bridge: String,
}

impl Node {
    pub(crate) fn instance(&self) -> String {
        format!("kubelet-{}", self.name)
    }

    /// Directory of the node's own containerd.
    pub(crate) fn containerd(&self, layout: &Layout) -> PathBuf {
        layout.data(&format!("containerd-{}", self.name))
    }

    pub(crate) fn socket(&self, layout: &Layout) -> PathBuf {
        self.containerd(layout).join("containerd.sock")
    }
}

/// The ports of the parts that stand alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartPorts {
    pub(crate) apiserver: u16,
    pub(crate) controller_manager: u16,
    pub(crate) scheduler: u16,
}

/// Everything that is decided before the first process starts.
pub(crate) struct Cluster {
    pub(crate) layout: Layout,
    pub(crate) runtime: Runtime,
    pub(crate) parts: Vec<Part>,
    pub(crate) members: Vec<StoreMember>,
    /// Another store than the members; none where these are it.
    pub(crate) etcd_servers: Vec<String>,
    /// Where the API servers listen, all on one port: the service `kubernetes` has but one.
    pub(crate) apiservers: Vec<IpAddr>,
    pub(crate) nodes: Vec<Node>,
    /// Addresses of all pods under containerd.
    pub(crate) pod_range: String,
    pub(crate) ports: PartPorts,
    programs: PathBuf,
    /// Keeps other clusters off the ports above.
    _ports: Vec<Flock<File>>,
}

impl Cluster {
    /// Decides shape and ports.
    ///
    /// # Errors
    /// When a binary is missing, or the runtime cannot work here.
    pub(crate) fn plan(flags: &UpFlags, layout: Layout) -> anyhow::Result<Self> {
        let mut free = Ports::new()?;
        let runtime = containerd::choose(flags.runtime)?;
        let members = if flags.etcd_servers.is_empty() { flags.store_members } else { 0 };
        let members = (1..=members).map(|number| member(&mut free, number)).collect::<Result<Vec<_>, _>>()?;
        let ports = PartPorts { apiserver: free.take(6443)?, controller_manager: free.take(10257)?, scheduler: free.take(10259)? };
        let count = if flags.components.contains(&Part::Kubelet) { flags.nodes } else { 0 };
        let nodes = (1..=count).map(|number| node(&mut free, &layout, number, count, runtime)).collect::<Result<Vec<_>, _>>()?;
        let mut parts: Vec<_> = Part::ALL.into_iter().filter(|part| flags.components.contains(part)).collect();
        if nodes.is_empty() {
            parts.retain(|part| *part != Part::Kubelet);
        }
        if members.is_empty() {
            parts.retain(|part| *part != Part::Store);
        }
        let pod_range = format!("10.{}.0.0/16", second_byte(&layout));
        let apiservers = (1..=flags.apiservers).map(|number| IpAddr::from([127, 0, 0, number])).collect();
        let etcd_servers = flags.etcd_servers.clone();
        let (programs, _ports) = (programs()?, free.release());
        let cluster = Self { layout, runtime, parts, members, etcd_servers, apiservers, nodes, pod_range, ports, programs, _ports };
        match cluster.parts.iter().find(|part| !cluster.program(**part).is_file()) {
            Some(missing) => bail!("{} is missing: build it with `make build`", cluster.program(*missing).display()),
            None => Ok(cluster),
        }
    }

    /// The binary of a part, beside this one.
    pub(crate) fn program(&self, part: Part) -> PathBuf {
        self.programs.join(part.binary())
    }

    /// The API server's URL; where there are several, the first one's.
    pub(crate) fn server(&self) -> String {
        self.server_at(LOOPBACK)
    }

    /// The URL of the API server at one address.
    pub(crate) fn server_at(&self, address: IpAddr) -> String {
        format!("https://{address}:{}", self.ports.apiserver)
    }

    /// Writes keys, certificates and kubeconfigs.
    pub(crate) fn write_pki(&self) -> anyhow::Result<()> {
        let files = |node: &Node| NodeFiles { node: node.name.clone(), layout: self.layout.clone(), base: node.kubeconfig.clone() };
        let roster = Roster {
            endpoint: self.server(),
            admin_endpoint: self.server(),
            apiserver_ips: self.apiservers.clone(),
            nodes: self.nodes.iter().map(files).collect(),
            ..Roster::default()
        };
        roster.write(&self.layout)
    }
}

fn member(free: &mut Ports, number: usize) -> anyhow::Result<StoreMember> {
    let shift = u16::try_from(number - 1).unwrap_or(0) * 10_000;
    let name = format!("store-{number}");
    Ok(StoreMember { name, client_port: free.take(2379 + shift)?, peer_port: free.take(2380 + shift)? })
}

fn node(free: &mut Ports, layout: &Layout, number: usize, count: usize, runtime: Runtime) -> anyhow::Result<Node> {
    let name = format!("node-{number}");
    let alone = count == 1 && runtime != Runtime::Hollow;
    let kubeconfig = if alone { "kubelet".to_owned() } else { format!("kubelet-{name}") };
    // One process serves all hollow nodes: only the first's ports are used.
    let usual = |port: u16| if number == 1 { port } else { 0 };
    let (port, healthz_port) =
        if runtime == Runtime::Hollow && number > 1 { (0, 0) } else { (free.take(usual(10250))?, free.take(usual(10248))?) };
    let number = number % 256;
    let pod_range = format!("10.{}.{number}.0/24", second_byte(layout));
    let bridge = format!("qd{:07x}.{number}", number_of(layout) & 0xfff_ffff);
    Ok(Node { name, kubeconfig, port, healthz_port, pod_range, bridge })
}

/// Of the addresses of a cluster's pods.
fn second_byte(layout: &Layout) -> u64 {
    128 + number_of(layout) % 96
}

/// Tells a cluster from others on the machine: those side by side must not share bridges or addresses.
fn number_of(layout: &Layout) -> u64 {
    let mut hasher = DefaultHasher::new();
    layout.root().hash(&mut hasher);
    hasher.finish()
}

fn programs() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("find this program's own path")?;
    Ok(own.parent().map(PathBuf::from).unwrap_or_default())
}
