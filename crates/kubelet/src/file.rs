//! The part of KubeletConfiguration (kubelet.config.k8s.io/v1beta1) this kubelet knows.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::Taint;
use serde::{Deserialize, Deserializer, de::Error as _};

use crate::quantity;

const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";

/// A KubeletConfiguration. Fields this kubelet does not know are ignored, and named in the log.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct KubeletConfiguration {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) address: Option<IpAddr>,
    pub(crate) port: Option<u16>,
    pub(crate) healthz_bind_address: Option<IpAddr>,
    pub(crate) healthz_port: Option<u16>,
    pub(crate) tls_cert_file: Option<PathBuf>,
    pub(crate) tls_private_key_file: Option<PathBuf>,
    pub(crate) authentication: Authentication,
    #[serde(rename = "clusterDNS")]
    pub(crate) cluster_dns: Vec<String>,
    pub(crate) cluster_domain: Option<String>,
    pub(crate) resolv_conf: Option<PathBuf>,
    pub(crate) container_runtime_endpoint: Option<String>,
    pub(crate) pod_logs_dir: Option<PathBuf>,
    pub(crate) register_node: Option<bool>,
    pub(crate) register_with_taints: Vec<Taint>,
    pub(crate) max_pods: Option<i64>,
    pub(crate) eviction_hard: Option<std::collections::BTreeMap<String, String>>,
    pub(crate) serialize_image_pulls: Option<bool>,
    #[serde(rename = "singleProcessOOMKill")]
    pub(crate) single_process_oom_kill: Option<bool>,
    pub(crate) max_parallel_image_pulls: Option<usize>,
    pub(crate) node_lease_duration_seconds: Option<i32>,
    #[serde(deserialize_with = "duration")]
    pub(crate) node_status_update_frequency: Option<Duration>,
    #[serde(deserialize_with = "duration")]
    pub(crate) node_status_report_frequency: Option<Duration>,
    #[serde(deserialize_with = "duration")]
    pub(crate) streaming_connection_idle_timeout: Option<Duration>,
    #[serde(deserialize_with = "bytes")]
    pub(crate) container_log_max_size: Option<u64>,
    pub(crate) container_log_max_files: Option<usize>,
    pub(crate) crash_loop_back_off: CrashLoopBackOff,
    #[serde(flatten)]
    unknown: std::collections::BTreeMap<String, serde_json::Value>,
}

/// `authentication`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Authentication {
    pub(crate) x509: X509,
}

/// `authentication.x509`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct X509 {
    #[serde(rename = "clientCAFile")]
    pub(crate) client_ca_file: Option<PathBuf>,
}

/// `crashLoopBackOff`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct CrashLoopBackOff {
    #[serde(deserialize_with = "duration")]
    pub(crate) max_container_restart_period: Option<Duration>,
}

impl KubeletConfiguration {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is of another kind.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let file: Self = component::config_file::load(path)?;
        file.check().with_context(|| format!("use config file {}", path.display()))?;
        Ok(file)
    }

    fn check(&self) -> anyhow::Result<()> {
        if self.api_version != API_VERSION || self.kind != "KubeletConfiguration" {
            bail!("no kind {:?} is registered for version {:?}; want KubeletConfiguration of {API_VERSION}", self.kind, self.api_version);
        }
        for field in self.unknown.keys() {
            tracing::warn!(field, "this kubelet does not know the field of its config file and ignores it");
        }
        Ok(())
    }
}

fn duration<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Duration>, D::Error> {
    let Some(text) = Option::<String>::deserialize(input)? else { return Ok(None) };
    parse_duration(&text).map(Some).ok_or_else(|| D::Error::custom(format!("time: invalid duration {text:?}")))
}

/// A duration as Go writes it: `10s`, `5m`, `1h30m`, `250ms`.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (mut rest, mut total) = (text, 0.0);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let scale = match &rest[..end] {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        total += number * scale;
        rest = &rest[end..];
    }
    (!text.is_empty()).then(|| Duration::try_from_secs_f64(total).ok()).flatten()
}

fn bytes<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u64>, D::Error> {
    let Some(text) = Option::<String>::deserialize(input)? else { return Ok(None) };
    let value = quantity::value(&text).and_then(|value| u64::try_from(value).ok());
    value.map(Some).ok_or_else(|| D::Error::custom(format!("invalid quantity {text:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_kubeadms_configuration() {
        let text = "
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
cgroupDriver: systemd
nodeStatusReportFrequency: 0s
nodeStatusUpdateFrequency: 10s
streamingConnectionIdleTimeout: 1h
containerLogMaxSize: 10Mi
singleProcessOOMKill: true
";
        let file: KubeletConfiguration = serde_yaml_ng::from_str(text).unwrap();
        file.check().unwrap();
        assert_eq!(file.cluster_dns, ["10.96.0.10"]);
        assert_eq!(file.container_log_max_size, Some(10 << 20));
        assert_eq!(file.streaming_connection_idle_timeout, Some(Duration::from_secs(3600)));
        assert_eq!(file.node_status_update_frequency, Some(Duration::from_secs(10)));
        assert_eq!(file.authentication.x509.client_ca_file, Some("/etc/kubernetes/pki/ca.crt".into()));
        assert_eq!(file.single_process_oom_kill, Some(true));
    }

    #[test]
    fn reads_durations_as_go_does() {
        assert_eq!(parse_duration("1h30m"), Some(Duration::from_secs(5400)));
        assert_eq!(parse_duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(parse_duration("5"), None);
        assert_eq!(parse_duration(""), None);
    }
}
