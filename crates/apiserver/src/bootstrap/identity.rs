//! The server's own lease in kube-system: says that it lives, and where.

use std::sync::{Arc, LazyLock};

use apimachinery::status::Status;
use apimachinery::{Object, time};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{BootstrapConfig, object};
use crate::loopback::Loopback;

pub(super) const NAMESPACE: &str = "kube-system";
pub(super) const SELECTOR: &str = "labelSelector=apiserver.kubernetes.io%2Fidentity%3Dkube-apiserver";
pub(super) const ADDRESS: &str = "kubernetes.io/peer-advertise-address";
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

/// `apiserver-` and 26 letters made from the machine's name and the port: the same after a restart.
pub(super) fn name(config: &BootstrapConfig) -> String {
    let hash = Sha256::digest(format!("{}:{}", config.hostname, config.port));
    format!("apiserver-{}", base32(&hash[..16]))
}

fn lease(config: &BootstrapConfig, name: &str, now: jiff::Timestamp) -> Object {
    let mut lease = object("coordination.k8s.io/v1", "Lease", NAMESPACE, name);
    lease.set_label("apiserver.kubernetes.io/identity", "kube-apiserver");
    lease.set_label("kubernetes.io/hostname", &config.hostname);
    if let Some(address) = config.advertise {
        lease.set_annotation(ADDRESS, &std::net::SocketAddr::new(address, config.port).to_string());
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
    fn names_are_base32() {
        assert_eq!(base32(b"foobar"), "mzxw6ytboi");
        assert_eq!(base32(&[0; 16]).len(), 26);
    }
}
