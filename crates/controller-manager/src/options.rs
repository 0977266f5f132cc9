//! What the flags say to the controllers.

use std::time::Duration;

use ipnet::IpNet;

/// Settings of the controllers, each named after its flag.
#[derive(Clone, Debug)]
pub struct Options {
    /// Workers per controller.
    pub concurrent: Concurrency,
    /// PEM bundle published to every namespace; not published when absent.
    pub root_ca: Option<String>,
    /// Ranges from which nodes get their pod ranges; none are given out when empty.
    pub cluster_cidrs: Vec<IpNet>,
    /// Ranges of services, which nodes must not get.
    pub service_cidrs: Vec<IpNet>,
    /// Prefix length of a node's IPv4 range.
    pub node_mask_ipv4: u8,
    /// Prefix length of a node's IPv6 range.
    pub node_mask_ipv6: u8,
    /// Pause between two looks at all nodes.
    pub node_monitor_period: Duration,
    /// Silence after which a node counts as gone.
    pub node_monitor_grace_period: Duration,
    /// Silence after which a node that never reported counts as gone.
    pub node_startup_grace_period: Duration,
    /// Nodes per second that may be tainted for eviction in a healthy zone.
    pub node_eviction_rate: f64,
    /// The same in an unhealthy zone of a large cluster.
    pub secondary_node_eviction_rate: f64,
    /// Nodes from which a zone counts as large.
    pub large_cluster_size: usize,
    /// Fraction of nodes not ready from which a zone counts as unhealthy.
    pub unhealthy_zone_threshold: f64,
    /// Finished pods to keep; all are kept when zero.
    pub terminated_pod_threshold: usize,
    /// The most endpoints in one slice.
    pub max_endpoints_per_slice: usize,
    /// Whether the garbage collector runs.
    pub collect_garbage: bool,
}

/// Workers per controller.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Concurrency {
    pub deployment: usize,
    pub replicaset: usize,
    pub statefulset: usize,
    pub daemonset: usize,
    pub job: usize,
    pub endpoint: usize,
    pub service_endpoint: usize,
    pub namespace: usize,
    pub gc: usize,
}
