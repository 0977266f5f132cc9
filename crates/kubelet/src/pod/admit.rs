//! Whether this node can run a pod at all; upstream's reasons and messages.

use k8s_openapi::api::core::v1::{Pod, PodSpec};

use super::facts;
use crate::{node::Node, quantity};

/// Why the pod is refused: reason and message. `None` when it may run.
pub(crate) fn refusal(node: &Node, pod: &Pod) -> Option<(String, String)> {
    let spec = pod.spec.as_ref()?;
    let others: Vec<_> = node.pods.all();
    let others: Vec<&Pod> = others.iter().map(|p| &**p).filter(|p| facts::uid(p) != facts::uid(pod) && !facts::is_terminal(p)).collect();
    if i64::try_from(others.len()).unwrap_or(i64::MAX) >= node.settings.max_pods {
        return Some(short("pods", 1, i64::try_from(others.len()).unwrap_or(0), node.settings.max_pods));
    }
    let used = |resource: &str| others.iter().filter_map(|p| p.spec.as_ref()).map(|s| request(s, resource)).sum::<i64>();
    let allocatable = node.capacity.allocatable(node.settings.thresholds);
    let checks = [("cpu", allocatable.cpu * 1000), ("memory", allocatable.memory.saturating_mul(1000))];
    checks.into_iter().find_map(|(resource, capacity)| {
        let (wanted, used) = (request(spec, resource), used(resource));
        let scale = if resource == "cpu" { 1 } else { 1000 };
        (wanted > 0 && wanted + used > capacity).then(|| short(resource, wanted / scale, used / scale, capacity / scale))
    })
}

fn short(resource: &str, wanted: i64, used: i64, capacity: i64) -> (String, String) {
    let message =
        format!("Pod was rejected: Node didn't have enough resource: {resource}, requested: {wanted}, used: {used}, capacity: {capacity}");
    (format!("OutOf{resource}"), message)
}

/// Thousandths of a resource the pod requests: its containers' sum, or one init container's if that is more.
fn request(spec: &PodSpec, resource: &str) -> i64 {
    let of = |c: &k8s_openapi::api::core::v1::Container| {
        let list = c.resources.as_ref().and_then(|r| r.requests.as_ref());
        list.and_then(|l| l.get(resource)).and_then(|q| quantity::milli(&q.0)).unwrap_or(0)
    };
    let inits = spec.init_containers.as_deref().unwrap_or_default();
    let sidecars: i64 = inits.iter().filter(|c| facts::is_sidecar(c)).map(of).sum();
    let mains: i64 = spec.containers.iter().map(of).sum();
    let one_shot = inits.iter().filter(|c| !facts::is_sidecar(c)).map(of).max().unwrap_or(0);
    (mains + sidecars).max(one_shot)
}
