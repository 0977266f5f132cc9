//! APIService objects as the aggregator reads them.

use apimachinery::Object;
use base64::Engine as _;
use serde_json::Value;

use super::priorities::Priority;

/// Says who made an object: one that this server makes once when it starts, or one it keeps as it is to be.
pub(super) const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
/// Made when the server starts; later changes are its owner's business.
pub(super) const ON_START: &str = "onstart";
/// Kept continuously.
pub(super) const ALWAYS: &str = "true";

/// The Service behind which a group and version is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Backend {
    /// The Service's namespace.
    pub(crate) namespace: String,
    /// The Service's name.
    pub(crate) name: String,
    /// The Service's port.
    pub(crate) port: u16,
    /// Authorities of its certificate, in PEM; empty for those the system trusts.
    pub(crate) ca_bundle: Vec<u8>,
    /// Whether any certificate will do.
    pub(crate) insecure: bool,
}

impl Backend {
    /// The name its certificate is for.
    pub(super) fn host_name(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }

    /// How changes of its Service are told of.
    pub(super) fn topic(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// One APIService.
#[derive(Clone, Debug)]
pub(crate) struct ApiService {
    /// The object itself.
    pub(crate) object: Object,
    /// Group, empty for core.
    pub(crate) group: String,
    /// Version.
    pub(crate) version: String,
    /// Where discovery shows it.
    pub(crate) priority: Priority,
    /// Who serves it; `None` for this server.
    pub(crate) backend: Option<Backend>,
    /// Whether its condition Available is true.
    pub(crate) available: bool,
}

impl ApiService {
    /// Reads an object; `None` where it makes no sense, which validation does not let happen.
    pub(crate) fn read(object: Object) -> Option<Self> {
        let text = |path: &str| object.str_at(path).to_owned();
        let number = |path: &str| object.pointer(path).and_then(Value::as_i64).unwrap_or(0);
        let backend = match object.pointer("/spec/service").filter(|service| service.is_object()) {
            None => None,
            Some(_) => Some(Backend {
                namespace: text("/spec/service/namespace"),
                name: text("/spec/service/name"),
                port: object.pointer("/spec/service/port").map_or(Some(443), |port| u16::try_from(port.as_i64()?).ok())?,
                ca_bundle: base64::engine::general_purpose::STANDARD.decode(object.str_at("/spec/caBundle")).ok()?,
                insecure: object.pointer("/spec/insecureSkipTLSVerify") == Some(&Value::Bool(true)),
            }),
        };
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
        let available = conditions.into_iter().flatten().any(|c| c["type"] == "Available" && c["status"] == "True");
        let priority = Priority { group: number("/spec/groupPriorityMinimum"), version: number("/spec/versionPriority") };
        let (group, version) = (text("/spec/group"), text("/spec/version"));
        Some(Self { group, version, priority, backend, available, object })
    }

    /// The object's name.
    pub(crate) fn name(&self) -> &str {
        self.object.name()
    }

    /// `/apis/GROUP/VERSION`.
    pub(super) fn path(&self) -> String {
        if self.group.is_empty() { format!("/api/{}", self.version) } else { format!("/apis/{}/{}", self.group, self.version) }
    }
}

/// The name of the APIService of a group and version.
pub(crate) fn name_of(group: &str, version: &str) -> String {
    format!("{version}.{group}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_service_is_read_with_its_port_and_authorities() {
        let spec = json!({
            "group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 7,
            "service": {"namespace": "kube-system", "name": "metrics"}, "caBundle": "UEVN",
        });
        let status = json!({"conditions": [{"type": "Available", "status": "True"}]});
        let object = json!({"metadata": {"name": "v1beta1.metrics.k8s.io"}, "spec": spec, "status": status});
        let service = ApiService::read(Object::from_value(object).unwrap()).unwrap();
        let backend = service.backend.as_ref().unwrap();
        assert_eq!((backend.host_name(), backend.port, backend.insecure), ("metrics.kube-system.svc".to_owned(), 443, false));
        assert_eq!((backend.ca_bundle.as_slice(), service.available), (b"PEM".as_slice(), true));
        assert_eq!(service.path(), "/apis/metrics.k8s.io/v1beta1");
        assert_eq!(service.name(), name_of(&service.group, &service.version));
    }
}
