//! Events about pods and about the node itself.

use client::events::Recorder;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};

use crate::pod::facts;

/// The kubelet's voice.
#[derive(Clone)]
pub(crate) struct Events(Recorder);

impl Events {
    /// Speaks through `recorder`, whose source is `kubelet` on this node.
    pub(crate) fn new(recorder: Recorder) -> Self {
        Self(recorder)
    }

    /// Tells of a pod, or of one of its containers.
    pub(crate) fn pod(&self, pod: &Pod, container: Option<&str>, kind: &str, reason: &str, message: &str) {
        let reference = ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Pod".into()),
            name: pod.metadata.name.clone(),
            namespace: pod.metadata.namespace.clone(),
            uid: pod.metadata.uid.clone(),
            resource_version: pod.metadata.resource_version.clone(),
            field_path: container.and_then(|name| field_path(pod, name)),
        };
        self.tell(&reference, kind, reason, message);
    }

    /// Tells of the node. As upstream, the node's name stands for its uid.
    pub(crate) fn node(&self, name: &str, kind: &str, reason: &str, message: &str) {
        let reference =
            ObjectReference { kind: Some("Node".into()), name: Some(name.to_owned()), uid: Some(name.to_owned()), ..Default::default() };
        self.tell(&reference, kind, reason, message);
    }

    fn tell(&self, reference: &ObjectReference, kind: &str, reason: &str, message: &str) {
        match kind {
            "Normal" => self.0.normal(reference, reason, message),
            _ => self.0.warning(reference, reason, message),
        }
    }
}

fn field_path(pod: &Pod, name: &str) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let init = spec.init_containers.iter().flatten().any(|c| c.name == name);
    let known = facts::all_containers(spec).any(|c| c.name == name);
    let list = if init { "initContainers" } else { "containers" };
    known.then(|| format!("spec.{list}{{{name}}}"))
}
