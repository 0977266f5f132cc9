//! Which routes there should be, and what to do about those there are. Pure.

use std::{collections::BTreeMap, fmt, net::IpAddr};

use ipnet::IpNet;

use crate::peer::Peer;

/// A route that this program made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// Pods of another node.
    pub(crate) to: IpNet,
    /// That node; absent for a route that somebody has changed into something else.
    pub(crate) via: Option<IpAddr>,
}

/// One change of the kernel's routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// There is none yet. Must fail when somebody else has a route there.
    Add { to: IpNet, via: IpAddr },
    /// There is one of our own, by another way.
    Replace { to: IpNet, via: IpAddr },
    /// There is one that leads to no node.
    Remove { to: IpNet },
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add { to, via } => write!(f, "add route to {to} via {via}"),
            Self::Replace { to, via } => write!(f, "lead route to {to} via {via}"),
            Self::Remove { to } => write!(f, "remove route to {to}"),
        }
    }
}

/// The routes that there should be, and the ranges that get none, with the reason.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) routes: BTreeMap<IpNet, IpAddr>,
    pub(crate) refused: Vec<String>,
}

/// Routes to the pods of every node but `own`.
pub(crate) fn wanted(peers: &[Peer], own: &str, cluster: &[IpNet]) -> Wanted {
    let here = peers.iter().find(|peer| peer.name == own).cloned().unwrap_or_default();
    let mut wanted = Wanted::default();
    for peer in peers.iter().filter(|peer| peer.name != own) {
        for range in &peer.pods {
            match next_hop(peer, range, &here, cluster, &wanted.routes) {
                // A node at our own address is on this machine, and so are its pods.
                Ok(via) if here.addresses.contains(&via) => {}
                Ok(via) => drop(wanted.routes.insert(*range, via)),
                Err(reason) => wanted.refused.push(format!("pod range {range} of node {}: {reason}", peer.name)),
            }
        }
    }
    wanted
}

/// A node is believed only about ranges that are the cluster's and nobody else's: any other would take traffic away.
fn next_hop(peer: &Peer, range: &IpNet, here: &Peer, cluster: &[IpNet], taken: &BTreeMap<IpNet, IpAddr>) -> Result<IpAddr, &'static str> {
    let overlaps = |other: &IpNet| other.contains(range) || range.contains(other);
    if !cluster.iter().any(|all| all.contains(range)) {
        return Err("not in --cluster-cidr");
    }
    if here.pods.iter().any(overlaps) {
        return Err("overlaps this node's own");
    }
    if taken.keys().any(overlaps) {
        return Err("overlaps that of another node");
    }
    peer.address_for(range).ok_or("no InternalIP of its family")
}

