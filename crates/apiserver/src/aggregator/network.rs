//! From a Service to an address, and what stands in the way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use apimachinery::{Object, go};
use serde_json::Value;

use super::service::Backend;
use crate::informer::Cache;

/// Where to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// A host name or an IP address.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl std::fmt::Display for Address {
    /// As Go joins host and port.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') { write!(f, "[{}]:{}", self.host, self.port) } else { write!(f, "{}:{}", self.host, self.port) }
    }
}

/// What is kept of a Service.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Service {
    kind: String,
    cluster_ip: String,
    external_name: String,
    /// Name and number.
    ports: Vec<(String, u16)>,
}

impl Service {
    pub(super) fn read(object: Object) -> Option<Self> {
        Some(Self {
            kind: object.str_at("/spec/type").to_owned(),
            cluster_ip: object.str_at("/spec/clusterIP").to_owned(),
            external_name: object.str_at("/spec/externalName").to_owned(),
            ports: ports(object.pointer("/spec/ports")),
        })
    }

    /// The name of a port.
    fn port(&self, number: u16) -> Option<&str> {
        self.ports.iter().find(|(_, port)| *port == number).map(|(name, _)| name.as_str())
    }
}

/// What is kept of an EndpointSlice.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Slice {
    service: String,
    /// Name and number.
    ports: Vec<(String, u16)>,
    /// Addresses of those that are ready.
    ready: Vec<String>,
}

/// The label that names a slice's Service.
const SERVICE: &str = "kubernetes.io/service-name";

impl Slice {
    pub(super) fn read(object: Object) -> Option<Self> {
        let endpoints = object.pointer("/endpoints").and_then(Value::as_array);
        let ready = endpoints.into_iter().flatten().filter(|endpoint| endpoint.pointer("/conditions/ready") != Some(&Value::Bool(false)));
        let addresses = ready.filter_map(|endpoint| endpoint.pointer("/addresses/0")?.as_str()).map(str::to_owned);
        let service = object.label(SERVICE)?.to_owned();
        Some(Self { service, ports: ports(object.pointer("/ports")), ready: addresses.collect() })
    }

    /// How changes are told of: by the Service.
    pub(super) fn topic(object: &Object) -> String {
        format!("{}/{}", object.namespace(), object.label(SERVICE).unwrap_or_default())
    }
}

fn ports(list: Option<&Value>) -> Vec<(String, u16)> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    let port = |port: &Value| Some((port["name"].as_str().unwrap_or_default().to_owned(), u16::try_from(port["port"].as_i64()?).ok()?));
    list.filter_map(port).collect()
}

/// Why a backend cannot be reached: the condition Available with its reason and message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// Services and endpoints as this server last heard of them.
pub(super) struct Network {
    pub(super) services: Arc<Cache<Service>>,
    pub(super) slices: Arc<Cache<Slice>>,
    /// `--enable-aggregator-routing`: straight to an endpoint, where the cluster's own addresses lead nowhere from here.
    endpoints: bool,
    turn: AtomicUsize,
}

impl Network {
    pub(super) fn new(endpoints: bool) -> Self {
        Self { services: Cache::new(Service::read), slices: Cache::new(Slice::read), endpoints, turn: AtomicUsize::new(0) }
    }

    /// Whether the first lists are in.
    pub(super) fn is_synced(&self) -> bool {
        self.services.is_synced() && self.slices.is_synced()
    }

    /// What is missing on the way to a backend, as far as objects tell.
    pub(super) fn fault(&self, backend: &Backend) -> Option<Fault> {
        let (namespace, name) = (go::quote(&backend.namespace), &backend.name);
        let fault = |reason, message| Some(Fault { reason, message });
        let Some(service) = self.services.get(&backend.namespace, name) else {
            return fault("ServiceNotFound", format!("service/{name} in {namespace} is not present"));
        };
        if service.kind != "ClusterIP" {
            return None;
        }
        let Some(port) = service.port(backend.port) else {
            return fault("ServicePortError", format!("service/{name} in {namespace} is not listening on port {}", backend.port));
        };
        let slices = self.slices_of(backend);
        if slices.is_empty() {
            return fault("EndpointsNotFound", format!("cannot find endpointslices for service/{name} in {namespace}"));
        }
        if slices.iter().any(|slice| !slice.ready.is_empty() && slice.ports.iter().any(|(name, _)| name == port)) {
            return None;
        }
        let port = go::quote(port);
        fault("MissingEndpoints", format!("endpointslices for service/{name} in {namespace} have no addresses with port name {port}"))
    }

    fn slices_of(&self, backend: &Backend) -> Vec<Arc<Slice>> {
        let all = self.slices.list(&backend.namespace).into_iter().map(|(_, slice)| slice);
        all.filter(|slice| slice.service == backend.name).collect()
    }

