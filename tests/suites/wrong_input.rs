//! Wrong input gets upstream's codes and a message that names the cause.
#![allow(clippy::unwrap_used)]

use tests::{Cluster, Output};

fn refused(output: &Output, wanted: &[&str]) {
    assert_ne!(output.code, 0, "{output:?}");
    for word in wanted {
        assert!(output.err.contains(word), "{word:?} is missing in: {}", output.err);
    }
}

fn deployment(name: &str, replicas: i32, selector: &str) -> String {
    format!(
        r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"{name}"}},"spec":{{"replicas":{replicas},{selector}
        "template":{{"metadata":{{"labels":{{"app":"a"}}}},"spec":{{"containers":[{{"name":"c","image":"i"}}]}}}}}}}}"#
    )
}

const MATCHING: &str = r#""selector":{"matchLabels":{"app":"a"}},"#;

#[test]
fn manifests_that_are_wrong_are_refused_by_field() {
    let cluster = Cluster::up(&["--components", "store,apiserver"]);
    let apply = |text: &str| cluster.kubectl_with_input(&["apply", "-f", "-"], text);
    let create = |text: &str| cluster.kubectl_with_input(&["create", "--validate=false", "-f", "-"], text);
    refused(&apply("a: [b"), &["error parsing"]);
    refused(
        &apply(r#"{"apiVersion":"apps/v1","kind":"Deploymint","metadata":{"name":"x"}}"#),
        &["no matches for kind \"Deploymint\" in version \"apps/v1\""],
    );
    refused(&create(&deployment("Not_A_Name", 1, MATCHING)), &["metadata.name: Invalid value: \"Not_A_Name\"", "RFC 1123"]);
    refused(&create(&deployment("x", 1, "")), &["spec.selector: Required value"]);
    refused(&create(&deployment("x", 1, r#""selector":{"matchLabels":{"app":"b"}},"#)), &["`selector` does not match template `labels`"]);
    refused(&create(&deployment("x", -1, MATCHING)), &["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]);
    refused(&apply(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"dota":{}}"#), &["unknown field \"dota\""]);
    let big = "x".repeat(3 * 1024 * 1024 + 1);
    let body = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"big"}},"data":{{"a":"{big}"}}}}"#);
    refused(&create(&body), &["Request entity too large: limit is 3145728"]);
}

#[test]
fn stale_writes_conflict() {
    let cluster = Cluster::up(&["--components", "store,apiserver"]);
    cluster.kubectl(&["create", "configmap", "c", "--from-literal=a=1"]).ok();
    let stale = cluster.kubectl(&["get", "configmap", "c", "-o", "json"]).ok();
    cluster.kubectl(&["patch", "configmap", "c", "-p", r#"{"data":{"a":"2"}}"#]).ok();
    let output = cluster.kubectl_with_input(&["replace", "-f", "-"], &stale);
    refused(&output, &["Operation cannot be fulfilled on configmaps \"c\"", "the object has been modified"]);
}
