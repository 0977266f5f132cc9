//! Security contexts of pods and containers.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use apimachinery::field::{Error, ErrorList};
use regex::Regex;

use super::volumes::descending_path;
use crate::registry::check::{At, internal_form};

const SYSCTL: &str = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
static SYSCTL_NAME: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(SYSCTL).ok());

fn user_or_group(id: &At<'_>, errs: &mut ErrorList) {
    if id.int().is_some_and(|id| !(0..=i64::from(i32::MAX)).contains(&id)) {
        errs.push(id.invalid("must be between 0 and 2147483647, inclusive"));
    }
}

/// A container's security context.
pub(crate) fn container(context: &At<'_>, errs: &mut ErrorList) {
    if !context.is_set() {
        return;
    }
    user_or_group(&context.get("runAsUser"), errs);
    user_or_group(&context.get("runAsGroup"), errs);
    context.get("procMount").one_of_if_set(&["Default", "Unmasked"], errs);
    seccomp(&context.get("seccompProfile"), errs);
    if context.get("allowPrivilegeEscalation").value.as_bool() == Some(false) {
        escalation(context, errs);
    }
    app_armor(&context.get("appArmorProfile"), errs);
}

fn escalation(context: &At<'_>, errs: &mut ErrorList) {
    let shown = internal_form(context.value);
    if context.get("capabilities").get("add").strs().contains(&"CAP_SYS_ADMIN") {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
        errs.push(Error::invalid(&context.path, shown.clone(), detail));
    }
    if context.get("privileged").is_true() {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        errs.push(Error::invalid(&context.path, shown, detail));
    }
}

/// A pod's security context.
pub(crate) fn pod(spec: &At<'_>, errs: &mut ErrorList) {
    let context = spec.get("securityContext");
    if spec.get("shareProcessNamespace").is_true() && spec.get("hostPID").is_true() {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errs.push(spec.get("shareProcessNamespace").invalid(detail));
    }
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        user_or_group(&context.get(field), errs);
    }
    for group in context.get("supplementalGroups").items() {
        user_or_group(&group, errs);
    }
    let policy = context.get("supplementalGroupsPolicy");
    policy.one_of_if_set(&["Merge", "Strict"], errs);
    sysctls(&context.get("sysctls"), errs);
    context.get("fsGroupChangePolicy").one_of_if_set(&["OnRootMismatch", "Always"], errs);
    seccomp(&context.get("seccompProfile"), errs);
    app_armor(&context.get("appArmorProfile"), errs);
}

fn sysctls(list: &At<'_>, errs: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for sysctl in list.items() {
        let name = sysctl.get("name");
        let text = name.str();
        let sound = text.len() <= 253 && SYSCTL_NAME.as_ref().is_some_and(|regex| regex.is_match(text));
        if text.is_empty() {
            errs.push(name.required(""));
        } else if !sound {
            errs.push(name.invalid(format!("must have at most 253 characters and match regex {SYSCTL}")));
        } else if !seen.insert(text.replace('/', ".")) {
            errs.push(name.duplicate());
        }
    }
}

fn seccomp(profile: &At<'_>, errs: &mut ErrorList) {
    if profile.is_set() {
        confinement(profile, "seccomp", "seccompProfile", errs);
    }
}

fn app_armor(profile: &At<'_>, errs: &mut ErrorList) {
    if profile.is_set() {
        confinement(profile, "AppArmor", "appArmorProfile", errs);
    }
}

/// `type` is one of three, and `localhostProfile` goes with Localhost only.
fn confinement(profile: &At<'_>, what: &str, field: &str, errs: &mut ErrorList) {
    let (kind, local) = (profile.get("type"), profile.get("localhostProfile"));
    match kind.str() {
        "" => errs.push(kind.required(&format!("type is required when {field} is set"))),
        "Localhost" if local.is_empty() => {
            errs.push(local.required(&format!("must be set when {what} type is Localhost")));
        }
        "Localhost" if what == "seccomp" => descending_path(&local, errs),
        "Localhost" => {}
        "RuntimeDefault" | "Unconfined" if local.is_set() => {
            errs.push(local.invalid(format!("can only be set when {what} type is Localhost")));
        }
        "RuntimeDefault" | "Unconfined" => {}
        _ => errs.push(kind.not_supported(&["Localhost", "RuntimeDefault", "Unconfined"])),
    }
}
