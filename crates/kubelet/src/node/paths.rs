//! Where the kubelet keeps its files; layout as upstream's.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Pod;

use crate::pod::facts;

/// Directories of one node.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    root: PathBuf,
    logs: PathBuf,
}

impl Paths {
    /// `root`: the kubelet's own directory; `logs`: directory of the pods' logs.
    pub(crate) fn new(root: impl Into<PathBuf>, logs: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), logs: logs.into() }
    }

    /// Directory of all pods.
    pub(crate) fn pods(&self) -> PathBuf {
        self.root.join("pods")
    }

    /// Directory of one pod.
    pub(crate) fn pod(&self, uid: &str) -> PathBuf {
        self.pods().join(uid)
    }

    /// A volume of a pod, by the escaped name of its plugin.
    pub(crate) fn volume(&self, uid: &str, plugin: &str, name: &str) -> PathBuf {
        self.pod(uid).join("volumes").join(plugin).join(name)
    }

    /// Directory of all logs.
    pub(crate) fn all_logs(&self) -> &Path {
        &self.logs
    }

    /// Directory of a pod's logs.
    pub(crate) fn pod_logs(&self, pod: &Pod) -> PathBuf {
        self.logs.join(format!("{}_{}_{}", facts::namespace(pod), facts::name(pod), facts::uid(pod)))
    }
}
