use serde_json::json;

use super::*;

fn service(spec: Value) -> Object {
    let mut obj = Object::from_value(json!({"metadata": {"name": "x", "namespace": "n"}, "spec": spec})).unwrap();
    defaults::apply(&mut obj);
    shape::normalize_cluster_ips(&mut obj, None);
    families::fill(&mut obj, &["10.96.0.0/16".parse().unwrap()]).unwrap();
    obj
}

fn complaints(spec: Value) -> Vec<String> {
    validate::service(&service(spec)).iter().map(ToString::to_string).collect()
}

#[test]
fn a_minimal_service_gets_upstreams_defaults() {
    assert_eq!(
        service(json!({"ports": [{"port": 80}]})).0["spec"],
        json!({
        "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}], "sessionAffinity": "None", "type": "ClusterIP"})
    );
}

#[test]
fn a_headless_service_without_selector_may_be_of_any_family() {
    let spec = service(json!({"clusterIP": "None"})).0["spec"].clone();
    assert_eq!((&spec["ipFamilies"], &spec["ipFamilyPolicy"]), (&json!(["IPv4", "IPv6"]), &json!("RequireDualStack")));
    let spec = service(json!({"clusterIP": "None", "selector": {"a": "b"}})).0["spec"].clone();
    assert_eq!((&spec["ipFamilies"], &spec["ipFamilyPolicy"]), (&json!(["IPv4"]), &json!("SingleStack")));
}

#[test]
fn each_rule_answers_with_upstreams_words() {
    let cases: [(Value, &[&str]); 8] = [
        (json!({}), &["spec.ports: Required value"]),
        (
            json!({"ports": [{"port": 0}]}),
            &[
                "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive",
            ],
        ),
        (json!({"ports": [{"port": 80}, {"port": 81}]}), &["spec.ports[0].name: Required value", "spec.ports[1].name: Required value"]),
        (json!({"type": "ExternalName"}), &["spec.externalName: Required value"]),
        (
            json!({"type": "ExternalName", "externalName": "example.com", "clusterIP": "None"}),
            &["spec.clusterIPs: Forbidden: may not be set for ExternalName services"],
        ),
        (
            json!({"type": "NodePort", "clusterIP": "None", "ports": [{"port": 80}]}),
            &[r#"spec.clusterIPs[0]: Invalid value: "None": may not be set to 'None' for NodePort services"#],
        ),
        (
            json!({"ports": [{"port": 80, "nodePort": 32102}]}),
            &["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
        ),
        (
            json!({"ports": [{"port": 80}], "allocateLoadBalancerNodePorts": false}),
            &["spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is 'LoadBalancer'"],
        ),
    ];
    for (spec, expected) in cases {
        assert_eq!(complaints(spec.clone()), expected, "{spec}");
    }
}

#[test]
fn an_update_keeps_what_was_allocated_and_may_not_change_it() {
    let mut old = service(json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30001}]}));
    edit::ensure_object(&mut old.0, "spec").extend([("clusterIP".into(), json!("10.96.0.7")), ("clusterIPs".into(), json!(["10.96.0.7"]))]);
    let mut new = Object::from_value(json!({"metadata": {"name": "x"}, "spec": {"type": "NodePort", "ports": [{"port": 81}]}})).unwrap();
    shape::patch_allocated(&mut new, &old);
    assert_eq!(new.0["spec"]["clusterIPs"], json!(["10.96.0.7"]));
    assert_eq!(new.0["spec"]["ports"][0]["nodePort"], 30001);

    let mut other = old.clone();
    other.0["spec"]["clusterIP"] = json!("10.96.9.9");
    shape::normalize_cluster_ips(&mut other, Some(&old));
    let errs = validate::update(&other, &old);
    assert_eq!(errs[0].to_string(), r#"spec.clusterIPs[0]: Invalid value: ["10.96.9.9"]: may not change once set"#);
}

#[test]
fn external_name_takes_the_address_away() {
    let mut old = service(json!({"ports": [{"port": 80}]}));
    edit::ensure_object(&mut old.0, "spec").extend([("clusterIP".into(), json!("10.96.0.7")), ("clusterIPs".into(), json!(["10.96.0.7"]))]);
    let mut new = old.clone();
    new.0["spec"]["type"] = json!("ExternalName");
    new.0["spec"]["externalName"] = json!("example.org");
    shape::drop_unused(&mut new, &old);
    assert_eq!(
        new.0["spec"],
        json!({"externalName": "example.org", "sessionAffinity": "None", "type": "ExternalName",
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]})
    );
}

#[test]
fn rows_show_addresses_and_ports() {
    let now = "2026-01-01T00:00:10Z".parse().unwrap();
    let row = |mut obj: Object, status: Value| {
        obj.0.insert("status".into(), status);
        let cells = print::cells(&obj, now);
        [2, 3, 4].map(|i: usize| cells[i].as_str().unwrap().to_owned())
    };
    let balancer = service(json!({"type": "LoadBalancer", "externalIPs": ["192.0.2.7"], "clusterIP": "10.96.0.7",
        "ports": [{"port": 80, "nodePort": 30001}, {"port": 53, "protocol": "UDP", "nodePort": 30002}]}));
    let status = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.9"}, {"hostname": "lb.example.com"}]}});
    assert_eq!(row(balancer, status), ["10.96.0.7", "192.0.2.9,lb.example.com,192.0.2.7", "80:30001/TCP,53:30002/UDP"]);
    let named = service(json!({"type": "ExternalName", "externalName": "example.com"}));
    assert_eq!(row(named, json!({})), ["<none>", "example.com", "<none>"]);
}
