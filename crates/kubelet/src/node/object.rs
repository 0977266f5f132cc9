//! The Node object: how this node describes itself. Pure but for the facts of the machine, read once.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{
        ContainerImage, DaemonEndpoint, Node as NodeObject, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeSpec, NodeStatus,
        NodeSystemInfo,
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{ObjectMeta, Time},
    },
};

use super::{Node, capacity::Capacity};
use crate::cri::v1;

/// Says that volumes are attached by a controller, not by the kubelet; always so, as upstream's default.
const MANAGED_ATTACH: &str = "volumes.kubernetes.io/controller-managed-attach-detach";

/// Facts of the machine that do not change while it runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Machine {
    pub(crate) machine_id: String,
    pub(crate) boot_id: String,
    pub(crate) kernel: String,
    pub(crate) os_image: String,
}

impl Machine {
    /// Reads them.
    pub(crate) fn read() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let release = read("/etc/os-release");
        let pretty = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
        Self {
            machine_id: read("/etc/machine-id"),
            boot_id: read("/proc/sys/kernel/random/boot_id"),
            kernel: read("/proc/sys/kernel/osrelease"),
            os_image: pretty.unwrap_or("Linux").trim_matches('"').to_owned(),
        }
    }
}

/// How healthy the node is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) memory_pressure: bool,
    pub(crate) disk_pressure: bool,
    pub(crate) pid_pressure: bool,
    /// Why the runtime cannot run pods, if it cannot.
    pub(crate) not_ready: Option<String>,
}

/// Images reported at most (upstream's `nodeStatusMaxImages`).
const MOST_IMAGES: usize = 50;

/// The largest images on the node, as the node reports them.
pub(crate) fn images(listed: Vec<v1::Image>) -> Vec<ContainerImage> {
    let mut listed: Vec<v1::Image> = listed.into_iter().filter(|i| !i.repo_tags.is_empty() || !i.repo_digests.is_empty()).collect();
    listed.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| a.id.cmp(&b.id)));
    listed.truncate(MOST_IMAGES);
    let image = |i: v1::Image| ContainerImage {
        names: Some(i.repo_digests.into_iter().chain(i.repo_tags).collect()),
        size_bytes: i64::try_from(i.size).ok(),
    };
    listed.into_iter().map(image).collect()
}

/// The architecture as Go names it.
pub(crate) fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Labels the kubelet itself gives the node.
pub(crate) fn own_labels(name: &str) -> BTreeMap<String, String> {
    let pairs = [
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", arch()),
        ("beta.kubernetes.io/os", "linux"),
        ("beta.kubernetes.io/arch", arch()),
    ];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// The object to register.
pub(crate) fn object(node: &Node, machine: &Machine, health: &Health) -> NodeObject {
    let mut labels = own_labels(&node.name);
    labels.extend(node.settings.labels.clone());
    NodeObject {
        metadata: ObjectMeta {
            name: Some(node.name.clone()),
            labels: Some(labels),
            annotations: Some(BTreeMap::from([(MANAGED_ATTACH.to_owned(), "true".to_owned())])),
            ..Default::default()
        },
        spec: Some(NodeSpec { taints: (!node.settings.taints.is_empty()).then(|| node.settings.taints.clone()), ..Default::default() }),
        status: Some(status(node, machine, health, vec![], &[])),
    }
}

/// The status to report; `old` conditions keep their transition times.
pub(crate) fn status(node: &Node, machine: &Machine, health: &Health, images: Vec<ContainerImage>, old: &[NodeCondition]) -> NodeStatus {
    NodeStatus {
        addresses: Some(addresses(node)),
        allocatable: Some(resources(node.capacity.allocatable(node.settings.thresholds), node.settings.max_pods)),
        capacity: Some(resources(node.capacity, node.settings.max_pods)),
        conditions: Some(conditions(health, old, node.now())),
        daemon_endpoints: Some(NodeDaemonEndpoints { kubelet_endpoint: Some(DaemonEndpoint { port: node.settings.port.into() }) }),
        node_info: Some(NodeSystemInfo {
            architecture: arch().into(),
            boot_id: machine.boot_id.clone(),
            container_runtime_version: format!("{}://{}", node.runtime, node.runtime_version),
            kernel_version: machine.kernel.clone(),
            kube_proxy_version: String::new(),
            kubelet_version: component::KUBERNETES_VERSION.into(),
            machine_id: machine.machine_id.clone(),
            operating_system: "linux".into(),
            os_image: machine.os_image.clone(),
            swap: None,
            system_uuid: machine.machine_id.clone(),
        }),
        images: (!images.is_empty()).then_some(images),
        ..Default::default()
    }
}

fn addresses(node: &Node) -> Vec<NodeAddress> {
    let address = |kind: &str, address: &str| NodeAddress { type_: kind.into(), address: address.into() };
    let ips = node.host_ips.iter().map(|ip| address("InternalIP", ip));
    ips.chain([address("Hostname", &node.name)]).collect()
}

fn resources(capacity: Capacity, pods: i64) -> BTreeMap<String, Quantity> {
    let pairs = [
        ("cpu", capacity.cpu.to_string()),
        ("memory", format!("{}Ki", capacity.memory / 1024)),
        ("ephemeral-storage", format!("{}Ki", capacity.disk / 1024)),
        ("hugepages-1Gi", "0".into()),
        ("hugepages-2Mi", "0".into()),
        ("pods", pods.to_string()),
    ];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), Quantity(value))).collect()
}

