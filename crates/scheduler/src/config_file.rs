//! KubeSchedulerConfiguration, as far as this scheduler obeys it; a setting that it cannot obey is refused by name.

use std::path::{Path, PathBuf};

use anyhow::bail;
use serde::Deserialize;

/// The scheduler that pods get when they name none.
pub(crate) const DEFAULT_NAME: &str = "default-scheduler";

/// `kubescheduler.config.k8s.io/v1`, kind KubeSchedulerConfiguration.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SchedulerConfiguration {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    pub(crate) client_connection: ClientConnection,
    #[serde(default)]
    pub(crate) leader_election: LeaderElection,
    #[serde(default)]
    profiles: Vec<Profile>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ClientConnection {
    pub(crate) kubeconfig: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct LeaderElection {
    pub(crate) leader_elect: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Profile {
    scheduler_name: Option<String>,
}

impl SchedulerConfiguration {
    pub(crate) fn load(path: &Path) -> anyhow::Result<Self> {
        let file: Self = component::config_file::load(path)?;
        if file.kind != "KubeSchedulerConfiguration" || file.api_version != "kubescheduler.config.k8s.io/v1" {
            bail!(
                "{}: want kubescheduler.config.k8s.io/v1 KubeSchedulerConfiguration, got {:?} {:?}",
                path.display(),
                file.api_version,
                file.kind
            );
        }
        Ok(file)
    }

    /// The one profile's name.
    pub(crate) fn scheduler_name(&self) -> anyhow::Result<String> {
        match self.profiles.as_slice() {
            [] => Ok(DEFAULT_NAME.to_owned()),
            [profile] => Ok(profile.scheduler_name.clone().unwrap_or_else(|| DEFAULT_NAME.to_owned())),
            _ => bail!("profiles: one profile is supported, got {}", self.profiles.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_setting_is_named() {
        let error = serde_yaml_ng::from_str::<SchedulerConfiguration>("podInitialBackoffSeconds: 2").unwrap_err().to_string();
        assert!(error.contains("podInitialBackoffSeconds"), "{error}");
    }
}
