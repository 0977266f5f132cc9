//! What a user does with kubectl, and what they see, on any cluster of two nodes.

use std::time::Duration;

use serde_json::json;

use crate::admin::Admin;
use crate::command::run;
use crate::wait::{eventually, within};

const WEB: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: "quarterdeck/storefront-api:1.0", ports: [{containerPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
"#;

/// A Deployment travels the whole chain and kubectl shows it. Each step leaves the Deployment as it found it, or says so.
pub fn a_deployment_travels_the_whole_chain(cluster: &Admin) {
    let said = cluster.apply(WEB);
    assert!(said.contains("deployment.apps/web created") && said.contains("service/web created"), "{said}");
    cluster.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]).ok();
    shows_tables(cluster);
    describes(cluster);
    endpoints_follow_pods(cluster);
    scales(cluster);
    rolls_out_and_back(cluster);
    edits_labels_annotates_patches(cluster);
    explains_and_discovers(cluster);
    leftovers_of_a_deleted_deployment_go_too(cluster);
}

fn shows_tables(cluster: &Admin) {
    let table = cluster.kubectl(&["get", "deploy,rs,pod", "-o", "wide"]).ok();
    contains_all(
        &table,
        &[
            "deployment.apps/web",
            "3/3",
            "replicaset.apps/web-",
            "pod/web-",
            "Running",
            "node-",
            "NOMINATED NODE",
            "quarterdeck/storefront-api:1.0",
        ],
    );
    let yaml = cluster.kubectl(&["get", "pod", "-l", "app=web", "-o", "yaml"]).ok();
    contains_all(&yaml, &["kube-api-access-", "phase: Running", "nodeName: node-", "node.kubernetes.io/not-ready"]);
    let events = cluster.kubectl(&["get", "events", "--sort-by=.metadata.creationTimestamp"]).ok();
    contains_all(&events, &["ScalingReplicaSet", "SuccessfulCreate", "Scheduled", "Started"]);
}

fn describes(cluster: &Admin) {
    let deployment = cluster.kubectl(&["describe", "deploy", "web"]).ok();
    contains_all(&deployment, &["3 desired | 3 updated | 3 total | 3 available", "NewReplicaSetAvailable", "Scaled up replica set web-"]);
    contains_all(&cluster.kubectl(&["describe", "rs", "-l", "app=web"]).ok(), &["Controlled By:", "3 Running", "Created pod: web-"]);
    let pod = cluster.kubectl(&["get", "pod", "-l", "app=web", "-o", "name"]).ok();
    let pod = cluster.kubectl(&["describe", pod.lines().next().unwrap()]).ok();
    contains_all(&pod, &["Successfully assigned default/web-", "Ready", "QoS Class:", "Started"]);
    contains_all(
        &cluster.kubectl(&["describe", "node", "node-1"]).ok(),
        &["KubeletReady", "Allocatable:", "Lease:", "Non-terminated Pods:"],
    );
}

fn endpoints_follow_pods(cluster: &Admin) {
    eventually("the EndpointSlice lists three ready addresses", || {
        let slices = cluster.get(&["endpointslices", "-l", "kubernetes.io/service-name=web"]).unwrap();
        let endpoints = slices["items"][0]["endpoints"].as_array().cloned().unwrap_or_default();
        endpoints.iter().filter(|endpoint| endpoint["conditions"]["ready"] == true).count() == 3
    });
    let service = cluster.get(&["service", "web"]).unwrap();
    assert!(service["spec"]["clusterIP"].as_str().unwrap().starts_with("10.96."), "{service}");
}

fn scales(cluster: &Admin) {
    for replicas in ["5", "3"] {
        cluster.kubectl(&["scale", "deployment/web", &format!("--replicas={replicas}")]).ok();
        eventually("the Deployment has as many pods as asked for", || {
            let pods = cluster.get(&["pods", "-l", "app=web"]).unwrap();
            pods["items"].as_array().unwrap().len().to_string() == replicas
        });
    }
}

