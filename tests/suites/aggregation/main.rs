//! An API server behind the cluster's: registered, used through it with kubectl, and survived when it dies.
#![allow(clippy::unwrap_used)]

mod extension;
mod front_proxy;
mod wire;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tests::{Background, Cluster, eventually, within};

use extension::{Extension, GROUP, Keys, own_address};
use wire::Wire;

const NAME: &str = "v1.ext.example.com";
const THINGS: &str = "/apis/ext.example.com/v1/namespaces/default/things";
/// Whether a server answers is looked at every half minute.
const NOTICED: Duration = Duration::from_secs(90);

#[test]
fn an_api_server_behind_this_one_is_used_like_the_rest() {
    let Some(address) = own_address() else {
        eprintln!("skipped: this machine has no address but loopback's");
        return;
    };
    let cluster = Cluster::up(&["--components", "store,apiserver"]);
    own_versions_are_registered(&cluster);
    front_proxy::a_front_proxy_speaks_for_others(&cluster);
    custom_resources_come_and_go_with_their_api_service(&cluster);
    let (keys, front_proxy) = (Keys::new("ext.default.svc"), cluster.directory().join("pki/front-proxy-ca.crt"));
    let extension = Extension::start(SocketAddr::new(address, 0), &keys, &front_proxy, cluster.directory());
    what_is_missing_is_told(&cluster, &keys, address, extension.port);
    let wire = Wire::open(&cluster);
    kubectl_does_its_everyday_work(&cluster);
    rights_are_asked_for_before_anybody_else_hears(&cluster);
    protocols_are_switched(&wire);
    documents_are_merged(&cluster);
    a_certificate_of_others_is_not_believed(&cluster, &wire, &keys);
    let port = extension.port;
    drop(extension);
    a_dead_server_harms_nobody(&cluster, &wire);
    let _again = Extension::start(SocketAddr::new(address, port), &keys, &front_proxy, cluster.directory());
    within(NOTICED, "the server is available again", || is_available(&cluster));
    assert_eq!(wire.get(THINGS).0, 200);
    what_is_not_registered_is_gone(&cluster, &wire);
}

fn condition(cluster: &Cluster) -> (String, String, String) {
    let service = cluster.get(&["apiservice", NAME]).unwrap();
    let condition = &service["status"]["conditions"][0];
    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"), text("message"))
}

fn is_available(cluster: &Cluster) -> Result<(), String> {
    let condition = condition(cluster);
    if condition.0 == "True" && condition.1 == "Passed" { Ok(()) } else { Err(format!("{condition:?}")) }
}

fn own_versions_are_registered(cluster: &Cluster) {
    let table = cluster.kubectl(&["get", "apiservices"]).ok();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
    assert_eq!(rows[0], ["NAME", "SERVICE", "AVAILABLE"]);
    for name in ["v1.", "v1.apps", "v2.autoscaling", "v1.rbac.authorization.k8s.io"] {
        assert!(rows.contains(&vec![name, "Local", "True"]), "{name} is missing in:\n{table}");
    }
    let core = cluster.get(&["apiservice", "v1."]).unwrap();
    assert_eq!(core["metadata"]["labels"], json!({"kube-aggregator.kubernetes.io/automanaged": "onstart"}));
    assert_eq!(core["spec"], json!({"version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1}));
    assert_eq!(core["status"]["conditions"][0]["reason"], "Local");
}

fn custom_resources_come_and_go_with_their_api_service(cluster: &Cluster) {
    let version = |name: &str, served: bool| json!({"name": name, "served": served, "storage": served, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let spec = json!({
        "group": "custom.example.com", "scope": "Cluster", "names": {"plural": "ws", "kind": "W"},
        "versions": [version("v1", true), version("v0", false)],
    });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "ws.custom.example.com"}, "spec": spec,
    });
    cluster.apply(&definition.to_string());
    let found = |name: &str| cluster.get(&["apiservice", name]);
    eventually("the definition's version has its APIService", || found("v1.custom.example.com").is_some());
    let registered = found("v1.custom.example.com").unwrap();
    assert_eq!(registered["metadata"]["labels"], json!({"kube-aggregator.kubernetes.io/automanaged": "true"}));
    assert_eq!((&registered["spec"]["groupPriorityMinimum"], &registered["spec"]["versionPriority"]), (&json!(1000), &json!(100)));
    assert!(found("v0.custom.example.com").is_none(), "a version that is not served has none");
    cluster.kubectl(&["delete", "apiservice", "v1.custom.example.com"]).ok();
    eventually("what was deleted by hand comes back", || found("v1.custom.example.com").is_some());
    cluster.kubectl(&["delete", "crd", "ws.custom.example.com"]).ok();
    eventually("it goes with the definition", || found("v1.custom.example.com").is_none());
}

fn api_service(bundle: &str) -> Value {
    json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": NAME},
        "spec": {
            "group": GROUP, "version": "v1", "groupPriorityMinimum": 500, "versionPriority": 10,
            "service": {"namespace": "default", "name": "ext", "port": 443}, "caBundle": STANDARD.encode(bundle),
        },
    })
}

