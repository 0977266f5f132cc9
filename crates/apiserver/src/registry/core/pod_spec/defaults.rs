//! Defaults of a pod spec, as in `pkg/apis/core/v1/defaults.go`: what the schema's static defaults do not say.

use serde_json::{Value, json};

use super::resources;
use crate::registry::edit::{Fields, default_to, default_zero, each, ensure_object, object, object_at, text};

/// The lists of containers of a pod spec.
pub(crate) const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Fills in a pod template's metadata and pod spec.
pub(crate) fn template(template: &mut Fields) {
    default_to(template, "metadata", json!({}));
    pod_spec(ensure_object(template, "spec"));
}

/// Fills in what every pod spec gets, in a pod or in a workload's template.
pub(crate) fn pod_spec(spec: &mut Fields) {
    default_zero(spec, "dnsPolicy", "ClusterFirst");
    default_zero(spec, "restartPolicy", "Always");
    default_zero(spec, "schedulerName", "default-scheduler");
    default_to(spec, "securityContext", json!({}));
    default_to(spec, "terminationGracePeriodSeconds", 30);
    mirror_service_account(spec);
    for list in CONTAINER_LISTS {
        each(spec, list).for_each(container);
    }
    each(spec, "volumes").for_each(volume);
    if let Some(overhead) = object(spec, "overhead") {
        resources::round_up(overhead);
    }
    if let Some(resources) = object(spec, "resources") {
        resources::round_up_all(resources);
    }
}

/// Fills in what only pods get: service links, requests from limits, host ports.
pub(crate) fn pod_only(spec: &mut Fields) {
    default_to(spec, "enableServiceLinks", true);
    let on_host = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["initContainers", "containers"] {
        for container in each(spec, list) {
            if let Some(resources) = object(container, "resources") {
                resources::requests_from_limits(resources);
            }
            if on_host {
                each(container, "ports").for_each(host_port);
            }
        }
    }
    if let Some(resources) = object(spec, "resources") {
        resources::requests_from_limits(resources);
    }
}

/// The deprecated `serviceAccount` always repeats `serviceAccountName`.
pub(crate) fn mirror_service_account(spec: &mut Fields) {
    let old = text(spec, "serviceAccount").to_owned();
    if !old.is_empty() {
        default_zero(spec, "serviceAccountName", old);
    }
    match text(spec, "serviceAccountName").to_owned() {
        name if name.is_empty() => spec.remove("serviceAccount"),
        name => spec.insert("serviceAccount".into(), name.into()),
    };
}

fn host_port(port: &mut Fields) {
    if let Some(number) = port.get("containerPort").cloned() {
        default_zero(port, "hostPort", number);
    }
}

fn container(container: &mut Fields) {
    let policy = if image_tag_is_latest(text(container, "image")) { "Always" } else { "IfNotPresent" };
    default_zero(container, "imagePullPolicy", policy);
    default_zero(container, "terminationMessagePath", "/dev/termination-log");
    default_zero(container, "terminationMessagePolicy", "File");
    default_to(container, "resources", json!({}));
    if let Some(resources) = object(container, "resources") {
        resources::round_up_all(resources);
    }
    for port in each(container, "ports") {
        default_zero(port, "protocol", "TCP");
    }
    for variable in each(container, "env") {
        if let Some(from) = object(variable, "valueFrom") {
            downward_source(from);
            if let Some(file) = object(from, "fileKeyRef") {
                default_to(file, "optional", false);
            }
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = object(container, name) {
            self::probe(probe);
        }
    }
    for hook in ["postStart", "preStop"] {
        if let Some(get) = object_at(container, &["lifecycle", hook, "httpGet"]) {
            http_get(get);
        }
    }
}

fn probe(probe: &mut Fields) {
    for (key, value) in [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)] {
        default_zero(probe, key, value);
    }
    if let Some(get) = object(probe, "httpGet") {
        http_get(get);
    }
    if let Some(grpc) = object(probe, "grpc") {
        default_to(grpc, "service", "");
    }
}

fn http_get(get: &mut Fields) {
    default_zero(get, "path", "/");
    default_zero(get, "scheme", "HTTP");
}

fn downward_source(source: &mut Fields) {
    if let Some(field) = object(source, "fieldRef") {
        default_zero(field, "apiVersion", "v1");
    }
    if let Some(resource) = object(source, "resourceFieldRef") {
        default_to(resource, "divisor", "0");
    }
}

/// Whether an image reference names the tag `latest`, or neither tag nor digest.
fn image_tag_is_latest(image: &str) -> bool {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let last = name.rsplit('/').next().unwrap_or(name);
    match last.split_once(':') {
        Some((_, tag)) => tag == "latest",
        None => digest.is_none(),
    }
}

