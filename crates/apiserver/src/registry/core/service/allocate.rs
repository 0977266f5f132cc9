//! Takes a service's addresses and node ports when it is written, and gives them back when it goes or the write fails.
//!
//! An address is held by an IPAddress object of its name: creating it is the allocation, so two servers cannot give
//! the same address away.

use std::{net::IpAddr, str::FromStr};

use apimachinery::{
    Object,
    field::{Error, Path},
    status::Status,
};
use futures::FutureExt;
use ipnet::IpNet;
use rand::Rng;
use serde_json::{Value, json};

use super::{Service, invalid, is_headless, needs_cluster_ip, node_ports};
use crate::{
    loopback::{Api, Loopback},
    registry::{
        Finish,
        addresses::family,
        check::At,
        edit::{ensure_object, strings},
    },
    request::RequestContext,
};

/// Random picks before the taken addresses are looked at.
const BLIND_PICKS: usize = 8;
/// An IPAddress without its service is left over from a failed write once it is this old.
const STALE_AFTER: jiff::SignedDuration = jiff::SignedDuration::from_secs(60);

/// What a write has taken, or what it makes free.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Cluster IPs.
    pub(crate) ips: Vec<String>,
    /// Node ports.
    pub(crate) ports: Vec<u16>,
}

/// Allocates for a new service.
pub(crate) async fn for_create(service: &Service, ctx: &RequestContext, api: &Loopback, obj: &mut Object) -> Result<Finish, Status> {
    take_all(service, ctx, api, obj, &Object::default()).await
}

/// Allocates what the new form needs beyond the old; what only the old one had is given back once it is stored.
pub(crate) async fn for_update(
    service: &Service,
    ctx: &RequestContext,
    api: &Loopback,
    obj: &mut Object,
    old: &Object,
) -> Result<Finish, Status> {
    take_all(service, ctx, api, obj, old).await
}

async fn take_all(service: &Service, ctx: &RequestContext, api: &Loopback, obj: &mut Object, old: &Object) -> Result<Finish, Status> {
    let mut taken = Held::default();
    let outcome = async {
        take_ips(service, ctx, api, obj, old, &mut taken).await?;
        node_ports::take(service, ctx, api, obj, old, &mut taken).await
    };
    if let Err(status) = outcome.await {
        give_back(service, api, &taken).await;
        return Err(status);
    }
    if ctx.dry_run {
        return Ok(None);
    }
    let freed = freed(obj, old);
    let (service, api) = (service.clone(), api.clone());
    Ok(Some(Box::new(move |stored| async move { give_back(&service, &api, if stored { &freed } else { &taken }).await }.boxed())))
}

/// What the old service held and the new one does not.
fn freed(obj: &Object, old: &Object) -> Held {
    let (mut held, keeps) = (held_by(old), held_by(obj));
    held.ips.retain(|ip| !keeps.ips.contains(ip));
    held.ports.retain(|port| !keeps.ports.contains(port));
    held
}

fn held_by(obj: &Object) -> Held {
    let ips = At::field(obj, "spec").get("clusterIPs").strs().into_iter().filter(|ip| *ip != "None" && !ip.is_empty());
    Held { ips: ips.map(str::to_owned).collect(), ports: node_ports::of(obj) }
}

/// Gives back everything a deleted service held.
pub(crate) async fn release(service: &Service, api: &Loopback, obj: &Object) {
    give_back(service, api, &held_by(obj)).await;
}

async fn give_back(service: &Service, api: &Loopback, held: &Held) {
    for ip in &held.ips {
        if let Err(status) = ip_addresses(api).delete(ip, &json!({})).await
            && status.code != 404
        {
            tracing::warn!(ip, error = %status.message, "an address of a service could not be released");
        }
    }
    if !held.ports.is_empty()
        && let Err(status) = node_ports::give_back(service, api, &held.ports).await
    {
        tracing::warn!(ports = ?held.ports, error = %status.message, "node ports of a service could not be released");
    }
}