fn slice(address: IpAddr, port: u16, ready: bool) -> String {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": if address.is_ipv4() { "IPv4" } else { "IPv6" },
        "metadata": {"name": "ext-1", "labels": {"kubernetes.io/service-name": "ext"}},
        "endpoints": [{"addresses": [address.to_string()], "conditions": {"ready": ready}}], "ports": [{"name": "https", "port": port}],
    })
    .to_string()
}

/// From the APIService alone to a server that answers: each step's condition is told.
fn what_is_missing_is_told(cluster: &Cluster, keys: &Keys, address: IpAddr, port: u16) {
    let reason = |wanted: &str| {
        within(NOTICED, wanted, || {
            let condition = condition(cluster);
            if condition.0 == "False" && condition.1 == wanted { Ok(condition.2) } else { Err(format!("{condition:?}")) }
        })
    };
    cluster.apply(&api_service(&keys.ca).to_string());
    assert_eq!(reason("ServiceNotFound"), "service/ext in \"default\" is not present");
    let service = |port: u16| {
        let ports = json!([{"name": "https", "port": port, "targetPort": 8443}]);
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "ext"}, "spec": {"ports": ports}}).to_string()
    };
    cluster.apply(&service(444));
    assert_eq!(reason("ServicePortError"), "service/ext in \"default\" is not listening on port 443");
    cluster.apply(&service(443));
    assert_eq!(reason("EndpointsNotFound"), "cannot find endpointslices for service/ext in \"default\"");
    cluster.apply(&slice(address, port, false));
    reason("MissingEndpoints");
    let shown = cluster.kubectl(&["get", "apiservice", NAME, "--no-headers"]).ok();
    assert_eq!(shown.split_whitespace().skip(1).take(3).collect::<Vec<_>>(), ["default/ext", "False", "(MissingEndpoints)"]);
    let nobody = tests::ports::free(1)[0];
    cluster.apply(&slice(address, nobody, true));
    let message = reason("FailedDiscoveryCheck");
    assert!(message.starts_with(&format!("failing or missing response from https://{address}:{nobody}/apis/{GROUP}/v1: ")), "{message}");
    cluster.apply(&slice(address, port, true));
    within(NOTICED, "the server is available", || is_available(cluster));
    let shown = cluster.kubectl(&["get", "apiservice", NAME, "--no-headers"]).ok();
    assert_eq!(shown.split_whitespace().skip(1).take(2).collect::<Vec<_>>(), ["default/ext", "True"]);
}

fn thing(name: &str) -> String {
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Thing", "metadata": {"name": name}, "size": 3}).to_string()
}

fn kubectl_does_its_everyday_work(cluster: &Cluster) {
    let resources = cluster.kubectl(&["api-resources", &format!("--api-group={GROUP}"), "--no-headers"]).ok();
    assert_eq!(resources.split_whitespace().collect::<Vec<_>>(), ["things", "th", "ext.example.com/v1", "true", "Thing"]);
    let log = cluster.directory().join("watch.log");
    let args = ["get", "things", "--watch-only", "--output-watch-events", "-o", "json"];
    let watch = Background::run(&mut cluster.kubectl_command(&args), &log);
    eventually("a watch hears of a new thing", || {
        // The watch may not have begun when the first came.
        cluster.kubectl_with_input(&["create", "--validate=false", "-f", "-"], &thing("a")).ok();
        std::fs::read_to_string(&log).unwrap().contains("ADDED")
    });
    drop(watch);
    assert_eq!(cluster.kubectl(&["get", "th", "a", "-o", "name"]).ok().trim(), "thing.ext.example.com/a");
    let raw: Value = serde_json::from_str(&cluster.kubectl(&["get", "--raw", THINGS]).ok()).unwrap();
    assert_eq!((&raw["kind"], raw["items"].as_array().unwrap().len()), (&json!("ThingList"), 1));
    let heard = &raw["items"][0]["heard"];
    assert_eq!(*heard, json!({"user": ["kubernetes-admin"], "groups": ["system:masters", "system:authenticated"], "authorization": []}));
    let missing = cluster.kubectl(&["get", "thing", "b"]);
    assert!(missing.code != 0 && missing.err.contains("not here"), "its own errors arrive: {}", missing.err);
}

fn rights_are_asked_for_before_anybody_else_hears(cluster: &Cluster) {
    let jane = |args: &[&str], input: &str| cluster.kubectl_with_input(&[&["--as=jane", "--as-group=crew"], args].concat(), input);
    let refused = jane(&["get", "things"], "");
    let wanted = "things.ext.example.com is forbidden: User \"jane\" cannot list resource \"things\" in API group \"ext.example.com\"";
    assert!(refused.code != 0 && refused.err.contains(wanted), "{}", refused.err);
    let role = ["create", "role", "things", "--verb=create", "--verb=get", "--resource=things.ext.example.com"];
    cluster.kubectl(&role).ok();
    cluster.kubectl(&["create", "rolebinding", "things", "--role=things", "--user=jane"]).ok();
    eventually("the right is known", || jane(&["auth", "can-i", "create", "things.ext.example.com"], "").code == 0);
    jane(&["create", "--validate=false", "-f", "-"], &thing("janes")).ok();
    let heard = &cluster.get(&["thing", "janes"]).unwrap()["heard"];
    assert_eq!(*heard, json!({"user": ["jane"], "groups": ["crew", "system:authenticated"], "authorization": []}));
}

