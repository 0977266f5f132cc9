//! The server's own lease in kube-system: says that it lives, and where.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};

use apimachinery::status::Status;
use apimachinery::{Object, time};
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{BootstrapConfig, object};
use crate::loopback::Loopback;

const NAMESPACE: &str = "kube-system";
const SELECTOR: &str = "labelSelector=apiserver.kubernetes.io%2Fidentity%3Dkube-apiserver";
const ADDRESS: &str = "kubernetes.io/peer-advertise-address";
const DURATION_SECONDS: i64 = 3600;

/// Tells two lives of one server apart.
static LIFE: LazyLock<String> = LazyLock::new(|| uuid::Uuid::new_v4().to_string());

pub(super) async fn renew(api: Loopback, config: Arc<BootstrapConfig>) -> Result<(), Status> {
    let leases = api.namespaced("coordination.k8s.io/v1", "leases", NAMESPACE);
    let name = name(&config);
    let wanted = lease(&config, &name, component::clock::now());
    match leases.get_opt(&name).await? {
        None => super::ensure(&leases, &wanted).await,
        Some(mut found) => {
            found.0.insert("spec".into(), wanted.0.get("spec").cloned().unwrap_or_default());
            for (key, value) in wanted.annotations() {
                found.set_annotation(&key, &value);
            }
            leases.update(&found).await.map(drop)
        }
    }
}

/// Deletes the leases of servers that are long gone. Upstream: the identity lease garbage collector.
pub(super) async fn collect(api: Loopback) -> Result<(), Status> {
    let leases = api.namespaced("coordination.k8s.io/v1", "leases", NAMESPACE);
    let now = component::clock::now();
    for expired in leases.list(SELECTOR).await?.items.iter().filter(|lease| is_expired(lease, now)) {
        let as_seen = json!({"preconditions": {"uid": expired.uid(), "resourceVersion": expired.resource_version()}});
        leases
            .delete(expired.name(), &as_seen)
            .await
            .or_else(|status| if matches!(status.code, 404 | 409) { Ok(()) } else { Err(status) })?;
    }
    Ok(())
}

/// One that does not say when it ends was never good.
fn is_expired(lease: &Object, now: Timestamp) -> bool {
    let duration = lease.pointer("/spec/leaseDurationSeconds").and_then(Value::as_i64);
    let renewed = lease.str_at("/spec/renewTime").parse::<Timestamp>().ok();
    renewed.zip(duration).is_none_or(|(renewed, duration)| renewed.as_second().saturating_add(duration) < now.as_second())
}

/// `apiserver-` and 26 letters made from the machine's name and the server's address: the same after a restart, and of each
/// server its own where a machine has several.
fn name(config: &BootstrapConfig) -> String {
    let address = config.advertise.map_or_else(|| format!(":{}", config.port), |address| SocketAddr::new(address, config.port).to_string());
    let hash = Sha256::digest(format!("{}/{address}", config.hostname));
    format!("apiserver-{}", base32(&hash[..16]))
}

fn lease(config: &BootstrapConfig, name: &str, now: Timestamp) -> Object {
    let mut lease = object("coordination.k8s.io/v1", "Lease", NAMESPACE, name);
    lease.set_label("apiserver.kubernetes.io/identity", "kube-apiserver");
    lease.set_label("kubernetes.io/hostname", &config.hostname);
    if let Some(address) = config.advertise {
        lease.set_annotation(ADDRESS, &SocketAddr::new(address, config.port).to_string());
    }
    let spec = json!({
        "holderIdentity": format!("{name}_{}", *LIFE),
        "leaseDurationSeconds": DURATION_SECONDS,
        "renewTime": time::format_rfc3339_micro(now),
    });
    lease.0.insert("spec".into(), spec);
    lease
}

/// RFC 4648 without padding, in lower case.
fn base32(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let (mut out, mut buffer, mut bits) = (String::new(), 0_u32, 0);
    for byte in bytes {
        buffer = (buffer << 8) | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            out.push(char::from(LETTERS[(buffer >> bits) as usize & 31]));
        }
        buffer &= (1 << bits) - 1;
    }
    if bits > 0 {
        out.push(char::from(LETTERS[(buffer << (5 - bits)) as usize & 31]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_expires_after_its_duration_and_one_without_was_never_good() {
        let lease = |spec| Object::from_value(json!({"spec": spec})).unwrap();
        let renewed = |at: &str| lease(json!({"renewTime": at, "leaseDurationSeconds": 3600}));
        let now: Timestamp = "2026-01-01T02:00:00Z".parse().unwrap();
        assert!(is_expired(&renewed("2026-01-01T00:59:59.000000Z"), now));
        assert!(!is_expired(&renewed("2026-01-01T01:00:00.000000Z"), now));
        assert!(is_expired(&lease(json!({"leaseDurationSeconds": 3600})), now));
        assert!(is_expired(&lease(json!({"renewTime": "2026-01-01T02:00:00.000000Z"})), now));
    }

    #[test]
    fn names_are_base32() {
        assert_eq!(base32(b"foobar"), "mzxw6ytboi");
        assert_eq!(base32(&[0; 16]).len(), 26);
    }
}