fn volume(volume: &mut Fields) {
    if volume.iter().all(|(key, value)| key == "name" || value.is_null()) {
        volume.insert("emptyDir".into(), json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = object(volume, source) {
            default_to(source, "defaultMode", 0o644);
        }
    }
    if let Some(source) = object(volume, "downwardAPI") {
        each(source, "items").for_each(downward_source);
    }
    if let Some(source) = object(volume, "projected") {
        each(source, "sources").for_each(projection);
    }
    if let Some(source) = object(volume, "hostPath") {
        default_to(source, "type", "");
    }
    if let Some(image) = object(volume, "image") {
        let policy = if image_tag_is_latest(text(image, "reference")) { "Always" } else { "IfNotPresent" };
        default_zero(image, "pullPolicy", policy);
    }
    if let Some(claim) = object_at(volume, &["ephemeral", "volumeClaimTemplate"]) {
        default_to(claim, "metadata", json!({}));
        claim_spec(ensure_object(claim, "spec"));
    }
    network_volume(volume);
}

fn projection(source: &mut Fields) {
    if let Some(token) = object(source, "serviceAccountToken") {
        default_to(token, "expirationSeconds", 3600);
    }
    if let Some(downward) = object(source, "downwardAPI") {
        each(downward, "items").for_each(downward_source);
    }
}

/// Defaults of volume sources that pods and persistent volumes share.
pub(crate) fn network_volume(volume: &mut Fields) {
    const STRINGS: [(&str, &str, &str); 10] = [
        ("iscsi", "iscsiInterface", "default"),
        ("rbd", "pool", "rbd"),
        ("rbd", "user", "admin"),
        ("rbd", "keyring", "/etc/ceph/keyring"),
        ("azureDisk", "cachingMode", "ReadWrite"),
        ("azureDisk", "kind", "Shared"),
        ("azureDisk", "fsType", "ext4"),
        ("scaleIO", "storageMode", "ThinProvisioned"),
        ("scaleIO", "fsType", "xfs"),
        ("hostPath", "type", ""),
    ];
    for (source, key, value) in STRINGS {
        if let Some(source) = object(volume, source) {
            default_to(source, key, value);
        }
    }
    if let Some(disk) = object(volume, "azureDisk") {
        default_to(disk, "readOnly", false);
    }
}

/// Defaults of a claim's spec.
pub(crate) fn claim_spec(spec: &mut Fields) {
    default_to(spec, "volumeMode", "Filesystem");
    default_to(spec, "resources", json!({}));
    if let Some(resources) = object(spec, "resources") {
        resources::round_up_all(resources);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaulted(spec: Value) -> Value {
        let mut fields = spec.as_object().cloned().unwrap_or_default();
        pod_spec(&mut fields);
        Value::Object(fields)
    }

    #[test]
    fn pull_policy_follows_the_tag() {
        for (image, policy) in [
            ("img", "Always"),
            ("img:latest", "Always"),
            ("host:5000/img", "Always"),
            ("host:5000/img:1", "IfNotPresent"),
            ("img@sha256:00", "IfNotPresent"),
        ] {
            let spec = defaulted(json!({"containers": [{"name": "c", "image": image}]}));
            assert_eq!(spec["containers"][0]["imagePullPolicy"], policy, "{image}");
        }
    }

    #[test]
    fn a_minimal_spec_gets_upstreams_defaults() {
        let spec = defaulted(json!({"containers": [{"name": "c", "image": "img"}]}));
        let expected = json!({
            "containers": [{"name": "c", "image": "img", "imagePullPolicy": "Always", "resources": {},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}],
            "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
            "securityContext": {}, "terminationGracePeriodSeconds": 30});
        assert_eq!(spec, expected);
    }

    #[test]
    fn probes_and_hooks_get_theirs() {
        let spec = defaulted(json!({"containers": [{"name": "c", "image": "img:1",
            "livenessProbe": {"grpc": {"port": 90}, "timeoutSeconds": 0},
            "lifecycle": {"preStop": {"httpGet": {"port": 1}}}}]}));
        let container = &spec["containers"][0];
        assert_eq!(
            container["livenessProbe"],
            json!({"grpc": {"port": 90, "service": ""}, "timeoutSeconds": 1,
            "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3})
        );
        assert_eq!(container["lifecycle"]["preStop"]["httpGet"], json!({"path": "/", "port": 1, "scheme": "HTTP"}));
    }

    #[test]
    fn volumes_without_source_are_empty_dirs() {
        let spec = defaulted(json!({"volumes": [{"name": "a"}, {"name": "b", "secret": {"secretName": "s"}},
            {"name": "c", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]}));
        assert_eq!(spec["volumes"][0], json!({"name": "a", "emptyDir": {}}));
        assert_eq!(spec["volumes"][1]["secret"]["defaultMode"], 420);
        assert_eq!(spec["volumes"][2]["projected"]["sources"][0]["serviceAccountToken"]["expirationSeconds"], 3600);
    }

    #[test]
    fn host_network_publishes_container_ports_and_limits_become_requests() {
        let mut fields = json!({"hostNetwork": true, "containers": [{"ports": [{"containerPort": 80}],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m"}}}]});
        let fields = fields.as_object_mut().unwrap();
        pod_only(fields);
        assert_eq!(fields["containers"][0]["ports"][0]["hostPort"], 80);
        assert_eq!(fields["containers"][0]["resources"]["requests"], json!({"cpu": "100m", "memory": "1Gi"}));
    }
}
