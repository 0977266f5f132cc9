use apimachinery::field::Path;
use serde_json::{Value, json};

use super::*;

/// A pod spec with one sound container, changed by `patch` (merged at top level) and defaulted.
fn spec_with(patch: Value) -> Value {
    let mut fields = json!({"containers": [{"name": "c", "image": "img"}]}).as_object().cloned().unwrap();
    fields.extend(patch.as_object().cloned().unwrap());
    defaults::pod_spec(&mut fields);
    Value::Object(fields)
}

fn container_with(patch: Value) -> Value {
    let mut container = json!({"name": "c", "image": "img"}).as_object().cloned().unwrap();
    container.extend(patch.as_object().cloned().unwrap());
    json!({"containers": [container]})
}

fn complaints(patch: Value) -> Vec<String> {
    let spec = spec_with(patch);
    let mut errs = ErrorList::new();
    validate(&At::new(Path::new("spec"), &spec), &mut errs);
    errs.iter().map(ToString::to_string).collect()
}

#[test]
fn a_minimal_spec_is_sound() {
    assert!(complaints(json!({})).is_empty());
}

#[test]
fn each_rule_answers_with_upstreams_words() {
    let cases: [(Value, &[&str]); 16] = [
        (
            json!({"restartPolicy": "Sometimes"}),
            &[r#"spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never""#],
        ),
        (json!({"dnsPolicy": "None"}), &["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"]),
        (json!({"containers": []}), &["spec.containers: Required value"]),
        (
            json!({"volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]}),
            &[r#"spec.volumes[1].name: Duplicate value: "v""#],
        ),
        (json!({"os": {"name": "beos"}}), &[r#"spec.os: Unsupported value: "beos": supported values: "linux", "windows""#]),
        (
            json!({"os": {"name": "windows"}, "hostPID": true, "securityContext": {"runAsUser": 1}}),
            &[
                "spec.hostPID: Forbidden: cannot be set for a windows pod",
                "spec.securityContext.runAsUser: Forbidden: cannot be set for a windows pod",
            ],
        ),
        (json!({"initContainers": [{"name": "c", "image": "i"}]}), &[r#"spec.initContainers[0].name: Duplicate value: "c""#]),
        (
            json!({"volumes": [{"name": "v", "downwardAPI": {"items": [{"path": "a"}]}}]}),
            &["spec.volumes[0].downwardAPI: Required value: one of fieldRef and resourceFieldRef is required"],
        ),
        (container_with(json!({"livenessProbe": {}})), &["spec.containers[0].livenessProbe: Required value: must specify a handler type"]),
        (
            container_with(json!({"livenessProbe": {"exec": {"command": ["x"]}, "tcpSocket": {"port": 1}}})),
            &["spec.containers[0].livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type"],
        ),
        (
            container_with(json!({"startupProbe": {"exec": {"command": []}, "successThreshold": 3}})),
            &[
                "spec.containers[0].startupProbe.exec.command: Required value",
                "spec.containers[0].startupProbe.successThreshold: Invalid value: 3: must be 1",
            ],
        ),
        (
            container_with(json!({"envFrom": [{}]})),
            &[r#"spec.containers[0].envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`"#],
        ),
        (
            container_with(json!({"imagePullPolicy": "Maybe"})),
            &[r#"spec.containers[0].imagePullPolicy: Unsupported value: "Maybe": supported values: "Always", "IfNotPresent", "Never""#],
        ),
        (
            container_with(json!({"volumeMounts": [{"name": "v", "mountPath": "/x"}]})),
            &[r#"spec.containers[0].volumeMounts[0].name: Not found: "v""#],
        ),
        (
            container_with(json!({"lifecycle": {"preStop": {"sleep": {"seconds": -1}}}})),
            &[
                "spec.containers[0].lifecycle.preStop.sleep: Invalid value: -1: must be non-negative and less than terminationGracePeriodSeconds (30)",
            ],
        ),
        (
            container_with(json!({"ports": [{"containerPort": 1, "name": "80"}]})),
            &[r#"spec.containers[0].ports[0].name: Invalid value: "80": must contain at least one letter (a-z)"#],
        ),
    ];
    for (patch, expected) in cases {
        assert_eq!(complaints(patch.clone()), expected, "{patch}");
    }
}

#[test]
fn only_images_and_a_few_others_may_change() {
    let old = spec_with(json!({"activeDeadlineSeconds": 10}));
    let check = |patch: Value| {
        let new = spec_with(patch);
        let mut errs = ErrorList::new();
        update::validate(&At::new(Path::new("spec"), &new), &At::new(Path::new("spec"), &old), &mut errs);
        errs.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(
        check(json!({"activeDeadlineSeconds": 5, "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "c", "image": "other:latest"}]}))
        .is_empty()
    );
    let refused = check(json!({"activeDeadlineSeconds": 10, "restartPolicy": "Never"}));
    assert!(refused[0].starts_with("spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.init"));
    assert!(refused[0].contains("\n@@ -"), "{refused:?}");
}
