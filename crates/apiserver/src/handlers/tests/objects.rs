//! Rules of single kinds that the generic flow keeps: versions, generations, status apart from the rest.

use super::*;

const DRIVERS: &str = "/apis/storage.k8s.io/v1/csidrivers";
const SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";

#[tokio::test]
async fn some_kinds_are_only_replaced_by_who_knows_their_version() {
    let api = api();
    let driver = |republish: bool| json!({"metadata": {"name": "d.io"}, "spec": {"requiresRepublish": republish}});
    let created = post(&api, DRIVERS, &driver(false)).await.body;
    let url = format!("{DRIVERS}/d.io");
    let refused = put(&api, &url, &driver(true)).await;
    let text =
        "csidrivers.storage.k8s.io \"d.io\" is invalid: metadata.resourceVersion: Invalid value: 0x0: must be specified for an update";
    assert_eq!((refused.code, refused.body["message"].as_str().unwrap()), (422, text));
    let mut known = driver(true);
    known["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"].clone();
    let updated = put(&api, &url, &known).await;
    assert_eq!((updated.code, &created["metadata"]["generation"], &updated.body["metadata"]["generation"]), (200, &Value::Null, &json!(1)));
}

#[tokio::test]
async fn a_status_write_leaves_the_metadata_and_its_managers_alone() {
    let api = api();
    let schema = json!({"metadata": {"name": "s", "labels": {"l": "1"}},
        "spec": {"matchingPrecedence": 9, "priorityLevelConfiguration": {"name": "p"}}});
    let created = post(&api, SCHEMAS, &schema).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let change = json!({"metadata": {"labels": {"l": "2"}, "annotations": {"a": "b"}},
        "spec": {"matchingPrecedence": 10}, "status": {"conditions": [{"type": "Dangling", "status": "True"}]}});
    let url = format!("{SCHEMAS}/s/status?fieldManager=status");
    let changed = patch(&api, &url, MERGE, &change).await.body;
    assert_eq!((&changed["metadata"]["labels"], &changed["metadata"]["annotations"]), (&json!({"l": "1"}), &Value::Null));
    assert_eq!((&changed["spec"]["matchingPrecedence"], &changed["metadata"]["generation"]), (&json!(9), &json!(1)));
    let managers = changed["metadata"]["managedFields"].as_array().unwrap();
    let own = managers.iter().find(|entry| entry["manager"] == "status").unwrap();
    let fields: Vec<&str> = own["fieldsV1"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!((own["subresource"].as_str(), fields), (Some("status"), vec!["f:status"]));
}

#[tokio::test]
async fn labels_of_an_endpoint_slice_count_as_its_content() {
    let api = api();
    let url = "/apis/discovery.k8s.io/v1/namespaces/a/endpointslices";
    let slice = json!({"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": []});
    assert_eq!(put(&api, &format!("{url}/s"), &slice).await.code, 404);
    assert_eq!(post(&api, url, &slice).await.body["metadata"]["generation"], 1);
    let annotated = patch(&api, &format!("{url}/s"), MERGE, &json!({"metadata": {"annotations": {"a": "b"}}})).await;
    assert_eq!(annotated.body["metadata"]["generation"], 1);
    let labelled = patch(&api, &format!("{url}/s"), MERGE, &json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(labelled.body["metadata"]["generation"], 2);
}

#[tokio::test]
async fn an_update_is_held_to_the_rules_of_metadata_and_cannot_make_an_object_older() {
    let api = api();
    let created = post(&api, MAPS, &map("x", "1")).await.body;
    let url = format!("{MAPS}/x");
    let aged = patch(&api, &url, MERGE, &json!({"metadata": {"creationTimestamp": "2000-01-01T00:00:00Z"}})).await;
    assert_eq!((aged.code, &aged.body), (200, &created));
    for bad in [json!({"finalizers": ["nodomain"]}), json!({"labels": {"l": "a b"}}), json!({"annotations": {"a b": "c"}})] {
        let refused = patch(&api, &url, MERGE, &json!({"metadata": bad})).await;
        assert_eq!((refused.code, refused.body["reason"].as_str()), (422, Some("Invalid")), "{}", refused.body);
    }
}

#[tokio::test]
async fn a_driver_of_a_node_may_change_how_much_it_takes_only() {
    let api = api();
    let url = "/apis/storage.k8s.io/v1/csinodes";
    let node = json!({"metadata": {"name": "n"}, "spec": {"drivers": [{"name": "d.io", "nodeID": "1", "topologyKeys": ["k"]}]}});
    assert_eq!(post(&api, url, &node).await.code, 201);
    let of = |driver: Value| json!({"spec": {"drivers": [driver]}});
    let more = of(json!({"name": "d.io", "nodeID": "1", "topologyKeys": ["k"], "allocatable": {"count": 5}}));
    assert_eq!(patch(&api, &format!("{url}/n"), MERGE, &more).await.code, 200);
    let other = patch(&api, &format!("{url}/n"), MERGE, &of(json!({"name": "d.io", "nodeID": "2", "topologyKeys": ["k"]}))).await;
    assert_eq!(other.code, 422);
    assert!(other.body["message"].as_str().unwrap().contains("CSINodeDriver: Invalid value"), "{}", other.body);
    assert_eq!(patch(&api, &format!("{url}/n"), MERGE, &of(json!({"name": "e.io", "nodeID": "2"}))).await.code, 200);
}

#[tokio::test]
async fn the_name_of_an_object_on_its_way_out_is_taken() {
    let api = api();
    let mut held = map("x", "1");
    held["metadata"]["finalizers"] = json!(["example.com/f"]);
    post(&api, MAPS, &held).await;
    let again = |answer: Answer| (answer.code, answer.body["message"].as_str().unwrap().to_owned());
    assert_eq!(again(post(&api, MAPS, &held).await), (409, "configmaps \"x\" already exists".to_owned()));
    send(&api, "DELETE", &format!("{MAPS}/x"), &[], Body::empty()).await;
    let text = "object is being deleted: configmaps \"x\" already exists";
    for url in [MAPS.to_owned(), format!("{MAPS}?dryRun=All")] {
        assert_eq!(again(post(&api, &url, &held).await), (409, text.to_owned()));
    }
}

#[tokio::test]
async fn a_write_that_comes_to_nothing_leaves_the_object_as_it_was() {
    let api = api();
    let url = "/apis/apps/v1/namespaces/a/deployments";
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let created = post(&api, url, &deployment).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let mut again = created.body.clone();
    again["status"] = json!({"replicas": 5});
    again["metadata"]["managedFields"][0]["time"] = "2020-01-01T00:00:00Z".into();
    assert_eq!(put(&api, &format!("{url}/d?fieldManager=other"), &again).await.body, created.body);
}

#[tokio::test]
async fn managers_of_one_version_learn_of_changes_in_another() {
    let api = api();
    let (v1, v2) =
        ("/apis/autoscaling/v1/namespaces/a/horizontalpodautoscalers", "/apis/autoscaling/v2/namespaces/a/horizontalpodautoscalers");
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let old = |percent: i64| {
        json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
            "spec": {"scaleTargetRef": target, "maxReplicas": 3, "targetCPUUtilizationPercentage": percent}})
    };
    let apply = async |percent: i64| patch(&api, &format!("{v1}/h?fieldManager=one"), "application/apply-patch+yaml", &old(percent)).await;
    assert_eq!(apply(50).await.code, 201);
    let metrics = json!({"spec": {"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization",
        "averageUtilization": 70}}}]}});
    let changed = patch(&api, &format!("{v2}/h?fieldManager=two"), MERGE, &metrics).await;
    assert_eq!(changed.code, 200, "{}", changed.body);
    let managers = changed.body["metadata"]["managedFields"].as_array().unwrap();
    let spec = |name: &str| &managers.iter().find(|entry| entry["manager"] == name).unwrap()["fieldsV1"]["f:spec"];
    assert_eq!((spec("one").get("f:targetCPUUtilizationPercentage"), spec("one").get("f:maxReplicas").is_some()), (None, true));
    assert_eq!(spec("two"), &json!({"f:metrics": {}}));
    let conflict = apply(50).await;
    let text = "Apply failed with 1 conflict: conflict with \"two\" using autoscaling/v2: .spec.metrics";
    assert_eq!((conflict.code, conflict.body["message"].as_str().unwrap()), (409, text));
}
