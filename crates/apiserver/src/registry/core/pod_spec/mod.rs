//! The pod spec, which pods and the templates of all workloads share: defaults and validation, split by topic.

mod affinity;
pub(crate) mod claims;
mod containers;
pub(crate) mod defaults;
mod downward;
mod env;
mod mounts;
mod network;
mod os;
mod probes;
pub(crate) mod resources;
pub(crate) mod scheduling;
mod security;
pub(crate) mod update;
pub(crate) mod volume_sources;
mod volumes;
pub(crate) mod warnings;

use std::collections::BTreeSet;

use apimachinery::field::{Error, ErrorList};
use apimachinery::names;

pub(crate) use defaults::CONTAINER_LISTS;

use crate::registry::check::{self, At};

/// A pod template's metadata and spec (`ValidatePodTemplateSpec`).
pub(crate) fn validate_template(template: &At<'_>, errs: &mut ErrorList) {
    let metadata = template.get("metadata");
    check::labels(&metadata.get("labels"), errs);
    check::annotations(&metadata.get("annotations"), errs);
    let spec = template.get("spec");
    validate(&spec, errs);
    let ephemeral = spec.get("ephemeralContainers");
    if ephemeral.size() > 0 {
        errs.push(ephemeral.forbidden("ephemeral containers not allowed in pod template"));
    }
}

/// A pod spec (`ValidatePodSpec`), in upstream's order of checks.
pub(crate) fn validate(spec: &At<'_>, errs: &mut ErrorList) {
    let context = containers::Context {
        volumes: volumes::Volumes::validate(&spec.get("volumes"), errs),
        claims: resource_claims(&spec.get("resourceClaims"), errs),
        grace_period: spec.get("terminationGracePeriodSeconds").int().unwrap_or(30),
    };
    containers::validate(spec, &context, errs);
    network::host_ports(spec, errs);
    spec.get("restartPolicy").one_of(&["Always", "OnFailure", "Never"], errs);
    network::dns_policy(&spec.get("dnsPolicy"), errs);
    check::labels(&spec.get("nodeSelector"), errs);
    security::pod(spec, errs);
    for secret in spec.get("imagePullSecrets").items() {
        secret.get("name").require_str("", errs);
    }
    affinity::validate(&spec.get("affinity"), errs);
    network::dns_config(spec, errs);
    scheduling::readiness_gates(&spec.get("readinessGates"), errs);
    scheduling::gates(&spec.get("schedulingGates"), errs);
    scheduling::spread_constraints(&spec.get("topologySpreadConstraints"), errs);
    identity(spec, errs);
    scheduling::tolerations(&spec.get("tolerations"), errs);
    network::host_aliases(&spec.get("hostAliases"), errs);
    classes(spec, errs);
    os::validate(spec, errs);
}

fn identity(spec: &At<'_>, errs: &mut ErrorList) {
    for field in ["serviceAccountName", "nodeName"] {
        spec.get(field).name_if_set(names::is_dns1123_subdomain, errs);
    }
    let deadline = spec.get("activeDeadlineSeconds");
    if deadline.int().is_some_and(|n| !(1..=i64::from(i32::MAX)).contains(&n)) {
        errs.push(deadline.invalid("must be between 1 and 2147483647, inclusive"));
    }
    network::host_names(spec, errs);
}

fn classes(spec: &At<'_>, errs: &mut ErrorList) {
    for field in ["priorityClassName", "runtimeClassName"] {
        spec.get(field).name_if_set(names::is_dns1123_subdomain, errs);
    }
    spec.get("preemptionPolicy").one_of_if_set(&["PreemptLowerPriority", "Never"], errs);
    for (name, quantity) in spec.get("overhead").entries() {
        resources::resource_value(name, &quantity, errs);
    }
}

fn resource_claims<'a>(list: &At<'a>, errs: &mut ErrorList) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    for claim in list.items() {
        let name = claim.get("name");
        name.required_name(names::is_dns1123_label, errs);
        if !name.is_empty() && !seen.insert(name.str()) {
            errs.push(name.duplicate());
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"].map(|field| claim.get(field).is_set());
        match sources {
            [true, true] => errs.push(Error::invalid(
                &claim.path,
                check::internal_form(claim.value),
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            )),
            [false, false] => errs.push(Error::invalid(
                &claim.path,
                check::internal_form(claim.value),
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            )),
            _ => {}
        }
    }
    seen.into_iter().collect()
}

#[cfg(test)]
mod tests;
