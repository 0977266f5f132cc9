//! What is counted of APIServices, under kube-aggregator's names.

use component::metrics::Registry;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};
use serde_json::Value;

use super::service::ApiService;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Name {
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    name: String,
    reason: String,
}

/// Which APIServices are unavailable, and how often they became so.
pub(super) struct Metrics {
    unavailable: Family<Name, Gauge>,
    turned: Family<Reason, Counter>,
}

impl Metrics {
    /// Registers the metrics.
    pub(super) fn new(registry: &Registry) -> Self {
        let metrics = Self { unavailable: Family::default(), turned: Family::default() };
        let now = "Whether an APIService is unavailable";
        registry.register("aggregator_unavailable_apiservice", now, metrics.unavailable.clone());
        let turned = "How often an APIService became unavailable, by reason";
        registry.register_counter("aggregator_unavailable_apiservice_total", turned, metrics.turned.clone());
        metrics
    }

    /// Takes note of a condition that an APIService is found in.
    pub(super) fn found(&self, service: &ApiService, condition: &Value) {
        let (name, available) = (service.name().to_owned(), condition["status"] == "True");
        self.unavailable.get_or_create(&Name { name }).set(i64::from(!available));
    }

    /// Takes note of a condition that was written.
    pub(super) fn wrote(&self, service: &ApiService, condition: &Value) {
        if service.available && condition["status"] != "True" {
            let reason = condition["reason"].as_str().unwrap_or_default().to_owned();
            self.turned.get_or_create(&Reason { name: service.name().to_owned(), reason }).inc();
        }
    }

    /// One that is gone is neither.
    pub(super) fn forget(&self, name: &str) {
        self.unavailable.remove(&Name { name: name.to_owned() });
    }
}

#[cfg(test)]
mod tests {
    use apimachinery::Object;
    use serde_json::json;

    use super::*;

    #[test]
    fn becoming_unavailable_is_counted_once_and_shown_until_it_is_over() {
        let registry = Registry::new();
        let metrics = Metrics::new(&registry);
        let status = json!({"conditions": [{"type": "Available", "status": "True"}]});
        let object = json!({"metadata": {"name": "v1.g"}, "spec": {"group": "g", "version": "v1"}, "status": status});
        let service = ApiService::read(Object::from_value(object).unwrap()).unwrap();
        let dead = json!({"status": "False", "reason": "FailedDiscoveryCheck"});
        metrics.found(&service, &dead);
        metrics.wrote(&service, &dead);
        let text = registry.encode();
        assert!(text.contains("aggregator_unavailable_apiservice{name=\"v1.g\"} 1"), "{text}");
        let counted = "aggregator_unavailable_apiservice_total{name=\"v1.g\",reason=\"FailedDiscoveryCheck\"} 1";
        assert!(text.contains(counted), "{text}");
        let well = json!({"status": "True", "reason": "Passed"});
        metrics.found(&service, &well);
        metrics.wrote(&service, &well);
        let text = registry.encode();
        assert!(text.contains("aggregator_unavailable_apiservice{name=\"v1.g\"} 0") && text.contains(counted), "{text}");
    }
}
