//! `autoscaling/v1` to `v2` and back: what v1 has no field for travels in annotations.

use apimachinery::{Object, status::Status};
use serde_json::{Value, json};

use crate::registry::{
    Conversion,
    edit::{Fields, ensure_object, is_zero},
};

/// The annotation that carries metrics.
pub(crate) const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CURRENT: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";

/// The conversion of `autoscaling/v1`.
pub(crate) struct V1;

/// A cpu metric with a target utilization in percent.
pub(crate) fn cpu_metric(percent: i64) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}})
}

impl Conversion for V1 {
    fn to_served(&self, mut obj: Object) -> Result<Object, Status> {
        obj.set_api_version("autoscaling/v1");
        let spec = ensure_object(&mut obj.0, "spec");
        let mut metrics = take_list(spec, "metrics");
        if let Some(at) = metrics.iter().position(|metric| cpu_utilization(metric, "target").is_some()) {
            let percent = cpu_utilization(&metrics.remove(at), "target");
            spec.insert("targetCPUUtilizationPercentage".into(), percent.into());
        }
        let behavior = spec.remove("behavior");
        let status = ensure_object(&mut obj.0, "status");
        let mut current = take_list(status, "currentMetrics");
        if let Some(at) = current.iter().position(|metric| cpu_utilization(metric, "current").is_some()) {
            let percent = cpu_utilization(&current.remove(at), "current");
            status.insert("currentCPUUtilizationPercentage".into(), percent.into());
        }
        let conditions = take_list(status, "conditions");
        status.entry("currentReplicas").or_insert(json!(0));
        for (key, value) in [
            (METRICS, Value::from(metrics)),
            (BEHAVIOR, behavior.unwrap_or_default()),
            (CURRENT, current.into()),
            (CONDITIONS, conditions.into()),
        ] {
            if !is_zero(&value) {
                obj.set_annotation(key, &value.to_string());
            }
        }
        Ok(obj)
    }

    fn to_stored(&self, mut obj: Object) -> Result<Object, Status> {
        obj.set_api_version("autoscaling/v2");
        let [metrics, behavior, current, conditions] = [METRICS, BEHAVIOR, CURRENT, CONDITIONS].map(|key| take_annotation(&mut obj, key));
        let spec = ensure_object(&mut obj.0, "spec");
        let mut all = as_list(metrics);
        if let Some(percent) = spec.remove("targetCPUUtilizationPercentage").and_then(|percent| percent.as_i64()) {
            all.insert(0, cpu_metric(percent));
        }
        if !all.is_empty() {
            spec.insert("metrics".into(), all.into());
        }
        if let Some(behavior) = behavior {
            spec.insert("behavior".into(), behavior);
        }
        let status = ensure_object(&mut obj.0, "status");
        let mut measured = as_list(current);
        if let Some(percent) = status.remove("currentCPUUtilizationPercentage").and_then(|percent| percent.as_i64()) {
            measured.insert(0, json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": percent}}}));
        }
        status.insert("currentMetrics".into(), if measured.is_empty() { Value::Null } else { measured.into() });
        if let Some(conditions) = conditions {
            status.insert("conditions".into(), conditions);
        }
        Ok(obj)
    }
}

fn cpu_utilization(metric: &Value, part: &str) -> Option<i64> {
    let resource = metric.get("resource").filter(|resource| resource["name"] == "cpu")?;
    resource.get(part)?.get("averageUtilization")?.as_i64()
}

fn take_list(fields: &mut Fields, key: &str) -> Vec<Value> {
    as_list(fields.remove(key))
}

fn as_list(value: Option<Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    }
}

fn take_annotation(obj: &mut Object, key: &str) -> Option<Value> {
    let mut annotations = obj.annotations();
    let text = annotations.remove(key)?;
    obj.set_annotations(annotations);
    serde_json::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_old_form_lacks_survives_the_way_there_and_back() {
        let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}});
        let stored = json!({"apiVersion": "autoscaling/v2", "metadata": {"name": "x"},
            "spec": {"maxReplicas": 3, "metrics": [cpu_metric(70), memory]}, "status": {"desiredReplicas": 1, "currentMetrics": null}});
        let old = V1.to_served(Object::from_value(stored.clone()).unwrap()).unwrap();
        assert_eq!(old.0["spec"], json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 70}));
        let back = V1.to_stored(old).unwrap();
        assert_eq!(back.0["spec"], stored["spec"]);
    }
}
