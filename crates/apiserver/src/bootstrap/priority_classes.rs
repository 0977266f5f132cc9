//! The priority classes of system pods.

use apimachinery::status::Status;

use super::object;
use crate::loopback::Loopback;

const CLASSES: [(&str, i64, &str); 2] = [
    ("system-node-critical", 2_000_001_000, "Used for system critical pods that must not be moved from their current node."),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];

pub(super) async fn ensure(api: Loopback) -> Result<(), Status> {
    let classes = api.api("scheduling.k8s.io/v1", "priorityclasses");
    for (name, value, description) in CLASSES {
        let mut class = object("scheduling.k8s.io/v1", "PriorityClass", "", name);
        class.0.insert("value".into(), value.into());
        class.0.insert("description".into(), description.into());
        super::ensure(&classes, &class).await?;
    }
    Ok(())
}
