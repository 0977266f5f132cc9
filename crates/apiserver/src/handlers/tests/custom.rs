//! Custom resources from their definition to its end, with the server's own loops running.

use super::*;
use crate::extensions::Extensions;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/a/widgets";

/// An API whose loops end with the test's runtime.
fn api() -> Service {
    api_on(Arc::new(Memory::new()))
}

fn api_on(store: Arc<Memory>) -> Service {
    let loopback = Loopback::default();
    let hub = Arc::new(Hub::new(store, "/registry", &Wiring::default(), Chain::default(), loopback.clone()));
    let api = api_of(hub.clone(), &loopback);
    tokio::spawn(Extensions::new(hub, loopback).run(Shutdown::new()));
    api
}

fn definition(version: Value) -> Value {
    let names = json!({"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["things"]});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    })
}

fn version(name: &str) -> Value {
    let spec = json!({"type": "object", "properties": {
        "size": {"type": "integer", "minimum": 1}, "color": {"type": "string", "default": "red"}, "replicas": {"type": "integer"}}});
    let status = json!({"type": "object", "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer"}}});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    json!({
        "name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
        "selectableFields": [{"jsonPath": ".spec.color"}],
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
    })
}

fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

/// Asks again until the answer is the one waited for.
async fn until(api: &Service, url: &str, what: &str, holds: impl Fn(&Answer) -> bool) -> Answer {
    let asking = async {
        loop {
            let answer = get(api, url).await;
            if holds(&answer) {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), asking).await.unwrap_or_else(|_| panic!("{url} never became {what}"))
}

async fn defined(version: Value) -> Service {
    let api = api();
    let created = post(&api, DEFINITIONS, &definition(version)).await;
    assert_eq!(created.code, 201, "{}", created.body);
    established(&api).await;
    api
}

async fn established(api: &Service) {
    let is = |answer: &Answer| condition(&answer.body, "Established").is_some_and(|condition| condition["status"] == "True");
    until(api, DEFINITION, "established", is).await;
}

fn condition<'a>(definition: &'a Value, kind: &str) -> Option<&'a Value> {
    definition["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

#[tokio::test]
async fn an_established_definition_is_served_at_once() {
    let api = defined(version("v1")).await;
    assert_eq!(get(&api, WIDGETS).await.body["kind"], "WidgetList");
    let created = post(&api, WIDGETS, &widget("x", json!({"size": 3, "gone": 1}))).await;
    assert_eq!((created.code, &created.body["spec"]), (201, &json!({"size": 3, "color": "red"})));
    assert!(created.headers["warning"].to_str().unwrap().contains("unknown field \\\"spec.gone\\\""));
    let small = post(&api, WIDGETS, &widget("y", json!({"size": 0}))).await;
    assert_eq!((small.code, &small.body["details"]["causes"][0]["field"]), (422, &json!("spec.size")));
    let found = get(&api, &format!("{WIDGETS}?fieldSelector=spec.color%3Dred")).await;
    assert_eq!(found.body["items"][0], created.body);
    assert_eq!(found.body["metadata"]["continue"], "");
    assert_eq!(get(&api, &format!("{WIDGETS}?fieldSelector=spec.color%3Dblue")).await.body["items"], json!([]));
    let table = send(&api, "GET", WIDGETS, &[("accept", TABLE)], Body::empty()).await;
    assert_eq!(table.body["rows"][0]["cells"], json!(["x", 3]));
}

#[tokio::test]
async fn a_column_over_managed_fields_shows_them_in_lists_too() {
    let mut version = version("v1");
    version["additionalPrinterColumns"] = json!([{"name": "How", "type": "string", "jsonPath": ".metadata.managedFields[0].operation"}]);
    let api = defined(version).await;
    post(&api, WIDGETS, &widget("x", json!({}))).await;
    let table = send(&api, "GET", WIDGETS, &[("accept", TABLE)], Body::empty()).await;
    assert_eq!(table.body["rows"][0]["cells"], json!(["x", "Update"]));
}

#[tokio::test]
async fn several_servers_on_one_store_serve_what_any_of_them_was_told() {
    let store = Arc::new(Memory::new());
    let (one, other) = (api_on(store.clone()), api_on(store));
    post(&one, DEFINITIONS, &definition(version("v1"))).await;
    established(&other).await;
    until(&one, WIDGETS, "served by the one", |answer| answer.code == 200).await;
    until(&other, WIDGETS, "served by the other", |answer| answer.code == 200).await;
    assert_eq!(post(&other, WIDGETS, &widget("x", json!({"size": 3}))).await.code, 201);
    assert_eq!(get(&one, &format!("{WIDGETS}/x")).await.body["spec"]["size"], 3);
    send(&one, "DELETE", DEFINITION, &[], Body::empty()).await;
    until(&one, DEFINITION, "gone", |answer| answer.code == 404).await;
    until(&other, WIDGETS, "gone", |answer| answer.code == 404).await;
}

#[tokio::test]
async fn a_server_that_has_not_read_the_definitions_asks_for_patience() {
    let loopback = Loopback::default();
    let hub = Arc::new(Hub::new(Arc::new(Memory::new()), "/registry", &Wiring::default(), Chain::default(), loopback.clone()));
    let extensions = Extensions::new(hub.clone(), loopback.clone());
    let api = api_of(hub, &loopback);
    for url in [WIDGETS, "/apis/example.com/v1", "/apis/example.com"] {
        let early = get(&api, url).await;
        assert_eq!((early.code, &early.headers["retry-after"]), (503, &http::HeaderValue::from(1)), "{url}: {}", early.body);
    }
    assert_eq!(get(&api, "/nowhere").await.code, 404);
    tokio::spawn(extensions.run(Shutdown::new()));
    until(&api, WIDGETS, "known not to be there", |answer| answer.code == 404).await;
}

#[tokio::test]
async fn what_is_not_served_is_not_found() {
    let api = defined(version("v1")).await;
    for url in [
        "/apis/example.com/v2/namespaces/a/widgets",
        "/apis/example.com/v2",
        "/apis/other.example.com/v1/widgets",
        "/apis/example.com/v1/gadgets",
    ] {
        let missing = get(&api, url).await;
        assert_eq!((missing.code, &missing.body), (404, &json!("404 page not found\n")), "{url}");
    }
    let sub = get(&api, &format!("{WIDGETS}/x/other")).await;
    assert_eq!((sub.code, &sub.body["message"]), (404, &json!("widgets.example.com \"x\" not found")));
}

#[tokio::test]
async fn status_and_scale_have_their_own_doors() {
    let api = defined(version("v1")).await;
    post(&api, WIDGETS, &widget("x", json!({"replicas": 2}))).await;
    let url = format!("{WIDGETS}/x");
    let status = patch(
        &api,
        &format!("{url}/status"),
        MERGE,
        &json!({"metadata": {"labels": {"l": "v"}}, "spec": {"replicas": 9}, "status": {"replicas": 1}}),
    )
    .await;
    assert_eq!(
        (&status.body["spec"]["replicas"], &status.body["status"], &status.body["metadata"]["labels"]),
        (&json!(2), &json!({"replicas": 1}), &Value::Null)
    );
    assert_eq!(status.body["metadata"]["generation"], 1);
    let scale = patch(&api, &format!("{url}/scale"), MERGE, &json!({"spec": {"replicas": 5}})).await;
    assert_eq!((&scale.body["kind"], &scale.body["spec"]), (&json!("Scale"), &json!({"replicas": 5})));
    let replaced = put(
        &api,
        &format!("{url}/scale"),
        &json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "x"}, "spec": {"replicas": 6}}),
    )
    .await;
    assert_eq!(replaced.code, 200, "{}", replaced.body);
    let read = get(&api, &url).await.body;
    assert_eq!(
        (&read["spec"]["replicas"], &read["metadata"]["generation"], &read["status"]["replicas"]),
        (&json!(6), &json!(3), &json!(1))
    );
    let bad = patch(&api, &format!("{url}/status"), MERGE, &json!({"status": {"phase": 1}})).await;
    assert_eq!(
        bad.body["details"]["causes"][0]["message"],
        "Invalid value: \"integer\": phase in body must be of type string: \"integer\""
    );
}

