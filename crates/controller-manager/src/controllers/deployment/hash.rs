//! The name a pod template gives its ReplicaSet. Pure.

use k8s_openapi::api::core::v1::PodTemplateSpec;

/// Letters and digits without vowels and look-alikes, as upstream's generated names use them.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The hash of a template; `collisions` tells templates apart whose plain hashes are equal.
pub(super) fn template_hash(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    let mut hash = Fnv1a::default();
    hash.write(serde_json::to_string(template).unwrap_or_default().as_bytes());
    if let Some(collisions) = collisions {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&collisions.to_le_bytes());
        hash.write(&bytes);
    }
    safe_encode(&hash.0.to_string())
}

/// 32-bit FNV-1a.
struct Fnv1a(u32);

impl Default for Fnv1a {
    fn default() -> Self {
        Self(0x811c_9dc5)
    }
}

impl Fnv1a {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    }
}

fn safe_encode(text: &str) -> String {
    text.bytes().map(|byte| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()])).collect()
}