/// Type, whether it holds, and reason and message either way.
type Row = (&'static str, bool, &'static str, String);

fn conditions(health: &Health, old: &[NodeCondition], now: Timestamp) -> Vec<NodeCondition> {
    let pressure = |on: bool, yes: (&'static str, &str), no: (&'static str, &str)| {
        if on { (yes.0, yes.1.to_owned()) } else { (no.0, no.1.to_owned()) }
    };
    let memory = pressure(
        health.memory_pressure,
        ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
        ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    );
    let disk = pressure(
        health.disk_pressure,
        ("KubeletHasDiskPressure", "kubelet has disk pressure"),
        ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    );
    let pid = pressure(
        health.pid_pressure,
        ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
        ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    );
    let ready = match &health.not_ready {
        None => ("KubeletReady", "kubelet is posting ready status".to_owned()),
        Some(why) => ("KubeletNotReady", why.clone()),
    };
    let rows: [Row; 4] = [
        ("MemoryPressure", health.memory_pressure, memory.0, memory.1),
        ("DiskPressure", health.disk_pressure, disk.0, disk.1),
        ("PIDPressure", health.pid_pressure, pid.0, pid.1),
        ("Ready", health.not_ready.is_none(), ready.0, ready.1),
    ];
    rows.into_iter().map(|row| condition(row, old, now)).collect()
}

fn condition((kind, holds, reason, message): Row, old: &[NodeCondition], now: Timestamp) -> NodeCondition {
    let status = if holds { "True" } else { "False" };
    let since = old.iter().find(|c| c.type_ == kind && c.status == status).and_then(|c| c.last_transition_time.clone());
    NodeCondition {
        type_: kind.into(),
        status: status.into(),
        reason: Some(reason.into()),
        message: Some(message),
        last_heartbeat_time: Some(Time(now)),
        last_transition_time: Some(since.unwrap_or(Time(now))),
    }
}

/// Whether two statuses say the same, heartbeat times aside.
pub(crate) fn same(one: &NodeStatus, other: &NodeStatus) -> bool {
    let strip = |status: &NodeStatus| {
        let mut status = status.clone();
        for condition in status.conditions.iter_mut().flatten() {
            condition.last_heartbeat_time = None;
            condition.last_transition_time = None;
        }
        status
    };
    strip(one) == strip(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_its_transition_time_until_it_turns() {
        let (first, later) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(60).unwrap());
        let old = conditions(&Health::default(), &[], first);
        let same = conditions(&Health::default(), &old, later);
        assert_eq!(same[3].last_transition_time, Some(Time(first)));
        assert_eq!(same[3].last_heartbeat_time, Some(Time(later)));
        let down = Health { not_ready: Some("container runtime is down".into()), ..Default::default() };
        let turned = conditions(&down, &old, later);
        assert_eq!((turned[3].status.as_str(), turned[3].last_transition_time.clone()), ("False", Some(Time(later))));
    }
}
