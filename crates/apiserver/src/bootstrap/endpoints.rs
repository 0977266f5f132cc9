//! Where the service `kubernetes` leads: to every API server that lives. Upstream: the lease endpoint reconciler.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use apimachinery::{Object, status::Status};
use component::backoff::Backoff;
use serde_json::{Value, json};

use super::{BootstrapConfig, object};
use crate::loopback::{Api, Loopback};

const NAME: &str = "kubernetes";
/// Upstream's words.
const NOBODY: &str = "no API server IP addresses were listed in storage, refusing to erase all endpoints for the kubernetes Service";

/// Says that this server lives, and brings the endpoints in line with all that do.
pub(super) async fn reconcile(api: Loopback, config: Arc<BootstrapConfig>) -> Result<(), Status> {
    let Some(masters) = &config.masters else { return Ok(()) };
    masters.renew().await?;
    let live = masters.live().await?;
    if live.is_empty() {
        return Err(Status::internal(NOBODY));
    }
    // Servers of different ports would take turns: each sets them once, when it starts.
    let reset = !config.port_is_set.load(Ordering::Acquire);
    publish(&api, &live, masters.own(), port_named(config.port), reset).await?;
    config.port_is_set.store(true, Ordering::Release);
    Ok(())
}

/// Leads nobody here any more; the caller bounds its time. Who never led anybody here does nothing.
pub(super) async fn withdraw(api: Loopback, config: Arc<BootstrapConfig>) -> Result<(), Status> {
    let Some(masters) = config.masters.as_ref().filter(|_| config.port_is_set.load(Ordering::Acquire)) else { return Ok(()) };
    masters.remove().await?;
    let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(200));
    loop {
        match publish(&api, &masters.live().await?, masters.own(), port_named(config.port), false).await {
            // Another server came first, with or without us in what it wrote.
            Err(status) if status.code == 409 => backoff.wait().await,
            published => return published,
        }
    }
}

async fn publish(api: &Loopback, live: &BTreeSet<IpAddr>, own: IpAddr, port: Value, reset: bool) -> Result<(), Status> {
    let endpoints = api.namespaced("v1", "endpoints", "default");
    let found = endpoints.get_opt(NAME).await?;
    let kept = found.as_ref().filter(|_| !reset).and_then(ports);
    let ports = kept.unwrap_or_else(|| json!([port]));
    apply(&endpoints, found, self::endpoints(live, &ports), &["subsets"]).await?;
    let slices = api.namespaced("discovery.k8s.io/v1", "endpointslices", "default");
    let found = slices.get_opt(NAME).await?;
    apply(&slices, found, slice(live, own, ports), &["endpoints", "ports"]).await
}

/// The ports of endpoints of the form kept here.
fn ports(endpoints: &Object) -> Option<Value> {
    let subsets = endpoints.0.get("subsets")?.as_array()?;
    let [subset] = subsets.as_slice() else { return None };
    subset.get("ports").filter(|ports| ports.as_array().is_some_and(|ports| !ports.is_empty())).cloned()
}

/// Creates the object, or brings the named fields of the stored one in line.
async fn apply(api: &Api, found: Option<Object>, wanted: Object, fields: &[&str]) -> Result<(), Status> {
    let Some(mut found) = found else { return super::ensure(api, &wanted).await };
    if fields.iter().all(|field| found.0.get(*field) == wanted.0.get(*field)) {
        return Ok(());
    }
    for field in fields {
        match wanted.0.get(*field) {
            Some(value) => found.0.insert((*field).to_owned(), value.clone()),
            None => found.0.remove(*field),
        };
    }
    api.update(&found).await.map(drop)
}

fn endpoints(live: &BTreeSet<IpAddr>, ports: &Value) -> Object {
    let mut endpoints = object("v1", "Endpoints", "default", NAME);
    endpoints.set_label("endpointslice.kubernetes.io/skip-mirror", "true");
    let addresses: Vec<Value> = live.iter().map(|address| json!({"ip": address})).collect();
    // A subset without addresses is none.
    if !addresses.is_empty() {
        endpoints.0.insert("subsets".into(), json!([{"addresses": addresses, "ports": ports}]));
    }
    endpoints
}

fn slice(live: &BTreeSet<IpAddr>, own: IpAddr, ports: Value) -> Object {
    let mut slice = object("discovery.k8s.io/v1", "EndpointSlice", "default", NAME);
    slice.set_label("kubernetes.io/service-name", NAME);
    let endpoints: Vec<Value> = live.iter().map(|address| json!({"addresses": [address], "conditions": {"ready": true}})).collect();
    slice.0.insert("addressType".into(), if own.is_ipv4() { "IPv4" } else { "IPv6" }.into());
    slice.0.insert("endpoints".into(), endpoints.into());
    slice.0.insert("ports".into(), ports);
    slice
}

fn port_named(port: u16) -> Value {
    json!({"name": "https", "port": port, "protocol": "TCP"})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(addresses: &[&str]) -> BTreeSet<IpAddr> {
        addresses.iter().map(|address| address.parse().unwrap()).collect()
    }

    #[test]
    fn endpoints_and_slice_lead_to_all_that_live_at_one_port() {
        let (live, ports) = (live(&["10.0.0.2", "10.0.0.1"]), json!([port_named(6443)]));
        let endpoints = endpoints(&live, &ports);
        assert_eq!(endpoints.0["subsets"], json!([{"addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}], "ports": ports}]));
        assert_eq!(self::ports(&endpoints).as_ref(), Some(&ports));
        let slice = slice(&live, "10.0.0.1".parse().unwrap(), ports.clone());
        assert_eq!((slice.str_at("/addressType"), slice.0["endpoints"].as_array().unwrap().len(), &slice.0["ports"]), ("IPv4", 2, &ports));
    }

    #[test]
    fn the_last_server_leaves_no_subset_behind() {
        let endpoints = endpoints(&live(&[]), &json!([port_named(6443)]));
        assert_eq!((endpoints.0.get("subsets"), ports(&endpoints)), (None, None));
    }
}
