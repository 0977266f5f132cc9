//! Resource lists: names, quantities, requests against limits, quality of service.

use std::cmp::Ordering;

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::names;
use apimachinery::quantity::Quantity;
use serde_json::Value;

use crate::registry::check::At;
use crate::registry::edit::{Fields, default_to, object};

/// Rounds the quantities of a resource list up to milli units.
pub(crate) fn round_up(list: &mut Fields) {
    for value in list.values_mut() {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => continue,
        };
        if let Ok(mut quantity) = Quantity::parse(&text) {
            quantity.round_up(-3);
            *value = Value::String(quantity.to_string());
        }
    }
}

/// [`round_up`] on requests and limits.
pub(crate) fn round_up_all(resources: &mut Fields) {
    for list in ["requests", "limits"] {
        if let Some(list) = object(resources, list) {
            round_up(list);
        }
    }
}

/// A resource limited but not requested is requested at its limit.
pub(crate) fn requests_from_limits(resources: &mut Fields) {
    let Some(limits) = object(resources, "limits").map(|limits| limits.clone()) else { return };
    if limits.is_empty() {
        return;
    }
    default_to(resources, "requests", serde_json::json!({}));
    if let Some(requests) = object(resources, "requests") {
        for (name, limit) in limits {
            requests.entry(name).or_insert(limit);
        }
    }
}

const STANDARD_CONTAINER: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const STANDARD: [&str; 18] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
];
/// Names a quota may count beside [`STANDARD`].
const STANDARD_SERVICES: [&str; 2] = ["services.nodeports", "services.loadbalancers"];

/// `requests` and `limits` of a container (`ValidateContainerResourceRequirements`).
pub(crate) fn validate(resources: &At<'_>, claim_names: &[&str], errs: &mut ErrorList) {
    let (requests, limits) = (resources.get("requests"), resources.get("limits"));
    let (mut cpu_or_memory, mut huge_pages) = (false, false);
    for (list, is_limit) in [(&limits, true), (&requests, false)] {
        for (name, quantity) in list.entries() {
            container_resource_name(&quantity, name, errs);
            resource_value(name, &quantity, errs);
            huge_pages |= name.starts_with("hugepages-");
            cpu_or_memory |= name == "cpu" || name == "memory";
            if !is_limit {
                request_fits_limit(name, &quantity, &requests.path, &limits, errs);
            } else if !requests.entries().iter().any(|(n, _)| *n == name) && not_overcommitable(name) {
                errs.push(Error::required(&limits.path, ""));
            }
        }
    }
    if huge_pages && !cpu_or_memory {
        errs.push(resources.forbidden("HugePages require cpu or memory"));
    }
    claims(&resources.get("claims"), claim_names, errs);
}

fn request_fits_limit(name: &str, request: &At<'_>, requests: &Path, limits: &At<'_>, errs: &mut ErrorList) {
    let limit = limits.key(name);
    let (Some(asked), Some(most)) = (request.quantity(), limit.quantity()) else {
        if not_overcommitable(name) && !limit.is_set() {
            errs.push(Error::required(&limits.path, "Limit must be set for non overcommitable resources"));
        }
        return;
    };
    // Upstream reports a request over its limit on the whole requests map, with the bare value.
    let at = request.under(requests.clone());
    match asked.cmp(&most) {
        Ordering::Equal => {}
        _ if not_overcommitable(name) => errs.push(at.invalid(format!("must be equal to {name} limit of {most}"))),
        Ordering::Greater => errs.push(at.invalid(format!("must be less than or equal to {name} limit of {most}"))),
        Ordering::Less => {}
    }
}

/// Huge pages and extended resources are requested exactly at their limit.
fn not_overcommitable(name: &str) -> bool {
    name.starts_with("hugepages-") || is_extended(name)
}

/// A resource outside kubernetes.io with a domain of its own.
pub(crate) fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}

fn claims(list: &At<'_>, claim_names: &[&str], errs: &mut ErrorList) {
    let mut seen = Vec::new();
    for claim in list.items() {
        let name = claim.get("name");
        if name.str().is_empty() {
            errs.push(name.required(""));
            continue;
        }
        let key = (name.str(), claim.get("request").str());
        if seen.contains(&key) {
            errs.push(Error::duplicate(&list.path, claim.value.clone()));
        }
        seen.push(key);
        if !claim_names.contains(&name.str()) {
            errs.push(Error::not_found(&name.path, name.value.clone()));
        }
    }
}

