//! Amounts of resources, and what a pod asks for (KEP-753 for sidecars).

use std::collections::BTreeMap;

use apimachinery::quantity::Quantity as Amount;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// What a container counts for in scores when it requests none; upstream's values.
const DEFAULT_MILLI_CPU: i64 = 100;
const DEFAULT_MEMORY: i64 = 200 * 1024 * 1024;

/// CPU in thousandths, everything else in whole units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resources {
    pub(crate) milli_cpu: i64,
    pub(crate) memory: i64,
    pub(crate) ephemeral_storage: i64,
    /// Places for pods; only in what a node offers.
    pub(crate) pods: i64,
    extended: BTreeMap<String, i64>,
}

type List = BTreeMap<String, Quantity>;

impl Resources {
    pub(crate) fn from_list(list: Option<&List>) -> Self {
        let mut resources = Self::default();
        for (name, quantity) in list.into_iter().flatten() {
            // Validation refuses malformed quantities; one that slips through must not stop scheduling.
            let Ok(amount) = Amount::parse(&quantity.0) else { continue };
            *resources.slot(name) = if name == "cpu" { amount.milli_value() } else { amount.value() };
        }
        resources
    }

    fn slot(&mut self, name: &str) -> &mut i64 {
        match name {
            "cpu" => &mut self.milli_cpu,
            "memory" => &mut self.memory,
            "ephemeral-storage" => &mut self.ephemeral_storage,
            "pods" => &mut self.pods,
            _ => self.extended.entry(name.to_owned()).or_default(),
        }
    }

    pub(crate) fn get(&self, name: &str) -> i64 {
        match name {
            "cpu" => self.milli_cpu,
            "memory" => self.memory,
            "ephemeral-storage" => self.ephemeral_storage,
            "pods" => self.pods,
            _ => self.extended.get(name).copied().unwrap_or(0),
        }
    }

    fn all(&self) -> impl Iterator<Item = (&str, i64)> {
        let fixed = [("cpu", self.milli_cpu), ("memory", self.memory), ("ephemeral-storage", self.ephemeral_storage)];
        fixed.into_iter().chain(self.extended.iter().map(|(name, amount)| (name.as_str(), *amount)))
    }

    /// What is asked for, in upstream's order.
    pub(crate) fn positive(&self) -> impl Iterator<Item = (&str, i64)> {
        self.all().filter(|(_, amount)| *amount > 0)
    }

    fn merge(&mut self, other: &Self, with: fn(i64, i64) -> i64) {
        for (name, amount) in other.all() {
            let slot = self.slot(name);
            *slot = with(*slot, amount);
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.merge(other, i64::saturating_add);
    }

    pub(crate) fn subtract(&mut self, other: &Self) {
        self.merge(other, i64::saturating_sub);
    }

    fn raise_to(&mut self, other: &Self) {
        self.merge(other, i64::max);
    }
}

fn requests(container: &Container) -> Resources {
    Resources::from_list(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()))
}

/// The same, with the defaults that scores count for what is not requested.
fn scored(container: &Container) -> Resources {
    let asked = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let mut resources = requests(container);
    if asked.is_none_or(|asked| !asked.contains_key("cpu")) {
        resources.milli_cpu = DEFAULT_MILLI_CPU;
    }
    if asked.is_none_or(|asked| !asked.contains_key("memory")) {
        resources.memory = DEFAULT_MEMORY;
    }
    resources
}

/// What the pod needs at its hungriest moment: all containers together, or an init container beside the sidecars before it.
fn peak(spec: &PodSpec, of: fn(&Container) -> Resources) -> Resources {
    let mut running = Resources::default();
    spec.containers.iter().for_each(|container| running.add(&of(container)));
    let (mut sidecars, mut starting) = (Resources::default(), Resources::default());
    for container in spec.init_containers.iter().flatten() {
        let mut beside = sidecars.clone();
        beside.add(&of(container));
        starting.raise_to(&beside);
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars = beside;
        }
    }
    running.add(&sidecars);
    running.raise_to(&starting);
    running.add(&Resources::from_list(spec.overhead.as_ref()));
    running
}

/// What must be free on a node.
pub(super) fn pod_requests(spec: &PodSpec) -> Resources {
    peak(spec, requests)
}

/// What scores count.
pub(super) fn pod_scored(spec: &PodSpec) -> Resources {
    peak(spec, scored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pod;
    use serde_json::json;

    fn cpu(spec: serde_json::Value) -> i64 {
        pod_requests(pod(spec).spec.as_ref().unwrap()).milli_cpu
    }

    fn container(cpu: &str, policy: Option<&str>) -> serde_json::Value {
        json!({"name": "c", "restartPolicy": policy, "resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn containers_add_up_and_init_containers_only_raise_the_peak() {
        let both = json!([container("100m", None), container("200m", None)]);
        assert_eq!(cpu(json!({"containers": both, "initContainers": [container("250m", None)]})), 300);
        assert_eq!(cpu(json!({"containers": both, "initContainers": [container("1", None)]})), 1000);
    }

    #[test]
    fn sidecars_run_beside_everything_after_them() {
        let init = json!([container("100m", Some("Always")), container("500m", None)]);
        assert_eq!(cpu(json!({"containers": [container("200m", None)], "initContainers": init})), 600);
        assert_eq!(cpu(json!({"containers": [container("600m", None)], "initContainers": init})), 700);
    }

    #[test]
    fn overhead_is_added() {
        assert_eq!(cpu(json!({"containers": [container("100m", None)], "overhead": {"cpu": "50m"}})), 150);
    }
}
