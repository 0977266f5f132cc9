//! Variables that tell a container the services of its namespace: `NAME_SERVICE_HOST`, `NAME_PORT_80_TCP_ADDR`, …

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;

/// Variables for the services a pod in `namespace` sees: its namespace's, and `kubernetes`; `all` adds the former.
pub(crate) fn variables<'a>(services: impl Iterator<Item = &'a Service>, namespace: &str, all: bool) -> BTreeMap<String, String> {
    let mut result = BTreeMap::new();
    let (mut own, mut master) = (vec![], None);
    for service in services {
        let of = (service.metadata.namespace.as_deref(), service.metadata.name.as_deref());
        if of == (Some("default"), Some("kubernetes")) {
            master = Some(service);
        } else if all && of.0 == Some(namespace) {
            own.push(service);
        }
    }
    for service in master.into_iter().chain(own) {
        add(service, &mut result);
    }
    result
}

fn add(service: &Service, result: &mut BTreeMap<String, String>) {
    let (Some(name), Some(spec)) = (service.metadata.name.as_deref(), service.spec.as_ref()) else { return };
    let Some(ip) = spec.cluster_ip.as_deref().filter(|ip| !ip.is_empty() && *ip != "None") else { return };
    let ports = spec.ports.as_deref().unwrap_or_default();
    let Some(first) = ports.first() else { return };
    let name = variable(name);
    result.insert(format!("{name}_SERVICE_HOST"), ip.to_owned());
    result.insert(format!("{name}_SERVICE_PORT"), first.port.to_string());
    for port in ports.iter().filter(|p| p.name.as_deref().is_some_and(|n| !n.is_empty())) {
        let port_name = variable(port.name.as_deref().unwrap_or_default());
        result.insert(format!("{name}_SERVICE_PORT_{port_name}"), port.port.to_string());
    }
    let host = if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() };
    for (index, port) in ports.iter().enumerate() {
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        let url = format!("{}://{host}:{}", protocol.to_lowercase(), port.port);
        if index == 0 {
            result.insert(format!("{name}_PORT"), url.clone());
        }
        let prefix = format!("{name}_PORT_{}_{}", port.port, protocol.to_uppercase());
        result.insert(format!("{prefix}_PROTO"), protocol.to_lowercase());
        result.insert(format!("{prefix}_PORT"), port.port.to_string());
        result.insert(format!("{prefix}_ADDR"), ip.to_owned());
        result.insert(prefix, url);
    }
}

fn variable(name: &str) -> String {
    name.to_uppercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_the_namespaces_services_and_kubernetes() {
        let service = |namespace: &str, name: &str, port: i32| -> Service {
            serde_json::from_value(serde_json::json!({
                "metadata": {"namespace": namespace, "name": name},
                "spec": {"clusterIP": "10.96.0.7", "ports": [{"name": "http", "port": port, "protocol": "TCP"}]},
            }))
            .unwrap()
        };
        let services = [service("default", "kubernetes", 443), service("shop", "web-api", 80), service("other", "db", 1)];
        let variables = variables(services.iter(), "shop", true);
        assert_eq!(variables["KUBERNETES_SERVICE_PORT_HTTP"], "443");
        assert_eq!(variables["WEB_API_PORT_80_TCP"], "tcp://10.96.0.7:80");
        assert!(!variables.contains_key("DB_SERVICE_HOST"));
    }
}