#[tokio::test]
async fn a_strategic_patch_is_not_known() {
    let api = defined(version("v1")).await;
    post(&api, WIDGETS, &widget("x", json!({}))).await;
    let refused = patch(&api, &format!("{WIDGETS}/x"), "application/strategic-merge-patch+json", &json!({})).await;
    assert_eq!(refused.code, 415);
    let applied = send(
        &api,
        "PATCH",
        &format!("{WIDGETS}/z?fieldManager=m"),
        &[("content-type", "application/apply-patch+yaml")],
        widget("z", json!({"size": 2})).to_string(),
    )
    .await;
    assert_eq!((applied.code, &applied.body["metadata"]["managedFields"][0]["fieldsV1"]), (201, &json!({"f:spec": {"f:size": {}}})));
}

#[tokio::test]
async fn discovery_and_open_api_show_the_resource_and_its_names() {
    let api = defined(version("v1")).await;
    let list = get(&api, "/apis/example.com/v1").await.body;
    let names: Vec<_> = list["resources"].as_array().unwrap().iter().map(|resource| resource["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["widgets", "widgets/scale", "widgets/status"]);
    assert_eq!((&list["resources"][0]["shortNames"], &list["resources"][0]["categories"]), (&json!(["wd"]), &json!(["things"])));
    let accept = [("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")];
    let groups = send(&api, "GET", "/apis", &accept, Body::empty()).await.body;
    let last = groups["items"].as_array().unwrap().last().unwrap();
    let kind = json!({"group": "example.com", "version": "v1", "kind": "Widget"});
    assert_eq!((&last["metadata"]["name"], &last["versions"][0]["resources"][0]["responseKind"]), (&json!("example.com"), &kind));
    let document = get(&api, "/openapi/v3/apis/example.com/v1").await.body;
    let schema = &document["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(schema["properties"]["spec"]["properties"]["size"], json!({"type": "integer", "minimum": 1}));
}

#[tokio::test]
async fn a_changed_definition_changes_what_is_read_and_ends_watches() {
    let api = defined(version("v1")).await;
    post(&api, WIDGETS, &widget("x", json!({"size": 1}))).await;
    let request = Request::get(format!("{WIDGETS}?watch=1&resourceVersion=0")).body(Body::empty()).unwrap();
    let watch = api.clone().oneshot(request).await.unwrap().into_body();
    let mut changed = version("v1");
    changed["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["extra"] = json!({"type": "string", "default": "new"});
    let patched = patch(&api, DEFINITION, MERGE, &json!({"spec": {"versions": [changed]}})).await;
    assert_eq!((patched.code, &patched.body["metadata"]["generation"]), (200, &json!(2)), "{}", patched.body);
    until(&api, &format!("{WIDGETS}/x"), "read by the new schema", |answer| answer.body["spec"]["extra"] == "new").await;
    let ended = tokio::time::timeout(Duration::from_secs(20), watch.collect()).await;
    assert!(ended.is_ok(), "the watch goes on by the old schema");
}

#[tokio::test]
async fn another_version_differs_in_name_and_both_are_remembered_as_stored() {
    let api = api();
    let mut both = definition(version("v1"));
    both["spec"]["versions"] = json!([version("v1"), version("v2")]);
    post(&api, DEFINITIONS, &both).await;
    established(&api).await;
    post(&api, WIDGETS, &widget("x", json!({"size": 1}))).await;
    let second = get(&api, "/apis/example.com/v2/namespaces/a/widgets/x").await;
    assert_eq!((&second.body["apiVersion"], &second.body["spec"]["size"]), (&json!("example.com/v2"), &json!(1)));
    let mut versions = [version("v1"), version("v2")];
    versions[0]["storage"] = false.into();
    versions[1]["storage"] = true.into();
    let moved = patch(&api, DEFINITION, MERGE, &json!({"spec": {"versions": versions}})).await;
    assert_eq!(moved.body["status"]["storedVersions"], json!(["v1", "v2"]));
    let group = get(&api, "/apis/example.com").await;
    assert_eq!(group.body["preferredVersion"]["version"], "v2");
}

#[tokio::test]
async fn names_that_are_taken_are_accepted_once_they_are_free() {
    let api = defined(version("v1")).await;
    let mut second = definition(version("v1"));
    second["metadata"]["name"] = "gadgets.example.com".into();
    second["spec"]["names"] = json!({"plural": "gadgets", "kind": "Widget"});
    post(&api, DEFINITIONS, &second).await;
    let url = format!("{DEFINITIONS}/gadgets.example.com");
    let refused = until(&api, &url, "refused", |answer| condition(&answer.body, "NamesAccepted").is_some()).await;
    assert_eq!(condition(&refused.body, "NamesAccepted").unwrap()["reason"], "ListKindConflict");
    assert_eq!(get(&api, "/apis/example.com/v1/namespaces/a/gadgets").await.code, 404);
    send(&api, "DELETE", DEFINITION, &[], Body::empty()).await;
    until(&api, "/apis/example.com/v1/namespaces/a/gadgets", "served", |answer| answer.code == 200).await;
}

#[tokio::test]
async fn instances_go_with_their_definition_and_none_come_meanwhile() {
    let api = defined(version("v1")).await;
    let mut held = widget("x", json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    post(&api, WIDGETS, &held).await;
    post(&api, WIDGETS, &widget("y", json!({}))).await;
    let marked = send(&api, "DELETE", DEFINITION, &[], Body::empty()).await;
    assert_eq!((marked.code, &marked.body["metadata"]["finalizers"]), (200, &json!(["customresourcecleanup.apiextensions.k8s.io"])));
    until(&api, &format!("{WIDGETS}/y"), "gone", |answer| answer.code == 404).await;
    let terminating = until(&api, DEFINITION, "in progress", |answer| {
        condition(&answer.body, "Terminating").is_some_and(|condition| condition["reason"] == "InstanceDeletionInProgress")
    })
    .await;
    assert_eq!(condition(&terminating.body, "Terminating").unwrap()["status"], "True");
    until(&api, "/apis/example.com/v1", "without the verbs that write", |answer| {
        answer.body["resources"][0]["verbs"] == json!(["delete", "deletecollection", "get", "list", "watch"])
    })
    .await;
    let refused = post(&api, WIDGETS, &widget("z", json!({}))).await;
    assert_eq!(refused.code, 403, "{}", refused.body);
    assert!(refused.body["message"].as_str().unwrap().ends_with("create not allowed while custom resource definition is terminating"));
    patch(&api, &format!("{WIDGETS}/x"), MERGE, &json!({"metadata": {"finalizers": []}})).await;
    until(&api, DEFINITION, "gone", |answer| answer.code == 404).await;
    until(&api, WIDGETS, "gone", |answer| answer.code == 404 && answer.body == "404 page not found\n").await;
}