fn ip_addresses(api: &Loopback) -> Api {
    api.api("networking.k8s.io/v1", "ipaddresses")
}

async fn take_ips(
    service: &Service,
    ctx: &RequestContext,
    api: &Loopback,
    obj: &mut Object,
    old: &Object,
    taken: &mut Held,
) -> Result<(), Status> {
    if !needs_cluster_ip(obj) || is_headless(obj) {
        return Ok(());
    }
    let spec = obj.0.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
    let (families, mut ips) = (strings(&spec, "ipFamilies"), strings(&spec, "clusterIPs"));
    let ours = held_by(old).ips;
    for (index, wanted) in families.iter().enumerate() {
        let range = service.ranges.iter().find(|range| family(range.addr()) == wanted);
        match ips.get(index).cloned() {
            Some(ip) if ours.contains(&ip) || ctx.dry_run => {}
            Some(ip) => {
                take_one(ctx, api, obj, range, &ip).await?;
                taken.ips.push(ip);
            }
            None => {
                let ip = next_ip(ctx, api, obj, range).await?;
                taken.ips.push(ip.clone());
                ips.push(ip);
            }
        }
    }
    let spec = ensure_object(&mut obj.0, "spec");
    if let Some(first) = ips.first() {
        spec.insert("clusterIP".into(), json!(first));
        spec.insert("clusterIPs".into(), json!(ips));
    }
    Ok(())
}

/// Takes the address a service asks for.
async fn take_one(ctx: &RequestContext, api: &Loopback, obj: &Object, range: Option<&IpNet>, ip: &str) -> Result<(), Status> {
    let at = At::field(obj, "spec").get("clusterIPs");
    let refuse = |why: String| {
        let detail = format!("failed to allocate IP {ip}: {why}");
        invalid(obj, vec![Error::invalid(&Path::new("spec").child("clusterIPs"), at.value.clone(), detail)])
    };
    // What does not parse is reported by validation.
    let Ok(address) = IpAddr::from_str(ip) else { return Ok(()) };
    let Some(range) = range.filter(|range| usable(range, address)) else {
        let ranges = range.map(ToString::to_string).unwrap_or_default();
        return Err(refuse(format!("the provided IP ({ip}) is not in the valid range. The range of valid IPs is {ranges}")));
    };
    match claim(ctx, api, obj, address).await? {
        true => Ok(()),
        false if take_over_stale(ctx, api, ip).await? && claim(ctx, api, obj, address).await? => Ok(()),
        false => {
            tracing::debug!(ip, %range, "a service asked for an address in use");
            Err(refuse("provided IP is already allocated".into()))
        }
    }
}

/// Takes any free address of the range.
async fn next_ip(ctx: &RequestContext, api: &Loopback, obj: &Object, range: Option<&IpNet>) -> Result<String, Status> {
    let range = range.ok_or_else(|| Status::internal("failed to allocate a serviceIP: no range of that family is configured"))?;
    for _ in 0..BLIND_PICKS {
        let Some(ip) = nth(range, random_index(range)) else { continue };
        if ctx.dry_run || claim(ctx, api, obj, ip).await? {
            return Ok(ip.to_string());
        }
    }
    let listed = ip_addresses(api).list("").await?.items;
    let used: std::collections::BTreeSet<String> = listed.iter().map(|ip| ip.name().to_owned()).collect();
    let (start, size) = (random_index(range), size(range));
    for index in (start..size).chain(1..start) {
        let Some(ip) = nth(range, index).filter(|ip| !used.contains(&ip.to_string())) else { continue };
        if claim(ctx, api, obj, ip).await? {
            return Ok(ip.to_string());
        }
    }
    Err(Status::internal("failed to allocate a serviceIP: range is full"))
}

