//! The ServiceCIDR `kubernetes`: the ranges cluster IPs come from.

use std::sync::Arc;

use apimachinery::status::Status;
use serde_json::json;

use super::{BootstrapConfig, object};
use crate::loopback::Loopback;

const NAME: &str = "kubernetes";

pub(super) async fn ensure(api: Loopback, config: Arc<BootstrapConfig>) -> Result<(), Status> {
    if config.service_ranges.is_empty() {
        return Ok(());
    }
    let cidrs = api.api("networking.k8s.io/v1", "servicecidrs");
    let mut cidr = object("networking.k8s.io/v1", "ServiceCIDR", "", NAME);
    let ranges: Vec<String> = config.service_ranges.iter().map(ToString::to_string).collect();
    cidr.0.insert("spec".into(), json!({"cidrs": ranges}));
    super::ensure(&cidrs, &cidr).await?;
    let found = cidrs.get(NAME).await?;
    if found.pointer("/status/conditions/0").is_some() {
        return Ok(());
    }
    let ready = json!({
        "type": "Ready", "status": "True", "reason": "", "message": "Kubernetes default Service CIDR is ready",
        "lastTransitionTime": apimachinery::time::format_rfc3339_seconds(component::clock::now()),
    });
    cidrs.merge_patch(&format!("{NAME}/status"), &json!({"status": {"conditions": [ready]}})).await.map(drop)
}
