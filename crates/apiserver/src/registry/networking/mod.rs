//! The resources of group `networking.k8s.io`.

use super::{Resource, cluster, namespaced};

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    vec![
        cluster("networking.k8s.io", "v1", "IngressClass", "ingressclasses"),
        namespaced("networking.k8s.io", "v1", "Ingress", "ingresses").short(&["ing"]).stored_under("ingress").status(),
        cluster("networking.k8s.io", "v1", "IPAddress", "ipaddresses").short(&["ip"]),
        namespaced("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies").short(&["netpol"]),
        cluster("networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs").status(),
    ]
}
