//! What `kubectl get services` shows.

use apimachinery::Object;
use jiff::Timestamp;
use serde_json::Value;

use crate::registry::{
    Column,
    check::At,
    print::{age, label_map, or_none},
};

/// The columns of services.
pub(crate) fn columns() -> Vec<Column> {
    vec![
        Column::object_name("Name of the service."),
        Column::new("Type", "string", "How the service is reached."),
        Column::new("Cluster-IP", "string", "Its address inside the cluster."),
        Column::new("External-IP", "string", "Its addresses outside of it."),
        Column::new("Port(s)", "string", "Its ports, with node ports."),
        Column::new("Age", "string", "Time since creation."),
        Column::wide("Selector", "string", "Labels of the pods behind it."),
    ]
}

/// The cells of one service.
pub(crate) fn cells(obj: &Object, now: Timestamp) -> Vec<Value> {
    let spec = At::field(obj, "spec");
    vec![
        obj.name().into(),
        spec.get("type").str().into(),
        or_none(spec.get("clusterIPs").strs().first().copied().unwrap_or_default()),
        or_none(&external(obj, &spec)),
        or_none(&ports(&spec)),
        age(obj, now),
        label_map(&spec.get("selector")),
    ]
}

fn external(obj: &Object, spec: &At<'_>) -> String {
    let own = spec.get("externalIPs").strs().join(",");
    match spec.get("type").str() {
        "ExternalName" => spec.get("externalName").str().to_owned(),
        "LoadBalancer" => {
            let ingress = At::field(obj, "status").get("loadBalancer").get("ingress").items();
            let shown = |i: &At<'_>| if i.get("ip").is_empty() { i.get("hostname") } else { i.get("ip") }.str().to_owned();
            let mut all: Vec<String> = ingress.iter().map(shown).collect();
            all.extend((!own.is_empty()).then_some(own));
            if all.is_empty() { "<pending>".into() } else { all.join(",") }
        }
        _ => own,
    }
}

fn ports(spec: &At<'_>) -> String {
    let show = |port: &At<'_>| {
        let (number, protocol) = (port.get("port").int().unwrap_or(0), port.get("protocol").str());
        match port.get("nodePort").int() {
            Some(node_port) if node_port > 0 => format!("{number}:{node_port}/{protocol}"),
            _ => format!("{number}/{protocol}"),
        }
    };
    spec.get("ports").items().iter().map(show).collect::<Vec<_>>().join(",")
}
