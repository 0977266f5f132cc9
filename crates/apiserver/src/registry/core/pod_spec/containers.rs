//! Containers, init containers and ephemeral containers.

use std::collections::BTreeSet;

use apimachinery::field::ErrorList;
use apimachinery::names;

use super::volumes::Volumes;
use super::{env, mounts, probes, resources, security};
use crate::registry::check::At;
use crate::registry::edit::is_zero;

/// What containers are checked against.
pub(crate) struct Context<'a> {
    /// The pod's volumes.
    pub(crate) volumes: Volumes<'a>,
    /// Names in `spec.resourceClaims`.
    pub(crate) claims: Vec<&'a str>,
    /// `spec.terminationGracePeriodSeconds`.
    pub(crate) grace_period: i64,
}

const FOR_RESTARTABLE: &str = "may not be set for init containers without restartPolicy=Always";
const NOT_EPHEMERAL: &str = "cannot be set for an Ephemeral Container";
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
/// What an ephemeral container may not have, in the order upstream looks at it.
const FORBIDDEN_IN_EPHEMERAL: [&str; 8] =
    ["ports", "resources", "resizePolicy", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "restartPolicy"];

/// All containers of a pod spec.
pub(crate) fn validate(spec: &At<'_>, context: &Context<'_>, errs: &mut ErrorList) {
    let (main, init, ephemeral) = (spec.get("containers"), spec.get("initContainers"), spec.get("ephemeralContainers"));
    main_containers(&main, context, errs);
    init_containers(&init, &main, context, errs);
    ephemeral_containers(&ephemeral, &main, &init, context, errs);
}

fn main_containers(list: &At<'_>, context: &Context<'_>, errs: &mut ErrorList) {
    if list.size() == 0 {
        errs.push(list.required(""));
    }
    let mut names = BTreeSet::new();
    for container in list.items() {
        common(&container, context, errs);
        unique_name(&container, &mut names, errs);
        probes::validate_all(&container, context.grace_period, errs);
    }
    host_port_conflicts(&list.items(), errs);
}

fn init_containers(list: &At<'_>, main: &At<'_>, context: &Context<'_>, errs: &mut ErrorList) {
    let mut names: BTreeSet<&str> = main.items().iter().map(|c| c.get("name").str()).collect();
    for container in list.items() {
        common(&container, context, errs);
        unique_name(&container, &mut names, errs);
        host_port_conflicts(std::slice::from_ref(&container), errs);
        if container.get("restartPolicy").str() == "Always" {
            probes::validate_all(&container, context.grace_period, errs);
            continue;
        }
        for field in ["lifecycle"].iter().chain(&PROBES) {
            let field = container.get(field);
            if field.is_set() {
                errs.push(field.forbidden(FOR_RESTARTABLE));
            }
        }
    }
}

fn ephemeral_containers(list: &At<'_>, main: &At<'_>, init: &At<'_>, context: &Context<'_>, errs: &mut ErrorList) {
    let others = main.items().into_iter().chain(init.items());
    let targets: BTreeSet<&str> = others.map(|c| c.get("name").str()).collect();
    let mut names = targets.clone();
    for container in list.items() {
        common(&container, context, errs);
        unique_name(&container, &mut names, errs);
        let target = container.get("targetContainerName");
        if !target.is_empty() && !targets.contains(target.str()) {
            errs.push(apimachinery::field::Error::not_found(&target.path, target.value.clone()));
        }
        for field in FORBIDDEN_IN_EPHEMERAL {
            let field = container.get(field);
            if !is_zero(field.value) {
                errs.push(field.forbidden(NOT_EPHEMERAL));
            }
        }
        for mount in container.get("volumeMounts").items() {
            for field in ["subPath", "subPathExpr"] {
                let field = mount.get(field);
                if !field.is_empty() {
                    errs.push(field.forbidden(NOT_EPHEMERAL));
                }
            }
        }
    }
}

fn unique_name<'a>(container: &At<'a>, names: &mut BTreeSet<&'a str>, errs: &mut ErrorList) {
    let name = container.get("name");
    if !name.is_empty() && !names.insert(name.str()) {
        errs.push(name.duplicate());
    }
}

fn common(container: &At<'_>, context: &Context<'_>, errs: &mut ErrorList) {
    container.get("name").required_name(names::is_dns1123_label, errs);
    image(&container.get("image"), errs);
    container.get("terminationMessagePolicy").one_of(&["File", "FallbackToLogsOnError"], errs);
    ports(&container.get("ports"), errs);
    env::variables(&container.get("env"), errs);
    env::sources(&container.get("envFrom"), errs);
    mounts::mounts(container, &context.volumes, errs);
    mounts::devices(container, &context.volumes, errs);
    container.get("imagePullPolicy").one_of(&["Always", "IfNotPresent", "Never"], errs);
    resources::validate(&container.get("resources"), &context.claims, errs);
    resize_policy(&container.get("resizePolicy"), errs);
    security::container(&container.get("securityContext"), errs);
}

/// An image reference is given, without spaces around it.
fn image(image: &At<'_>, errs: &mut ErrorList) {
    if image.require_str("", errs) && image.str().trim() != image.str() {
        errs.push(image.invalid("must not have leading or trailing whitespace"));
    }
}

fn resize_policy(list: &At<'_>, errs: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for policy in list.items() {
        let name = policy.get("resourceName");
        name.one_of(&["cpu", "memory"], errs);
        policy.get("restartPolicy").one_of(&["NotRequired", "RestartContainer"], errs);
        if !seen.insert(name.str()) {
            errs.push(apimachinery::field::Error::duplicate(&policy.path, name.str()));
        }
    }
}

fn ports(list: &At<'_>, errs: &mut ErrorList) {
    let mut names = BTreeSet::new();
    for port in list.items() {
        let (name, number, host) = (port.get("name"), port.get("containerPort"), port.get("hostPort"));
        if !name.is_empty() {
            let messages = names::is_valid_port_name(name.str());
            if messages.is_empty() && !names.insert(name.str()) {
                errs.push(name.duplicate());
            }
            name.each_of(messages, errs);
        }
        match number.int() {
            None | Some(0) => errs.push(number.required("")),
            Some(_) => number.port_number(errs),
        }
        if host.int().is_some_and(|n| n != 0) {
            host.port_number(errs);
        }
        port.get("protocol").one_of(&["SCTP", "TCP", "UDP"], errs);
    }
}

/// Two ports of the pod may not claim one port of the host.
fn host_port_conflicts(containers: &[At<'_>], errs: &mut ErrorList) {
    let mut taken = BTreeSet::new();
    for port in containers.iter().flat_map(|container| container.get("ports").items()) {
        let number = port.get("hostPort");
        let Some(host) = number.int().filter(|n| *n != 0) else { continue };
        let key = format!("{}/{}/{host}", port.get("hostIP").str(), port.get("protocol").str());
        if !taken.insert(key.clone()) {
            errs.push(apimachinery::field::Error::duplicate(&number.path, key));
        }
    }
}
