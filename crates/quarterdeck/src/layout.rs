//! Where everything lies below the data directory: PKI and kubeconfigs under kubeadm's names, one folder of data and one log a part.

use std::path::{Path, PathBuf};

/// The paths of one cluster.
#[derive(Clone, Debug)]
pub(crate) struct Layout(PathBuf);

impl Layout {
    pub(crate) fn new(data_dir: &Path) -> anyhow::Result<Self> {
        Ok(Self(std::path::absolute(data_dir)?))
    }

    pub(crate) fn root(&self) -> &Path {
        &self.0
    }

    /// A file below `pki/`, as `ca.crt` or `etcd/server.key`.
    pub(crate) fn pki(&self, name: &str) -> PathBuf {
        self.0.join("pki").join(name)
    }

    pub(crate) fn kubeconfig(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.conf"))
    }

    pub(crate) fn admin_kubeconfig(&self) -> PathBuf {
        self.kubeconfig("admin")
    }

    /// The files of a node that has a directory of its own.
    pub(crate) fn node(&self, name: &str) -> Self {
        Self(self.0.join("nodes").join(name))
    }

    /// The files of a part of the control plane that has a directory of its own.
    pub(crate) fn part(&self, name: &str) -> Self {
        Self(self.0.join("parts").join(name))
    }

    /// The data folder of a part's instance.
    pub(crate) fn data(&self, instance: &str) -> PathBuf {
        self.0.join(instance)
    }

    pub(crate) fn log(&self, instance: &str) -> PathBuf {
        self.0.join("logs").join(format!("{instance}.log"))
    }

    /// What `status` and `down` know of a running cluster.
    pub(crate) fn state(&self) -> PathBuf {
        self.0.join("cluster.json")
    }

    /// Held locked by the `up` that owns the directory.
    pub(crate) fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }
}
