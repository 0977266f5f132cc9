//! Custom resources with kubectl and a client library: defined, used in every way, and gone with their definition.
//!
//! One cluster serves all cases, each with a group of its own.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kube::{
    Api, Client, Config,
    api::{ApiResource, DynamicObject, Object, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::GroupVersionKind,
    runtime::{WatchStreamExt as _, reflector, watcher},
};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tests::{Cluster, eventually, within};
use tokio_stream::StreamExt as _;

/// The garbage collector looks for new kinds every half minute.
const COLLECTED: Duration = Duration::from_secs(90);

#[test]
fn custom_resources_are_used_like_any_other() {
    let cluster = Cluster::up(&["--components", "store,apiserver,controller-manager", "--restart"]);
    eventually("the default service account exists", || cluster.get(&["serviceaccount", "default"]).is_some());
    let cases: [fn(&Cluster); 7] = [
        kubectl_does_its_everyday_work,
        versions_differ_in_name,
        a_definition_takes_its_instances_along,
        garbage_goes_both_ways_and_with_the_namespace,
        rights_name_the_resource,
        wrong_definitions_are_refused_with_the_place,
        a_library_reads_writes_and_follows,
    ];
    std::thread::scope(|scope| {
        let cluster = &cluster;
        for case in cases {
            scope.spawn(move || case(cluster));
        }
    });
    instances_are_served_after_a_restart(&cluster);
}

/// A definition of widgets in a group.
fn definition(group: &str) -> Value {
    let part = json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "count": {"type": "integer"}}});
    let parts = json!({"type": "array", "items": part, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]});
    let spec = json!({"type": "object", "description": "What the widget is.", "properties": {
        "size": {"type": "integer", "minimum": 1, "description": "How large it is."},
        "color": {"type": "string", "default": "red"}, "replicas": {"type": "integer"}, "parts": parts}});
    let status = json!({"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}});
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Color", "type": "string", "jsonPath": ".spec.color"}],
        "selectableFields": [{"jsonPath": ".spec.color"}],
    });
    let (names, name) = (json!({"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]}), format!("widgets.{group}"));
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    })
}

