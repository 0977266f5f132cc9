//! Notices containers that changed by themselves: relists them and wakes the workers of pods that differ.

use std::{collections::BTreeMap, sync::Arc};

use super::Node;
use crate::cri::{CriResult, labels, v1};

/// Ids and states of one pod's sandboxes and containers.
type Shape = Vec<(String, i32)>;

/// Relists for ever; returns at once for a runtime that changes by the kubelet's calls only.
pub(crate) async fn run(node: &Arc<Node>) {
    let Some(every) = node.cri.relist_every() else { return };
    let mut before: BTreeMap<String, Shape> = BTreeMap::new();
    loop {
        match shapes(node).await {
            Ok(now) => {
                changed(&before, &now).for_each(|uid| node.pods.wake(uid));
                before = now;
            }
            Err(error) => tracing::warn!(node = node.name, error = crate::cri::describe(&error), "list containers"),
        }
        tokio::time::sleep(every).await;
    }
}

async fn shapes(node: &Node) -> CriResult<BTreeMap<String, Shape>> {
    let mut shapes: BTreeMap<String, Shape> = BTreeMap::new();
    for sandbox in node.cri.list_pod_sandbox(v1::ListPodSandboxRequest::default()).await?.items {
        if let Some(uid) = sandbox.labels.get(labels::POD_UID) {
            shapes.entry(uid.clone()).or_default().push((sandbox.id, sandbox.state));
        }
    }
    for container in node.cri.list_containers(v1::ListContainersRequest::default()).await?.containers {
        if let Some(uid) = container.labels.get(labels::POD_UID) {
            shapes.entry(uid.clone()).or_default().push((container.id, container.state));
        }
    }
    shapes.values_mut().for_each(|shape| shape.sort());
    Ok(shapes)
}

fn changed<'a>(before: &'a BTreeMap<String, Shape>, now: &'a BTreeMap<String, Shape>) -> impl Iterator<Item = &'a String> {
    let gone = before.keys().filter(|uid| !now.contains_key(*uid));
    now.iter().filter(|(uid, shape)| before.get(*uid) != Some(shape)).map(|(uid, _)| uid).chain(gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wakes_new_changed_and_vanished_pods() {
        let shape = |state| vec![("c".to_owned(), state)];
        let before = BTreeMap::from([("same".into(), shape(1)), ("turned".into(), shape(1)), ("gone".into(), shape(1))]);
        let now = BTreeMap::from([("same".into(), shape(1)), ("turned".into(), shape(2)), ("new".into(), shape(1))]);
        let uids: Vec<&String> = changed(&before, &now).collect();
        assert_eq!(uids, ["new", "turned", "gone"]);
    }
}
