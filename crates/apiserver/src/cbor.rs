//! The CBOR form of objects, behind the feature gate `CBORServingAndStorage`: `apimachinery`'s codec, led by the schemas of built-in kinds.
//! The store gets JSON all the same, and may hold what kube-apiserver stored in CBOR.

use apimachinery::cbor;
use serde_json::Value;

pub(crate) use apimachinery::cbor::event;

use crate::{
    protobuf::{definition_of, type_of},
    schema::Definitions,
};

/// The feature's name.
pub(crate) const FEATURE: &str = "CBORServingAndStorage";

/// Writes an object, a list, a Status, a Table or a discovery document, led by its own type where that is built in.
pub(crate) fn encode(value: &Value) -> Vec<u8> {
    let (api_version, kind) = type_of(value);
    cbor::encode(value, Definitions::builtin().get(&definition_of(api_version, kind)).as_ref())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_bytes_of_a_secret_in_a_list_are_bytes() {
        let secret = |api_version: &str| json!({"apiVersion": api_version, "kind": "SecretList", "items": [{"data": {"k": "AAH/"}}]});
        let bytes = [0xd6, 0x43, 0, 1, 0xff];
        let has = |api_version| encode(&secret(api_version)).windows(bytes.len()).any(|part| part == bytes);
        assert_eq!((has("v1"), has("example.com/v1")), (true, false));
    }
}
