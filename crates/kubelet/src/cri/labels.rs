//! What the kubelet writes on sandboxes and containers so that it can find its way again after a restart.
//! Names as upstream's `pkg/kubelet/types` and `kuberuntime/labels.go`.

use std::collections::HashMap;

use k8s_openapi::api::core::v1::{Container, Pod};
use sha2::{Digest, Sha256};

pub(crate) const POD_NAME: &str = "io.kubernetes.pod.name";
pub(crate) const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
pub(crate) const POD_UID: &str = "io.kubernetes.pod.uid";
pub(crate) const CONTAINER_NAME: &str = "io.kubernetes.container.name";

const HASH: &str = "io.kubernetes.container.hash";
const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
const MESSAGE_PATH: &str = "io.kubernetes.container.terminationMessagePath";
const MESSAGE_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
const DELETION_GRACE: &str = "io.kubernetes.pod.deletionGracePeriod";
const TERMINATION_GRACE: &str = "io.kubernetes.pod.terminationGracePeriod";

/// What container annotations tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Notes {
    pub(crate) hash: String,
    pub(crate) restart_count: i32,
    pub(crate) message_path: String,
    pub(crate) message_policy: String,
}

/// Labels of a pod's sandbox: the pod's own and where it comes from.
pub(crate) fn sandbox(pod: &Pod) -> HashMap<String, String> {
    let mut labels: HashMap<String, String> = pod.metadata.labels.clone().unwrap_or_default().into_iter().collect();
    labels.extend(identity(pod));
    labels
}

/// Labels of a container.
pub(crate) fn container(pod: &Pod, name: &str) -> HashMap<String, String> {
    let mut labels = identity(pod);
    labels.insert(CONTAINER_NAME.into(), name.into());
    labels
}

fn identity(pod: &Pod) -> HashMap<String, String> {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    HashMap::from([
        (POD_NAME.into(), text(&pod.metadata.name)),
        (POD_NAMESPACE.into(), text(&pod.metadata.namespace)),
        (POD_UID.into(), text(&pod.metadata.uid)),
    ])
}

/// Annotations of a container started for the `restart_count`-th time again.
pub(crate) fn annotations(pod: &Pod, container: &Container, restart_count: i32) -> HashMap<String, String> {
    let mut notes = HashMap::from([
        (HASH.into(), hash(container)),
        (RESTART_COUNT.into(), restart_count.to_string()),
        (MESSAGE_PATH.into(), container.termination_message_path.clone().unwrap_or_default()),
        (MESSAGE_POLICY.into(), container.termination_message_policy.clone().unwrap_or_default()),
    ]);
    if let Some(grace) = pod.metadata.deletion_grace_period_seconds {
        notes.insert(DELETION_GRACE.into(), grace.to_string());
    }
    if let Some(grace) = pod.spec.as_ref().and_then(|s| s.termination_grace_period_seconds) {
        notes.insert(TERMINATION_GRACE.into(), grace.to_string());
    }
    notes
}

/// Reads what [`annotations`] wrote; missing or foreign values read as empty.
pub(crate) fn notes(annotations: &HashMap<String, String>) -> Notes {
    let text = |key| annotations.get(key).cloned().unwrap_or_default();
    Notes {
        hash: text(HASH),
        restart_count: text(RESTART_COUNT).parse().unwrap_or(0),
        message_path: text(MESSAGE_PATH),
        message_policy: text(MESSAGE_POLICY),
    }
}

/// Grace period for a container whose pod is no longer known, from its annotations.
pub(crate) fn grace_seconds(annotations: &HashMap<String, String>) -> Option<i64> {
    [DELETION_GRACE, TERMINATION_GRACE].iter().find_map(|key| annotations.get(*key)?.parse().ok())
}

/// Changes exactly when a running container must be replaced: its name and image, as upstream's `HashContainer`.
pub(crate) fn hash(container: &Container) -> String {
    let mut hash = Sha256::new();
    hash.update(&container.name);
    hash.update([0]);
    hash.update(container.image.as_deref().unwrap_or_default());
    hash.finalize()[..4].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_survive_the_runtime() {
        let container = Container {
            name: "main".into(),
            image: Some("web:1".into()),
            termination_message_path: Some("/dev/termination-log".into()),
            termination_message_policy: Some("File".into()),
            ..Default::default()
        };
        let read = notes(&annotations(&Pod::default(), &container, 3));
        assert_eq!(read.restart_count, 3);
        assert_eq!(read.hash, hash(&container));
        assert_eq!(read.message_path, "/dev/termination-log");
    }

    #[test]
    fn hash_changes_with_the_image_only() {
        let one = Container { name: "main".into(), image: Some("web:1".into()), ..Default::default() };
        let tty = Container { tty: Some(true), ..one.clone() };
        let two = Container { image: Some("web:2".into()), ..one.clone() };
        assert_eq!(hash(&one), hash(&tty));
        assert_ne!(hash(&one), hash(&two));
    }
}
