//! Ingresses.

use apimachinery::{
    Object,
    field::{Error, ErrorList},
    names,
};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    registry::{
        Column, Generation, Strategy, addresses,
        check::At,
        print::{age, or_none, shortened},
        strategy::SPEC,
    },
    request::RequestContext,
};

/// The rules of ingresses.
pub(crate) struct Ingress;

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
/// Sequences a path may not contain.
const FORBIDDEN_IN_PATHS: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
const FORBIDDEN_ENDS: [&str; 2] = ["/..", "/."];

#[async_trait]
impl Strategy for Ingress {
    fn prepare_for_create(&self, _ctx: &RequestContext, obj: &mut Object) {
        obj.0.insert("status".into(), json!({"loadBalancer": {}}));
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let spec = At::field(obj, "spec");
        let (backend, rules) = (spec.get("defaultBackend"), spec.get("rules"));
        if rules.size() == 0 && !backend.is_set() {
            errs.push(Error::invalid(&spec.path, Value::Null, "either `defaultBackend` or `rules` must be specified"));
        }
        if backend.is_set() {
            self::backend(&backend, &mut errs);
        }
        for rule in rules.items() {
            self::rule(&rule, &mut errs);
        }
        for host in spec.get("tls").items().iter().flat_map(|tls| tls.get("hosts").items()) {
            host_name(&host, &mut errs);
        }
        spec.get("ingressClassName").name_if_set(names::is_dns1123_subdomain, &mut errs);
        let class = spec.get("ingressClassName");
        if class.is_set() && obj.annotation(CLASS_ANNOTATION).is_some() {
            let at = apimachinery::field::Path::new("annotations").child(CLASS_ANNOTATION);
            errs.push(Error::invalid(
                &at,
                obj.annotation(CLASS_ANNOTATION).unwrap_or_default(),
                "can not be set when the class field is also set",
            ));
        }
        errs
    }

    fn generation(&self) -> Generation {
        SPEC
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::object_name("Name of the ingress."),
            Column::new("Class", "string", "The ingress class that serves it."),
            Column::new("Hosts", "string", "Host names it routes."),
            Column::new("Address", "string", "Addresses of its load balancer."),
            Column::new("Ports", "string", "Ports it listens on."),
            Column::new("Age", "string", "Time since creation."),
        ]
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let spec = At::field(obj, "spec");
        let class = Some(spec.get("ingressClassName").str()).filter(|class| !class.is_empty()).or(obj.annotation(CLASS_ANNOTATION));
        let hosts: Vec<String> =
            spec.get("rules").items().iter().map(|rule| rule.get("host").str().to_owned()).filter(|host| !host.is_empty()).collect();
        let hosts = if hosts.is_empty() { "*".to_owned() } else { shortened(&hosts, 3) };
        let ingress = At::field(obj, "status").get("loadBalancer").get("ingress").items();
        let shown = |i: &At<'_>| if i.get("ip").is_empty() { i.get("hostname") } else { i.get("ip") }.str().to_owned();
        let addresses: Vec<String> = ingress.iter().map(shown).collect();
        let ports = if spec.get("tls").size() > 0 { "80, 443" } else { "80" };
        vec![obj.name().into(), or_none(class.unwrap_or_default()), hosts.into(), addresses.join(",").into(), ports.into(), age(obj, now)]
    }
}

fn backend(backend: &At<'_>, errs: &mut ErrorList) {
    let (service, resource) = (backend.get("service"), backend.get("resource"));
    match (service.is_set(), resource.is_set()) {
        (true, true) => errs.push(Error::invalid(&backend.path, "", "cannot set both resource and service backends")),
        (false, true) => {
            for field in ["kind", "name"] {
                resource.get(field).require_str("", errs);
            }
        }
        (false, false) => errs.push(Error::invalid(&backend.path, "", "resource or service backend is required")),
        (true, false) => self::service(backend, &service, errs),
    }
}

