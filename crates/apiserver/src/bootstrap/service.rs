//! The service `kubernetes`: the API itself, at the first address of the service range.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use apimachinery::status::Status;
use ipnet::IpNet;
use serde_json::json;

use super::{BootstrapConfig, object};
use crate::loopback::Loopback;

pub(super) async fn ensure(api: Loopback, config: Arc<BootstrapConfig>) -> Result<(), Status> {
    let Some(address) = config.service_ranges.first().and_then(first_address) else { return Ok(()) };
    let services = api.namespaced("v1", "services", "default");
    let mut service = object("v1", "Service", "default", "kubernetes");
    service.set_label("component", "apiserver");
    service.set_label("provider", "kubernetes");
    let ports = json!([{"name": "https", "protocol": "TCP", "port": 443, "targetPort": config.port}]);
    service.0.insert("spec".into(), json!({"type": "ClusterIP", "clusterIP": address, "ports": ports, "sessionAffinity": "None"}));
    let Some(mut found) = services.get_opt("kubernetes").await? else {
        return super::ensure(&services, &service).await;
    };
    // Another port since the last start; a server of another port that runs beside this one would take turns with it.
    if config.service_is_set.swap(true, Ordering::AcqRel) || found.pointer("/spec/ports") == Some(&ports) {
        return Ok(());
    }
    if let Some(stored) = found.pointer_mut("/spec/ports") {
        *stored = ports;
    }
    services.update(&found).await.map(drop)
}

/// The first usable address: the one after the network's own.
fn first_address(range: &IpNet) -> Option<IpAddr> {
    range.hosts().next().filter(|first| *first != range.network()).or_else(|| range.hosts().nth(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_has_the_first_address_of_the_range() {
        let first = |range: &str| first_address(&range.parse().unwrap()).unwrap().to_string();
        assert_eq!(first("10.96.0.0/16"), "10.96.0.1");
        assert_eq!(first("fd00::/108"), "fd00::1");
    }
}
