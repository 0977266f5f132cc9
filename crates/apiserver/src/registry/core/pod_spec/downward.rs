//! References to a pod's own fields and resources, in variables and downward API volumes.

use apimachinery::field::{Error, ErrorList};
use apimachinery::names;

use crate::registry::check::At;

/// Fields a variable may show.
pub(crate) const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Fields a downward API file may show.
pub(crate) const VOLUME_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
const RESOURCES: [&str; 6] =
    ["limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory"];
/// Labels that convert to a field path at all.
const KNOWN_FIELDS: [&str; 13] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.podIP",
    "status.podIPs",
];

/// A `fieldRef`.
pub(crate) fn field_ref(reference: &At<'_>, allowed: &[&str], errs: &mut ErrorList) {
    let (version, path) = (reference.get("apiVersion"), reference.get("fieldPath"));
    if !version.require_str("", errs) || !path.require_str("", errs) {
        return;
    }
    let text = path.str();
    if let Some((field, key)) = subscript(text) {
        subscripted(&path, field, key, errs);
    } else if !KNOWN_FIELDS.contains(&text) && text != "status.hostIPs" {
        errs.push(path.invalid(format!("error converting fieldPath: field label not supported: {text}")));
    } else if !allowed.contains(&text) {
        errs.push(path.not_supported(allowed));
    }
}

fn subscripted(path: &At<'_>, field: &str, key: &str, errs: &mut ErrorList) {
    match field {
        "metadata.annotations" => path.each_of(names::is_qualified_name(&key.to_lowercase()), errs),
        "metadata.labels" => path.each_of(names::is_qualified_name(key), errs),
        _ => errs.push(Error::invalid(&path.path, field, "does not support subscript")),
    }
}

/// Splits `metadata.labels['key']`.
fn subscript(text: &str) -> Option<(&str, &str)> {
    text.strip_suffix("']")?.split_once("['")
}

/// A `resourceFieldRef`; files must say which container they are about.
pub(crate) fn resource_ref(reference: &At<'_>, in_volume: bool, errs: &mut ErrorList) {
    let (container, resource) = (reference.get("containerName"), reference.get("resource"));
    if in_volume && !container.require_str("", errs) {
        return;
    }
    let name = resource.str();
    let huge = name.starts_with("limits.hugepages-") || name.starts_with("requests.hugepages-");
    if resource.require_str("", errs) && !RESOURCES.contains(&name) && !huge {
        errs.push(resource.not_supported(&RESOURCES));
    }
    divisor(&reference.get("divisor"), name, errs);
}

fn divisor(divisor: &At<'_>, resource: &str, errs: &mut ErrorList) {
    const CPU: [&str; 2] = ["1m", "1"];
    const BYTES: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let text = divisor.str();
    if text.is_empty() || text == "0" {
        return;
    }
    if resource.ends_with(".cpu") && !CPU.contains(&text) {
        errs.push(divisor.invalid("only divisor's values 1m and 1 are supported with the cpu resource"));
    } else if resource.ends_with("memory") && !BYTES.contains(&text) {
        let all = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei";
        errs.push(divisor.invalid(format!("only divisor's values {all} are supported with the memory resource")));
    } else if resource.ends_with("ephemeral-storage") && !BYTES.contains(&text) {
        let all = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei";
        errs.push(divisor.invalid(format!("only divisor's values {all} are supported with the local ephemeral storage resource")));
    }
}
