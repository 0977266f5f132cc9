//! Where the service `kubernetes` leads: to every API server whose lease is fresh.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use apimachinery::{Object, status::Status};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{BootstrapConfig, identity, object};
use crate::loopback::{Api, Loopback};

const NAME: &str = "kubernetes";
/// A server that has not renewed its lease for so long is not led to any more; it renews every 10 s.
const FRESH_SECONDS: i64 = 40;

pub(super) async fn reconcile(api: Loopback, config: Arc<BootstrapConfig>) -> Result<(), Status> {
    let Some(own) = config.advertise else { return Ok(()) };
    let leases = api.namespaced("coordination.k8s.io/v1", "leases", identity::NAMESPACE);
    let now = component::clock::now();
    let found = leases.list(identity::SELECTOR).await?.items;
    for expired in found.iter().filter(|lease| is_expired(lease, now)) {
        leases.delete(expired.name(), &json!({"preconditions": {"uid": expired.uid()}})).await.or_else(gone)?;
    }
    let addresses = addresses(&found, own, now);
    apply(&api.namespaced("v1", "endpoints", "default"), endpoints(&addresses, config.port), &["subsets"]).await?;
    let slices = api.namespaced("discovery.k8s.io/v1", "endpointslices", "default");
    apply(&slices, slice(&addresses, own, config.port), &["endpoints", "ports"]).await
}

fn gone(status: Status) -> Result<(), Status> {
    if matches!(status.code, 404 | 409) { Ok(()) } else { Err(status) }
}

/// Creates the object, or brings the named fields of the stored one in line.
async fn apply(api: &Api, wanted: Object, fields: &[&str]) -> Result<(), Status> {
    let Some(mut found) = api.get_opt(wanted.name()).await? else {
        return super::ensure(api, &wanted).await;
    };
    if fields.iter().all(|field| found.0.get(*field) == wanted.0.get(*field)) {
        return Ok(());
    }
    for field in fields {
        found.0.insert((*field).to_owned(), wanted.0.get(*field).cloned().unwrap_or_default());
    }
    api.update(&found).await.map(drop)
}

fn renewed(lease: &Object) -> Option<Timestamp> {
    lease.str_at("/spec/renewTime").parse().ok()
}

fn is_expired(lease: &Object, now: Timestamp) -> bool {
    let duration = lease.pointer("/spec/leaseDurationSeconds").and_then(Value::as_i64).unwrap_or(0);
    renewed(lease).is_some_and(|at| now.as_second() - at.as_second() > duration)
}

/// The addresses of all fresh servers, and our own.
fn addresses(leases: &[Object], own: IpAddr, now: Timestamp) -> BTreeSet<IpAddr> {
    let fresh = leases.iter().filter(|lease| renewed(lease).is_some_and(|at| now.as_second() - at.as_second() <= FRESH_SECONDS));
    let others = fresh.filter_map(|lease| lease.annotation(identity::ADDRESS)?.parse::<SocketAddr>().ok()).map(|address| address.ip());
    others.chain([own]).filter(|address| address.is_ipv4() == own.is_ipv4()).collect()
}

fn endpoints(addresses: &BTreeSet<IpAddr>, port: u16) -> Object {
    let mut endpoints = object("v1", "Endpoints", "default", NAME);
    endpoints.set_label("endpointslice.kubernetes.io/skip-mirror", "true");
    let addresses: Vec<Value> = addresses.iter().map(|address| json!({"ip": address})).collect();
    endpoints.0.insert("subsets".into(), json!([{"addresses": addresses, "ports": [port_named(port)]}]));
    endpoints
}

fn slice(addresses: &BTreeSet<IpAddr>, own: IpAddr, port: u16) -> Object {
    let mut slice = object("discovery.k8s.io/v1", "EndpointSlice", "default", NAME);
    slice.set_label("kubernetes.io/service-name", NAME);
    let endpoints: Vec<Value> = addresses.iter().map(|address| json!({"addresses": [address], "conditions": {"ready": true}})).collect();
    slice.0.insert("addressType".into(), if own.is_ipv4() { "IPv4" } else { "IPv6" }.into());
    slice.0.insert("endpoints".into(), endpoints.into());
    slice.0.insert("ports".into(), json!([port_named(port)]));
    slice
}

fn port_named(port: u16) -> Value {
    json!({"name": "https", "port": port, "protocol": "TCP"})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(address: &str, renewed: &str) -> Object {
        let lease = json!({
            "metadata": {"annotations": {identity::ADDRESS: address}},
            "spec": {"renewTime": renewed, "leaseDurationSeconds": 3600},
        });
        Object::from_value(lease).unwrap()
    }

    #[test]
    fn leads_to_fresh_servers_and_ourselves() {
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let leases = [lease("10.0.0.2:6443", "2026-01-01T00:09:55.000000Z"), lease("10.0.0.3:6443", "2026-01-01T00:09:00.000000Z")];
        let found: Vec<String> = addresses(&leases, "10.0.0.1".parse().unwrap(), now).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["10.0.0.1", "10.0.0.2"]);
    }

    #[test]
    fn a_lease_expires_after_its_duration() {
        let now: Timestamp = "2026-01-01T02:00:00Z".parse().unwrap();
        assert!(is_expired(&lease("", "2026-01-01T00:59:59.000000Z"), now));
        assert!(!is_expired(&lease("", "2026-01-01T01:00:00.000000Z"), now));
    }
}