fn container_resource_name(at: &At<'_>, name: &str, errs: &mut ErrorList) {
    resource_name(at, name, errs);
    let known = STANDARD_CONTAINER.contains(&name) || name.starts_with("hugepages-");
    if !name.contains('/') && !known && names::is_qualified_name(name).is_empty() {
        errs.push(Error::invalid(&at.path, Value::from(name), "must be a standard resource for containers"));
    }
}

/// A resource name: qualified, and standard unless it has a domain.
pub(crate) fn resource_name(at: &At<'_>, name: &str, errs: &mut ErrorList) {
    let messages = names::is_qualified_name(name);
    if !messages.is_empty() {
        errs.extend(messages.into_iter().map(|m| Error::invalid(&at.path, Value::from(name), m)));
        return;
    }
    let standard = is_standard(name) || name.starts_with("hugepages-") || name.starts_with("requests.hugepages-");
    if !name.contains('/') && !standard {
        errs.push(Error::invalid(&at.path, Value::from(name), "must be a standard resource type or fully qualified"));
    }
}

/// A resource a quota knows without a domain.
pub(crate) fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name) || STANDARD_SERVICES.contains(&name)
}

/// A quantity is not negative; counts and huge pages are whole numbers.
pub(crate) fn resource_value(name: &str, at: &At<'_>, errs: &mut ErrorList) {
    at.non_negative_quantity(errs);
    let counted = is_extended(name) || ["pods", "services", "secrets", "configmaps"].contains(&name);
    if counted && at.quantity().is_some_and(|q| q.milli_value() % 1000 != 0) {
        errs.push(at.invalid("must be an integer"));
    }
}

/// Guaranteed, Burstable or BestEffort, from the containers' cpu and memory (`ComputePodQOS`).
pub(crate) fn qos_class(spec: &At<'_>) -> &'static str {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    let mut guaranteed = true;
    let pod_level = spec.get("resources");
    let holders: Vec<At<'_>> = if pod_level.get("limits").size() + pod_level.get("requests").size() > 0 {
        vec![pod_level]
    } else {
        let containers = ["containers", "initContainers"].iter().flat_map(|list| spec.get(list).items());
        containers.map(|container| container.get("resources")).collect()
    };
    for holder in &holders {
        let request = compute_resources(&holder.get("requests"));
        let limit = compute_resources(&holder.get("limits"));
        guaranteed &= limit.len() == 2;
        requests.push(request);
        limits.push(limit);
    }
    if requests.iter().chain(&limits).all(Vec::is_empty) {
        return "BestEffort";
    }
    if guaranteed && sum(&requests) == sum(&limits) { "Guaranteed" } else { "Burstable" }
}

/// The cpu and memory of a list, zero quantities left out.
fn compute_resources(list: &At<'_>) -> Vec<(&'static str, Quantity)> {
    let named = ["cpu", "memory"].into_iter().filter_map(|name| Some((name, list.key(name).quantity()?)));
    named.filter(|(_, quantity)| quantity.sign() > 0).collect()
}

/// Sum per resource, in milli units.
fn sum(lists: &[Vec<(&'static str, Quantity)>]) -> [i128; 2] {
    ["cpu", "memory"].map(|name| {
        let values = lists.iter().flatten().filter(|(n, _)| *n == name);
        values.map(|(_, quantity)| i128::from(quantity.milli_value())).sum()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn class_follows_cpu_and_memory_of_all_containers() {
        let full = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1Gi"}});
        let half = json!({"requests": {"cpu": "1"}});
        for (resources, class) in [
            (vec![json!({})], "BestEffort"),
            (vec![full.clone()], "Guaranteed"),
            (vec![half.clone()], "Burstable"),
            (vec![full.clone(), json!({})], "Burstable"),
            (vec![json!({"requests": {"example.com/gpu": "1"}})], "BestEffort"),
        ] {
            let containers: Vec<Value> = resources.into_iter().map(|r| json!({"resources": r})).collect();
            let spec = json!({"containers": containers});
            assert_eq!(qos_class(&At::new(Path::new("spec"), &spec)), class, "{spec}");
        }
    }

    #[test]
    fn a_request_over_its_limit_is_refused() {
        let value = json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}});
        let mut errs = Vec::new();
        validate(&At::new(Path::new("resources"), &value), &[], &mut errs);
        let texts: Vec<String> = errs.iter().map(ToString::to_string).collect();
        assert_eq!(texts, [r#"resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1"#]);
    }
}