fn service(backend: &At<'_>, service: &At<'_>, errs: &mut ErrorList) {
    let (name, port) = (service.get("name"), service.get("port"));
    name.required_name(names::is_dns1123_label, errs);
    let (port_name, number) = (port.get("name"), port.get("number").int().unwrap_or(0));
    match (port_name.is_empty(), number) {
        (true, 0) => errs.push(backend.required("port name or number is required")),
        (true, _) => port.get("number").port_number(errs),
        (false, 0) => port_name.name(names::is_valid_port_name, errs),
        (false, _) => errs.push(Error::invalid(&backend.path, "", "cannot set both port name & port number")),
    }
}

fn host_name(host: &At<'_>, errs: &mut ErrorList) {
    if host.str().starts_with('*') {
        host.name(names::is_wildcard_dns1123_subdomain, errs);
    } else {
        host.name(names::is_dns1123_subdomain, errs);
    }
}

fn rule(rule: &At<'_>, errs: &mut ErrorList) {
    let host = rule.get("host");
    if !host.is_empty() {
        if addresses::is_ip(host.str()).is_empty() {
            errs.push(host.invalid("must be a DNS name, not an IP address"));
        }
        host_name(&host, errs);
    }
    let paths = rule.get("http").get("paths");
    if rule.get("http").is_set() && paths.size() == 0 {
        errs.push(paths.required(""));
    }
    for path in paths.items() {
        self::path(&path, errs);
    }
}

fn path(path: &At<'_>, errs: &mut ErrorList) {
    let (text, kind) = (path.get("path"), path.get("pathType"));
    if !kind.is_set() {
        errs.push(kind.required("pathType must be specified"));
        return;
    }
    match kind.str() {
        "Exact" | "Prefix" => {
            if !text.str().starts_with('/') {
                errs.push(Error::invalid(&text.path, text.str(), "must be an absolute path"));
            }
            if !text.is_empty() {
                forbidden_sequences(&text, errs);
            }
        }
        "ImplementationSpecific" if !text.is_empty() && !text.str().starts_with('/') => errs.push(text.invalid("must be an absolute path")),
        "ImplementationSpecific" => {}
        _ => errs.push(kind.not_supported(&["Exact", "ImplementationSpecific", "Prefix"])),
    }
    backend(&path.get("backend"), errs);
}

fn forbidden_sequences(path: &At<'_>, errs: &mut ErrorList) {
    for sequence in FORBIDDEN_IN_PATHS {
        if path.str().contains(sequence) {
            errs.push(path.invalid(format!("must not contain '{sequence}'")));
        }
    }
    for end in FORBIDDEN_ENDS {
        if path.str().ends_with(end) {
            errs.push(path.invalid(format!("cannot end with '{end}'")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(spec: Value) -> Vec<String> {
        let obj = Object::from_value(json!({"metadata": {"name": "x"}, "spec": spec})).unwrap();
        Ingress.validate(&RequestContext::for_tests(), &obj).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn backends_and_paths_answer_with_upstreams_words() {
        assert_eq!(complaints(json!({})), ["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"]);
        assert_eq!(
            complaints(json!({"defaultBackend": {}})),
            [r#"spec.defaultBackend: Invalid value: "": resource or service backend is required"#]
        );
        assert_eq!(
            complaints(json!({"defaultBackend": {"service": {"name": "s"}}})),
            ["spec.defaultBackend: Required value: port name or number is required"]
        );
        let path = |path: &str, kind: &str| {
            json!({"rules": [{"http": {"paths": [{"path": path, "pathType": kind,
            "backend": {"service": {"name": "s", "port": {"number": 80}}}}]}}]})
        };
        assert_eq!(complaints(path("x", "Prefix")), [r#"spec.rules[0].http.paths[0].path: Invalid value: "x": must be an absolute path"#]);
        assert_eq!(
            complaints(path("/a//b", "Exact")),
            [r#"spec.rules[0].http.paths[0].path: Invalid value: "/a//b": must not contain '//'"#]
        );
    }
}
