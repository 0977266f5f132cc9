//! Security contexts: a container's own settings over the pod's, as CRI takes them.

use k8s_openapi::api::core::v1::{Capabilities, Container, Pod, SeccompProfile};

use super::{facts, images::Present};
use crate::cri::v1;

/// Paths hidden from and write-protected in unprivileged containers (upstream's defaults for `procMount: Default`).
const MASKED: &[&str] = &[
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];
const READ_ONLY: &[&str] = &["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

fn namespaces(pod: &Pod) -> v1::NamespaceOption {
    let spec = pod.spec.as_ref();
    let shared = |on: Option<bool>| if on == Some(true) { v1::NamespaceMode::Node } else { v1::NamespaceMode::Pod } as i32;
    let pid = match spec {
        Some(spec) if spec.host_pid == Some(true) => v1::NamespaceMode::Node,
        Some(spec) if spec.share_process_namespace == Some(true) => v1::NamespaceMode::Pod,
        _ => v1::NamespaceMode::Container,
    };
    v1::NamespaceOption {
        network: shared(spec.and_then(|s| s.host_network)),
        pid: pid as i32,
        ipc: shared(spec.and_then(|s| s.host_ipc)),
        ..Default::default()
    }
}

fn int(value: Option<i64>) -> Option<v1::Int64Value> {
    value.map(|value| v1::Int64Value { value })
}

fn groups(pod: &Pod) -> Vec<i64> {
    let context = pod.spec.as_ref().and_then(|s| s.security_context.as_ref());
    let Some(context) = context else { return vec![] };
    context.supplemental_groups.iter().flatten().copied().chain(context.fs_group).collect()
}

fn seccomp(profile: Option<&SeccompProfile>, privileged: bool) -> Option<v1::SecurityProfile> {
    use v1::security_profile::ProfileType;
    let profile = profile.filter(|_| !privileged);
    let (kind, file) = match profile.map(|p| p.type_.as_str()) {
        Some("RuntimeDefault") => (ProfileType::RuntimeDefault, None),
        Some("Localhost") => (ProfileType::Localhost, profile.and_then(|p| p.localhost_profile.clone())),
        _ => (ProfileType::Unconfined, None),
    };
    Some(v1::SecurityProfile { profile_type: kind as i32, localhost_ref: file.unwrap_or_default() })
}

/// Context of the pod's sandbox.
pub(crate) fn sandbox(pod: &Pod) -> v1::LinuxSandboxSecurityContext {
    let context = pod.spec.as_ref().and_then(|s| s.security_context.as_ref());
    let privileged = pod.spec.iter().flat_map(facts::all_containers).any(is_privileged);
    v1::LinuxSandboxSecurityContext {
        namespace_options: Some(namespaces(pod)),
        run_as_user: int(context.and_then(|c| c.run_as_user)),
        // CRI takes a group only together with a user.
        run_as_group: int(context.filter(|c| c.run_as_user.is_some()).and_then(|c| c.run_as_group)),
        supplemental_groups: groups(pod),
        privileged,
        seccomp: Some(v1::SecurityProfile::default()),
        ..Default::default()
    }
}

fn is_privileged(container: &Container) -> bool {
    container.security_context.as_ref().and_then(|c| c.privileged).unwrap_or(false)
}

/// Context of one container.
pub(crate) fn container(pod: &Pod, container: &Container) -> v1::LinuxContainerSecurityContext {
    let shared = pod.spec.as_ref().and_then(|s| s.security_context.as_ref());
    let own = container.security_context.as_ref();
    let privileged = is_privileged(container);
    let hidden = |paths: &[&str]| -> Vec<String> {
        let open = privileged || own.and_then(|c| c.proc_mount.as_deref()) == Some("Unmasked");
        if open { vec![] } else { paths.iter().map(|p| (*p).to_owned()).collect() }
    };
    let user = own.and_then(|c| c.run_as_user).or_else(|| shared.and_then(|c| c.run_as_user));
    let group = own.and_then(|c| c.run_as_group).or_else(|| shared.and_then(|c| c.run_as_group));
    let profile = own.and_then(|c| c.seccomp_profile.as_ref()).or_else(|| shared.and_then(|c| c.seccomp_profile.as_ref()));
    v1::LinuxContainerSecurityContext {
        capabilities: own.and_then(|c| c.capabilities.as_ref()).map(capabilities),
        privileged,
        namespace_options: Some(namespaces(pod)),
        run_as_user: int(user),
        run_as_group: int(group.filter(|_| user.is_some())),
        readonly_rootfs: own.and_then(|c| c.read_only_root_filesystem).unwrap_or(false),
        supplemental_groups: groups(pod),
        no_new_privs: own.and_then(|c| c.allow_privilege_escalation) == Some(false),
        masked_paths: hidden(MASKED),
        readonly_paths: hidden(READ_ONLY),
        seccomp: seccomp(profile, privileged),
        ..Default::default()
    }
}

fn capabilities(list: &Capabilities) -> v1::Capability {
    v1::Capability {
        add_capabilities: list.add.clone().unwrap_or_default(),
        drop_capabilities: list.drop.clone().unwrap_or_default(),
        ..Default::default()
    }
}

/// `runAsNonRoot`, checked against the user that would run; upstream's texts.
pub(crate) fn check(pod: &Pod, container: &Container, image: &Present) -> Result<(), String> {
    let shared = pod.spec.as_ref().and_then(|s| s.security_context.as_ref());
    let own = container.security_context.as_ref();
    let required = own.and_then(|c| c.run_as_non_root).or_else(|| shared.and_then(|c| c.run_as_non_root));
    if required != Some(true) {
        return Ok(());
    }
    let who = || format!("(pod: \"{}\", container: {})", facts::full_name(pod), container.name);
    match own.and_then(|c| c.run_as_user).or_else(|| shared.and_then(|c| c.run_as_user)) {
        Some(0) => Err(format!("container's runAsUser breaks non-root policy {}", who())),
        Some(_) => Ok(()),
        None if image.user.is_none_or(|uid| uid == 0) => Err(format!("container has runAsNonRoot and image will run as root {}", who())),
        None => Ok(()),
    }
}