    /// Where to connect to. Errors: why nowhere.
    pub(super) fn resolve(&self, backend: &Backend) -> Result<Address, String> {
        let name = go::quote(&backend.name);
        let service = self.services.get(&backend.namespace, &backend.name).ok_or_else(|| format!("service {name} not found"))?;
        let address = |host: &str, port| Address { host: host.to_owned(), port };
        match service.kind.as_str() {
            "ExternalName" if !self.endpoints => return Ok(address(&service.external_name, backend.port)),
            "ClusterIP" | "NodePort" | "LoadBalancer" => {}
            kind => return Err(format!("unsupported service type {}", go::quote(kind))),
        }
        let missing = || format!("no service port {} found for service {name}", backend.port);
        let port = service.port(backend.port).ok_or_else(missing)?;
        if self.endpoints {
            let addresses: Vec<_> = self.slices_of(backend).iter().flat_map(|slice| slice.addresses(port)).collect();
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            let chosen = addresses.get(turn % addresses.len().max(1));
            return chosen.cloned().ok_or_else(|| format!("no endpoints available for service {name}"));
        }
        match service.cluster_ip.as_str() {
            "" | "None" => Err("cannot route to service with ClusterIP \"None\"".to_owned()),
            ip => Ok(address(ip, backend.port)),
        }
    }
}

impl Slice {
    fn addresses(&self, port: &str) -> Vec<Address> {
        let numbers = self.ports.iter().filter(|(name, _)| name == port).map(|(_, number)| *number);
        numbers.flat_map(|port| self.ready.iter().map(move |host| Address { host: host.clone(), port })).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::informer::Sink as _;

    fn backend(port: u16) -> Backend {
        Backend { namespace: "ns".into(), name: "s".into(), port, ca_bundle: Vec::new(), insecure: true }
    }

    fn network(endpoints: bool, kind: &str, ready: Option<bool>) -> Network {
        let network = Network::new(endpoints);
        let spec = json!({
            "type": kind, "clusterIP": "10.96.0.9", "externalName": "else.where", "ports": [{"name": "https", "port": 443}],
        });
        let service = json!({"metadata": {"namespace": "ns", "name": "s"}, "spec": spec});
        network.services.upsert(Object::from_value(service).unwrap());
        if let Some(ready) = ready {
            let slice = json!({
                "metadata": {"namespace": "ns", "name": "s-1", "labels": {SERVICE: "s"}}, "ports": [{"name": "https", "port": 8443}],
                "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}],
            });
            network.slices.upsert(Object::from_value(slice).unwrap());
        }
        network
    }

    #[test]
    fn what_is_missing_is_named() {
        let fault = |network: &Network, port| network.fault(&backend(port)).map(|fault| (fault.reason, fault.message));
        let (reason, message) = fault(&Network::new(false), 443).unwrap();
        assert_eq!((reason, &*message), ("ServiceNotFound", "service/s in \"ns\" is not present"));
        assert_eq!(fault(&network(false, "ClusterIP", None), 1).unwrap().0, "ServicePortError");
        assert_eq!(fault(&network(false, "ClusterIP", None), 443).unwrap().0, "EndpointsNotFound");
        let (reason, message) = fault(&network(false, "ClusterIP", Some(false)), 443).unwrap();
        assert_eq!(reason, "MissingEndpoints");
        assert_eq!(message, "endpointslices for service/s in \"ns\" have no addresses with port name \"https\"");
        assert_eq!(fault(&network(false, "ClusterIP", Some(true)), 443), None);
        assert_eq!(fault(&network(false, "ExternalName", None), 443), None);
    }

    #[test]
    fn a_service_leads_to_its_address_or_to_an_endpoint() {
        let resolve = |network: Network, port| network.resolve(&backend(port)).map(|address| address.to_string());
        assert_eq!(resolve(network(false, "ClusterIP", None), 443), Ok("10.96.0.9:443".into()));
        assert_eq!(resolve(network(true, "ClusterIP", Some(true)), 443), Ok("10.0.0.1:8443".into()));
        assert_eq!(resolve(network(false, "ExternalName", None), 8443), Ok("else.where:8443".into()));
        let refused = |network, port| resolve(network, port).unwrap_err();
        assert_eq!(refused(network(true, "ClusterIP", Some(false)), 443), "no endpoints available for service \"s\"");
        assert_eq!(refused(network(false, "ClusterIP", None), 1), "no service port 1 found for service \"s\"");
        assert_eq!(refused(network(true, "ExternalName", None), 443), "unsupported service type \"ExternalName\"");
    }
}
