//! What a pod may not say depending on its operating system.

use apimachinery::field::ErrorList;

use crate::registry::check::At;

const POD_ON_WINDOWS: [&str; 15] = [
    "hostPID",
    "hostIPC",
    "securityContext.seLinuxOptions",
    "securityContext.seccompProfile",
    "securityContext.appArmorProfile",
    "securityContext.fsGroup",
    "securityContext.fsGroupChangePolicy",
    "securityContext.sysctls",
    "shareProcessNamespace",
    "securityContext.runAsUser",
    "securityContext.runAsGroup",
    "securityContext.supplementalGroups",
    "securityContext.supplementalGroupsPolicy",
    "hostUsers",
    "securityContext.seLinuxChangePolicy",
];
const CONTAINER_ON_WINDOWS: [&str; 10] = [
    "seLinuxOptions",
    "seccompProfile",
    "appArmorProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// `os` and what follows from it.
pub(crate) fn validate(spec: &At<'_>, errs: &mut ErrorList) {
    let os = spec.get("os");
    if !os.is_set() {
        return;
    }
    let name = os.get("name");
    match name.str() {
        "" => errs.push(name.required("cannot be empty")),
        "linux" => linux(spec, errs),
        "windows" => windows(spec, errs),
        _ => errs.push(name.under(os.path).not_supported(&["linux", "windows"])),
    }
}

fn security_contexts<'a>(spec: &At<'a>) -> Vec<At<'a>> {
    let lists = super::CONTAINER_LISTS.iter().flat_map(|list| spec.get(list).items());
    lists.map(|container| container.get("securityContext")).collect()
}

fn linux(spec: &At<'_>, errs: &mut ErrorList) {
    let contexts = std::iter::once(spec.get("securityContext")).chain(security_contexts(spec));
    for options in contexts.map(|context| context.get("windowsOptions")) {
        if options.is_set() {
            errs.push(options.forbidden("windows options cannot be set for a linux pod"));
        }
    }
}

fn windows(spec: &At<'_>, errs: &mut ErrorList) {
    let mut forbid = |field: At<'_>| {
        if field.is_set() && field.value.as_bool() != Some(false) {
            errs.push(field.forbidden("cannot be set for a windows pod"));
        }
    };
    for path in POD_ON_WINDOWS {
        forbid(path.split('.').fold(spec.clone(), |at, part| at.get(part)));
    }
    for context in security_contexts(spec) {
        CONTAINER_ON_WINDOWS.iter().for_each(|field| forbid(context.get(field)));
    }
}