/// What makes the `present` routes of one family the wanted ones; removals first, for a range may have been cut anew.
pub(crate) fn plan(wanted: &BTreeMap<IpNet, IpAddr>, present: &[Route]) -> Vec<Action> {
    let has = |to: &IpNet| present.iter().find(|route| route.to == *to);
    let removals = present.iter().filter(|route| !wanted.contains_key(&route.to)).map(|route| Action::Remove { to: route.to });
    let rest = wanted.iter().filter_map(|(&to, &via)| match has(&to) {
        None => Some(Action::Add { to, via }),
        Some(route) if route.via != Some(via) => Some(Action::Replace { to, via }),
        Some(_) => None,
    });
    removals.chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: &str = "10.244.0.0/16";

    fn peer(name: &str, pods: &str, address: &str) -> Peer {
        Peer { name: name.into(), pods: vec![pods.parse().unwrap()], addresses: vec![address.parse().unwrap()] }
    }

    fn three() -> Vec<Peer> {
        vec![
            peer("node-1", "10.244.0.0/24", "192.0.2.1"),
            peer("node-2", "10.244.1.0/24", "192.0.2.2"),
            peer("node-3", "10.244.2.0/24", "192.0.2.3"),
        ]
    }

    fn route(to: &str, via: &str) -> Route {
        Route { to: to.parse().unwrap(), via: via.parse().ok() }
    }

    /// What is done on node-1, as text.
    fn actions(peers: &[Peer], present: &[Route]) -> Vec<String> {
        let wanted = wanted(peers, "node-1", &[CLUSTER.parse().unwrap()]);
        plan(&wanted.routes, present).iter().map(Action::to_string).collect()
    }

    fn refusals(peers: &[Peer]) -> Vec<String> {
        wanted(peers, "node-1", &[CLUSTER.parse().unwrap()]).refused
    }

    #[test]
    fn leads_to_every_node_but_its_own() {
        let expected = ["add route to 10.244.1.0/24 via 192.0.2.2", "add route to 10.244.2.0/24 via 192.0.2.3"];
        assert_eq!(actions(&three(), &[]), expected);
    }

    #[test]
    fn leaves_alone_what_is_as_it_should_be_and_brings_back_what_was_deleted() {
        let present = [route("10.244.1.0/24", "192.0.2.2"), route("10.244.2.0/24", "192.0.2.3")];
        assert!(actions(&three(), &present).is_empty());
        assert_eq!(actions(&three(), &present[..1]), ["add route to 10.244.2.0/24 via 192.0.2.3"]);
    }

    #[test]
    fn a_node_that_goes_takes_its_route_with_it() {
        let present = [route("10.244.1.0/24", "192.0.2.2"), route("10.244.2.0/24", "192.0.2.3")];
        assert_eq!(actions(&three()[..2], &present), ["remove route to 10.244.2.0/24"]);
    }

    #[test]
    fn a_node_at_another_address_is_reached_there() {
        let mut peers = three();
        peers[1] = peer("node-2", "10.244.1.0/24", "192.0.2.22");
        let present = [route("10.244.1.0/24", "192.0.2.2"), route("10.244.2.0/24", "somewhere else")];
        let expected = ["lead route to 10.244.1.0/24 via 192.0.2.22", "lead route to 10.244.2.0/24 via 192.0.2.3"];
        assert_eq!(actions(&peers, &present), expected);
    }

    #[test]
    fn a_node_with_another_range_loses_the_old_route_before_it_gets_the_new() {
        let mut peers = three();
        peers[1] = peer("node-2", "10.244.1.0/25", "192.0.2.2");
        let present = [route("10.244.1.0/24", "192.0.2.2"), route("10.244.2.0/24", "192.0.2.3")];
        let expected = ["remove route to 10.244.1.0/24", "add route to 10.244.1.0/25 via 192.0.2.2"];
        assert_eq!(actions(&peers, &present), expected);
    }

    #[test]
    fn nodes_on_one_machine_need_no_routes() {
        let peers = [peer("node-1", "10.244.0.0/24", "127.0.0.1"), peer("node-2", "10.244.1.0/24", "127.0.0.1")];
        assert!(actions(&peers, &[]).is_empty());
        assert!(refusals(&peers).is_empty());
    }

    #[test]
    fn a_node_cannot_take_traffic_that_is_not_its_own() {
        let mut peers = three();
        peers.push(peer("node-4", "0.0.0.0/0", "192.0.2.4"));
        peers.push(peer("node-5", "10.244.0.128/25", "192.0.2.5"));
        peers.push(peer("node-6", "10.244.1.0/28", "192.0.2.6"));
        assert_eq!(actions(&peers, &[]).len(), 2);
        let expected = [
            "pod range 0.0.0.0/0 of node node-4: not in --cluster-cidr",
            "pod range 10.244.0.128/25 of node node-5: overlaps this node's own",
            "pod range 10.244.1.0/28 of node node-6: overlaps that of another node",
        ];
        assert_eq!(refusals(&peers), expected);
    }

    #[test]
    fn a_range_without_an_address_of_its_family_gets_no_route() {
        let mut peers = three();
        peers[1] = peer("node-2", "10.244.1.0/24", "2001:db8::2");
        assert_eq!(actions(&peers, &[]), ["add route to 10.244.2.0/24 via 192.0.2.3"]);
        assert_eq!(refusals(&peers), ["pod range 10.244.1.0/24 of node node-2: no InternalIP of its family"]);
    }

    #[test]
    fn routes_stand_before_the_own_node_is_known() {
        assert_eq!(actions(&three()[1..], &[]).len(), 2);
    }
}