fn rolls_out_and_back(cluster: &Admin) {
    cluster.kubectl(&["set", "image", "deployment/web", "web=quarterdeck/storefront-api:1.1"]).ok();
    let said = cluster.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]).ok();
    assert!(said.contains("successfully rolled out"), "{said}");
    assert_eq!(image(cluster), "quarterdeck/storefront-api:1.1");
    let history = cluster.kubectl(&["rollout", "history", "deployment/web"]).ok();
    contains_all(&history, &["REVISION", "1 ", "2 "]);
    cluster.kubectl(&["rollout", "undo", "deployment/web"]).ok();
    cluster.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]).ok();
    assert_eq!(image(cluster), "quarterdeck/storefront-api:1.0");
    let deployment = cluster.get(&["deployment", "web"]).unwrap();
    assert_eq!(deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "3");
    let sets = cluster.get(&["rs", "-l", "app=web"]).unwrap();
    assert_eq!(sets["items"].as_array().unwrap().len(), 2, "the first revision's ReplicaSet serves again");
}

fn image(cluster: &Admin) -> String {
    let deployment = cluster.get(&["deployment", "web"]).unwrap();
    deployment["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap().to_owned()
}

fn edits_labels_annotates_patches(cluster: &Admin) {
    cluster.kubectl(&["label", "deployment/web", "tier=front"]).ok();
    cluster.kubectl(&["annotate", "deployment/web", "note=hello"]).ok();
    for (kind, patch) in [
        ("strategic", r#"{"spec":{"template":{"spec":{"containers":[{"name":"web","env":[{"name":"A","value":"1"}]}]}}}}"#),
        ("merge", r#"{"metadata":{"labels":{"tier":"back"}}}"#),
        ("json", r#"[{"op":"replace","path":"/metadata/annotations/note","value":"patched"}]"#),
    ] {
        cluster.kubectl(&["patch", "deployment/web", "--type", kind, "-p", patch]).ok();
    }
    let edited = std::env::temp_dir().join(format!("quarterdeck-edit-{}", std::process::id()));
    std::fs::write(&edited, "#!/bin/sh\nsed -i 's/note: patched/note: edited/' \"$1\"\n").unwrap();
    std::fs::set_permissions(&edited, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let editor = edited.to_str().unwrap();
    run(cluster.kubectl_command(&["edit", "deployment/web"]).env("KUBE_EDITOR", editor)).ok();
    std::fs::remove_file(&edited).unwrap();
    let deployment = cluster.get(&["deployment", "web"]).unwrap();
    assert_eq!(
        (&deployment["metadata"]["labels"]["tier"], &deployment["metadata"]["annotations"]["note"]),
        (&json!("back"), &json!("edited"))
    );
    assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"], "1");
    cluster.kubectl(&["wait", "--for=condition=Available", "deployment/web", "--timeout=60s"]).ok();
}

fn explains_and_discovers(cluster: &Admin) {
    let explained = cluster.kubectl(&["explain", "deployment.spec.strategy"]).ok();
    contains_all(&explained, &["rollingUpdate", "RollingUpdateDeployment", "GROUP:      apps"]);
    let resources = cluster.kubectl(&["api-resources"]).ok();
    contains_all(&resources, &["deployments", "deploy", "apps/v1", "endpointslices", "leases"]);
    let rights = cluster.kubectl(&["auth", "can-i", "--list"]).ok();
    contains_all(&rights, &["*.*", "selfsubjectaccessreviews.authorization.k8s.io"]);
    let version = cluster.kubectl(&["version"]).ok();
    contains_all(&version, &["Server Version: v1.36."]);
}

fn leftovers_of_a_deleted_deployment_go_too(cluster: &Admin) {
    cluster.kubectl(&["delete", "deployment", "web"]).ok();
    within(Duration::from_secs(60), "ReplicaSets and pods are gone", || {
        let rest = cluster.get(&["rs,pods", "-l", "app=web"]).unwrap();
        if rest["items"].as_array().unwrap().is_empty() { Ok(()) } else { Err(rest.to_string()) }
    });
}

fn contains_all(text: &str, wanted: &[&str]) {
    for word in wanted {
        assert!(text.contains(word), "{word:?} is missing in:\n{text}");
    }
}
