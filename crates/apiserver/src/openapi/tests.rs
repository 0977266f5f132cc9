use super::*;

fn strings(items: &[&str]) -> Vec<String> {
    items.iter().map(|item| (*item).to_owned()).collect()
}

fn api(group: &str, kind: &str, plural: &str, definition: &str) -> Api {
    let verbs = strings(&["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]);
    let status = Sub { name: "status".into(), verbs: strings(&["get", "patch", "update"]), gvk: None };
    let item = Item {
        plural: plural.into(),
        gvk: GroupVersionKind::new(group, "v1", kind),
        definition: definition.into(),
        namespaced: true,
        verbs,
        subresources: vec![status],
        custom: None,
    };
    Api { group: group.into(), version: "v1".into(), resources: vec![item], ..Api::default() }
}

fn leases() -> Api {
    api("coordination.k8s.io", "Lease", "leases", "io.k8s.api.coordination.v1.Lease")
}

fn deployments() -> Api {
    let mut apps = api("apps", "Deployment", "deployments", "io.k8s.api.apps.v1.Deployment");
    let scale = GroupVersionKind::new("autoscaling", "v1", "Scale");
    apps.resources[0].subresources.push(Sub { name: "scale".into(), verbs: strings(&["get", "patch", "update"]), gvk: Some(scale) });
    apps
}

fn parsed(apis: &[Api], path: &str) -> Value {
    serde_json::from_slice(&document(apis, path).unwrap().0).unwrap()
}

#[test]
fn the_index_names_every_document_with_its_hash() {
    let apis = [leases(), deployments()];
    let index: Value = serde_json::from_slice(&index(&apis, Vec::new())).unwrap();
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap();
    assert_eq!(url, format!("/openapi/v3/apis/apps/v1?hash={}", apis[1].hash()));
    for path in ["api", "apis", "apis/apps", "version", ".well-known/openid-configuration"] {
        assert!(index["paths"].get(path).is_some(), "{path}");
        assert!(document(&apis, path).is_some(), "{path}");
    }
    assert!(document(&apis, "apis/none/v1").is_none());
    assert_ne!(apis[0].hash(), apis[1].hash());
}

#[test]
fn schemas_carry_descriptions_defaults_and_merge_rules() {
    let document = parsed(&[deployments()], "apis/apps/v1");
    let schemas = &document["components"]["schemas"];
    let ports = &schemas["io.k8s.api.core.v1.Container"]["properties"]["ports"];
    assert_eq!(ports["x-kubernetes-list-map-keys"], json!(["containerPort", "protocol"]));
    assert_eq!(ports["x-kubernetes-patch-merge-key"], "containerPort");
    assert!(ports["description"].as_str().unwrap().starts_with("List of ports to expose"));
    let spec = &schemas["io.k8s.api.apps.v1.Deployment"]["properties"]["spec"];
    assert_eq!(spec["allOf"], json!([{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec"}]));
    assert_eq!(spec["default"], json!({}));
    assert!(schemas.get("io.k8s.api.autoscaling.v1.Scale").is_some(), "subresources bring their kinds");
    let kinds = &schemas["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]["x-kubernetes-group-version-kind"];
    assert_eq!(kinds.as_array().unwrap().len(), 2);
}

#[test]
fn every_reference_leads_somewhere() {
    for (bytes, place) in [
        (document(&[deployments()], "apis/apps/v1").unwrap().0, "components/schemas"),
        (swagger(&[leases(), deployments()], &[]), "definitions"),
    ] {
        let document: Value = serde_json::from_slice(&bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let prefix = format!("\"$ref\":\"#/{place}/");
        for part in text.split(&prefix).skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(document.pointer(&format!("/{place}/{name}")).is_some(), "{name}");
        }
    }
}

#[test]
fn patches_take_field_validation_as_kubectl_checks() {
    let document = parsed(&[deployments()], "apis/apps/v1");
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert_eq!(patch["x-kubernetes-group-version-kind"], json!({"group": "apps", "version": "v1", "kind": "Deployment"}));
    assert_eq!(patch["operationId"], "patchAppsV1NamespacedDeployment");
    let names: Vec<_> = patch["parameters"].as_array().unwrap().iter().filter_map(|parameter| parameter["name"].as_str()).collect();
    assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"]);
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.contains_key("/apis/apps/v1/deployments"));
    assert!(paths.contains_key("/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"));
}

#[test]
fn swagger_has_no_defaults_and_plain_references() {
    let document: Value = serde_json::from_slice(&swagger(&[leases()], &[])).unwrap();
    let spec = &document["definitions"]["io.k8s.api.coordination.v1.Lease"]["properties"]["spec"];
    assert_eq!(spec["$ref"], "#/definitions/io.k8s.api.coordination.v1.LeaseSpec");
    assert!(spec.get("default").is_none() && spec.get("description").is_some());
    assert_eq!(document["swagger"], "2.0");
}

#[test]
fn custom_resources_bring_their_own_schema() {
    let mut widgets = api("example.com", "Widget", "widgets", "com.example.v1.Widget");
    let schema = json!({"properties": {"spec": {"type": "object", "description": "what it is"}}});
    widgets.resources[0].custom = Some(Arc::new(Written::new(&schema)));
    let document = parsed(&[widgets], "apis/example.com/v1");
    let schema = &document["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(schema["properties"]["spec"]["description"], "what it is");
    assert_eq!(schema["x-kubernetes-group-version-kind"], json!([{"group": "example.com", "version": "v1", "kind": "Widget"}]));
    let patch = &document["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"];
    assert!(patch["requestBody"]["content"].get("application/strategic-merge-patch+json").is_none());
}
