//! The objects that are written, as JSON.

use rand::{Rng, rngs::SmallRng};
use serde_json::{Value, json};

/// Letters without meaning.
fn noise(dice: &mut SmallRng, length: usize) -> String {
    (0..length).map(|_| char::from(dice.random_range(b'a'..=b'z'))).collect()
}

fn bytes(value: &Value) -> bytes::Bytes {
    value.to_string().into()
}

/// A ConfigMap of 1 KiB.
pub(crate) fn config_map(name: &str, dice: &mut SmallRng) -> bytes::Bytes {
    bytes(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"fill": noise(dice, 920)}}))
}

/// A ConfigMap of 1 KiB that tells when it was made.
pub(crate) fn dated(name: &str, nanos: u128, dice: &mut SmallRng) -> bytes::Bytes {
    let data = json!({"at": nanos.to_string(), "fill": noise(dice, 900)});
    bytes(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}))
}

/// A merge patch of one field of a ConfigMap, which stays as large as it is.
pub(crate) fn patch(dice: &mut SmallRng) -> bytes::Bytes {
    bytes(&json!({"data": {"fill": noise(dice, 920)}}))
}

/// A lease as its holder renews it; `version` is the one it was read at.
pub(crate) fn lease(name: &str, version: Option<&str>, renewed: &str) -> bytes::Bytes {
    let spec = json!({"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": renewed});
    let mut lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec});
    if let Some(version) = version {
        lease["metadata"]["resourceVersion"] = version.into();
    }
    bytes(&lease)
}

/// One in so many pods is chosen by the selectors of [`CHOSEN_LABEL`] and [`CHOSEN_FIELD`].
const ONE_IN: usize = 100;
/// Chooses one pod in a hundred.
pub(crate) const CHOSEN_LABEL: &str = "labelSelector=bench%3Dchosen";
/// Chooses the same.
pub(crate) const CHOSEN_FIELD: &str = "fieldSelector=spec.schedulerName%3Dbench-chosen";

/// A pod of about 4 KiB as it is stored, which no scheduler takes.
pub(crate) fn pod(number: usize, dice: &mut SmallRng) -> bytes::Bytes {
    let chosen = if number.is_multiple_of(ONE_IN) { "chosen" } else { "other" };
    let env: Vec<_> = (0..12).map(|at| json!({"name": format!("VARIABLE_{at}"), "value": noise(dice, 40)})).collect();
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10});
    let container = json!({
        "name": "main", "image": "registry.example.com/team/program:1.2.3", "args": ["--verbose", "--listen=:8080"], "env": env,
        "ports": [{"containerPort": 8080, "name": "http"}], "livenessProbe": probe, "readinessProbe": probe,
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    });
    let labels = json!({"app": format!("app-{}", number % 50), "bench": chosen, "pod-template-hash": noise(dice, 10)});
    bytes(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{number:06}"), "labels": labels, "annotations": {"example.com/note": noise(dice, 600)}},
        "spec": {
            "schedulerName": format!("bench-{chosen}"), "automountServiceAccountToken": false,
            "containers": [container], "volumes": [{"name": "data", "emptyDir": {}}],
        },
    }))
}

/// Groups that the definitions are spread over.
const GROUPS: usize = 50;

/// The group of a definition.
pub(crate) fn group(number: usize, run: &str) -> String {
    format!("g{}.{run}.example.com", number % GROUPS)
}

/// A CustomResourceDefinition with a schema of some thirty fields.
pub(crate) fn definition(number: usize, run: &str) -> bytes::Bytes {
    let group = group(number, run);
    let text = |about: &str| json!({"type": "string", "description": format!("{about}, as the author of this resource describes it.")});
    let name = json!({"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63, "description": "A name."});
    let count = json!({"type": "integer", "format": "int32", "minimum": 0, "maximum": 1000, "description": "How many there are to be."});
    let reference = json!({"type": "object", "required": ["name"], "properties": {
        "name": name, "namespace": name, "kind": text("The kind"), "apiGroup": text("The group"),
    }});
    let condition = json!({"type": "object", "required": ["type", "status"], "properties": {
        "type": text("The type"), "status": {"type": "string", "enum": ["True", "False", "Unknown"]}, "reason": text("The reason"),
        "message": text("The message"), "lastTransitionTime": {"type": "string", "format": "date-time"},
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
    }});
    let quantity = json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]});
    let spec = json!({"type": "object", "required": ["size", "owner"], "properties": {
        "size": count, "minimum": count, "owner": reference, "template": reference, "paused": {"type": "boolean", "default": false},
        "mode": {"type": "string", "enum": ["Auto", "Manual"], "default": "Auto"}, "image": text("The image"), "memory": quantity,
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "items": {"type": "array", "maxItems": 64, "items": {"type": "object", "properties": {"key": name, "value": text("The value")}}},
    }});
    let status = json!({"type": "object", "properties": {
        "ready": count, "phase": text("The phase"), "selector": text("The selector"),
        "conditions": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"], "items": condition},
    }});
    let version = json!({
        "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
        "additionalPrinterColumns": [
            {"name": "Ready", "type": "integer", "jsonPath": ".status.ready"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
    });
    let (plural, kind) = (format!("things{number}"), format!("Thing{number}"));
    let names = json!({"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")});
    bytes(&json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}"), "labels": {"bench": run}},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [version]},
    }))
}
