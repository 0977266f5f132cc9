//! Quality of service: class, cgroup numbers and OOM score from requests and limits; as upstream's `qos` and `cm` packages.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Container, PodSpec},
    apimachinery::pkg::api::resource::Quantity,
};

use super::facts::all_containers;
use crate::{cri::v1, quantity};

/// `Guaranteed`, `Burstable` or `BestEffort`.
pub(crate) fn class(spec: &PodSpec) -> &'static str {
    let mut any = false;
    let mut guaranteed = true;
    for container in all_containers(spec) {
        let (requests, limits) = lists(container);
        for resource in ["cpu", "memory"] {
            let (request, limit) = (amount(requests, resource), amount(limits, resource));
            any |= request > 0 || limit > 0;
            guaranteed &= limit > 0 && (request == 0 || request == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

type List = BTreeMap<String, Quantity>;

fn lists(container: &Container) -> (Option<&List>, Option<&List>) {
    let resources = container.resources.as_ref();
    (resources.and_then(|r| r.requests.as_ref()), resources.and_then(|r| r.limits.as_ref()))
}

/// Thousandths of a resource in a list; 0 when absent.
fn amount(list: Option<&List>, resource: &str) -> i64 {
    list.and_then(|l| l.get(resource)).and_then(|q| quantity::milli(&q.0)).unwrap_or(0)
}

/// cgroup settings of a container on a node with that much memory (bytes).
pub(crate) fn linux_resources(spec: &PodSpec, container: &Container, node_memory: i64) -> v1::LinuxContainerResources {
    let (requests, limits) = lists(container);
    let cpu_limit = amount(limits, "cpu");
    let cpu_request = match amount(requests, "cpu") {
        0 => cpu_limit,
        request => request,
    };
    let (cpu_period, cpu_quota) = if cpu_limit > 0 { (100_000, (cpu_limit * 100).max(1000)) } else { (0, 0) };
    v1::LinuxContainerResources {
        cpu_shares: (cpu_request * 1024 / 1000).clamp(2, 262_144),
        cpu_period,
        cpu_quota,
        memory_limit_in_bytes: amount(limits, "memory") / 1000,
        oom_score_adj: oom_score(spec, amount(requests, "memory") / 1000, node_memory),
        ..Default::default()
    }
}

/// -997 for guaranteed pods, 1000 for best-effort ones, in between by the share of memory requested.
fn oom_score(spec: &PodSpec, memory_request: i64, node_memory: i64) -> i64 {
    if spec.priority_class_name.as_deref() == Some("system-node-critical") {
        return -997;
    }
    match class(spec) {
        "Guaranteed" => -997,
        "BestEffort" => 1000,
        _ => match 1000 - 1000 * memory_request / node_memory.max(1) {
            score if score < 3 => 3,
            1000 => 999,
            score => score,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(requests: &[(&str, &str)], limits: &[(&str, &str)]) -> Container {
        let list = |pairs: &[(&str, &str)]| Some(pairs.iter().map(|(k, v)| ((*k).to_owned(), Quantity((*v).to_owned()))).collect());
        let resources =
            k8s_openapi::api::core::v1::ResourceRequirements { requests: list(requests), limits: list(limits), ..Default::default() };
        Container { resources: Some(resources), ..Default::default() }
    }

    fn spec(container: Container) -> PodSpec {
        PodSpec { containers: vec![container], ..Default::default() }
    }

    #[test]
    fn classes_follow_requests_and_limits() {
        assert_eq!(class(&spec(container(&[], &[]))), "BestEffort");
        assert_eq!(class(&spec(container(&[("cpu", "1")], &[]))), "Burstable");
        let same = [("cpu", "500m"), ("memory", "1Gi")];
        assert_eq!(class(&spec(container(&same, &same))), "Guaranteed");
        assert_eq!(class(&spec(container(&[], &same))), "Guaranteed");
        assert_eq!(class(&spec(container(&same, &[("cpu", "1"), ("memory", "1Gi")]))), "Burstable");
    }

    #[test]
    fn cgroup_numbers_are_upstreams() {
        let container = container(&[("cpu", "250m"), ("memory", "64Mi")], &[("cpu", "500m"), ("memory", "128Mi")]);
        let linux = linux_resources(&spec(container.clone()), &container, 1 << 30);
        assert_eq!((linux.cpu_shares, linux.cpu_period, linux.cpu_quota), (256, 100_000, 50_000));
        assert_eq!(linux.memory_limit_in_bytes, 128 << 20);
        assert_eq!(linux.oom_score_adj, 938);
    }
}