fn widget(group: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

/// Defines widgets in a group; returns once they are established.
fn define(cluster: &Cluster, definition: &Value) {
    cluster.apply(&definition.to_string());
    let name = format!("crd/{}", definition["metadata"]["name"].as_str().unwrap());
    // kubectl gives up on an object that has no conditions yet, which a new definition has not, here as upstream.
    eventually("kubectl can wait", || cluster.kubectl(&["wait", "--for=condition=established", &name, "--timeout=30s"]).code == 0);
}

fn says(cluster: &Cluster, args: &[&str]) -> String {
    cluster.kubectl(args).ok()
}

fn kubectl_does_its_everyday_work(cluster: &Cluster) {
    let group = "daily.example.com";
    let resource = "widgets.daily.example.com";
    let began = Instant::now();
    define(cluster, &definition(group));
    cluster.apply(&widget(group, "a", json!({"size": 3})).to_string());
    assert!(began.elapsed() < Duration::from_secs(20), "defining and using a resource took {:?}", began.elapsed());
    let table = says(cluster, &["get", "wd", "a"]);
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows, [["NAME", "SIZE", "COLOR"], ["a", "3", "red"]]);
    let explained = says(cluster, &["explain", &format!("{resource}.spec.size")]);
    assert!(explained.contains("How large it is.") && explained.contains("<integer>"), "{explained}");
    cluster.apply(&widget(group, "a", json!({"size": 4, "color": "blue"})).to_string());
    says(cluster, &["patch", resource, "a", "--type=merge", "-p", r#"{"spec":{"replicas":2}}"#]);
    says(cluster, &["patch", resource, "a", "--type=json", "-p", r#"[{"op":"add","path":"/spec/parts","value":[{"name":"p"}]}]"#]);
    let strategic = cluster.kubectl(&["patch", resource, "a", "--type=strategic", "-p", r#"{"spec":{"size":9}}"#]);
    assert!(strategic.code != 0 && strategic.err.contains("unknown format"), "{}", strategic.err);
    says(cluster, &["scale", resource, "a", "--replicas=5"]);
    says(cluster, &["patch", resource, "a", "--subresource=status", "--type=merge", "-p", r#"{"status":{"replicas":1}}"#]);
    says(cluster, &["label", resource, "a", "kind=test"]);
    let read = cluster.get(&[resource, "a"]).unwrap();
    let spec = json!({"size": 4, "color": "blue", "replicas": 5, "parts": [{"name": "p"}]});
    assert_eq!((&read["spec"], &read["status"], &read["metadata"]["labels"]), (&spec, &json!({"replicas": 1}), &json!({"kind": "test"})));
    assert_eq!(says(cluster, &["get", resource, "-o", "name", "--field-selector", "spec.color=blue"]).trim(), "widget.daily.example.com/a");
    let wrong = cluster.kubectl_with_input(&["apply", "-f", "-"], &widget(group, "b", json!({"size": "x", "typo": 1})).to_string());
    assert!(wrong.code != 0 && wrong.err.contains("unknown field \"spec.typo\""), "{}", wrong.err);
    says(cluster, &["delete", resource, "a"]);
    assert!(cluster.get(&[resource, "a"]).is_none());
    managers_share_an_object(cluster, group);
}

fn managers_share_an_object(cluster: &Cluster, group: &str) {
    for (manager, spec) in
        [("--field-manager=one", json!({"parts": [{"name": "p"}]})), ("--field-manager=two", json!({"parts": [{"name": "q"}]}))]
    {
        let object = widget(group, "shared", spec).to_string();
        cluster.kubectl_with_input(&["apply", "--server-side", manager, "-f", "-"], &object).ok();
    }
    let read = cluster.get(&["widgets.daily.example.com", "shared"]).unwrap();
    assert_eq!(read["spec"], json!({"color": "red", "parts": [{"name": "p"}, {"name": "q"}]}));
}

fn versions_differ_in_name(cluster: &Cluster) {
    let group = "versions.example.com";
    let mut two = definition(group);
    let mut second = two["spec"]["versions"][0].clone();
    second["name"] = "v2beta1".into();
    second["storage"] = false.into();
    two["spec"]["versions"].as_array_mut().unwrap().push(second);
    define(cluster, &two);
    cluster.apply(&widget(group, "a", json!({"size": 3})).to_string());
    let read = cluster.get(&["widgets.v2beta1.versions.example.com", "a"]).unwrap();
    assert_eq!((&read["apiVersion"], &read["spec"]["size"]), (&json!("versions.example.com/v2beta1"), &json!(3)));
    let listed = says(cluster, &["api-resources", "--api-group=versions.example.com", "--no-headers"]);
    assert!(listed.contains("versions.example.com/v1 "), "{listed}");
}

fn a_definition_takes_its_instances_along(cluster: &Cluster) {
    let group = "gone.example.com";
    define(cluster, &definition(group));
    cluster.apply(&widget(group, "a", json!({})).to_string());
    let mut held = widget(group, "b", json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    cluster.apply(&held.to_string());
    says(cluster, &["delete", "crd", "widgets.gone.example.com", "--wait=false"]);
    eventually("what nothing holds is gone", || cluster.get(&["widgets.gone.example.com", "a"]).is_none());
    let definition = cluster.get(&["crd", "widgets.gone.example.com"]).unwrap();
    assert_eq!(definition["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    says(cluster, &["patch", "widgets.gone.example.com", "b", "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#]);
    says(cluster, &["wait", "--for=delete", "crd/widgets.gone.example.com", "--timeout=30s"]);
    eventually("the resource is unknown", || {
        let answer = cluster.kubectl(&["get", "--raw", "/apis/gone.example.com/v1/widgets"]);
        answer.code != 0 && answer.err.contains("the server could not find the requested resource")
    });
}

fn garbage_goes_both_ways_and_with_the_namespace(cluster: &Cluster) {
    let group = "garbage.example.com";
    define(cluster, &definition(group));
    says(cluster, &["create", "namespace", "garbage"]);
    let create =
        |object: &Value| cluster.kubectl_with_input(&["create", "-n", "garbage", "-o", "json", "-f", "-"], &object.to_string()).ok();
    let owned = |owner: &Value, mut object: Value| {
        let reference = json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]});
        object["metadata"]["ownerReferences"] = json!([reference]);
        object
    };
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let top: Value = serde_json::from_str(&create(&map("top"))).unwrap();
    let middle: Value = serde_json::from_str(&create(&owned(&top, widget(group, "middle", json!({}))))).unwrap();
    create(&owned(&middle, map("bottom")));
    create(&widget(group, "free", json!({})));
    says(cluster, &["delete", "configmap", "top", "-n", "garbage"]);
    let there = |kind: &str, name: &str| cluster.get(&[kind, name, "-n", "garbage"]).is_some();
    within(COLLECTED, "owned instances and what they own are gone", || {
        let left = [there("widgets.garbage.example.com", "middle"), there("configmap", "bottom")];
        if left.contains(&true) { Err(format!("{left:?}")) } else { Ok(()) }
    });
    assert!(there("widgets.garbage.example.com", "free"));
    says(cluster, &["delete", "namespace", "garbage", "--timeout=60s"]);
    assert!(!there("widgets.garbage.example.com", "free"));
}

fn rights_name_the_resource(cluster: &Cluster) {
    define(cluster, &definition("rights.example.com"));
    says(cluster, &["create", "role", "widget-reader", "--verb=get,list", "--resource=widgets.rights.example.com"]);
    says(cluster, &["create", "rolebinding", "widget-reader", "--role=widget-reader", "--user=jane"]);
    eventually("the reader may list", || cluster.kubectl(&["get", "widgets.rights.example.com", "--as=jane"]).code == 0);
    let refused =
        cluster.kubectl_with_input(&["create", "--as=jane", "-f", "-"], &widget("rights.example.com", "a", json!({})).to_string());
    assert!(
        refused.code != 0 && refused.err.contains("cannot create resource \"widgets\" in API group \"rights.example.com\""),
        "{}",
        refused.err
    );
}

fn wrong_definitions_are_refused_with_the_place(cluster: &Cluster) {
    let refusal = |change: &dyn Fn(&mut Value)| {
        let mut definition = definition("wrong.example.com");
        change(&mut definition["spec"]["versions"][0]);
        let answer = cluster.kubectl_with_input(&["create", "-f", "-"], &definition.to_string());
        assert_ne!(answer.code, 0);
        answer.err
    };
    let spec = "/schema/openAPIV3Schema/properties/spec/properties/size";
    let untyped = refusal(&|version| drop(version.pointer_mut(spec).unwrap().as_object_mut().unwrap().remove("type")));
    assert!(
        untyped.contains("properties[spec].properties[size].type: Required value: must not be empty for specified object fields"),
        "{untyped}"
    );
    let rules = refusal(&|version| version.pointer_mut(spec).unwrap()["x-kubernetes-validations"] = json!([{"rule": "self > 1"}]));
    assert!(rules.contains("properties[size].x-kubernetes-validations: Forbidden: rules cannot be evaluated by this server"), "{rules}");
    let unstored = refusal(&|version| version["storage"] = false.into());
    assert!(unstored.contains("must have exactly one version marked as storage version"), "{unstored}");
}

fn a_library_reads_writes_and_follows(cluster: &Cluster) {
    define(cluster, &definition("library.example.com"));
    let follow = async {
        let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let client = Client::try_from(config).unwrap();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("library.example.com", "v1", "Widget"));
        dynamically(&client, &resource).await;
        typed(&client, &resource).await;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), follow).await.expect("the library waits for ever") });
}

/// A reflector sees what the dynamic API writes.
async fn dynamically(client: &Client, resource: &ApiResource) {
    let widgets: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), resource);
    let writer = reflector::store::Writer::<DynamicObject>::new(resource.clone());
    let reader = writer.as_reader();
    let events = watcher(widgets.clone(), watcher::Config::default()).default_backoff().reflect(writer).applied_objects();
    let mut events = std::pin::pin!(events);
    let new = DynamicObject::new("followed", resource).data(json!({"spec": {"size": 1}}));
    let created = widgets.create(&PostParams::default(), &new).await.unwrap();
    assert_eq!(created.data["spec"], json!({"size": 1, "color": "red"}));
    widgets.patch("followed", &PatchParams::default(), &Patch::Merge(json!({"spec": {"size": 2}}))).await.unwrap();
    loop {
        let seen = events.next().await.expect("the watch goes on").unwrap();
        if seen.data["spec"]["size"] == 2 {
            break;
        }
    }
    // The store shows what was there at the start only when all of it has come.
    let drive = async { while events.next().await.is_some() {} };
    let stored = async {
        reader.wait_until_ready().await.unwrap();
        while !reader.state().iter().any(|widget| widget.data["spec"]["size"] == 2) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = drive => panic!("the watch ended"),
        () = stored => {}
    }
}

/// Spec and status as types of the program's own.
async fn typed(client: &Client, resource: &ApiResource) {
    type Widget = Object<BTreeMap<String, Value>, BTreeMap<String, Value>>;
    let widgets: Api<Widget> = Api::default_namespaced_with(client.clone(), resource);
    let mut widget = widgets.get("followed").await.unwrap();
    widget.spec.insert("color".into(), "blue".into());
    let replaced = widgets.replace("followed", &PostParams::default(), &widget).await.unwrap();
    assert_eq!(replaced.spec["color"], "blue");
    let status = json!({"status": {"replicas": 3}});
    let patched = widgets.patch_status("followed", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    assert_eq!(patched.status.unwrap()["replicas"], 3);
    let stale = widgets.replace("followed", &PostParams::default(), &widget).await;
    assert!(matches!(stale, Err(kube::Error::Api(status)) if status.code == 409));
}

fn instances_are_served_after_a_restart(cluster: &Cluster) {
    define(cluster, &definition("restart.example.com"));
    cluster.apply(&widget("restart.example.com", "a", json!({"size": 7})).to_string());
    cluster.signal("apiserver", Signal::SIGKILL);
    eventually("the instance is read", || cluster.get(&["widgets.restart.example.com", "a"]).is_some_and(|read| read["spec"]["size"] == 7));
}