fn protocols_are_switched(wire: &Wire) {
    let (head, said) = wire.talk(&format!("{THINGS}/a/echo"), "echo", "hello there");
    assert!(head.starts_with("HTTP/1.1 101 ") && head.to_lowercase().contains("upgrade: echo"), "{head}");
    assert_eq!(said, "hello there");
}

fn documents_are_merged(cluster: &Cluster) {
    let explained = cluster.kubectl(&["explain", "things.size"]).ok();
    assert!(explained.contains("How large it is.") && explained.contains("<integer>"), "{explained}");
    let document: Value = serde_json::from_str(&cluster.kubectl(&["get", "--raw", "/openapi/v2"]).ok()).unwrap();
    assert!(document["paths"].get("/apis/ext.example.com/v1/namespaces/{namespace}/things").is_some());
    assert!(document["paths"].get("/apis/apps/v1/deployments").is_some());
    let definitions = document["definitions"].as_object().unwrap();
    assert!(definitions.contains_key("com.example.ext.v1.Thing") && !definitions.contains_key("com.example.ext.v1.Unused"));
    let group: Value = serde_json::from_str(&cluster.kubectl(&["get", "--raw", "/apis/ext.example.com"]).ok()).unwrap();
    assert_eq!(group["preferredVersion"], json!({"groupVersion": "ext.example.com/v1", "version": "v1"}));
    let groups: Value = serde_json::from_str(&cluster.kubectl(&["get", "--raw", "/apis"]).ok()).unwrap();
    let names: Vec<_> = groups["groups"].as_array().unwrap().iter().filter_map(|group| group["name"].as_str()).collect();
    assert_eq!((names.first(), names.last()), (Some(&"apiregistration.k8s.io"), Some(&GROUP)), "the lowest priority comes last");
}

fn a_certificate_of_others_is_not_believed(cluster: &Cluster, wire: &Wire, keys: &Keys) {
    cluster.apply(&api_service(&Keys::new("ext.default.svc").ca).to_string());
    let wanted = "error trying to reach service: tls: failed to verify certificate: x509: certificate signed by unknown authority\n";
    within(NOTICED, "nothing is sent to whom the bundle does not vouch for", || {
        let answer = wire.get(THINGS);
        if answer == (503, wanted.to_owned()) { Ok(()) } else { Err(format!("{answer:?}")) }
    });
    cluster.apply(&api_service(&keys.ca).to_string());
    eventually("the right bundle is taken up", || wire.get(THINGS).0 == 200);
}

fn a_dead_server_harms_nobody(cluster: &Cluster, wire: &Wire) {
    let (code, text) = wire.get(THINGS);
    let expected = text.starts_with("error trying to reach service: dial tcp ") || text == "service unavailable\n";
    assert!(code == 503 && expected, "{code} {text}");
    within(NOTICED, "its death is noticed", || {
        let condition = condition(cluster);
        if condition.0 == "False" && condition.1 == "FailedDiscoveryCheck" { Ok(()) } else { Err(format!("{condition:?}")) }
    });
    eventually("nobody is sent there any more", || wire.get(THINGS) == (503, "service unavailable\n".to_owned()));
    let resources = cluster.kubectl(&["api-resources", "-o", "name"]).ok();
    assert!(resources.contains("deployments.apps") && !resources.contains("things"), "{resources}");
    let (_, list) = wire.get_as("/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    let list: Value = serde_json::from_str(&list).unwrap();
    let version = |name: &str| {
        let group = list["items"].as_array().unwrap().iter().find(|group| group["metadata"]["name"] == name).unwrap();
        (group["versions"][0]["freshness"].clone(), group["versions"][0]["resources"][0]["resource"].clone())
    };
    assert_eq!(version(GROUP), (json!("Stale"), json!("things")), "what was known of it stays");
    assert_eq!(version("batch"), (json!("Current"), json!("cronjobs")));
    cluster.kubectl(&["create", "configmap", "alive"]).ok();
    cluster.kubectl(&["explain", "configmap.data"]).ok();
}

fn what_is_not_registered_is_gone(cluster: &Cluster, wire: &Wire) {
    cluster.kubectl(&["delete", "apiservice", NAME]).ok();
    eventually("its paths are gone", || wire.get(THINGS).0 == 404);
    eventually("discovery does not show it", || {
        let resources = cluster.kubectl(&["api-resources", "--cached=false", "-o", "name"]);
        resources.code == 0 && !resources.out.contains("things")
    });
}
