//! From a CRI container configuration to what a shim runs.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::shim::Instructions;
use crate::cri::{CriResult, v1};

/// What is run: the spec's command and arguments. Without an image there is nothing to fall back on.
fn argv(config: &v1::ContainerConfig) -> CriResult<Vec<String>> {
    if config.command.is_empty() {
        let image = config.image.as_ref().map(|i| i.user_specified_image.as_str()).unwrap_or_default();
        return Err(tonic::Status::invalid_argument(format!(
            "the process runtime has no images: container needs a \"command\" in its spec, image {image:?} cannot supply one"
        )));
    }
    Ok(config.command.iter().chain(&config.args).cloned().collect())
}

/// Links to the container's mounts, at their container paths below `root`.
fn link_mounts(root: &Path, mounts: &[v1::Mount]) -> std::io::Result<()> {
    std::fs::create_dir_all(root)?;
    for mount in mounts {
        let link = root.join(mount.container_path.trim_start_matches('/'));
        if let Some(parent) = link.parent() {
            std::fs::create_dir_all(parent)?;
        }
        match std::os::unix::fs::symlink(&mount.host_path, &link) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// What the shim is told: everything it needs to run the container on its own.
pub(super) fn instructions(directory: &Path, config: &v1::ContainerConfig, log: PathBuf) -> CriResult<Instructions> {
    let root = directory.join("root");
    link_mounts(&root, &config.mounts).map_err(|e| tonic::Status::internal(format!("link mounts below {root:?}: {e}")))?;
    let context = config.linux.as_ref().and_then(|l| l.security_context.as_ref());
    let id = |value: Option<&v1::Int64Value>| value.and_then(|v| u32::try_from(v.value).ok());
    let mut env: BTreeMap<String, String> = config.envs.iter().map(|e| (e.key.clone(), e.value.clone())).collect();
    env.insert("QUARTERDECK_ROOT".into(), root.to_string_lossy().into_owned());
    let path = || "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned();
    env.entry("PATH".into()).or_insert_with(path);
    if config.tty {
        // As containerd does: without it programs take the terminal for one that can do nothing.
        env.entry("TERM".into()).or_insert_with(|| "xterm".into());
    }
    Ok(Instructions {
        argv: argv(config)?,
        env,
        directory: if config.working_dir.is_empty() { root } else { PathBuf::from(&config.working_dir) },
        log,
        user: id(context.and_then(|c| c.run_as_user.as_ref())),
        group: id(context.and_then(|c| c.run_as_group.as_ref())),
        stdin: config.stdin,
        stdin_once: config.stdin_once,
        tty: config.tty,
    })
}
