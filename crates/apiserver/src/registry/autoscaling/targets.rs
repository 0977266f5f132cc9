//! The TARGETS column: measured and wanted values of an autoscaler's metrics.

use crate::registry::check::At;

/// Metrics shown before the rest is counted.
const MOST: usize = 2;

/// All metrics as `cpu: 20%/80%`, with `<unknown>` for what was not measured.
pub(crate) fn shown(spec: &At<'_>, status: &At<'_>) -> String {
    let metrics = spec.get("metrics").items();
    if metrics.is_empty() {
        return "<none>".into();
    }
    let current = status.get("currentMetrics").items();
    let texts: Vec<String> = metrics.iter().enumerate().map(|(at, metric)| one(metric, current.get(at))).collect();
    match texts.len().checked_sub(MOST) {
        Some(more) if more > 0 => format!("{} + {more} more...", texts[..MOST].join(", ")),
        _ => texts.join(", "),
    }
}

fn one(metric: &At<'_>, current: Option<&At<'_>>) -> String {
    let kind = metric.get("type");
    let field = match kind.str() {
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        "Pods" => "pods",
        "Object" => "object",
        "External" => "external",
        _ => return "<unknown type>".into(),
    };
    let source = metric.get(field);
    let target = source.get("target");
    let measured = current.map(|current| current.get(field).get("current"));
    let value = |name: &str| measured.as_ref().map(|at| at.get(name)).filter(At::is_set);
    let unknown = "<unknown>".to_owned();
    let text = if let Some(percent) = target.get("averageUtilization").int() {
        let now = value("averageUtilization").and_then(|at| at.int()).map_or(unknown, |n| format!("{n}%"));
        format!("{now}/{percent}%")
    } else if target.get("averageValue").is_set() {
        let now = value("averageValue").map_or(unknown, |at| at.str().to_owned());
        let average = if ["object", "external"].contains(&field) { " (avg)" } else { "" };
        format!("{now}/{}{average}", target.get("averageValue").str())
    } else {
        let now = value("value").map_or(unknown, |at| at.str().to_owned());
        format!("{now}/{}", target.get("value").str())
    };
    match field {
        "resource" | "containerResource" => format!("{}: {text}", source.get("name").str()),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use apimachinery::field::Path;
    use serde_json::json;

    use super::*;

    #[test]
    fn measured_and_wanted_values_stand_side_by_side() {
        let spec = json!({"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}},
            {"type": "Resource", "resource": {"name": "memory", "target": {"averageValue": "1Gi"}}}]});
        let status = json!({"currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 20}}}]});
        let at = |value| At::new(Path::root(), value);
        assert_eq!(shown(&at(&spec), &at(&status)), "cpu: 20%/80%, memory: <unknown>/1Gi");
    }
}
