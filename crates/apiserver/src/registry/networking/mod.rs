//! The resources of group `networking.k8s.io`.

mod ingress;
mod ingressclass;
mod ipaddress;
mod networkpolicy;
mod servicecidr;

use super::{Resource, cluster, namespaced};

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    vec![
        cluster("networking.k8s.io", "v1", "IngressClass", "ingressclasses").strategy(ingressclass::IngressClass),
        namespaced("networking.k8s.io", "v1", "Ingress", "ingresses")
            .short(&["ing"])
            .stored_under("ingress")
            .status()
            .strategy(ingress::Ingress),
        cluster("networking.k8s.io", "v1", "IPAddress", "ipaddresses").short(&["ip"]).strategy(ipaddress::IpAddress),
        namespaced("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies").short(&["netpol"]).strategy(networkpolicy::NetworkPolicy),
        cluster("networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs").status().strategy(servicecidr::ServiceCidr),
    ]
}