/// Creates the IPAddress; false where it exists already.
async fn claim(_ctx: &RequestContext, api: &Loopback, obj: &Object, ip: IpAddr) -> Result<bool, Status> {
    let address = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
        "metadata": {"name": ip.to_string(), "labels": {
            "ipaddress.kubernetes.io/ip-family": family(ip),
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}},
        "spec": {"parentRef": {"resource": "services", "namespace": obj.namespace(), "name": obj.name()}}});
    match ip_addresses(api).create(&Object::from_value(address).unwrap_or_default()).await {
        Ok(_) => Ok(true),
        Err(status) if status.code == 409 => Ok(false),
        Err(status) => Err(status),
    }
}

/// Deletes an IPAddress whose service does not have it; true if it did.
async fn take_over_stale(ctx: &RequestContext, api: &Loopback, ip: &str) -> Result<bool, Status> {
    let Some(address) = ip_addresses(api).get_opt(ip).await? else { return Ok(true) };
    let parent = |field: &str| address.str_at(&format!("/spec/parentRef/{field}")).to_owned();
    let young = address.creation_timestamp().is_none_or(|at| ctx.now.duration_since(at) < STALE_AFTER);
    if young || parent("resource") != "services" {
        return Ok(false);
    }
    let service = api.namespaced("v1", "services", &parent("namespace")).get_opt(&parent("name")).await?;
    if service.is_some_and(|service| held_by(&service).ips.iter().any(|held| held == ip)) {
        return Ok(false);
    }
    ip_addresses(api).delete(ip, &json!({"preconditions": {"uid": address.uid()}})).await?;
    Ok(true)
}

/// Number of addresses considered, at most 65536: more are never needed and would be slow to look through.
fn size(range: &IpNet) -> u64 {
    let bits = u32::from(range.max_prefix_len() - range.prefix_len()).min(16);
    1 << bits
}

fn random_index(range: &IpNet) -> u64 {
    let size = size(range);
    // The low addresses are left to those who ask for one: kubernetes' own, DNS.
    let first = (size / 16).clamp(1, 256).min(size.saturating_sub(1)).max(1);
    rand::rng().random_range(first..size.max(first + 1))
}

/// The address at an index, unless it is the network's or the broadcast address.
fn nth(range: &IpNet, index: u64) -> Option<IpAddr> {
    let ip = match range.network() {
        IpAddr::V4(base) => IpAddr::from(u32::from(base).checked_add(u32::try_from(index).ok()?)?.to_be_bytes()),
        IpAddr::V6(base) => IpAddr::from(u128::from(base).checked_add(u128::from(index))?.to_be_bytes()),
    };
    usable(range, ip).then_some(ip)
}

fn usable(range: &IpNet, ip: IpAddr) -> bool {
    let broadcast = ip.is_ipv4() && ip == range.broadcast();
    range.contains(&ip) && ip != range.network() && !broadcast
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_from_inside_the_range() {
        let range: IpNet = "10.96.0.0/16".parse().unwrap();
        assert_eq!(nth(&range, 0), None);
        assert_eq!(nth(&range, 1), Some("10.96.0.1".parse().unwrap()));
        assert_eq!(nth(&range, 65535), None);
        for _ in 0..100 {
            let ip = nth(&range, random_index(&range));
            assert!(ip.is_none_or(|ip| range.contains(&ip) && ip > "10.96.0.255".parse::<IpAddr>().unwrap()));
        }
        let tiny: IpNet = "10.0.0.0/30".parse().unwrap();
        assert!((1..4).contains(&random_index(&tiny)));
    }

    #[test]
    fn leaving_a_type_frees_what_it_held() {
        let service = |spec: Value| Object::from_value(json!({"spec": spec})).unwrap();
        let old = service(json!({"type": "NodePort", "clusterIPs": ["10.0.0.1"], "ports": [{"port": 80, "nodePort": 30001}]}));
        let freed = freed(&service(json!({"type": "ExternalName"})), &old);
        assert_eq!((freed.ips, freed.ports), (vec!["10.0.0.1".to_owned()], vec![30001]));
    }
}
