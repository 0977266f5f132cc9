//! What a Node object says about its place in the network.

use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;

/// One node of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) name: String,
    /// Ranges of its pods.
    pub(crate) pods: Vec<IpNet>,
    /// Its InternalIPs.
    pub(crate) addresses: Vec<IpAddr>,
}

impl Peer {
    /// Its first address of the same family as `range`.
    pub(crate) fn address_for(&self, range: &IpNet) -> Option<IpAddr> {
        self.addresses.iter().copied().find(|address| address.is_ipv4() == range.addr().is_ipv4())
    }
}

impl From<&Node> for Peer {
    fn from(node: &Node) -> Self {
        let spec = node.spec.as_ref();
        let several = spec.and_then(|spec| spec.pod_cidrs.as_deref()).unwrap_or_default();
        let one = spec.and_then(|spec| spec.pod_cidr.as_ref());
        let cidrs = if several.is_empty() { one.into_iter().collect::<Vec<_>>() } else { several.iter().collect() };
        let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
        Self {
            name: node.metadata.name.clone().unwrap_or_default(),
            pods: cidrs.into_iter().filter_map(|cidr| cidr.parse().ok()).map(|net: IpNet| net.trunc()).collect(),
            addresses: addresses.filter(|a| a.type_ == "InternalIP").filter_map(|a| a.address.parse().ok()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn peer(node: Value) -> Peer {
        Peer::from(&serde_json::from_value::<Node>(node).unwrap())
    }

    #[test]
    fn takes_all_ranges_and_only_internal_addresses() {
        let peer = peer(json!({
            "metadata": {"name": "node-2"},
            "spec": {"podCIDR": "10.244.2.0/24", "podCIDRs": ["10.244.2.0/24", "fd00:2::/64"]},
            "status": {"addresses": [
                {"type": "Hostname", "address": "node-2"},
                {"type": "ExternalIP", "address": "203.0.113.2"},
                {"type": "InternalIP", "address": "192.0.2.2"},
                {"type": "InternalIP", "address": "2001:db8::2"},
            ]},
        }));
        assert_eq!(peer.pods.iter().map(IpNet::to_string).collect::<Vec<_>>(), ["10.244.2.0/24", "fd00:2::/64"]);
        let next_hops: Vec<_> = peer.pods.iter().map(|range| peer.address_for(range).unwrap().to_string()).collect();
        assert_eq!(next_hops, ["192.0.2.2", "2001:db8::2"]);
    }

    #[test]
    fn a_node_without_ranges_or_with_nonsense_has_none() {
        assert!(peer(json!({"metadata": {"name": "n"}})).pods.is_empty());
        assert!(peer(json!({"metadata": {"name": "n"}, "spec": {"podCIDR": "10.244.2.0"}})).pods.is_empty());
        assert_eq!(peer(json!({"metadata": {"name": "n"}, "spec": {"podCIDR": "10.244.2.0/24"}})).pods.len(), 1);
    }
}
